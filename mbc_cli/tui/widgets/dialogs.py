"""A question in front of everything, answered yes or no.

A question in front of everything, answered with a path.

A tree of folders and files, whose names cannot do anything but be read.

A list of training runs in front of everything, to choose one from.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from rich.text import Text, TextType
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, DirectoryTree, Input, OptionList, Static
from textual.widgets.directory_tree import DirEntry
from textual.widgets.tree import TreeNode

from mbc_cli.text import plain
from mbc_cli.tui.widgets.run_form import RunLine, RunList


class Confirm(ModalScreen[bool]):
    """Asks before something that matters. Escape, or a click beside it, means no.

    Args:
        question: what is about to happen; may hold foreign text.
        yes: what doing it is called.
        no: what leaving it is called; it has the focus, so that Enter alone does no harm.
    """

    DEFAULT_CSS = """
    Confirm {
        align: center middle;
        & > Vertical {
            width: 64; max-width: 90%; height: auto;
            padding: 1 2; border: round $warning; background: $surface;
        }
        & Horizontal { height: auto; align-horizontal: right; margin-top: 1; }
        & Button { margin-left: 2; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
        Binding("left,right", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, yes: str = "Yes", no: str = "No") -> None:
        super().__init__()
        self._question, self._yes, self._no = question, yes, no

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(plain(self._question)))
            with Horizontal():
                yield Button(Text(plain(self._yes)), id="yes", variant="warning", compact=True)
                yield Button(Text(plain(self._no)), id="no", compact=True)

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.dismiss(False)

    def action_answer(self, is_yes: bool) -> None:
        """Answer, and be gone."""
        self.dismiss(is_yes)


class PathPrompt(ModalScreen[Path | None]):
    """Asks for a path until it is a good one. Escape gives None.

    Args:
        question: what is asked for.
        example: stands in the empty field.
        found: makes a path of what was typed, or raises ValueError with why it is none.
    """

    DEFAULT_CSS = """
    PathPrompt {
        align: center middle;
        & > Vertical {
            width: 76; max-width: 96%; height: auto;
            padding: 1 2; border: round $accent; background: $surface;
        }
        & Input { margin: 1 0; }
        & #words { height: auto; min-height: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Close")]

    def __init__(self, question: str, example: str, found: Callable[[str], Path]) -> None:
        super().__init__()
        self._question, self._example, self._found = question, example, found

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(self._question))
            yield Input(placeholder=self._example, compact=True)
            yield Static(Text("Enter opens it, Escape closes.", "dim"), id="words")

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        try:
            self.dismiss(self._found(event.value.strip()))
        except ValueError as error:
            self.query_one("#words", Static).update(Text(plain(error)))


def existing_path(typed: str) -> Path:
    """The file or folder that is meant by what was typed; ~ stands for one's home.

    Raises:
        ValueError: there is none that can be looked at.
    """
    try:
        path = Path(typed or ".").expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ValueError(f"{typed}: {reason}") from error
    return path


# So many nodes of a folder are made in a moment; a person looks for others by typing a path.
_MOST: Final = 1000


class FolderTree(DirectoryTree):
    """What can be memorised: no hidden files, and of a large folder the first thousand."""

    ICON_NODE_EXPANDED = "▾ "
    ICON_NODE = "▸ "
    ICON_FILE = "  "

    @property
    def chosen(self) -> Path | None:
        """What the cursor is on; None where that is no file."""
        node = self.cursor_node
        return None if node is None or node.data is None else Path(node.data.path)

    async def show(self, path: Path) -> None:
        """Show another folder, or the one a file is in, with the cursor on that."""
        is_folder = await asyncio.to_thread(path.is_dir)
        self.set_reactive(FolderTree.path, path if is_folder else path.parent)
        await self.watch_path()
        for node in self.root.children:
            if not is_folder and node.data is not None and node.data.path.name == path.name:
                self.move_cursor(node)

    def process_label(self, label: TextType) -> Text:
        """A name as a line that is no markup."""
        return Text(plain(label) or "/", no_wrap=True)

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        """Leave out what an ingest leaves out."""
        return (path for path in paths if not path.name.startswith("."))

    def _populate_node(self, node: TreeNode[DirEntry], content: Iterable[Path]) -> None:
        paths = list(content)
        super()._populate_node(node, paths[:_MOST])
        if len(paths) > _MOST:
            node.add_leaf(f"… and {len(paths) - _MOST:,} more")


class RunPicker(ModalScreen[str | None]):
    """Lets a person choose a run; gives its key, or None on Escape.

    Args:
        title: what it is chosen for.
        lines: the runs.
    """

    DEFAULT_CSS = """
    RunPicker { align: center middle; }
    RunPicker RunList { width: 64; max-width: 96%; height: auto; max-height: 90%; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Close")]

    def __init__(self, title: str, lines: Sequence[RunLine]) -> None:
        super().__init__()
        self._title, self._lines = title, lines

    def compose(self) -> ComposeResult:
        yield RunList(self._title)

    def on_mount(self) -> None:
        self.query_one(RunList).show(self._lines)

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)
