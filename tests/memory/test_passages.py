"""Passages of chunks, from their files or the bank, and the sentences in them."""

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from mbc_engine import Memory, ingest, open_bank
from mbc_engine.bank.words import stems_of
from mbc_engine.sources import Passages, best_sentence, content_stems, matches
from tests.text_models import StandIn


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Who moved to Haifa?", "Hugo moved to Haifa."),
        ("Did bridges hold in the spring?", "The old bridge held."),
        ("wo liegt HAIFA", "Hugo moved to Haifa."),
        ("Irenes moves", "Irene moved in spring."),
        ("Überschwemmung", "Eine U\u0308berschwemmung traf die Stadt."),
        ("наводнение в городе", "Наводнение было очень сильным."),
        ("A flood, perhaps?", "Ada moved in spring."),
    ],
)
def test_best_sentence_shares_rare_words(question, sentence):
    passage = (
        "Ada moved in spring. Hugo moved to Haifa.\nIrene moved in spring. The old bridge held.\n"
        "Eine U\u0308berschwemmung traf die Stadt. Наводнение было очень сильным."
    )
    assert best_sentence(question, passage) == sentence


@pytest.mark.parametrize(
    ("passage", "sentence"),
    [
        ("The bridge\n\nA storm took it in May.", "A storm took it in May."),
        ("The bridge", "The bridge"),
        ("  --bridge\n      A storm took it.\n  --river\n      The flood took it.", "--bridge A storm took it."),
    ],
)
def test_heading_is_the_last_resort(passage, sentence):
    assert best_sentence("The bridge", passage) == sentence


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("Who repairs bridges?", ["Bridge", "repaired"]),
        ("the", ["The", "the"]),
        ("aalen MÜLLER", ["Mu\u0308llers", "Mu\u0308ller", "Aalen"]),
        ("nothing", []),
    ],
)
def test_matches_of_any_form(query, words):
    text = "The Bridge was repaired by the Mu\u0308llers, Mu\u0308ller & Co. of Aalen."
    assert [text[start:end] for start, end in matches(query, text)] == words


@pytest.fixture
def recoded(tiny, folder, tmp_path, monkeypatch):
    """A model, a bank whose texts only a language model can decode, and that model."""
    model = tiny.retriever_reader("Nobody")
    for path in folder.glob("*.txt"):
        path.write_text(f"  Story {path.stem}. " + "It rained. Nobody won in ten races. " * 8)
    texts = StandIn("".join(path.read_text() for path in folder.glob("*.txt")))
    bank = open_bank(model, tmp_path / "b.mbc")
    list(ingest(model, bank, [folder]))
    list(bank.recode_texts(texts.open, to_lm=True))
    assert bank.text_state().lm_texts == bank.totals().chunks > 4
    monkeypatch.setattr("mbc_engine.sources.text_model", texts.open)
    return model, bank, texts


def test_slow_texts_are_decoded_together_and_only_if_no_file_has_them(recoded, tiny, folder):
    model, bank, texts = recoded
    announced: list[int] = []

    def passages(chunker=model.chunker):
        texts.decoded.clear()
        announced.clear()
        return Passages(bank, chunker, lambda count: announced.append(count) or nullcontext())

    with bank:
        chunks = range(bank.totals().chunks)
        before = passages().of(chunks)
        assert {source.text_from for source in before.values()} == {"file"}
        assert (texts.decoded, announced) == ([], [])
        (folder / "1.txt").unlink()
        (folder / "2.txt").write_text("Changed since.")
        found = passages()
        after = found.of(chunks)
        assert found.of(chunks) == after
        gone = [chunk for chunk in chunks if after[chunk].state != "unchanged"]
        assert texts.decoded == announced == [len(gone)]
        assert {after[chunk].text_from for chunk in gone} == {"bank"}
        assert [(own.passage, own.start) for own in after.values()] == [
            (own.passage, own.start) for own in before.values()
        ]
        # Files that would be chunked differently today do not replace what the bank keeps.
        narrow = passages(tiny.retriever_reader(window=12).chunker).of(chunks)
        assert [own.passage for own in narrow.values()] == [own.passage for own in before.values()]
        assert texts.decoded != []


def test_a_question_decodes_texts_in_one_batch(recoded, folder, monkeypatch):
    model, bank, texts = recoded
    shutil.rmtree(folder)
    with bank:
        memory = Memory(bank, model)
        memory.ask(["Who won the race?"], sources=4)
        model.reader_settings = model.reader_settings.model_copy(update={"passages": 1, "further": 0})
        memory.ask(["Who won the race?"], sources=0)
        monkeypatch.setattr("mbc_engine.sources._WORTH_DECODING", 1.1)
        (answer,) = memory.ask(["Who won the race?"], sources=4)
    assert len(texts.decoded) == 3
    assert texts.decoded[0] >= 4
    assert texts.decoded[1:] == [1, 1]
    first, *others = [source.passage is not None for source in answer.sources]
    assert first and others and not any(others)


def test_a_search_decodes_only_what_it_shows(recoded, folder):
    model, bank, texts = recoded
    with bank:
        memory = Memory(bank, model)
        (before,) = memory.search(["story"], top=3)
        assert texts.decoded == []
        Path(before[0].path).unlink()
        gone = [source.path == before[0].path for source in before]
        (files,) = memory.search(["story"], top=3, with_text=False)
        assert texts.decoded == []
        (after,) = memory.search(["story"], top=3)
        assert texts.decoded == [sum(gone)]
    assert "reader" not in vars(model)
    assert [(own.path, own.share) for own in files] == [(own.path, own.share) for own in before]
    assert [(own.passage is None, own.sentence) for own in files] == [(is_gone, None) for is_gone in gone]
    assert [(own.passage, own.sentence) for own in after] == [(own.passage, own.sentence) for own in before]
    assert [own.text_from for own in after] == ["bank" if is_gone else "file" for is_gone in gone]


def test_numbers_apart_are_not_read_as_one():
    """Whatever the order of a set of words, which differs from process to process."""
    numbers = ["100", *map(str, range(5, 60, 5)), *map(str, range(200, 240))]
    assert content_stems(" euros, ".join(numbers)) == {*numbers, "euro"}
    assert stems_of("7", "100") == {"7", "100"}


def test_common_words_with_capitals_are_no_content():
    assert content_stems("What Is The Capital Of France?") == {"capit", "franc"}
    assert content_stems("When Did The Who Play?") == {"play"}
    assert "the who" in content_stems("The Who")
