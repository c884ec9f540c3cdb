"""Answers from a bank, with tiny models: their sources, and the state these are in."""

import io
import json
import shutil
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mbc_engine import Memory, ingest, open_bank
from mbc_engine.answer import AskOptions
from mbc_engine.bank import Banks, MemoryBank, Selection
from mbc_engine.config import ConfidenceSettings
from mbc_engine.errors import BankError, ConfigError, ModelError, ModelMismatch
from mbc_engine.ingestion.run import ingest_stream
from mbc_engine.paper.mbc import MBC
from mbc_engine.paper.memories import BankMemory
from mbc_engine.paper.reads import Reading
from mbc_engine.ranking import Hit
from mbc_engine.sources import Passages, best_sentences, matches
from mbc_engine.text import split_sentences
from mbc_engine.text.chunks import Chunker


def test_an_answer_names_sources_and_their_state(tiny: Any, remember: Any, folder: Path) -> None:
    memory = remember(tiny.model(), folder)
    (folder / "1.txt").unlink()
    (folder / "2.txt").write_text("Changed since.")
    reply = memory.ask(["Who won?"], sources=4)[0]
    states = {Path(source.path).stem: source.state for source in reply.sources}
    assert states == {"0": "unchanged", "1": "gone", "2": "changed", "3": "unchanged"}
    assert all((source.sentence is None) == (source.state != "unchanged") for source in reply.sources)
    assert sum(source.share for source in reply.sources) == pytest.approx(1, abs=1e-4)


def test_a_row_is_named_as_part_of_its_file(tiny: Any, remember: Any, tmp_path: Path) -> None:
    model, path = tiny.model(), tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"id": name, "text": f"{name} moved."}) for name in ("ada", "bruno")))
    reply = remember(model, path).ask(["Who moved?"])[0]
    assert {(source.path, source.part, source.sentence) for source in reply.sources} == {
        (str(path), "ada", "ada moved."),
        (str(path), "bruno", "bruno moved."),
    }


def test_of_several_origins_one_that_is_still_there_is_named(tiny: Any, remember: Any, tmp_path: Path) -> None:
    model = tiny.model()
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("Ada moved to Bergen.")
    memory = remember(model, tmp_path / "a.txt", tmp_path / "b.txt")
    (tmp_path / "a.txt").unlink()
    (source,) = memory.ask(["Who moved?"])[0].sources
    assert (source.path, source.state) == (str(tmp_path / "b.txt"), "unchanged")


