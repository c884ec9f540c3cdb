"""Answers that a retriever-reader reads, with a tiny encoder and a reader that finds given words."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine import Memory, MemoryBank, Selection, ingest, open_bank
from mbc_engine.errors import BankError, ConfigError
from mbc_engine.ingestion.run import ingest_stream
from mbc_engine.lm.encoders import load_encoder
from mbc_engine.mini.span_reader import SpanReader
from mbc_engine.sources import Passages
from tests.conftest import SENTENCES
from tests.finder import Finder
from tests.text_models import StandIn


def finder_of(model: Any) -> Finder:
    assert isinstance(model.reader, Finder)
    return model.reader


def without_text(reply: Any) -> tuple[Any, ...]:
    """What a reply says, without where the text came from."""
    return reply.text, reply.confidence, [(own.path, own.share, own.sentence, own.passage) for own in reply.sources]


def test_the_answer_comes_with_the_sentence_and_the_file_it_stands_in(tiny: Any, remember: Any, tmp_path: Path) -> None:
    model, rows = tiny.retriever_reader("Aalen"), tmp_path / "rows.jsonl"
    texts = {"6": "Hugo won. The bridge held.", "7": "It rained. Ada moved\n to Aalen. Nobody won."}
    rows.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items()))
    (reply,) = remember(model, rows).ask(["Where did Ada move?"])
    assert reply.text == "Aalen"
    assert reply.confidence is not None
    assert reply.confidence.label == "high"
    first = reply.sources[0]
    assert (first.path, first.part, first.sentence) == (str(rows), "7", "Ada moved to Aalen.")
    assert (first.passage, first.text_from, first.start) == (texts["7"], "file", 0)
    assert {source.part for source in reply.sources} == {"6", "7"}


def test_a_sentence_that_spans_two_is_both(tiny: Any, remember: Any, tmp_path: Path) -> None:
    model = tiny.retriever_reader("won. Ada")
    (tmp_path / "a.txt").write_text("It rained. Hugo won. Ada moved.")
    (reply,) = remember(model, tmp_path / "a.txt").ask(["Who?"])
    assert (reply.text, reply.sources[0].sentence) == ("won. Ada", "Hugo won. Ada moved.")


TYPED = "Where did Ada's brother move?"


@pytest.fixture(scope="module")
def asked(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A small bank, asked with a reader that looks at the question."""
    folder = tmp_path_factory.mktemp("asked")
    (folder / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in SENTENCES))
    model = tiny.retriever_reader()
    encoder, generator = load_encoder(str(tiny.encoders["bert"])), torch.Generator().manual_seed(1)
    reader = SpanReader(encoder.model, encoder.tokenizer, window=48, longest=4).eval()
    for value in reader.head.parameters():
        value.data.normal_(std=0.3, generator=generator)
    model.reader = reader
    with open_bank(model, folder / "b.mbc") as bank:
        list(ingest(model, bank, [folder / "rows.jsonl"]))
        yield Memory(bank, model)


@given(
    st.sampled_from([str, str.upper, str.lower, str.title]),
    st.sampled_from(["", "?", " ?", "??", ".", "!"]),
    st.sampled_from([" ", "  ", "\n"]),
    st.sampled_from("'\u2019"),
)
def test_capitals_spaces_and_question_marks_change_nothing(
    asked: Memory, case: Callable[[str], str], end: str, space: str, quote: str
) -> None:
    typed = case(TYPED.rstrip("?")).replace(" ", space).replace("'", quote) + end
    first, again = asked.ask([TYPED, typed], min_confidence=0)
    assert replace(again, question=TYPED) == first
    assert asked.search([typed]) == asked.search([TYPED])


def test_the_same_is_answered_with_and_without_the_files(tiny: Any, remember: Any, folder: Path) -> None:
    model, questions = tiny.retriever_reader("Nobody", "north"), ["Who won?", "Where did it rain?"]
    memory = remember(model, folder)
    before = memory.ask(questions)
    (folder / "0.txt").write_text("Changed since.")
    changed = memory.ask(questions)
    shutil.rmtree(folder)
    after = memory.ask(questions)
    assert list(map(without_text, before)) == list(map(without_text, changed)) == list(map(without_text, after))
    assert {own.text_from for reply in before for own in reply.sources} == {"file"}
    assert {own.text_from for reply in after for own in reply.sources} == {"bank"}
    assert {(own.state, own.text_from) for own in changed[0].sources} <= {("unchanged", "file"), ("changed", "bank")}
    assert [reply.text for reply in before] == ["Nobody", "Nobody"]


def test_a_bank_without_text_reads_files_alone(tiny: Any, remember: Any, folder: Path) -> None:
    memory = remember(tiny.retriever_reader("Nobody"), folder, keeps_text=False)
    (reply,) = memory.ask(["Who won?"])
    assert (reply.text, reply.sources[0].text_from) == ("Nobody", "file")
    shutil.rmtree(folder)
    with pytest.raises(BankError, match="no longer available"):
        memory.ask(["Who won?"])
    assert {own.passage for own in memory.search(["Who won?"])[0]} == {None}


