"""Bars."""

import pytest

from mbc_cli.tui.widgets.figures import bar


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0, ""), (1e-6, "▏"), (1 / 32, "▏"), (1 / 8, "▌"), (0.5, "██"), (0.65625, "██▋"), (1, "████")],
)
def test_bar(share, drawn):
    assert bar(share, 4) == drawn
