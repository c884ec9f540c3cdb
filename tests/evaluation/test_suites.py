import re
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest

from mbc_engine.config import load_preset
from mbc_engine.errors import ConfigError
from mbc_engine.evaluation.cells import cells
from mbc_engine.evaluation.methods import METHODS, published, published_scores
from mbc_engine.evaluation.suite import Base, Dataset, Suite, load_suite

ONE = """
title = "One"
methods = ["mbc"]
[[bases]]
name = "mini"
title = "mini"
model = "trained"
[[datasets]]
name = "news"
title = "News"
test = "squad:test[:4]"
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Writes a suite: ONE with something replaced; its model is a folder without weights."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "config.toml").write_text(load_preset("smollm2-135m").to_toml())
    (tmp_path / "trained" / "model.safetensors").touch()

    def write(before="", after=""):
        assert before in ONE
        path = tmp_path / "own.toml"
        path.write_text(ONE.replace(before, after) if before else ONE)
        return str(path)

    return write


def test_paper_suite_is_table_1():
    paper = load_suite("paper")
    asked = {
        (cell.base.name, cell.dataset.name, method)
        for cell in cells(paper)
        for method in paper.methods
        if METHODS[method].control_of is None
    }
    missing_in_the_paper = {("llama2-7b", dataset, "camels") for dataset in ("streamingqa", "squad", "archivalqa")}
    reported = {
        (base, dataset, method)
        for base, datasets in published()["answers"].items()
        for dataset, scores in datasets.items()
        for method in scores
    }
    assert asked - missing_in_the_paper == reported
    scores = published_scores("distilgpt2", "squad", "mbc")
    assert (scores["exact_match"], scores["f1"], scores["retention"][1]["documents"]) == (2.1, 5.36, 400)
    assert published_scores("distilgpt2", "squad", "bm25") is None
    assert paper.documents == 1665
    assert (paper.retention.first, paper.retention.step, paper.retention.further) == (200, 200, 1400)
    assert paper.rates == [1e-4, 2.5e-5, 6.25e-6, 1.625e-6]


def test_small_suite_has_every_method():
    around_a_base_lm = [name for name, kind in METHODS.items() if not kind.is_retriever_reader and not kind.read]
    assert load_suite("small").methods == around_a_base_lm


def test_a_suite_is_taken_in_parts_or_repeated_for_another_lm(tmp_path):
    (tmp_path / "Qwen3-0.6B").mkdir()
    suite = load_suite("smollm2")
    part = suite.only(["smollm2-135m-24", str(tmp_path / "Qwen3-0.6B")])
    assert [cell.name for cell in cells(part)] == ["smollm2-135m-24-squad-val", "Qwen3-0.6B-squad-val"]
    other = part.bases[1]
    assert other.title == "Qwen3-0.6B, T = 12, two residual levels, trained to route"
    assert load_preset(other.preset, other.changes).model.base == str(tmp_path / "Qwen3-0.6B")
    assert other.methods == suite.bases[0].methods
    with pytest.raises(ConfigError, match="The suite has no base LM 'gpt2'"):
        suite.only(["gpt2"])


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('title = "One"', "tilte = 1", "own.toml: title: field required."),
        ('methods = ["mbc"]', 'methods = ["mbc"]\nbogus = 1', "own.toml: bogus: there is no such setting."),
        ('test = "squad', 'kind = 1\ntest = "squad', "own.toml: datasets.0.kind: there is no such setting."),
        ('"mbc"', '"mbcc"', "own.toml: there is no method 'mbcc'."),
        ('"mbc"', '"mbc", "mac"', "own.toml: there are no questions to train mac on for News."),
        ('name = "news"', 'name = "../news"', "own.toml: datasets.0.name: string should match pattern"),
        ('model = "trained"', "", "own.toml: the base 'mini' needs either a preset or a model."),
        ('model = "trained"', 'model = "trained"\npreset = "smollm2-135m"', "needs either a preset or a model."),
        ("[[bases]]", "[[bases]", "own.toml is not valid TOML"),
        ('model = "trained"', 'model = "mini"', "mbc needs a model of the paper's method, and mini is not one."),
        ('"mbc"', '"retriever-reader"', "retriever-reader needs a retriever-reader, and mini is not one."),
        ('["mbc"]', '["mbc"]\nrates = []', "own.toml: rates: list should have at least 1 item"),
        ('["mbc"]', '["mbc"]\nread = "bogus"', "There is no read mode 'bogus'"),
        (
            'model = "trained"\n[[datasets]]',
            'preset = "smollm2-135m"\nchanges = ["model.tokns=1"]\n[[datasets]]\ntrain = ["squad:train[:4]"]',
            "model.tokns: there is no such setting",
        ),
    ],
)
def test_an_error_names_its_place(suite, before, after, message):
    with pytest.raises(ConfigError) as caught:
        load_suite(suite(before, after))
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_cells_that_would_share_a_folder_are_refused(suite):
    path = Path(suite('name = "mini"', 'name = "a-b"'))
    path.write_text(
        path.read_text().replace('name = "news"', 'name = "c"')
        + '[[bases]]\nname = "a"\ntitle = "a"\nmodel = "trained"\n'
        + '[[datasets]]\nname = "b-c"\ntitle = "b"\ntest = "squad:test[:4]"\n'
    )
    with pytest.raises(ConfigError, match="folders cannot be named for a-b-c, a-b-b-c, a-c, a-b-c"):
        load_suite(str(path))


@pytest.mark.parametrize(
    ("methods", "preset", "message"),
    [
        ('["mac-flat", "mbc-flat"]', "smollm2-135m", "residual codes"),
        ('["mbc-wrong"]\nread = "flat"', "smollm2-135m", "residual codes"),
        ('["mac-routed"]', "distilgpt2", "the routed read needs model.routing"),
        ('["mac-flat", "mbc-unquantised", "uniform"]\nread = "flat"', "smollm2-135m", None),
    ],
)
def test_a_read_that_the_model_does_not_have_is_refused_before_it_is_trained(suite, methods, preset, message):
    path = Path(suite('["mbc"]', methods))
    trained = path.read_text().replace("[[datasets]]", '[[datasets]]\ntrain = ["squad:train[:4]"]')
    path.write_text(trained.replace('model = "trained"', f'preset = "{preset}"'))
    with pytest.raises(ConfigError, match=message) if message else nullcontext():
        load_suite(str(path))


def test_what_bases_name_is_found_from_anywhere(suite, tmp_path):
    (tmp_path / "own-preset.toml").write_text(load_preset("distilgpt2").to_toml())
    changes = 'changes = ["model.base=trained", "training.epochs=1"]'
    with_preset = f'preset = "own-preset.toml"\n{changes}\n[[datasets]]\ntrain = ["squad:train[:4]"]'
    (base,) = load_suite(suite('model = "trained"\n[[datasets]]', with_preset)).bases
    assert base.preset == str(tmp_path / "own-preset.toml")
    assert base.changes == [f"model.base={tmp_path / 'trained'}", "training.epochs=1"]
    (base,) = load_suite(suite('"trained"', '"./trained"')).bases
    assert base.model == str(tmp_path / "trained")


def test_an_unknown_suite_lists_the_known_ones():
    with pytest.raises(ConfigError, match="There is no suite 'grand'") as caught:
        load_suite("grand")
    assert caught.value.hint == "Suites: paper, small, smollm2; or a TOML file."


def test_the_example_shows_every_setting():
    shown = (Path(__file__).parents[2] / "examples" / "suite.toml").read_text(encoding="utf-8")
    settings = Suite.model_validate(tomllib.loads(re.sub(r"^# (?=\w+ = )", "", shown, flags=re.MULTILINE)))
    fields = settings.model_dump(exclude_unset=True)
    for model, own in ((Suite, fields), (Base, fields["bases"][0]), (Dataset, fields["datasets"][0])):
        assert set(model.model_fields) - {"model"} == set(own)
    defaults = Suite(title="", bases=[], datasets=[], methods=[])
    for name in ("documents", "rates", "scaling", "retention", "question_training", "reading_training", "camels"):
        assert getattr(settings, name) == getattr(defaults, name)
