import re
import shutil
import threading
from pathlib import Path

import pytest

from mbc_engine.errors import DataError
from mbc_engine.evaluation.methods import METHODS
from mbc_engine.evaluation.report import read_report
from mbc_engine.evaluation.results import ExperimentFolder
from mbc_engine.evaluation.running import run
from mbc_engine.events import ExperimentFinished, StageFinished, StageSkipped, StageStarted, TrainStep
from mbc_engine.runs.training_runs import request_stop


@pytest.fixture
def work(tmp_path):
    """Runs an experiment in one folder to its end, or a stop."""

    def work(settings, **options):
        return list(run(settings, tmp_path / "run", cache=tmp_path / "cache", **options))

    return work


@pytest.fixture
def untrained(settings):
    """Settings of an experiment that trains nothing: the pretrained base LM reads what BM25 finds."""
    dataset = settings().datasets[0].model_copy(update={"train": [], "validation": None})
    return lambda **changes: settings(**{"datasets": [dataset], "methods": ["bm25"], **changes})


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.slow
def test_every_method_goes_through_every_protocol(work, settings, tmp_path):
    finds = {name for name, kind in METHODS.items() if kind.is_retriever_reader or "text" in kind.needs}  # with mini
    names = [name for name, kind in METHODS.items() if name not in finds and not kind.read]
    given = settings(methods=names, protocols=["online", "retention", "scaling", "code-usage"])
    events = work(given)
    skipped = of_kind(events, StageSkipped)
    assert [(event.stage, event.reason) for event in skipped] == [
        ("mbc-shuffled-documents online", "the flat read cannot tell it from the real bank"),
        ("mbc-shuffled-documents scaling 2", "the flat read cannot tell it from the real bank"),
    ]
    cell = ExperimentFolder(tmp_path / "run").cell("tiny-people")
    for name in names:
        if name != "mbc-shuffled-documents":
            assert cell.results(name).online.scores.questions == 8
            assert len(cell.results(name).online.predictions) == 8
    assert [step.cost.documents for step in cell.results("uniform").retention] == [2, 5, 8]
    of_mac = cell.results("mac")
    assert [step.cost.documents for step in of_mac.scaling] == [2, 8]
    assert of_mac.scaling[-1] == of_mac.online  # the same question, asked once
    assert cell.read("", "code-usage").codes == 8
    assert isinstance(events[-1], ExperimentFinished)
    report = ExperimentFolder(tmp_path / "run")
    assert all(path.is_file() for path in (report.report_markdown, report.report_json))
    assert "the flat read cannot tell it from the real bank" in report.report_markdown.read_text()


def test_only_what_has_no_result_is_done_again(work, settings, tmp_path):
    assert len(of_kind(work(settings()), StageStarted)) == 3
    again = work(settings())
    assert not of_kind(again, StageStarted)
    assert [event.was_kept for event in of_kind(again, StageFinished)] == [True] * 3
    cell = ExperimentFolder(tmp_path / "run").cell("tiny-people")
    before = cell.results("mbc-empty").online.scores
    cell.file("mbc-empty", "online").unlink()
    stop = threading.Event()
    for event in run(settings(), tmp_path / "run", cache=tmp_path / "cache", stop=stop):
        if isinstance(event, StageStarted):
            stop.set()
    assert not cell.file("mbc-empty", "online").exists()  # it was stopped while asking
    assert [event.stage for event in of_kind(work(settings()), StageStarted)] == ["mbc-empty online"]
    assert cell.results("mbc-empty").online.scores == before


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_stop_ends_soon_and_the_next_run_goes_on(work, settings, tmp_path, elsewhere):
    """It is requested here, or in the folder of the training."""
    given, stop, seen = settings(methods=["mbc"]), threading.Event(), []
    for event in run(given, tmp_path / "run", cache=tmp_path / "cache", stop=stop):
        seen.append(event)
        if isinstance(event, TrainStep) and elsewhere:
            request_stop(tmp_path / "run" / "tiny-people" / "prepared" / "mbc")
        elif isinstance(event, TrainStep):
            stop.set()
    assert [event.step for event in of_kind(seen, TrainStep)] == [1]
    assert not of_kind(seen, (StageFinished, ExperimentFinished))
    rest = work(given)
    assert [event.step for event in of_kind(rest, TrainStep)] == [2, 3, 4, 5]
    assert of_kind(rest, ExperimentFinished)


