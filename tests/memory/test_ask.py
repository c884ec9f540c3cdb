"""Answers of a model of the paper's method, and what `Memory.ask` does for models of either kind."""

import io
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from mbc_engine import Memory, Selection, ingest, open_bank
from mbc_engine.answer import AskOptions
from mbc_engine.bank import Banks
from mbc_engine.config import ConfidenceSettings
from mbc_engine.errors import BankError, ConfigError
from mbc_engine.ingestion.ingest import ingest_stream
from mbc_engine.paper.memories import BankMemory
from mbc_engine.paper.read_modes import Reading

QUESTIONS = ["Who won?", "Who moved?"]
ROUTING = ("gpt2", "bert", "model.routing=true")


def test_empty_bank(either, tmp_path):
    with open_bank(either, tmp_path / "b.mbc") as bank:
        for ask in (Memory(bank, either).ask, Memory(bank, either).search):
            assert ask([]) == []
            with pytest.raises(BankError, match="is empty"):
                ask(["Who?"])


def test_selection_without_documents(either, remember, folder):
    memory = remember(either, folder)
    for selection in (Selection(only=("*.pdf",)), Selection(as_of=date(1900, 1, 1))):
        with pytest.raises(BankError, match=r"No document in .* matches") as refused:
            memory.ask(["Who won?"], selection=selection)
        assert "--only" in str(refused.value.hint)


def test_wrong_arguments_are_refused():
    memory = Memory("b.mbc")
    for wrong in ({"sources": -1}, {"beams": 0}, {"max_new_tokens": 0}, {"min_confidence": 1.5}):
        with pytest.raises(ConfigError, match=f"--{next(iter(wrong)).replace('_', '-')}"):
            AskOptions(**wrong)
    for one in ("news", Path("news")):
        for call in (memory.ask, memory.search, memory.remove, lambda one: list(memory.add(one))):
            with pytest.raises(ConfigError, match="takes several, not 'news' alone"):
                call(one)
    with pytest.raises(ConfigError, match="is empty"):  # not the working folder
        list(memory.add([""]))
    for top in (0, -3):
        with pytest.raises(ConfigError, match=f"`top` is {top}"):
            memory.search(["Who won?"], top=top)


def test_source_states(tiny, remember, folder):
    memory = remember(tiny.model(), folder)
    (folder / "1.txt").unlink()
    (folder / "2.txt").write_text("Changed since.")
    (answer,) = memory.ask(["Who won?"], sources=4)
    states = {Path(source.path).stem: source.state for source in answer.sources}
    assert states == {"0": "unchanged", "1": "gone", "2": "changed", "3": "unchanged"}
    assert all((source.sentence is None) == (source.state != "unchanged") for source in answer.sources)
    assert sum(source.share for source in answer.sources) == pytest.approx(1, abs=1e-4)


def test_rows_are_parts_of_their_file(tiny, remember, rows):
    path = rows(["Ada moved.", "Bruno moved."])
    memory = remember(tiny.model(), path)
    (answer,) = memory.ask(["Who moved?"])
    named = {(source.path, source.part, source.sentence) for source in answer.sources}
    assert named == {(str(path), "0", "Ada moved."), (str(path), "1", "Bruno moved.")}
    path.write_text('{"id": "clara", "text": "Clara moved."}')
    assert {source.state for source in memory.ask(["Who moved?"])[0].sources} == {"gone"}


def test_bank_without_origins(tiny, folder, tmp_path):
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc", keeps_origins=False) as bank:
        list(ingest(model, bank, [folder]))
        digests = {document.digest for document in bank.documents()}
        (answer,) = Memory(bank, model).ask(["Who won?"], sources=4, selection=Selection())
    assert {source.path for source in answer.sources} == digests
    assert {(source.state, source.sentence, source.date) for source in answer.sources} == {("unknown", None, None)}


def test_text_from_a_stream(either, tmp_path):
    with open_bank(either, tmp_path / "b.mbc") as bank:
        list(ingest_stream(either, bank, io.BytesIO(b"Nobody moved to Bergen.")))
        (source,) = Memory(bank, either).ask(["Who moved?"])[0].sources
    kept = ("bank", "Nobody moved to Bergen.") if either.keeps_text else (None, None)
    assert (source.state, source.text_from, source.sentence) == ("unknown", *kept)


