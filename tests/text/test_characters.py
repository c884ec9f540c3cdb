"""What is read of characters that are not seen."""

import io

import pytest

from mbc_engine.answer import Source
from mbc_engine.text import read_stream
from mbc_engine.text.characters import on_one_line, readable, spellings

JOINED = "\u0645\u06cc\u200c\u062e\u0648 \N{MAN}\u200d\N{WOMAN} \uff21"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Ge\u00adsamt\u200bkon\u2060zept\n\tZo\u00eb", "Gesamtkonzept\n\tZo\u00eb"),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07 \x1bM\x07bell", "red  bell"),
        ("sta\ufb00 o\ufb03cer", "staff officer"),
        (JOINED, JOINED),
        ("a lone \ud800", "a lone \ud800"),
        ("N\bNA\bAM\bM _\bt_\bo", "NAM to"),
    ],
)
def test_what_is_not_seen_is_left_out(text, seen):
    assert readable(text) == seen


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("the light-\nhouse  of\n  Dag-\n finn", "the lighthouse of Dagfinn"),
        ("a well-\nknown state-of-the-\nart Rolls-\nRoyce", "a well-known state-of-the-art Rolls-Royce"),
        ("1939-\n1945 - \n x -\ny", "1939- 1945 - x - y"),
        ("-\na", "- a"),
    ],
)
def test_words_parted_by_the_end_of_a_line_are_joined(text, line):
    assert on_one_line(text) == line


def test_a_parted_word_is_also_spelled_whole():
    assert list(spellings("re-\n  sponsible")) == ["re-\n  sponsible", "responsible"]


@pytest.mark.parametrize(
    "data", [b"Crew\n\0\0The log of\0Zo\xc3\xab.\n", b"Crew\n\0The log of Zo\xc3\xab." + b"\0" * 5000]
)
def test_nuls_in_a_text_are_spaces(data):
    (document,) = read_stream(io.BytesIO(data))
    assert document.text.split()[:3] == ["Crew", "The", "log"]
    assert "\0" not in document.text


@pytest.mark.parametrize(("sentence", "found"), [("The lighthouse of well-known Dagfinn.", True), ("No house.", False)])
def test_a_sentence_is_found_where_its_words_are_parted(sentence, found):
    passage = "Stad. The light-\n house of well-\nknown\nDag-\nfinn. End"
    span = Source("/a", "", 1.0, 0, "unchanged", sentence, passage, "file", 0, None, "b").span()
    assert span == ((6, len(passage) - 4) if found else None)
