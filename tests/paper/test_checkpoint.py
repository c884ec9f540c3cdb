"""Model folders: a loaded model answers the same, a damaged one is refused with a clear message, and a bank is bound to
the weights; also with packed ones, which stay frozen."""

import re
import shutil
from dataclasses import replace

import pytest
import torch

from mbc_engine.errors import ModelError
from mbc_engine.events import TrainFinished
from mbc_engine.lm.pretrained import PACKED, is_packed
from mbc_engine.model import load_model, open_bank, signature
from mbc_engine.names import find_model
from mbc_engine.paper.checkpoint import save_model, trained_state
from mbc_engine.paper.memories import CodeMemory
from mbc_engine.training.trainer import train
from tests.paper.conftest import weight_overrides

TEXTS = ["Ada moved to Bergen in the spring.", "The river rose.", "Hugo moved to Haifa and nobody was hurt."]
QUESTIONS = ["Where did Ada move?", "Who moved to Haifa in the spring?"]


def overrides(frozen):
    word = str(frozen).lower()
    return [f"model.documents.frozen={word}", f"model.questions.frozen={word}", "model.centring=true"]


def disturbed(model):
    """A model whose every trained value differs from a freshly built one's."""
    torch.manual_seed(5)
    with torch.no_grad():
        for value in trained_state(model).values():
            value.add_(0.1 * torch.rand_like(value))
        for name, value in model.base.named_parameters():
            if "lora_" in name:
                value.add_(0.3 * torch.randn_like(value))
    return model


@pytest.fixture
def saved(tiny, tmp_path):
    save_model(disturbed(tiny.model()), tiny.config(), tmp_path / "model")
    return tmp_path / "model"


def check_loaded(models, folder, *settings):
    model = disturbed(models.model(*settings))
    save_model(model, models.config(*settings), folder)
    again = load_model(folder)
    saved_state, loaded_state = trained_state(model), trained_state(again)
    assert saved_state.keys() == loaded_state.keys()
    assert all(torch.equal(value, loaded_state[name]) for name, value in saved_state.items())
    codes = model.memorise(TEXTS)
    assert (again.memorise(TEXTS) == codes).all()
    one, other = (made.answer_from(QUESTIONS, CodeMemory(codes, made.codebook)) for made in (model, again))
    assert one == other
    assert again.fingerprints() == model.fingerprints()
    assert not again.training


@pytest.mark.parametrize(("base", "encoder", "frozen"), [("gpt2", "bert", True), ("llama", "t5", False)])
def test_round_trip(tiny, tmp_path, base, encoder, frozen):
    check_loaded(tiny, tmp_path / "model", base, encoder, *overrides(frozen))


# The weights of the encoders; those of the base LM are packed.
@pytest.mark.parametrize(
    ("encoder", "frozen", "weights"),
    [
        ("t5", True, "nf4"),
        pytest.param("t5", False, "float32", marks=pytest.mark.slow),
        pytest.param("bert", False, "int8", marks=pytest.mark.slow),
    ],
)
def test_round_trip_with_packed_weights(wide, tmp_path, encoder, frozen, weights):
    check_loaded(wide, tmp_path / "model", "gpt2", encoder, *weight_overrides("nf4", weights, frozen))


@pytest.mark.parametrize("encoder", ["bert", "t5"])
def test_frozen_encoders_are_not_stored(tiny, encoder):
    for frozen in (True, False):
        names = trained_state(tiny.model("gpt2", encoder, *overrides(frozen)))
        stored = {name for name in names if ".encoder." in name or ".t5." in name}
        assert bool(stored) != frozen
        assert {"documents.amortizer.queries", "codebook.books", "codebook.usage"} <= names.keys()
        assert {"documents.amortizer.centring.mean", "questions.amortizer.centring.scale"} <= names.keys()
        assert not any(name.startswith("base.") for name in names)


def test_fingerprints(tiny):
    model = tiny.model()
    amortizer, codebook = model.fingerprints()
    assert re.fullmatch("[0-9a-f]{16}", amortizer)
    assert re.fullmatch("[0-9a-f]{16}", codebook)
    with torch.no_grad():
        model.questions.amortizer.head_bias += 1
        model.aggregator.blocks[0].attention.query.weight += 1
        model.codebook.usage += 1
        assert model.fingerprints() == (amortizer, codebook)
        model.codebook.books[0, 0, 3, 7] += 1e-6
        assert model.fingerprints()[0] == amortizer
        assert model.fingerprints()[1] != codebook
        model.documents.amortizer.head_bias[0, 0] += 1e-6
        assert model.fingerprints()[0] != amortizer


