"""An experiment's folder: what is put there comes back, what is damaged is told, and one process works in it."""

import shutil
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from mbc_engine.errors import ConfigError, DataError
from mbc_engine.evaluation.folder import Environment, ExperimentFolder, MethodFolder, environment
from mbc_engine.evaluation.protocols import Outcome
from mbc_engine.evaluation.results import (
    CodeUsage,
    Cost,
    Curve,
    Figure,
    Online,
    Prediction,
    QuestionScores,
    RateSweep,
    Record,
    Retention,
    RetentionStep,
    Scaling,
    ScalingStep,
)
from mbc_engine.events import RateTried

FIGURE = Figure(50.0, 0.0, 100 / 3)
COST = Cost(4, 0.5, 1e-9, 123, None)
SCORES = QuestionScores(1, FIGURE, FIGURE, 12.5, None, 75.0)
ONLINE = Online(1, SCORES, COST)
RETENTION = Retention(2, (RetentionStep(2, 50.0, 60.0, 100.0, 20, 104), RetentionStep(4, 0.0, 0.0, None, 40, None)))
SCALING = Scaling((ScalingStep(SCORES, COST), ScalingStep(SCORES, replace(COST, paper_bytes=7))))
RATE = RateSweep(1e-4, (RateTried(1e-4, 12.5, 20.0), RateTried(2.5e-5, 0.0, 1.0)))
USAGE = CodeUsage(512, Curve((1, 2), (1.0, 2.5)), Curve((), ()))
PREDICTION = Prediction("1", 0, "Who?", ("Ada",), "Ada", True, 1.0, True, None)
KEPT = {"online": ONLINE, "retention": RETENTION, "scaling": SCALING, "rate": RATE}
SETTINGS = {"title": "T", "seed": 0, "bases": [{"name": "b", "title": "B"}], "rates": [1e-4, 6.25e-6], "read": "flat"}


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    return ExperimentFolder(tmp_path / "experiment")


