"""Labelled values in a box, and bars."""

from collections.abc import Sequence
from typing import Final

from rich.table import Table as Grid
from rich.text import Text
from textual.containers import Vertical
from textual.widgets import Static

from mbc_cli.text import sanitise

_LABEL_WIDTH: Final = 10  # aligns the values of stacked boxes
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def box(title: str, *, id: str | None = None) -> Vertical:
    """A panel with a title in its border, for a `with` statement in `compose`."""
    panel = Vertical(id=id, classes="panel box")
    panel.border_title = title
    return panel


class Facts(Static):
    """A short table of labels and values. Values may be untrusted text."""

    def show(self, facts: Sequence[tuple[str, str | Text]]) -> None:
        table = Grid.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True, min_width=_LABEL_WIDTH)
        table.add_column(overflow="fold")
        for label, value in facts:
            table.add_row(label, value if isinstance(value, Text) else Text(sanitise(value)))
        self.update(table)


def bar(share: float, width: int) -> str:
    """A bar in eighths of a cell; never empty above 0, full only at 1."""
    eighths = max(int(share * width * 8), int(share > 0))
    full, part = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[part] if part else "")