def test_whole_bank_is_prepared_once(either, folder, tmp_path, monkeypatch):
    scopes, scope = [], type(either).scope
    monkeypatch.setattr(type(either), "scope", lambda *given: scopes.append(scope(*given)) or scopes[-1])
    with open_bank(either, tmp_path / "b.mbc") as bank, open_bank(either, tmp_path / "b.mbc") as other:
        list(ingest(either, bank, [folder]))
        memory = Memory(bank, either)
        for selection in (None, Selection(), Selection(only=("1.txt",)), None):
            memory.ask(["Who won?"], selection=selection)
        assert list(map(len, scopes)) == [4, 1]
        other.remove([(str(folder / "1.txt"), "")])
        assert len(memory.ask(["Who won?"], sources=4)[0].sources) == len(scopes[2]) == 3


def test_codes_are_returned_on_request(tiny, folder, tmp_path, monkeypatch):
    model = tiny.model(*ROUTING)
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        memory, read, counts = Memory(bank, model), BankMemory(bank, model.codebook), bank.counts()
        for mode in ("flat", "routed", "hierarchical:2"):
            answers = memory.ask(QUESTIONS, read_mode=mode, with_codes=True)
            reading = model.read(QUESTIONS, read, read_mode=mode, top=3)
            for answer, codes in zip(answers, reading.codes, strict=True):
                assert np.array_equal(answer.codes, codes)
                assert codes.shape == counts.shape and not codes[counts == 0].any()
        monkeypatch.setattr(Reading, "codes", property(lambda _: pytest.fail("looks for codes")))
        assert [answer.codes for answer in memory.ask(QUESTIONS, read_mode=mode)] == [None, None]


def calibrated(model, slope):
    settings = slope is not None and ConfidenceSettings(slope=slope, intercept=0, from_memory=1, from_model=0)
    model.settings = model.settings.model_copy(update={"confidence": settings or None})
    return model


def test_calibration_is_for_the_default_read(tiny, remember, folder):
    memory = remember(calibrated(tiny.model(), 1), folder)
    answers = [memory.ask(["Who won?"], read_mode=mode)[0] for mode in (None, "flat", "hierarchical:2")]
    assert [answer.confidence is not None for answer in answers] == [True, True, False]
    assert memory.ask(["Who won?"], read_mode="flat", min_confidence=0)[0].text is not None


def test_answers_below_the_minimum_confidence_are_withheld(tiny, remember, folder):
    memory = remember(calibrated(tiny.model(), 1e-9), folder)  # always even odds
    for minimum, is_answered in ((None, True), (0.0, True), (0.4, True), (0.6, False)):
        (answer,) = memory.ask(["Who won?"], min_confidence=minimum)
        assert (answer.text is not None) is is_answered is not answer.withheld
        assert (answer.confidence.probability, answer.confidence.label) == (pytest.approx(0.5), "unsure")


@pytest.mark.parametrize(
    ("slope", "options", "message", "hint"),
    [
        (None, {"min_confidence": 0.5}, "is not calibrated", "mbc calibrate"),
        (0, {"min_confidence": 0.5}, "cannot tell whether its bank", "calibrate another model"),
        (1, {"min_confidence": 0.5, "read_mode": "hierarchical:2"}, "flat, not for hierarchical:2", "Leave out --read"),
        (1, {"write": True}, "--write does not apply", "it is for mini"),
    ],
)
def test_options_that_do_not_fit_the_model(tiny, slope, options, message, hint):
    with pytest.raises(ConfigError, match=message) as refused:
        calibrated(tiny.model(), slope).check(AskOptions(**options))
    assert hint in str(refused.value.hint)


def test_only_greedy_and_unconditional_answers_stream(tiny):
    paper, mini = tiny.model(), tiny.retriever_reader()
    options = [AskOptions(), AskOptions(beams=2), AskOptions(min_confidence=0.5), AskOptions(write=True)]
    assert [paper.can_stream(each) for each in options[:3]] == [True, False, False]
    assert [mini.can_stream(each) for each in options] == [False, False, False, True]


def test_several_open_banks_are_read_only(tiny, remember, folder, tmp_path):
    model = remember(tiny.model(), folder).model
    with Banks.open([tmp_path / "b.mbc"]) as banks:
        memory = Memory(banks, model)
        for write in (lambda: list(memory.add([folder])), lambda: memory.remove([str(folder / "1.txt")])):
            with pytest.raises(ConfigError, match="cannot be written"):
                write()