@pytest.fixture
def method(folder: ExperimentFolder) -> MethodFolder:
    return folder.cell("b-d").method("mbc")


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type that results are made of."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(kind, **{field.name: values_of(hints[field.name]) for field in fields(kind)})
    if get_origin(kind) is tuple:
        return st.lists(values_of(get_args(kind)[0]), max_size=3).map(tuple)
    if get_origin(kind) is dict:
        return st.dictionaries(*map(values_of, get_args(kind)), max_size=3)
    if get_args(kind):
        return st.one_of(*map(values_of, get_args(kind)))
    return {
        type(None): st.none(),
        int: st.integers(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        str: st.text(st.characters(exclude_categories=["Cs"])),
    }[kind]


def everything_of(method: MethodFolder) -> None:
    method.keep_online(Outcome(ONLINE, [PREDICTION]))
    method.retention.write(RETENTION)
    method.scaling.write(SCALING)
    method.rate.write(RATE)


class TestResults:
    def test_nothing_is_there_before_it_is_written(self, folder, method):
        for kind, record in method.kinds.items():
            assert record.read() is None
            assert not folder.cell("b-d").has("mbc", kind)
        assert method.predictions() == []
        assert folder.cell("b-d").code_usage.read() is None
        assert (folder.cells(), folder.cell("b-d").methods()) == ([], [])
        assert not folder.path.exists()

    def test_everything_comes_back_as_it_was(self, folder, method):
        everything_of(method)
        folder.cell("b-d").code_usage.write(USAGE)
        for kind, record in method.kinds.items():
            assert record.read() == KEPT[kind]
            assert folder.cell("b-d").has("mbc", kind)
        assert method.predictions() == [PREDICTION]
        assert folder.cell("b-d").code_usage.read() == USAGE
        assert folder.cell("b-d").has("", "code-usage")

    def test_files_lie_where_they_are_said_to(self, folder, method):
        everything_of(method)
        folder.cell("b-d").code_usage.write(USAGE)
        assert sorted(str(path.relative_to(folder.path)) for path in folder.path.rglob("*.json*")) == [
            "b-d/results/code-usage.json",
            "b-d/results/mbc/online.json",
            "b-d/results/mbc/online.predictions.jsonl",
            "b-d/results/mbc/rate.json",
            "b-d/results/mbc/retention.json",
            "b-d/results/mbc/scaling.json",
        ]

    def test_cells_and_methods_are_listed_by_name(self, folder):
        for cell in ("c", "a", "b"):
            for name in ("uniform", "bm25"):
                folder.cell(cell).method(name).rate.write(RATE)
        (folder.path / "a" / "results" / "empty").mkdir()
        (folder.path / "not-a-cell").mkdir()
        assert folder.cells() == ["a", "b", "c"]
        assert folder.cell("a").methods() == ["bm25", "uniform"]

    def test_what_is_written_again_takes_the_place(self, method):
        method.online.write(ONLINE)
        method.online.write(replace(ONLINE, banks=3))
        assert method.online.read() == replace(ONLINE, banks=3)

    @pytest.mark.parametrize("kind", [Online, Retention, Scaling, RateSweep, CodeUsage, tuple[Environment, ...]])
    def test_whatever_is_written_is_read(self, tmp_path, kind):
        record: Record[Any] = Record(tmp_path / "record.json", TypeAdapter(kind))

        @given(values_of(kind))
        def comes_back(value: Any) -> None:
            record.write(value)
            assert record.read() == value

        comes_back()

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\\b", "a\0"])
    def test_names_stay_within_the_folder(self, folder, name):
        with pytest.raises(ConfigError, match="cannot be the name of a folder"):
            folder.cell(name)
        with pytest.raises(ConfigError, match="cannot be the name of a folder"):
            folder.cell("b-d").method(name)


class TestDamage:
    @pytest.mark.parametrize("kind", KEPT)
    @pytest.mark.parametrize("damage", [b"", b"{", b"\xff\x00", b"null", b"[]", b'{"banks": "1"}'])
    def test_a_damaged_file_is_named_with_the_way_out(self, method, kind, damage):
        everything_of(method)
        record = method.kinds[kind]
        record.path.write_bytes(damage)
        with pytest.raises(DataError, match="is damaged: ") as caught:
            record.read()
        assert caught.value.message.startswith(f"{record.path} is damaged: ")
        assert "\n" not in caught.value.message
        assert caught.value.hint == f"Delete {record.path}; the evaluation then finds it anew."

    def test_the_place_of_the_damage_is_told(self, method):
        method.scaling.write(SCALING)
        path = method.scaling.path
        path.write_text(path.read_text().replace('"documents": 4', '"documents": "4"', 1))
        with pytest.raises(DataError, match="damaged: steps: 0: cost: documents: Input should be a valid integer"):
            method.scaling.read()

    @pytest.mark.parametrize("damage", [None, b"{}\n", b"{"])
    def test_damaged_predictions_are_found_anew_with_their_figures(self, method, damage):
        everything_of(method)
        path = method.path / "online.predictions.jsonl"
        path.unlink()
        if damage:
            path.write_bytes(damage)
        with pytest.raises(DataError, match=r"predictions\.jsonl") as caught:
            method.predictions()
        assert caught.value.hint == f"Delete {method.online.path}; the evaluation then finds it anew."

    def test_predictions_without_figures_are_of_an_evaluation_that_was_interrupted(self, method):
        everything_of(method)
        method.online.path.unlink()
        assert method.predictions() == []

    def test_a_file_that_cannot_be_read_is_named(self, method):
        method.online.path.mkdir(parents=True)
        with pytest.raises(DataError, match=r"online\.json cannot be read: "):
            method.online.read()


class TestPrepared:
    def test_what_is_begun_is_not_prepared_yet(self, folder):
        cell = folder.cell("b-d")
        assert not cell.is_prepared("mbc")
        (cell.prepared_folder / "mbc").mkdir(parents=True)
        assert not cell.is_prepared("mbc")
        cell.keep_prepared("mbc")
        assert cell.is_prepared("mbc")

    def test_what_was_deleted_is_prepared_no_more(self, folder):
        cell = folder.cell("b-d")
        (cell.prepared_folder / "mbc").mkdir(parents=True)
        cell.keep_prepared("mbc")
        shutil.rmtree(cell.prepared_folder / "mbc")
        assert not cell.is_prepared("mbc")


class TestBeginning:
    @pytest.fixture(autouse=True)
    def made(self, folder: ExperimentFolder) -> None:
        folder.path.mkdir()

    def test_settings_and_environment_are_kept(self, folder):
        assert not folder.is_there
        here = environment(3)
        folder.begin(SETTINGS, here, "mbc eval --suite paper")
        assert folder.is_there
        assert folder.settings() == SETTINGS
        assert folder.environments() == (replace(here, command="mbc eval --suite paper"),)

    def test_the_same_settings_go_on(self, folder):
        here = environment(3)
        folder.begin(SETTINGS, here, "mbc eval")
        folder.begin(SETTINGS, replace(here, date="2031-01-01T00:00:00+00:00"), "mbc eval --resume")
        assert folder.environments() == (replace(here, command="mbc eval"),)

    def test_another_machine_is_kept_too(self, folder):
        here = environment(3)
        folder.begin(SETTINGS, here)
        folder.begin(SETTINGS, replace(here, cores=here.cores + 1))
        assert [own.cores - here.cores for own in folder.environments()] == [0, 1]

    def test_a_command_line_of_any_bytes_is_kept(self, folder):
        folder.begin(SETTINGS, environment(0), "mbc eval --data caf\udce9.jsonl")
        assert folder.environments()[0].command == "mbc eval --data caf\ufffd.jsonl"

    def test_settings_that_no_file_can_hold_are_refused(self, folder):
        with pytest.raises(ConfigError, match="not UTF-8"):
            folder.begin({**SETTINGS, "title": "caf\udce9.jsonl"}, environment(0))
        assert not folder.is_there

    def test_what_was_begun_before_its_first_stage_may_be_put_right(self, folder):
        folder.begin({**SETTINGS, "rates": [1e-4]}, environment(0), "mbc eval --wrong")
        folder.begin(SETTINGS, environment(0), "mbc eval --right")
        assert folder.settings() == SETTINGS
        assert [own.command for own in folder.environments()] == ["mbc eval --right"]

    def test_questions_that_have_changed_are_refused(self, folder):
        folder.cell("b-d").require_same_questions("abc")
        folder.cell("b-d").require_same_questions("abc")
        with pytest.raises(DataError, match="The questions of b-d are others"):
            folder.cell("b-d").require_same_questions("abd")

    def test_other_settings_are_refused_and_named(self, folder):
        folder.begin(SETTINGS, environment(0))
        folder.cell("b-d").require_same_questions("abc")
        with pytest.raises(ConfigError, match=r"holds an experiment with other settings: questions, rates\."):
            folder.begin({**SETTINGS, "rates": [1e-4], "questions": 4}, environment(0))
        assert folder.settings() == SETTINGS

    def test_a_folder_without_an_experiment_says_so(self, folder):
        with pytest.raises(DataError, match="There is no experiment in"):
            folder.settings()

    @pytest.mark.parametrize("damage", [b"title = ", b"\xff"])
    def test_damaged_settings_are_named(self, folder, damage):
        (folder.path / "experiment.toml").write_bytes(damage)
        with pytest.raises(DataError, match=r"experiment\.toml cannot be read"):
            folder.settings()


class TestWork:
    def test_a_folder_is_one_processes_alone(self, folder, monkeypatch):
        monkeypatch.setattr("mbc_engine.runs.event_log._PATIENCE", 0.01)
        with folder.at_work():
            assert folder.is_at_work
            with pytest.raises(ConfigError, match="Another evaluation is at work in"), folder.at_work():
                pass
        assert not folder.is_at_work
        with folder.at_work():
            pass

    def test_a_folder_that_cannot_be_made_is_told(self, tmp_path):
        (tmp_path / "file").touch()
        with (
            pytest.raises(ConfigError, match="cannot read or write its files"),
            ExperimentFolder(tmp_path / "file").at_work(),
        ):
            pass

    def test_errors_of_the_work_stay_what_they_are(self, folder):
        with pytest.raises(DataError, match="none"), folder.at_work():
            raise DataError("none")
