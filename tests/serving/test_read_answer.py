"""Answers that are read in files, by a reader that finds the words it is told to."""

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mbc_engine.serving.answers import Answers
from mbc_engine.serving.read_answer import choose_answers, read_passages, with_sentences

from mbc_engine import Recall, ingest, load_model, open_bank
from mbc_engine.errors import BankError
from mbc_engine.mini.span_reader import Span
from mbc_engine.model.bank_binding import signature
from mbc_engine.model.checkpoint import save_model
from mbc_engine.model.mbc import MBC
from mbc_engine.model.text_encoder import TextEncoder
from mbc_engine.serving.ask import ReadAnswer
from mbc_engine.serving.sources import Source


class Finder:
    """Finds one of some words in each passage that has one, the first with the largest margin; notes what it read.

    The first character of a passage without any is a span as well, but no answer.
    """

    prior_weight, threshold = 0.5, -10.0

    def __init__(self, *words: str) -> None:
        self.words = words
        self.asked: list[tuple[str, list[str]]] = []

    def spans(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[list[Span | None]]:
        self.asked += zip(questions, map(list, passages), strict=True)
        return [[self._found(number, text) for number, text in enumerate(own)] for own in passages]

    def _found(self, number: int, text: str) -> Span:
        places = ((word, -float(rank), text.find(word)) for rank, word in enumerate(self.words))
        found = (Span(word, number, at, at + len(word), margin) for word, margin, at in places if at >= 0)
        return next(found, Span(text[0], number, 0, 1, -1000.0))


def source(passage: str | None, share: float = 0.5, path: str = "a", part: str = "") -> Source:
    return Source(path, part, share, 0, "unchanged" if passage else "gone", None, passage, None, "b")


def answer(finder: Finder, questions: Sequence[str], sources: Sequence[Sequence[Source]]) -> list[ReadAnswer | None]:
    return choose_answers(finder, sources, read_passages(finder, questions, sources))


def test_an_answer_names_the_part_and_the_sentence_it_stands_in() -> None:
    text = "It rained. Ada moved\n to Aalen. Nobody won."
    sources = [source("Hugo won.", 0.75), source(None), source(text, 0.25, "/b.jsonl", "7")]
    finder = Finder("moved\n to Aalen")
    assert answer(finder, ["Where?"], [sources]) == [
        ReadAnswer("moved to Aalen", "/b.jsonl", "7", "Ada moved to Aalen.")
    ]
    assert finder.asked == [("Where?", ["Hugo won.", text])]


def test_an_answer_over_two_sentences_names_both() -> None:
    (found,) = answer(Finder("won. Ada"), ["Who?"], [[source("It rained. Hugo won. Ada moved.")]])
    assert found is not None and found.sentence == "Hugo won. Ada moved."


def test_only_questions_with_something_to_read_are_asked() -> None:
    finder = Finder("Ada")
    sources = [[source(None)], [source("Ada won.")], [source("It rained.")], []]
    answers = answer(finder, ["a?", "b?", "c?", "d?"], sources)
    assert [found and found.text for found in answers] == [None, "Ada", None, None]
    assert finder.asked == [("b?", ["Ada won."]), ("c?", ["It rained."])]


@pytest.mark.parametrize(("share", "expected"), [(math.exp(-1.9), "Hugo"), (math.exp(-2.1), "Ada"), (0.0, "Ada")])
def test_shares_count_by_the_weight_of_priors(share: float, expected: str) -> None:
    # Hugo's margin is 0, Ada's -1; half a logarithm of the share makes up for it.
    sources = [source("Ada won.", 1.0), source("Hugo won.", share)]
    (found,) = answer(Finder("Hugo", "Ada"), ["Who?"], [sources])
    assert found is not None and found.text == expected


def test_a_passage_that_several_sources_share_is_read_once() -> None:
    finder, one, other = Finder("Ada"), source("Ada won.", path="a"), source("It rained.", path="b")
    spans = read_passages(finder, ["Who?"], [[one, other, source(None), replace(one, share=0.1), other]])
    assert finder.asked == [("Who?", ["Ada won.", "It rained."])]
    assert [span and span.text for span in spans[0]] == ["Ada", "I", None, "Ada", "I"]


def test_sources_show_the_sentences_their_spans_stand_in() -> None:
    sources = [
        source("It rained. Ada\nwon. Hugo left."),
        source(None),
        source("\u200b"),
        source("Hugo left. It rained."),
    ]
    spans = [Span("won", 0, 15, 18, -50.0), None, None, Span("rained", 3, 14, 20, 2.0)]
    named = with_sentences(sources, spans)
    assert [own.sentence for own in named] == ["Ada won.", None, None, "It rained."]
    assert [replace(own, sentence=None) for own in named] == sources


@pytest.mark.parametrize("mode", ["flat", "routed", "hierarchical:2"])
@pytest.mark.parametrize("sources", [0, 2, 7])
def test_the_best_four_are_read_however_many_are_shown(tiny: Any, tmp_path: Path, mode: str, sources: int) -> None:
    model, rows = tiny.model("gpt2", "bert", "model.routing=true"), tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": str(n), "text": f"Story {n}. Nobody won."}) + "\n" for n in range(8)))
    finder = Finder("Nobody")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [rows]))
        recall = Recall(model, bank, finder)
        (reply,) = recall.ask(["Who won?"], read_mode=mode, sources=sources)
        (best,) = recall.ask(["Who won?"], read_mode=mode, sources=8, answers=Answers.MEMORY)
    assert (reply.answers, reply.passages) == (Answers.BOTH, 4)
    assert reply.sources == tuple(replace(own, sentence="Nobody won.") for own in best.sources[:sources])
    assert finder.asked == [("Who won?", [own.passage for own in best.sources[: max(4, sources)]])]
    first = best.sources[0]
    assert reply.read == ReadAnswer("Nobody", str(rows), first.part, "Nobody won.")
    assert (best.answers, best.read, best.passages) == (Answers.MEMORY, None, 0)