def test_fingerprint_of_packed_weights(wide):
    """A GPU may round a weight differently from a CPU; the bank still belongs to the model."""
    made = {
        weights: wide.model("gpt2", "t5", *weight_overrides("float32", weights)) for weights in ("float32", *PACKED)
    }
    assert len({model.fingerprints() for model in made.values()}) == 3
    model = made["nf4"]
    before = model.fingerprints()
    layer = next(layer for layer in model.documents.modules() if is_packed(layer))
    layer.weight.data[0] ^= 1
    assert model.fingerprints() == before
    model.documents.encoder = replace(model.documents.encoder, packed_from="nf4 of another")
    assert model.fingerprints() != before


def test_no_pickles(saved, monkeypatch):
    files = sorted(path.name for path in saved.rglob("*") if path.is_file())
    assert files == ["adapter_config.json", "adapter_model.safetensors", "config.toml", "model.safetensors"]

    def refuse(*_, **__):
        raise AssertionError("unpickled")

    monkeypatch.setattr("torch.load", refuse)
    monkeypatch.setattr("pickle.load", refuse)
    load_model(saved)


@pytest.mark.parametrize("file", ["model.safetensors", "adapter/adapter_model.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "header", "missing"])
def test_damaged_weights(saved, file, damage):
    content = (saved / file).read_bytes()
    (saved / file).unlink()
    if damage != "missing":
        (saved / file).write_bytes(content[: len(content) // 2] if damage == "cut" else b"\xff" * 64 + content[64:])
    with pytest.raises(ModelError) as caught:
        load_model(saved)
    assert caught.value.hint


def test_weights_of_other_settings(tiny, saved):
    text = (saved / "config.toml").read_text()
    for old, new, message in (
        ("tokens = 4", "tokens = 5", "do not fit the model's settings"),
        ("quantised = true", "quantised = false", "do not fit the model's settings"),
        (str(tiny.bases["gpt2"]), str(tiny.bases["llama"]), "does not fit the base LM"),
    ):
        (saved / "config.toml").write_text(text.replace(old, new))
        with pytest.raises(ModelError, match=message):
            load_model(saved)


def test_find_model_by_name(saved, monkeypatch, tmp_path):
    monkeypatch.setattr("platformdirs.user_data_path", lambda name: tmp_path / "data" / name)
    own = tmp_path / "data" / "mbc" / "models" / "my-model"
    shutil.copytree(saved, own)
    assert find_model("my-model") == own
    trained = tmp_path / "data" / "mbc" / "runs" / "my-run" / "model"
    trained.parent.mkdir(parents=True)
    (trained.parent / "events.jsonl").touch()
    with pytest.raises(ModelError, match="The run my-run has no model yet") as refused:
        find_model("my-run")
    assert "mbc runs resume my-run" in refused.value.hint
    shutil.copytree(saved, trained)
    assert find_model("my-run") == trained


def test_model_without_codes(tiny, tmp_path):
    model = tiny.model("gpt2", "bert", "model.quantised=false")
    assert not any(name.startswith("codebook") for name in trained_state(model))
    for attempt in (
        lambda: open_bank(model, tmp_path / "bank.mbc"),
        lambda: signature(model),
        lambda: model.memorise(TEXTS),
    ):
        with pytest.raises(ModelError, match="makes no codes") as caught:
            attempt()
        assert "model.quantised = true" in (caught.value.hint or "")
    assert not (tmp_path / "bank.mbc").exists()


@pytest.mark.parametrize(("weights", "encoder"), [("nf4", "t5"), pytest.param("int8", "bert", marks=pytest.mark.slow)])
def test_packed_model_trains(wide, examples, tmp_path, weights, encoder):
    changes = [*weight_overrides(weights, weights), "training.precision=bf16", "training.epochs=1"]
    config, data = wide.config("gpt2", encoder, *changes), examples(8)
    untrained = wide.model("gpt2", encoder, *changes)
    *_, last = train(config, data, data[:2], tmp_path / "run", cache=tmp_path / "cache")
    assert isinstance(last, TrainFinished)
    model = load_model(tmp_path / "run")
    before, after = (dict(made.named_parameters()) for made in (untrained, model))
    for name in ("documents.amortizer.queries", "aggregator.blocks.0.attention.query.weight", "prefix.up"):
        assert not torch.equal(before[name], after[name]), name
    for name, layer in model.named_modules():
        assert not is_packed(layer) or torch.equal(layer.weight, untrained.get_submodule(name).weight), name
    assert any("lora_B" in name and value.abs().max() > 0 for name, value in after.items())