def test_a_bank_without_origins_names_contents(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc", keeps_origins=False) as bank:
        list(ingest(model, bank, [folder]))
        known = {document.digest for document in bank.documents()}
        reply = Memory(bank, model).ask(["Who won?"], sources=4, selection=Selection())[0]
    assert {source.path for source in reply.sources} == known
    assert {(source.state, source.sentence, source.date) for source in reply.sources} == {("unknown", None, None)}


def test_sides_with_encoders_of_different_width_find_sentences(tiny: Any, remember: Any, folder: Path) -> None:
    reply = remember(tiny.model("gpt2", "t5", f"model.questions.name={tiny.encoders['bert']}"), folder).ask(
        ["Who won?"]
    )[0]
    assert reply.sources[0].sentence in Path(reply.sources[0].path).read_text()


def test_an_empty_bank_says_so(tiny: Any, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank, pytest.raises(BankError, match="is empty"):
        Memory(bank, model).ask(["Who?"])


def test_another_models_bank_is_not_asked(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, other = tiny.model(), tiny.model()
    other.codebook.books.data.add_(1)
    with open_bank(model, tmp_path / "b.mbc") as bank, pytest.raises(ModelMismatch, match="was written by model"):
        Memory(bank, other).open()


def test_what_came_from_standard_input_is_not_called_gone(tiny: Any, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest_stream(model, bank, io.BytesIO(b"Ada moved to Bergen.")))
        (source,) = Memory(bank, model).ask(["Who moved?"])[0].sources
    assert (source.state, source.sentence) == ("unknown", None)


def test_a_row_that_is_lost_is_gone(tiny: Any, remember: Any, tmp_path: Path) -> None:
    model, path = tiny.model(), tmp_path / "rows.jsonl"
    path.write_text('{"id": "ada", "text": "Ada moved."}')
    memory = remember(model, path)
    path.write_text('{"id": "bruno", "text": "Bruno moved."}')
    (source,) = memory.ask(["Who moved?"])[0].sources
    assert source.state == "gone"


def chunk_of(bank: MemoryBank, name: str, ordinal: int = 0) -> Hit:
    """A chunk of the file of that name, as if a read had named it."""
    chunks = bank.chunks_at(range(bank.totals().chunks))
    places = [(Path(chunk.document.origins[0].source).name, chunk.ordinal) for chunk in chunks]
    return Hit(places.index((name, ordinal)), 0.5, 0)


def closest(model: MBC, question: str, passage: str) -> str:
    """The sentence with the largest product with the question, one at a time."""
    sentences = [" ".join(passage[start:end].split()) for start, end in split_sentences(passage)]
    wanted = model.sentence_vectors([question])[0]
    return max(sentences, key=lambda sentence: float(model.sentence_vectors([sentence])[0] @ wanted))


class NoEncoder:
    """Compares nothing."""

    def sentence_vectors(self, texts: object) -> Any:
        raise AssertionError


@pytest.fixture
def long_document(tmp_path: Path) -> Path:
    """Six sentences, which take more than one chunk of 30 tokens."""
    path = tmp_path / "long.txt"
    sentences = [
        "Ada moved to Bergen in the spring.",
        "The river rose,\nand nobody was hurt.",
        "Hugo moved to Haifa.",
        "Who left the town in the winter?",
        "The old painter moved to Izmir in the spring.",
        "Irene moved to the coast. The old bridge held.",
    ]
    path.write_text("\n\n".join(sentences))
    return path


def test_the_sentence_is_the_closest_of_its_own_passage(tiny: Any, long_document: Path) -> None:
    model = tiny.model()
    passages = model.chunker(long_document.read_text())
    assert len(passages) > 1
    questions = ["Why?", "Who was it?", "A flood, perhaps?"]  # words that no passage has
    wanted = [(question, passage) for question in questions for passage in [*passages, None]]
    found = best_sentences(wanted, model.sentence_vectors)
    assert found == [None if passage is None else closest(model, question, passage) for question, passage in wanted]
    assert best_sentences([("Who?", None)], model.sentence_vectors) == [None]
    assert best_sentences([], model.sentence_vectors) == []
    first = ["The old painter moved to Izmir in the spring."] * 2
    assert best_sentences([("Why?", "\n\n".join(first))]) == first[:1]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Who moved to Haifa?", "Hugo moved to Haifa."),
        ("Did bridges hold in the spring?", "The old bridge held."),
        ("wo liegt HAIFA", "Hugo moved to Haifa."),
        ("Überschwemmung", "Eine U\u0308berschwemmung traf die Stadt."),
        ("наводнение в городе", "Наводнение было очень сильным."),
    ],
)
def test_words_that_few_sentences_have_decide_before_meaning(question: str, sentence: str) -> None:
    passage = (
        "Ada moved in spring. Hugo moved to Haifa.\nIrene moved in spring. The old bridge held.\n"
        "Eine U\u0308berschwemmung traf die Stadt. Наводнение было очень сильным."
    )
    assert best_sentences([(question, passage)], NoEncoder().sentence_vectors) == [sentence]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("Who repairs bridges?", ["Bridge", "repaired"]),
        ("the", ["The", "the"]),
        ("aalen MÜLLER", ["Mu\u0308llers", "Mu\u0308ller", "Aalen"]),
        ("nothing", []),
    ],
)
def test_words_of_a_query_are_found_in_every_form(query: str, words: list[str]) -> None:
    text = "The Bridge was repaired by the Mu\u0308llers, Mu\u0308ller & Co. of Aalen."
    assert [text[start:end] for start, end in matches(query, text)] == words


