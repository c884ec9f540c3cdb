"""Amounts beside each other as bars, the largest as long as there is room."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text
from textual.widget import Widget

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Bar:
    """An amount, its name, and how it is told."""

    label: str
    amount: float
    told: str


class Bars(Widget):
    """A bar a line. Even the smallest amount above zero is seen."""

    DEFAULT_CSS = """
    Bars { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._bars: tuple[Bar, ...] = ()

    def show(self, bars: Sequence[Bar]) -> None:
        """Show these instead of the ones before."""
        if tuple(bars) != self._bars:
            self._bars = tuple(bars)
            self.refresh(layout=True)

    def render(self) -> Text:
        """The lines."""
        if not self._bars:
            return Text()
        labels = max(len(bar.label) for bar in self._bars)
        told = max(len(bar.told) for bar in self._bars)
        width = max(1, self.content_size.width - labels - told - 3)
        most = max(bar.amount for bar in self._bars) or 1
        lines = []
        for bar in self._bars:
            drawn = drawn_bar(bar.amount / most, width)
            lines.append(
                Text.assemble((f"{bar.label:<{labels}} ", "dim"), f"{drawn:<{width}}  {bar.told:>{told}}", no_wrap=True)
            )
        return Text("\n").join(lines)


def drawn_bar(share: float, width: int) -> str:
    """A bar as long as a share of the width, in eighths of a cell; full only where the share is all."""
    eighths = int(share * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    full, part = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[part] if part else "")