@pytest.mark.parametrize("mode", ["flat", "routed"])
def test_several_chunks_of_a_document_are_read(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    model, path = tiny.model("gpt2", "bert", "model.routing=true"), tmp_path / "long.txt"
    path.write_text("".join(f"The old painter moved to place {number} in the spring. " for number in range(20)))
    (tmp_path / "short.txt").write_text("Hugo won.")
    finder, shares = Finder("Hugo"), []
    monkeypatch.setattr(
        "mbc_engine.serving.read_answer.choose_answers",
        lambda reader, sources, spans: shares.extend(sources) or choose_answers(reader, sources, spans),
    )
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [path, tmp_path / "short.txt"]))
        chunks = bank.totals().chunks
        assert chunks > 5
        (reply,) = Recall(model, bank, finder).ask(["Who won?"], read_mode=mode, sources=1)
        (whole,) = Recall(model, bank).ask(["Who won?"], read_mode=mode, sources=2)
    (best,), ((_, passages),) = shares, finder.asked
    assert {*passages} == {own.passage for own in [*best, *reply.sources]}
    assert (len({own.passage for own in best}), reply.passages, len(reply.sources)) == (4, 4, 1)
    priors = [source.share for source in best]
    assert priors == sorted(priors, reverse=True)
    own = next(source.share for source in whole.sources if source.path == str(path))
    assert sum(source.share for source in best if source.path == str(path)) <= own + 1e-6


def test_where_a_reader_finds_spans_no_sentence_is_encoded(
    tiny: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, encoded = tiny.model(), []
    real = TextEncoder.sentence_vectors
    monkeypatch.setattr(
        TextEncoder, "sentence_vectors", lambda self, texts, **_: encoded.extend(texts) or real(self, texts)
    )
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        recall = Recall(model, bank, Finder("Nobody"))
        for answers in (Answers.BOTH, Answers.READ):
            assert all(own.sentence for own in recall.ask(["Who won?"], answers=answers)[0].sources)
        assert encoded == []
        assert all(own.sentence for own in recall.ask(["Who won?"], answers=Answers.MEMORY)[0].sources)
    assert "Who won?" in encoded


def test_a_document_is_read_from_its_file_once_a_question(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path, cut = tiny.model(), tmp_path / "long.txt", []
    path.write_text("".join(f"The old painter moved to place {number} in the spring. " for number in range(20)))
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [path]))
        chunker = model.documents.chunker
        model.documents.__dict__["chunker"] = lambda text: cut.append(text) or chunker(text)
        (reply,) = Recall(model, bank, Finder("painter")).ask(["Who moved?"])
    assert (reply.passages, cut) == (4, [path.read_text()])


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

    monkeypatch.setattr("mbc_engine.serving.read_answer.load_span_reader", load)
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
