"""The passage of a source."""

import pytest

from mbc_cli.tui.widgets.answer import bar, clipped, passage_text
from mbc_engine.answer import Source


def underlined(sentence, passage):
    """The text of a passage, and what is underlined in it."""
    source = Source("a.txt", "", 0.5, 0, "unchanged", sentence, passage, "file", 0, None, "memory.mbc")
    content = passage_text(source)
    return content.plain, [content.plain[span.start : span.end] for span in content.spans]


@pytest.mark.parametrize(
    ("passage", "plain", "marked"),
    [
        (
            "It rained.\nAda moved\n  to Aalen. So\x1b.",
            "It rained.\nAda moved\n  to Aalen. So␛.",
            "Ada moved\n  to Aalen.",
        ),
        ("Ada moved\x0b\x1fto\tAalen.", "Ada moved␋␟to Aalen.", "Ada moved␋␟to Aalen."),
        ("Ada moved to Aalen.\r\nWhy?", "Ada moved to Aalen. \nWhy?", "Ada moved to Aalen."),
    ],
)
def test_sentence_is_underlined(passage, plain, marked):
    assert underlined("Ada moved to Aalen.", passage) == (plain, [marked])


def test_no_sentence():
    assert underlined(None, "Ada moved.") == ("Ada moved.", [])
    assert underlined("Bruno moved.", "Ada moved.") == ("Ada moved.", [])


def test_no_passage():
    text, _ = underlined(None, None)
    assert text == "The text is no longer available."


@pytest.mark.parametrize(
    ("text", "short"),
    [("Ada\n moved.", "Ada moved."), ("Ada moved to Aalen.", "Ada moved …"), ("日" * 20, "日" * 10 + " …")],
)
def test_long_sentence_is_cut(text, short):
    assert clipped(text, 12) == short


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0, ""), (1e-6, "▏"), (1 / 32, "▏"), (1 / 8, "▌"), (0.5, "██"), (0.65625, "██▋"), (1, "████")],
)
def test_bar(share, drawn):
    assert bar(share, 4) == drawn
