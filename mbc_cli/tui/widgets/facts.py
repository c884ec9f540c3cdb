"""Labelled values, one a line."""

from collections.abc import Sequence
from typing import Final

from rich.table import Table
from rich.text import Text
from textual.widgets import Static

from mbc_cli.text import plain

# So that the values of boxes above each other stand in one line.
_LABEL: Final = 9


class Facts(Static):
    """A short table of labels and values. Values may hold foreign text."""

    def show(self, facts: Sequence[tuple[str, str | Text]]) -> None:
        """Show these instead of the ones before."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True, min_width=_LABEL)
        table.add_column(overflow="fold")
        for label, value in facts:
            table.add_row(label, value if isinstance(value, Text) else Text(plain(value)))
        self.update(table)
