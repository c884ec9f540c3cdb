"""Answers that are read in files, by a reader that finds the words it is told to."""

import json
import math
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from mbc_engine import Recall, ingest, load_model, open_bank
from mbc_engine.answers import Answers
from mbc_engine.errors import BankError
from mbc_engine.model.checkpoint import save_model, signature
from mbc_engine.model.mbc import MBC
from mbc_engine.serving.ask import ReadAnswer
from mbc_engine.serving.read_answer import find_answers
from mbc_engine.serving.sources import Source


class Span(NamedTuple):
    text: str
    passage: int
    start: int
    end: int


class Finder:
    """Finds the first of some words in the first passage that has it, and notes what it was asked."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.asked: list[tuple[str, list[str], list[float]]] = []

    def find(self, questions: Sequence[str], passages: Any, *, priors: Any = None) -> list[Span | None]:
        self.asked += zip(questions, passages, priors, strict=True)
        return [self._found(own) for own in passages]

    def _found(self, passages: Sequence[str]) -> Span | None:
        places = ((word, number, text.find(word)) for word in self.words for number, text in enumerate(passages))
        return next((Span(w, number, at, at + len(w)) for w, number, at in places if at >= 0), None)


def source(passage: str | None, share: float = 0.5, path: str = "a", part: str = "") -> Source:
    return Source(path, part, share, 0, "unchanged" if passage else "gone", None, passage, None)


def test_an_answer_names_the_part_and_the_sentence_it_stands_in() -> None:
    text = "It rained. Ada moved\n to Aalen. Nobody won."
    sources = [source("Hugo won.", 0.75), source(None), source(text, 0.25, "/b.jsonl", "7")]
    finder = Finder("moved\n to Aalen")
    answers = find_answers(finder, ["Where?"], [sources])
    assert answers == [ReadAnswer("moved to Aalen", "/b.jsonl", "7", "Ada moved to Aalen.")]
    assert finder.asked == [("Where?", ["Hugo won.", text], [math.log(0.75), math.log(0.25)])]


def test_an_answer_over_two_sentences_names_both() -> None:
    (answer,) = find_answers(Finder("won. Ada"), ["Who?"], [[source("It rained. Hugo won. Ada moved.")]])
    assert answer is not None and answer.sentence == "Hugo won. Ada moved."


def test_only_questions_with_something_to_read_are_asked() -> None:
    finder = Finder("Ada")
    sources = [[source(None)], [source("Ada won.", 0.0)], [source("It rained.")], []]
    answers = find_answers(finder, ["a?", "b?", "c?", "d?"], sources)
    assert [answer and answer.text for answer in answers] == [None, "Ada", None, None]
    assert [question for question, _, _ in finder.asked] == ["b?", "c?"]
    assert math.isfinite(finder.asked[0][2][0])


@pytest.mark.parametrize("mode", ["flat", "routed", "hierarchical:2"])
@pytest.mark.parametrize("sources", [0, 2, 7])
def test_the_five_best_are_read_however_many_are_shown(tiny: Any, tmp_path: Path, mode: str, sources: int) -> None:
    model, rows = tiny.model("gpt2", "bert", "model.routing=true"), tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": str(n), "text": f"Story {n}. Nobody won."}) + "\n" for n in range(8)))
    finder = Finder("Nobody")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [rows]))
        recall = Recall(model, bank, finder)
        (reply,) = recall.ask(["Who won?"], read_mode=mode, sources=sources)
        (best,) = recall.ask(["Who won?"], read_mode=mode, sources=8, answers=Answers.MEMORY)
    assert (reply.answers, reply.passages, reply.sources) == (Answers.BOTH, 5, best.sources[:sources])
    assert [[text, share] for _, texts, shares in finder.asked for text, share in zip(texts, shares, strict=True)] == [
        [own.passage, pytest.approx(math.log(own.share))] for own in best.sources[:5]
    ]
    first = best.sources[0]
    assert reply.read == ReadAnswer("Nobody", str(rows), first.part, "Nobody won.")
    assert (best.answers, best.read, best.passages) == (Answers.MEMORY, None, 0)


@pytest.mark.parametrize("mode", ["flat", "routed"])
def test_several_chunks_of_a_document_are_read(tiny: Any, tmp_path: Path, mode: str) -> None:
    model, path = tiny.model("gpt2", "bert", "model.routing=true"), tmp_path / "long.txt"
    path.write_text("".join(f"The old painter moved to place {number} in the spring. " for number in range(20)))
    (tmp_path / "short.txt").write_text("Hugo won.")
    finder = Finder("Hugo")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [path, tmp_path / "short.txt"]))
        chunks = bank.totals().chunks
        assert chunks > 5
        (reply,) = Recall(model, bank, finder).ask(["Who won?"], read_mode=mode, sources=1)
        (whole,) = Recall(model, bank).ask(["Who won?"], read_mode=mode, sources=2)
    ((_, passages, priors),) = finder.asked
    assert (len(set(passages)), reply.passages, len(reply.sources)) == (5, 5, 1)
    assert priors == sorted(priors, reverse=True)
    own = next(source.share for source in whole.sources if source.path == str(path))
    several = [prior for passage, prior in zip(passages, priors, strict=True) if "painter" in passage]
    assert sum(map(math.exp, several)) <= own + 1e-6


def test_nothing_is_generated_where_answers_are_read_alone(
    tiny: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        monkeypatch.setattr(MBC, "say", lambda *_, **__: pytest.fail("generates"))
        asking = {"answers": Answers.READ}
        (found,) = Recall(model, bank, Finder("Nobody")).ask(["Who won?"], **asking)
        (nothing,) = Recall(model, bank, Finder("Everybody")).ask(["Who won?"], **asking)
    assert found.read is not None and found.read.text == "Nobody"
    assert (nothing.read, nothing.passages) == (None, 4)
    for reply in (found, nothing):
        assert (reply.answer, reply.gain, reply.judgement) == (None, None, None)


def test_without_files_only_the_memory_answers(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, finder = tiny.model(), Finder("Nobody")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        shutil.rmtree(folder)
        recall = Recall(model, bank, finder)
        (reply,) = recall.ask(["Who won?"])
        assert (reply.read, reply.passages, reply.timings.reading) == (None, 0, 0.0)
        assert reply.answer is not None
        with pytest.raises(BankError, match="nothing can be read") as refused:
            recall.ask(["Who won?"], answers=Answers.READ)
    assert "--answer memory" in str(refused.value.hint)
    assert finder.asked == []


@pytest.fixture
def with_reader(tiny: Any, tmp_path: Path) -> Path:
    """The folder of a tiny model, with something in the place of a reader."""
    save_model(tiny.model(), tiny.config(), tmp_path / "model")
    (tmp_path / "model" / "reader").mkdir()
    (tmp_path / "model" / "reader" / "reader.toml").write_text("")
    return tmp_path / "model"


def test_a_models_own_reader_is_loaded_when_it_is_needed_and_once(
    with_reader: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[tuple[Path, str]] = []

    def load(folder: Path, *, device: object) -> Finder:
        loaded.append((folder, str(device)))
        return Finder("Nobody")

    monkeypatch.setitem(sys.modules, "mbc_engine.model.span_reader", SimpleNamespace(load_span_reader=load))
    model = load_model(with_reader)
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        recall = Recall(model, bank)
        assert recall.ask(["Who won?"], answers=Answers.MEMORY)[0].read is None
        assert loaded == []
        for _ in range(2):
            reply = recall.ask(["Who won?"])[0]
            assert reply.read is not None and reply.read.text == "Nobody"
        assert loaded == [(with_reader / "reader", "cpu")]


def test_a_model_without_a_reader_answers_from_memory_unless_told(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        (reply,) = Recall(model, bank).ask(["Who won?"])
    assert (reply.answers, reply.read, reply.passages) == (Answers.MEMORY, None, 0)


def test_a_reader_changes_nothing_that_banks_are_bound_to(with_reader: Path) -> None:
    before = signature(load_model(with_reader))
    shutil.rmtree(with_reader / "reader")
    assert signature(load_model(with_reader)) == before
