"""The passage of a source, and its share of the answer as a bar."""

import pytest

from mbc_cli.tui.widgets.answer import bar, clipped, passage_text
from tests.cli.stub_memory import source


@pytest.mark.parametrize(
    ("sentence", "passage", "plain", "underlined"),
    [
        (
            "Ada moved to Aalen.",
            "It rained.\nAda moved\n  to Aalen. So\x1b.",
            "It rained.\nAda moved\n  to Aalen. So␛.",
            ["Ada moved\n  to Aalen."],
        ),
        ("Ada moved.", "Ada\x0b\x1fmo\tved.", "Ada␋␟mo ved.", []),
        ("Ada moved.", "Ada\x0b moved.\r\nWhy?", "Ada␋ moved. \nWhy?", ["Ada␋ moved."]),
        ("Bruno moved.", "Ada moved.", "Ada moved.", []),
        (None, "Ada moved.", "Ada moved.", []),
        (None, None, "The text is no longer available.", []),
    ],
)
def test_sentence_is_underlined(sentence, passage, plain, underlined):
    content = passage_text(source(sentence=sentence, passage=passage))
    assert content.plain == plain
    assert [plain[span.start : span.end] for span in content.spans] == underlined


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
