"""A form for a new training.

Training runs to choose from, two lines each.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.suggester import Suggester, SuggestFromList
from textual.widgets import Button, Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from mbc_cli.text import plain


@dataclass(frozen=True)
class Filled:
    """What was typed. `data` and `settings` are split as a shell would."""

    preset: str
    data: tuple[str, ...]
    validation: str
    run: str
    settings: tuple[str, ...]


class RunForm(ModalScreen[None]):
    """Asks what to train on what. It stays until the training is at work, to show why it is not.

    Args:
        presets: the names to suggest; a TOML file is taken as well.
        start: takes the filled form.
    """

    DEFAULT_CSS = """
    RunForm {
        align: center middle;
        & > VerticalScroll {
            width: 76; max-width: 96%; height: auto; max-height: 96%;
            padding: 1 2; border: round $accent; background: $surface;
        }
        & Horizontal { height: auto; }
        & .field { margin-bottom: 1; }
        & .field Label { width: 12; color: $text-muted; }
        & .field Input { width: 1fr; }
        & #buttons { align-horizontal: right; }
        & Button { margin-left: 2; }
        & #words { height: auto; min-height: 1; margin-bottom: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "Close")]

    def __init__(self, presets: Sequence[str], start: Callable[[Filled], None]) -> None:
        super().__init__()
        self._presets, self._start = presets, start

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False) as box:
            box.border_title, box.border_subtitle = "New training", "Enter starts, Escape closes"
            yield from _field(
                "Preset",
                "preset",
                "mini, the name of another preset, or a TOML file",
                suggester=SuggestFromList(self._presets),
            )
            yield from _field("Data", "data", "a .jsonl or .csv file, squad:train, newswire:train:5000")
            yield from _field("Validation", "validation", "the last 5% of the documents")
            yield from _field("Name", "run", "the preset's name and a number")
            yield from _field("Settings", "settings", "training.epochs=3 training.batch_size=32")
            yield Static(id="words")
            with Horizontal(id="buttons"):
                yield Button("Start", id="start", variant="primary", compact=True)
                yield Button("Close", id="close", compact=True)

    def on_mount(self) -> None:
        self.query_one("#preset").focus()

    def say(self, words: str) -> None:
        """Show a line, which may be foreign text, above the buttons."""
        self.query_one("#words", Static).update(Text(plain(words)))

    @on(Button.Pressed, "#close")
    def _close(self) -> None:
        self.dismiss()

    @on(Button.Pressed, "#start")
    @on(Input.Submitted)
    def _submit(self) -> None:
        try:
            data, settings = shlex.split(self._typed("data")), shlex.split(self._typed("settings"))
        except ValueError as error:
            self.say(f"Data and settings are split at spaces unless quoted: {error}.")
            return
        if not data:
            self.say("Trained on what? Give data: files, or newswire:train:5000.")
            self.query_one("#data").focus()
            return
        if not self._typed("preset"):
            self.say(f"Which preset? {', '.join(self._presets)}, or a TOML file.")
            self.query_one("#preset").focus()
            return
        self.say("Starting...")
        preset, validation, run = map(self._typed, ("preset", "validation", "run"))
        self._start(Filled(preset, tuple(data), validation, run, tuple(settings)))

    def _typed(self, field: str) -> str:
        return self.query_one(f"#{field}", Input).value.strip()


def _field(label: str, field: str, example: str, suggester: Suggester | None = None) -> ComposeResult:
    with Horizontal(classes="field"):
        yield Label(label)
        yield Input(placeholder=example, id=field, suggester=suggester, compact=True)


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