def test_each_size_of_memory_is_a_stage(work, untrained, tmp_path):
    """The largest is that of online adaptation; there are eight documents."""
    events = work(untrained(protocols=["online", "scaling"], documents=20, scaling=[4, 2, 14]))
    assert [event.stage for event in of_kind(events, StageFinished)] == [
        "bm25 online",
        "bm25 scaling 2",
        "bm25 scaling 4",
    ]
    (skipped,) = of_kind(events, StageSkipped)
    assert (skipped.stage, skipped.reason) == ("bm25 scaling 14", "there are only 14 documents")
    found = ExperimentFolder(tmp_path / "run").cell("tiny-people").results("bm25")
    assert [(one.cost.documents, one.banks) for one in found.scaling] == [(2, 7), (4, 3), (14, 1)]
    assert [len(one.predictions) for one in found.scaling] == [14, 12, 14]


def test_impossible_stages_are_skipped(work, settings, tmp_path):
    given = settings(methods=["mbc", "closed-book"])
    broken = given.model_copy(
        update={"bases": [given.bases[0].model_copy(update={"changes": ["model.documents.name=nowhere"]})]}
    )
    events = work(broken)
    reasons = {event.stage: event.reason for event in of_kind(events, StageSkipped)}
    assert reasons.keys() == {"prepare mbc", "mbc online"}
    assert "nowhere" in reasons["prepare mbc"]
    assert reasons["mbc online"] == "prepare mbc could not be done"
    assert [event.follows for event in of_kind(events, StageSkipped)] == [None, "prepare mbc"]
    (missing,) = read_report(ExperimentFolder(tmp_path / "run")).missing
    assert (missing["stage"], missing["reason"]) == ("prepare mbc, mbc online", reasons["prepare mbc"])
    assert of_kind(events, ExperimentFinished)[0].done == 2


def test_data_files_may_move_and_settings_be_added(work, untrained, tmp_path):
    given = untrained()
    work(given)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    test = shutil.copy(given.datasets[0].test, elsewhere)
    settings = tmp_path / "run" / "experiment.toml"
    older = re.sub(r"\[text_training\]\n(\w.*\n)*", "", settings.read_text())  # from before that was a setting
    settings.write_text(older)
    moved = given.model_copy(update={"datasets": [given.datasets[0].model_copy(update={"test": test})]})
    assert not of_kind(work(moved), StageStarted)
    kept = (tmp_path / "run" / "experiment.toml").read_text()
    assert test in kept
    assert not of_kind(work(given), StageStarted)


@pytest.mark.parametrize(
    ("what", "old", "new", "comment"),
    [("questions", "Where", "Whither", ""), ("settings", "tokens = 4", "tokens = 5", "# The same.\n")],
)
def test_changed_questions_and_presets_are_refused(work, untrained, tmp_path, what, old, new, comment):
    given = untrained(methods=["bm25", "closed-book"])
    work(given)
    ExperimentFolder(tmp_path / "run").cell("tiny-people").file("closed-book", "online").unlink()
    file = Path(given.datasets[0].test if what == "questions" else given.bases[0].preset)
    text = file.read_text()
    file.write_text(text.replace(old, new, 1))
    changed = f"closed-book online: The {what} of tiny-people have changed since the evaluation began"
    with pytest.raises(DataError, match=changed):
        work(given, skips=False)
    file.write_text(f"{comment}{text}")
    assert [event.stage for event in of_kind(work(given), StageStarted)] == ["closed-book online"]