def test_below_the_threshold_nothing_is_answered_and_the_nearest_sources_stay(
    tiny: Any, remember: Any, folder: Path
) -> None:
    memory = remember(tiny.retriever_reader("Nobody", least_margin=9.0), folder)
    (withheld,) = memory.ask(["Who won?"])
    (given,) = memory.ask(["Who won?"], min_confidence=0)
    assert (withheld.text, given.text) == (None, "Nobody")
    assert withheld.confidence == given.confidence
    assert len(withheld.sources) == len(given.sources) == 3
    assert all(own.sentence == "Nobody won." for own in withheld.sources)


def test_more_chunks_are_read_where_the_first_hold_no_answer(tiny: Any, remember: Any, tmp_path: Path) -> None:
    model, rows = tiny.retriever_reader("Hugo", "Ada"), tmp_path / "rows.jsonl"
    texts = [f"Story {number}. {who} won." for number, who in enumerate(["Nobody"] * 4 + ["Hugo", "Ada"])]
    rows.write_text("".join(json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts)))
    memory = remember(model, rows)
    ranked = [own.passage for own in memory.search(["Who won?"], top=6)[0]]  # all are equally likely

    def read(passages: int, further: int) -> tuple[str | None, list[list[str]]]:
        model.reader_settings = model.reader_settings.model_copy(update={"passages": passages, "further": further})
        finder_of(model).asked.clear()
        return memory.ask(["Who won?"])[0].text, [own for _, own in finder_of(model).asked]

    assert read(6, 3) == ("Hugo", [ranked])
    assert read(5, 3) == ("Hugo", [ranked[:5]])
    assert read(1, 3) == (None, [ranked[:1], ranked[1:4]])
    assert read(1, 9) == ("Hugo", [ranked[:1], ranked[1:]])


@pytest.mark.parametrize("sources", [0, 2, 7])
def test_the_best_four_chunks_are_read_however_many_are_shown(
    tiny: Any, remember: Any, tmp_path: Path, sources: int
) -> None:
    model, rows = tiny.retriever_reader("Nobody"), tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": str(n), "text": f"Story {n}. Nobody won."}) + "\n" for n in range(8)))
    memory = remember(model, rows)
    (reply,) = memory.ask(["Who won?"], sources=sources)
    (found,) = memory.search(["Who won?"], top=8)
    ((_, read),) = finder_of(model).asked
    assert read == [own.passage for own in found[:4]]
    assert len(reply.sources) == sources
    assert [own.sentence for own in reply.sources[:4]] == ["Nobody won."] * min(sources, 4)


def test_only_texts_that_are_read_or_shown_are_looked_up(
    tiny: Any, remember: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    model, rows, looked_up = tiny.retriever_reader("Nobody"), tmp_path / "rows.jsonl", []
    rows.write_text("".join(json.dumps({"id": str(n), "text": f"Story {n}. Nobody won."}) + "\n" for n in range(8)))
    texts_at = MemoryBank.encoded_texts_at
    monkeypatch.setattr(
        MemoryBank, "encoded_texts_at", lambda bank, own: [looked_up.extend(own), texts_at(bank, own)][1]
    )
    (reply,) = remember(model, rows).ask(["Who won story 5?"], sources=5)
    ((_, read),) = finder_of(model).asked
    assert len(looked_up) == len(set(looked_up)) == len({*read} | {own.passage for own in reply.sources}) == 5


def test_several_chunks_of_a_document_are_read_and_named_once(tiny: Any, tmp_path: Path) -> None:
    model, path = tiny.retriever_reader("place 7"), tmp_path / "long.txt"
    path.write_text("".join(f"The old painter moved to place {number} in the spring. " for number in range(20)))
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [path]))
        assert bank.totals().chunks > 5
        (reply,) = Memory(bank, model).ask(["Where did he move?"], min_confidence=0)
    ((_, read),) = finder_of(model).asked
    assert len(read) == 4
    assert [own.path for own in reply.sources] == [str(path)]
    start, passage = reply.sources[0].start, reply.sources[0].passage
    assert path.read_text()[start : start + len(passage)] == passage


def test_a_shared_word_puts_a_chunk_before_others(tiny: Any, remember: Any, tmp_path: Path) -> None:
    model = tiny.retriever_reader()
    model.settings = model.settings.model_copy(update={"word_weight": 10.0})
    rows = tmp_path / "rows.jsonl"
    names = ["ada", "bru", "cla", "dari", "edi", "feli"]
    rows.write_text(
        "".join(json.dumps({"id": name, "text": f"{name.title()}bo moved to Aalen."}) + "\n" for name in names)
    )
    found = remember(model, rows).search([f"Where is {name}bo?" for name in names], top=1)
    assert [own[0].part for own in found] == names


def test_what_came_from_standard_input_is_answered(tiny: Any, tmp_path: Path) -> None:
    import io

    model = tiny.retriever_reader("Bergen")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest_stream(model, bank, io.BytesIO(b"Ada moved to Bergen.")))
        (reply,) = Memory(bank, model).ask(["Where did Ada move?"])
    assert (reply.text, reply.sources[0].state, reply.sources[0].text_from) == ("Bergen", "unknown", "bank")


