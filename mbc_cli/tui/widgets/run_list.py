"""Training runs to choose from, two lines each."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from mbc_cli.text import plain


@dataclass(frozen=True)
class RunLine:
    """What the list says of a run.

    Attributes:
        key: what the run is chosen by.
        sign: a character in front of the name; " " for a run that is not looked at.
    """

    key: str
    sign: str
    name: str
    detail: str


class RunList(OptionList):
    """A list of runs; choosing one posts `OptionList.OptionSelected` with its key."""

    DEFAULT_CSS = """
    RunList {
        border: round $surface-lighten-2; border-title-color: $text; border-subtitle-color: $text-muted; padding: 0;
        background: transparent; text-wrap: nowrap; text-overflow: ellipsis;
        &:focus { border: round $accent; }
    }
    """

    def __init__(self, title: str, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self.border_title = title
        self._runs: dict[str, RunLine] = {}

    def show(self, lines: Sequence[RunLine]) -> None:
        """Show these runs instead of the ones before; the highlight stays on its run."""
        new = {line.key: line for line in lines}
        if new.keys() == self._runs.keys() and [*new] == [*self._runs]:
            for key, line in new.items():
                if line != self._runs[key]:
                    self.replace_option_prompt(key, _written(line))
        else:
            here = self.highlighted_option
            self.set_options([Option(_written(line), key) for key, line in new.items()])
            if here is not None and here.id in new:
                self.highlighted = [*new].index(here.id)
            elif new:
                self.highlighted = next((place for place, line in enumerate(lines) if line.sign.strip()), 0)
        self._runs = new

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Turning pages takes room for one, which Textual takes for granted."""
        return bool(self.scrollable_content_region) if action in ("page_up", "page_down") else True


def _written(line: RunLine) -> Text:
    return Text(f"{line.sign} {plain(line.name)}\n", "bold").append(f"  {plain(line.detail)}", "not bold")
