"""User input: confirmations, forms and files."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from typing import ClassVar, Final

from rich.table import Table
from rich.text import Text, TextType
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Button, Checkbox, DirectoryTree, Input, Label, Markdown, Static, TabPane, TextArea
from textual.widgets.directory_tree import DirEntry
from textual.widgets.tree import TreeNode

from mbc_cli.formatting import sanitise

_MAX_NODES: Final = 1000  # of a folder; others can be reached by typing a path


class PlainCheckbox(Checkbox):
    """A label after [x] or [ ], which works without colour."""

    BUTTON_LEFT, BUTTON_RIGHT = "", ""

    @property
    def BUTTON_INNER(self) -> str:  # type: ignore[override]  # noqa: N802  # Textual's name
        return "[x]" if self.value else "[ ]"


class Confirm(ModalScreen[bool]):
    """Asks for confirmation; Enter alone, Escape and a click outside mean no. May show untrusted text."""

    AUTO_FOCUS = "#no"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape", "dismiss(False)", "No"),
        Binding("left,right", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, yes: str, no: str) -> None:
        super().__init__()
        self._question, self._yes, self._no = question, yes, no

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as box:
            box.border_subtitle = Text(f"y: {sanitise(self._yes.lower())}, n: {sanitise(self._no.lower())}")
            yield Static(Text(sanitise(self._question)))
            with Horizontal(classes="buttons"):
                yield Button(Text(sanitise(self._yes)), id="yes", variant="warning", compact=True)
                yield Button(Text(sanitise(self._no)), id="no", compact=True)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.dismiss(False)


class Keys(ModalScreen[None]):
    """The keys of a view and of the dashboard, those in the footer first, and what the view is for."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark", "dismiss", "Close")]

    def __init__(self, about: str, bindings: Iterable[ActiveBinding]) -> None:
        super().__init__()
        self._about = about
        shown = [one for one in bindings if one.binding.show or isinstance(one.node, App | TabPane)]
        self._active = sorted(shown, key=lambda one: not one.binding.show)

    def compose(self) -> ComposeResult:
        keys: dict[tuple[str, str], list[str]] = {}
        for _, binding, _, _ in self._active:
            keys.setdefault((binding.action, binding.description), []).append(self.app.get_key_display(binding))
        table = Table.grid(padding=(0, 2))
        for (_, description), shown in keys.items():
            table.add_row(Text(" ".join(shown), "bold"), description)
        with VerticalScroll(classes="dialog") as box:
            box.border_title, box.border_subtitle = "Keys", "Escape: close"
            yield Static(table)
            yield Markdown(cleandoc(self._about))


class QuestionLine(TextArea):
    """A field that grows with its text, which Enter submits."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", show=False)]

    @dataclass
    class Submitted(Message):
        """What was typed; the line is empty again."""

        text: str

    def action_submit(self) -> None:
        self.post_message(self.Submitted(self.text))
        self.clear()

    async def _on_key(self, event: events.Key) -> None:
        # The app would run a key's binding before the characters that wait here, or after those that follow.
        active = None if event.is_printable else self.screen.active_bindings.get(event.key)
        if active is not None and await self.app.run_action(active.binding.action, active.node):
            event.stop()
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.text = "\n".join(map(sanitise, event.text.splitlines()))  # TextArea draws text as it is

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Up in the first line and Down in the last are left to the view."""
        can = {"cursor_up": not self.cursor_at_first_line, "cursor_down": not self.cursor_at_last_line}
        return can.get(action, True)


def existing_path(typed: str) -> Path:
    """The file or folder that was typed; ~ is the home folder. Raises ValueError if it cannot be opened."""
    try:
        return Path(typed or ".").expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ValueError(f"{typed}: {reason}") from error


class FolderTree(DirectoryTree):
    """What can be ingested: no hidden files, and only a folder's first thousand entries. Names are untrusted text."""

    ICON_NODE_EXPANDED, ICON_NODE, ICON_FILE = "▾ ", "▸ ", "  "
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "cursor_up", show=False),
        Binding("j", "cursor_down", show=False),
    ]

    @property
    def chosen(self) -> Path | None:
        node = self.cursor_node
        return None if node is None or node.data is None else Path(node.data.path)

    async def show(self, path: Path) -> None:
        is_folder = await asyncio.to_thread(path.is_dir)
        self.set_reactive(FolderTree.path, path if is_folder else path.parent)
        await self.watch_path()
        for node in self.root.children:
            if not is_folder and node.data is not None and node.data.path.name == path.name:
                self.move_cursor(node)

    def process_label(self, label: TextType) -> Text:
        return Text(sanitise(label) or "/", no_wrap=True)

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        return (path for path in paths if not path.name.startswith("."))

    def _populate_node(self, node: TreeNode[DirEntry], content: Iterable[Path]) -> None:
        paths = list(content)
        super()._populate_node(node, paths[:_MAX_NODES])
        if len(paths) > _MAX_NODES:
            node.add_leaf(f"… and {len(paths) - _MAX_NODES:,} more")


class Form(ModalScreen[None]):
    """Asks for text in fields, {name: (label, example)}; `submit` gets it, and returns or raises a message, "" to close.

    Examples, suggestions and messages may be untrusted text.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]

    def __init__(
        self,
        title: str,
        fields: Mapping[str, tuple[str, str]],
        submit: Callable[[dict[str, str]], str],
        *,
        button: str,
        suggestions: Mapping[str, Sequence[str]] = {},
    ) -> None:
        super().__init__()
        self._title, self._fields, self._submit_to, self._button = title, fields, submit, button
        self._suggestions = suggestions

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False, classes="dialog") as box:
            box.border_title, box.border_subtitle = self._title, f"Enter: {self._button.lower()}, Escape: close"
            for name, (label, example) in self._fields.items():
                with Horizontal(classes="field"):
                    yield Label(label)
                    # Input draws text as it is; what would have to be changed to be shown cannot be suggested.
                    safe = [text for text in self._suggestions.get(name, ()) if sanitise(text) == text]
                    yield Input(placeholder=sanitise(example), id=name, suggester=SuggestFromList(safe), compact=True)
            yield Static(id="words")
            with Horizontal(classes="buttons"):
                yield Button(self._button, id="submit", variant="primary", compact=True)
                yield Button("Close", id="close", compact=True)

    def show_message(self, words: str) -> None:
        self.query_one("#words", Static).update(Text(sanitise(words)))

    @on(Button.Pressed, "#close")
    def _close(self) -> None:
        self.dismiss()

    @on(Button.Pressed, "#submit")
    @on(Input.Submitted)
    def _submit(self) -> None:
        try:
            words = self._submit_to({name: self.query_one(f"#{name}", Input).value.strip() for name in self._fields})
        except ValueError as error:
            words = str(error)
        if words:
            self.show_message(words)
        else:
            self.dismiss()