def test_a_selection_is_searched_alone(tiny: Any, remember: Any, folder: Path) -> None:
    memory = remember(tiny.retriever_reader("Nobody"), folder)
    (reply,) = memory.ask(["Who won?"], selection=Selection(only=("1.txt", "3.txt")))
    assert {Path(own.path).name for own in reply.sources} == {"1.txt", "3.txt"}
    with pytest.raises(BankError, match=r"No document in .* matches"):
        memory.ask(["Who won?"], selection=Selection(only=("*.pdf",)))


def test_a_bank_that_changes_is_searched_as_it_is_then(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.retriever_reader("Nobody")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        memory = Memory(bank, model)
        assert len(memory.search(["Who won?"], top=9)[0]) == 4
        bank.remove([(str(folder / "1.txt"), "")])
        assert len(memory.search(["Who won?"], top=9)[0]) == 3


def test_codes_read_are_given_if_asked_for(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.retriever_reader("Nobody")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        reply, plain = (Memory(bank, model).ask(["Who won?"], with_codes=codes)[0] for codes in (True, False))
        counts = bank.counts()
    assert plain.codes is None
    assert reply.codes.shape == counts.shape
    assert reply.codes.sum() == pytest.approx(1, rel=1e-5)
    assert not reply.codes[counts == 0].any()


def test_a_read_of_the_papers_method_is_refused(tiny: Any, remember: Any, folder: Path) -> None:
    memory = remember(tiny.retriever_reader("Nobody"), folder)
    with pytest.raises(ConfigError, match="--read does not apply"):
        memory.ask(["Who won?"], read_mode="flat")


def test_an_empty_bank_says_so(tiny: Any, tmp_path: Path) -> None:
    model = tiny.retriever_reader()
    with open_bank(model, tmp_path / "b.mbc") as bank, pytest.raises(BankError, match="is empty"):
        Memory(bank, model).ask(["Who?"])


def test_texts_under_a_language_model_are_decoded_at_once_and_only_where_a_file_does_not_have_them(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, folder, texts = tiny.retriever_reader(), tmp_path / "news", StandIn("It rained. Hugo won. Nobody came. " * 9)
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text(f"  Story {number}. " + "It rained. Hugo won. Nobody came. " * 8)
    waits: list[int] = []

    def on_decoding(count: int) -> Any:
        waits.append(count)
        return nullcontext()

    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        every = range(bank.totals().chunks)
        before = Passages(bank, model.chunker).of(every)
        list(bank.recode_texts(texts.open, to_lm=True))
        assert bank.text_state().lm_texts == bank.totals().chunks > 4
        monkeypatch.setattr("mbc_engine.sources.text_model", texts.open)
        texts.decoded.clear()
        passages = Passages(bank, model.chunker, on_decoding)
        assert passages.of(every) == before
        assert (texts.decoded, waits) == ([], [])
        (folder / "1.txt").unlink()
        (folder / "2.txt").write_text("Changed since.")
        passages = Passages(bank, model.chunker, on_decoding)
        after = passages.of(every)
        assert passages.of(every) == after
        gone = [number for number in every if after[number].state != "unchanged"]
        assert (texts.decoded, waits) == ([len(gone)], [len(gone)])
        assert {after[number].text_from for number in gone} == {"bank"}
        expected = {number: (own.passage, own.start) for number, own in before.items()}
        assert {number: (own.passage, own.start) for number, own in after.items()} == expected
        # Files that would be cut differently today do not stand in for what the bank keeps.
        texts.decoded.clear()
        narrow = tiny.retriever_reader(window=12).chunker
        assert {number: own.passage for number, own in Passages(bank, narrow).of(every).items()} == {
            number: own.passage for number, own in before.items()
        }
        assert texts.decoded != []


def test_a_question_decodes_all_its_passages_in_one_batch(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, folder = tiny.retriever_reader("Hugo"), tmp_path / "news"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.txt").write_text(f"Story {number}. Hugo won in {number} of ten races, and nobody came.")
    texts = StandIn("".join(path.read_text() for path in folder.iterdir()))
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        (before,) = Memory(bank, model).ask(["Who won?"], sources=6)
        list(bank.recode_texts(texts.open, to_lm=True))
        shutil.rmtree(folder)
        monkeypatch.setattr("mbc_engine.sources.text_model", texts.open)
        texts.decoded.clear()
        (after,) = Memory(bank, model).ask(["Who won?"], sources=6)
    assert without_text(after) == without_text(before)
    assert texts.decoded == [6]
    model.reader_settings = model.reader_settings.model_copy(update={"passages": 1, "further": 0})
    with MemoryBank.open(tmp_path / "b.mbc") as bank:
        texts.decoded.clear()
        Memory(bank, model).ask(["Who won?"], sources=0)
        assert texts.decoded == [1]
        texts.decoded.clear()
        monkeypatch.setattr("mbc_engine.sources._WORTH_DECODING", 1.1)
        (few,) = Memory(bank, model).ask(["Who won?"], sources=6)
        assert texts.decoded == [1]
        assert [own.passage is not None for own in few.sources] == [True] + [False] * 5