def test_a_heading_is_shown_only_where_there_is_no_sentence(tiny: Any, remember: Any, tmp_path: Path) -> None:
    model, texts = tiny.model(), {"story.txt": "The bridge\n\nA storm took it in May.", "title.txt": "The bridge"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    sources = remember(model, *(tmp_path / name for name in texts)).ask(["The bridge"])[0].sources
    shown = {Path(source.path).name: source.sentence for source in sources}
    assert shown == {"story.txt": "A storm took it in May.", "title.txt": "The bridge"}


@pytest.mark.parametrize("keeps_text", [True, False])
def test_where_chunks_are_made_otherwise_since_the_bank_knows_the_text(
    tiny: Any, long_document: Path, tmp_path: Path, keeps_text: bool
) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc", keeps_text=keeps_text) as bank:
        list(ingest(model, bank, [long_document]))
        chunks = [chunk_of(bank, "long.txt", ordinal).chunk for ordinal in (0, 1)]
        usual = Passages(bank, model.chunker).of(chunks)
        wider = Chunker(model.chunker.tokenizer, 1000)
        whole, beyond = Passages(bank, wider).of(chunks).values()
    assert (whole.state, beyond.state) == ("unchanged", "unchanged")
    if keeps_text:
        assert [whole.passage, beyond.passage] == [own.passage for own in usual.values()]
        assert (whole.text_from, beyond.text_from) == ("file", "file")
    else:
        assert (whole.passage, beyond.passage, beyond.text_from) == (long_document.read_text(), None, None)


def test_a_passage_says_where_it_starts(tiny: Any, long_document: Path, tmp_path: Path) -> None:
    model, text = tiny.model(), long_document.read_text()
    with open_bank(model, tmp_path / "b.mbc", keeps_text=True) as bank:
        list(ingest(model, bank, [long_document]))
        chunks = range(bank.totals().chunks)
        from_file = Passages(bank, model.chunker).of(chunks)
        long_document.unlink()
        from_bank = Passages(bank, model.chunker).of(chunks)
    for own, other in zip(from_file.values(), from_bank.values(), strict=True):
        assert own.passage == text[own.start : own.start + len(own.passage)] == other.passage
        assert (own.start, own.text_from, other.text_from) == (other.start, "file", "bank")


def test_the_papers_model_shows_sentences_of_files_that_are_gone_where_the_bank_keeps_text(
    tiny: Any, remember: Any, folder: Path
) -> None:
    memory = remember(tiny.model(), folder, keeps_text=True)
    (before,) = memory.ask(["Who won?"])
    shutil.rmtree(folder)
    (after,) = memory.ask(["Who won?"])
    assert (before.text, before.gain) == (after.text, after.gain)
    assert [own.sentence for own in before.sources] == [own.sentence for own in after.sources]
    assert all(own.sentence and own.text_from == "bank" for own in after.sources)


def test_only_what_was_asked_for_is_read_and_named(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model("gpt2", "bert", "model.routing=true")
    with open_bank(model, tmp_path / "b.mbc") as bank, open_bank(model, tmp_path / "part.mbc") as part:
        list(ingest(model, bank, [folder]))
        list(ingest(model, part, [folder / "1.txt", folder / "3.txt"]))
        for mode in ("flat", "routed:1", "hierarchical:2"):
            options = {"read_mode": mode, "sources": 4}
            (chosen,) = Memory(bank, model).ask(["Who won?"], selection=Selection(only=("1.txt", "3.*")), **options)
            (alone,) = Memory(part, model).ask(["Who won?"], **options)
            assert {source.path for source in chosen.sources} == {str(folder / "1.txt"), str(folder / "3.txt")}
            assert chosen.text == alone.text
            assert chosen.gain == pytest.approx(alone.gain, abs=1e-4)
            found = {source.path: source.share for source in chosen.sources}
            assert found == pytest.approx({source.path: source.share for source in alone.sources}, rel=1e-3)


def test_an_unchanged_bank_is_the_same_memory_again(
    tiny: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, read = tiny.model(), []
    real = MBC.read
    monkeypatch.setattr(
        MBC, "read", lambda self, asked, memory, **more: read.append(memory) or real(self, asked, memory, **more)
    )
    with open_bank(model, tmp_path / "b.mbc") as bank, open_bank(model, tmp_path / "b.mbc") as other:
        list(ingest(model, bank, [folder]))
        memory = Memory(bank, model)
        for selection in (None, Selection(), Selection(only=("1.txt",)), None):
            memory.ask(["Who won?"], selection=selection)
        other.remove([(str(folder / "1.txt"), "")])
        (reply,) = memory.ask(["Who won?"], sources=4)
        first, everything, part, again, changed = read
        assert first is everything is again
        assert len({id(first), id(part), id(changed)}) == 3
        assert (len(changed), len(reply.sources)) == (3, 3)


def test_a_selection_that_nothing_fits_says_so(tiny: Any, remember: Any, folder: Path) -> None:
    memory = remember(tiny.model(), folder)
    for selection in (Selection(only=("*.pdf",)), Selection(as_of=date(1900, 1, 1))):
        with pytest.raises(BankError, match=r"No document in .* matches") as refused:
            memory.ask(["Who won?"], selection=selection)
        assert "--only" in str(refused.value.hint)


def test_a_judgement_holds_for_the_models_own_read(tiny: Any, remember: Any, folder: Path) -> None:
    model = tiny.model()
    settings = ConfidenceSettings(slope=1, intercept=0, from_memory=1, from_model=0)
    model.settings = model.settings.model_copy(update={"confidence": settings})
    memory = remember(model, folder)
    judged = [
        memory.ask(["Who won?"], read_mode=mode)[0].confidence is not None for mode in (None, "flat", "hierarchical:2")
    ]
    assert judged == [True, True, False]
    assert memory.ask(["Who won?"], read_mode="flat", min_confidence=0)[0].text is not None


def test_gains_that_are_no_numbers_are_an_error(tiny: Any, remember: Any, folder: Path) -> None:
    model = tiny.model()
    memory = remember(model, folder)
    model.base.log_likelihood = lambda *_: torch.tensor([0.0, -torch.inf])
    with pytest.raises(ModelError, match="NaN or infinite likelihoods") as refused:
        memory.ask(["Who won?"])
    assert refused.value.hint


@pytest.mark.parametrize("mode", ["flat", "routed", "hierarchical:2"])
def test_the_codes_an_answer_read_are_given_if_asked_for(
    tiny: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    model, questions = tiny.model("gpt2", "bert", "model.routing=true"), ["Who won?", "Who moved?"]
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        memory = Memory(bank, model)
        codes = BankMemory(bank, model.codebook)
        replies = memory.ask(questions, read_mode=mode, with_codes=True)
        expected = model.read(questions, codes, read_mode=mode, top=3).codes
        for reply, own in zip(replies, expected, strict=True):
            assert np.array_equal(reply.codes, own)
            assert reply.codes.shape == bank.counts().shape
            assert not reply.codes[bank.counts() == 0].any()
        monkeypatch.setattr(Reading, "codes", property(lambda _: pytest.fail("looks for codes")))
        assert [reply.codes for reply in memory.ask(questions, read_mode=mode)] == [None, None]


@pytest.mark.parametrize("mode", ["flat", "routed"])
def test_an_answer_without_sources_does_not_look_for_them(
    tiny: Any, remember: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    model = tiny.model("gpt2", "bert", "model.routing=true")
    questions = ["Who won?", "Who moved?"]
    memory = remember(model, folder)
    usual = memory.ask(questions, read_mode=mode)
    monkeypatch.setattr(Reading, "sources", property(lambda _: pytest.fail("looks for documents")))
    replies = memory.ask(questions, read_mode=mode, sources=0)
    assert [reply.text for reply in replies] == [reply.text for reply in usual]
    assert [reply.sources for reply in replies] == [(), ()]


@pytest.mark.parametrize(("least", "is_answered"), [(None, True), (0.0, True), (0.4, True), (0.6, False)])
def test_an_answer_below_the_confidence_asked_for_is_withheld(
    tiny: Any, remember: Any, folder: Path, least: float | None, is_answered: bool
) -> None:
    model = tiny.model()
    settings = ConfidenceSettings(slope=1e-9, intercept=0, from_memory=1, from_model=0)  # always even odds
    model.settings = model.settings.model_copy(update={"confidence": settings})
    (reply,) = remember(model, folder).ask(["Who won?"], min_confidence=least)
    assert (reply.text is not None) is is_answered
    assert reply.confidence is not None
    assert (reply.confidence.probability, reply.confidence.label) == (pytest.approx(0.5), "unsure")


@pytest.mark.parametrize(
    ("slope", "mode", "message", "hint"),
    [
        (None, None, "is not calibrated", "mbc calibrate"),
        (0, None, "cannot tell whether its bank", "calibrate another model"),
        (1, "hierarchical:2", "calibrated for its own read, flat, not for hierarchical:2", "Leave out --read"),
    ],
)
def test_a_model_that_cannot_tell_withholds_nothing(
    tiny: Any, remember: Any, folder: Path, slope: float | None, mode: str | None, message: str, hint: str
) -> None:
    model, confidence = tiny.model(), None
    if slope is not None:
        confidence = ConfidenceSettings(slope=slope, intercept=0, from_memory=1, from_model=0)
    model.settings = model.settings.model_copy(update={"confidence": confidence})
    memory = remember(model, folder)
    with pytest.raises(ConfigError, match=message) as refused:
        memory.ask(["Who won?"], read_mode=mode, min_confidence=0.5)
    assert hint in str(refused.value.hint)


def test_each_part_of_the_work_has_its_own_time(
    tiny: Any, remember: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, now = tiny.model(), [0.0]

    def takes(seconds: float, work: Any) -> Any:
        def timed(*args: Any, **options: Any) -> Any:
            now[0] += seconds
            return work(*args, **options)

        return timed

    memory = remember(model, folder)
    monkeypatch.setattr("mbc_engine.memory.time", SimpleNamespace(perf_counter=lambda: now[0]))
    for name, seconds in (("read", 1), ("generate_answers", 2), ("memory_gains", 4)):
        monkeypatch.setattr(MBC, name, takes(seconds, getattr(MBC, name)))
    monkeypatch.setattr(Passages, "of", takes(8, Passages.of))
    (reply,) = memory.ask(["Who won?"])
    assert reply.seconds == {"search": 1, "answer": 6, "sources": 8}


def test_open_banks_read_as_one_are_not_written(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
    with Banks.open([tmp_path / "b.mbc"]) as banks:
        memory = Memory(banks, model)
        with pytest.raises(ConfigError, match="cannot be written"):
            list(memory.add([folder]))
        with pytest.raises(ConfigError, match="cannot be written"):
            memory.remove([str(folder / "1.txt")])


@pytest.mark.parametrize("wrong", [{"sources": -1}, {"beams": 0}, {"max_new_tokens": 0}, {"min_confidence": 1.5}])
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"--{next(iter(wrong)).replace('_', '-')}"):
        AskOptions(**wrong)
