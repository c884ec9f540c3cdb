"""What is read of characters that are not seen."""

import io

import pytest

from mbc_engine.text import Document, read_stream
from mbc_engine.text.characters import readable


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Ge\u00adsamt\u200bkon\u2060zept\n\tZo\u00eb", "Gesamtkonzept\n\tZo\u00eb"),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07 \x1bM\x07bell", "red  bell"),
        ("sta\ufb00 o\ufb03cer", "staff officer"),
        (
            "\u0645\u06cc\u200c\u062e\u0648 \N{MAN}\u200d\N{WOMAN} \uff21",
            "\u0645\u06cc\u200c\u062e\u0648 \N{MAN}\u200d\N{WOMAN} \uff21",
        ),
        ("a lone \ud800", "a lone \ud800"),
        ("N\bNA\bAM\bM _\bt_\bo", "NAM to"),
    ],
)
def test_what_is_not_seen_is_left_out(text: str, seen: str) -> None:
    assert readable(text) == seen


@pytest.mark.parametrize(
    "data", [b"Crew\n\0\0The log of\0Zo\xc3\xab.\n", b"Crew\n\0The log of Zo\xc3\xab." + b"\0" * 5000]
)
def test_nuls_in_a_text_are_spaces(data: bytes) -> None:
    (document,) = read_stream(io.BytesIO(data))
    assert isinstance(document, Document)
    assert document.text.split()[:3] == ["Crew", "The", "log"]
    assert "\0" not in document.text
