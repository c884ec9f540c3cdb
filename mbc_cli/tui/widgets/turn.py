"""A question with its answer, as far as it has come, and the sources of it.

The passage of a source, with the sentence that the answer was read in.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Collapsible, Static

from mbc_cli.text import plain

_BAR: Final = 8
_INDENT: Final = 3
# Lines of a source's sentence: the first is where the answer was read. The passage shows all of it.
_FIRST_LINES, _LINES = 4, 2


@dataclass(frozen=True)
class Cited:
    """A source. All of it may be foreign text.

    Attributes:
        name: the file, or which part of it.
        folder: the file's folder.
        share: of the search, in [0, 1], and how it is written.
        about: its date and what else there is to say of it.
        state: what has become of the file, if it is not what was memorised.
        text_from: where the passage is from, or why there is none.
        sentence: the one that the answer was read in, or that fits the question best.
        passage: the text this is from.
    """

    name: str
    folder: str
    share: float
    share_text: str
    about: str
    state: str | None
    text_from: str
    sentence: str | None
    passage: str | None


@dataclass(frozen=True)
class Told:
    """An answer.

    Attributes:
        answer: the answer, or that there is none.
        is_found: whether there is one.
        confidence: how sure it is, and where it was read.
        colour: of the confidence, a variable of the theme.
        cited: its sources, best first.
        heading: how many they are.
        spent: how long it took.
    """

    answer: str
    is_found: bool
    confidence: str
    colour: str
    cited: Sequence[Cited]
    heading: str
    spent: str


class Citation(Static, can_focus=True):
    """A source: its file, its share of the answer, and the sentence that matters.

    Args:
        number: its place among the others.
        cited: the source.
    """

    DEFAULT_CSS = """
    Citation {
        height: auto; pointer: pointer;
        &:hover { background: $block-hover-background; }
        &:focus {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: $block-cursor-text-style;
        }
    }
    """
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", "Up", show=False),
        Binding("down", "app.focus_next", "Down", show=False),
        Binding("enter", "open", "Open"),
    ]

    @dataclass
    class Reached(Message):
        """It has the focus."""

        cited: Cited

    @dataclass
    class Opened(Message):
        """A person wants to read it."""

        cited: Cited

    def __init__(self, number: int, cited: Cited) -> None:
        super().__init__(_shown(number, cited))
        self.cited = cited

    def on_focus(self) -> None:
        self.post_message(self.Reached(self.cited))

    def on_click(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        """Say that it is to be read."""
        self.post_message(self.Opened(self.cited))


class Turn(Vertical):
    """One question and what comes of it.

    Args:
        question: what was asked; may be foreign text.
    """

    DEFAULT_CSS = """
    Turn {
        height: auto; margin-bottom: 1;
        & > Static { width: 1fr; height: auto; }
        & > .question { color: $text-primary; }
        & > .answer { text-style: bold; }
        & > .waiting { color: $text-muted; }
        & > .-missing { color: $text-warning; }
        & > .spent { color: $text-muted; }
        & > .-error { color: $text-error; }
        & > Collapsible {
            background: transparent; border: none; padding: 0;
            & > Contents { padding: 0; }
            & > CollapsibleTitle { padding: 0; }
        }
    }
    """

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question
        self._said = ""

    def compose(self) -> ComposeResult:
        yield Static(Text(f"? {plain(self._question)}"), classes="question")
        yield Static(classes="answer waiting")

    def wait(self, reason: str) -> None:
        """Say why there is no answer yet, while there is none."""
        if not self._said:
            self._answer.update(Text(reason))

    def say(self, piece: str) -> None:
        """Show a further piece of the answer."""
        self._said += piece
        self._answer.remove_class("waiting")
        self._answer.update(Text(plain(self._said)))

    def show(self, told: Told) -> None:
        """Show the whole answer and all that goes with it."""
        self._answer.set_class(not told.answer, "waiting")
        self._answer.set_class(not told.is_found, "-missing")
        self._answer.update(Text(plain(told.answer) or "(no answer)"))
        below: list[Static | Collapsible] = []
        if told.confidence:
            below.append(Static(Content.assemble((plain(told.confidence), f"${told.colour}"))))
        below.append(Static(Text(told.spent), classes="spent"))
        if told.cited:
            sources = (Citation(number, cited) for number, cited in enumerate(told.cited, 1))
            below.append(Collapsible(*sources, title=told.heading, collapsed=False))
        self.mount(*below)

    def fail(self, message: str, hint: str | None) -> None:
        """Show what was wrong instead of an answer."""
        self._answer.remove_class("waiting")
        self._answer.add_class("-error")
        self._answer.update(Text(plain(message)))
        if hint:
            self.mount(Static(Text(plain(hint)), classes="spent"))

    def stop(self) -> None:
        """Leave it at what has come so far."""
        self._answer.display = bool(self._said)
        self.mount(Static(Text("Stopped."), classes="spent"))

    def fold(self) -> None:
        """Hide the sources behind their heading."""
        for sources in self.query(Collapsible):
            sources.collapsed = True

    def unfold(self) -> None:
        """Show the sources."""
        for sources in self.query(Collapsible):
            sources.collapsed = False

    @property
    def _answer(self) -> Static:
        return self.query_one(".answer", Static)


@dataclass(frozen=True)
class _Clipped:
    """A text in at most so many lines, the last of which says that there is more."""

    text: Text
    most: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = self.text.wrap(console, options.max_width)
        shown = lines[: self.most]
        if len(lines) > self.most:
            shown[-1].rstrip()
            shown[-1].truncate(options.max_width - 2)
            shown[-1].append(" …")
        yield from shown


def _shown(number: int, cited: Cited) -> Group:
    full = min(_BAR, round(cited.share * _BAR))
    name = Text.assemble((plain(cited.name), "bold"), (f"  {plain(cited.folder)}", "dim"))
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(no_wrap=True)
    line.add_column(no_wrap=True)
    line.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    line.add_column(no_wrap=True, style="dim")
    line.add_row(
        f"{number}. {'█' * full}{'░' * (_BAR - full)}", f"{cited.share_text:>4}", name, Text(plain(cited.about))
    )
    below: list[Text | _Clipped] = []
    if cited.sentence:
        below.append(_Clipped(Text(plain(cited.sentence)), _FIRST_LINES if number == 1 else _LINES))
    if cited.state:
        below.append(Text(f"! {plain(cited.state)}", "italic"))
    return Group(line, *(Padding(own, (0, 0, 0, _INDENT)) for own in below))


class Passage(VerticalScroll, can_focus=True):
    """What a source says."""

    DEFAULT_CSS = """
    Passage { scrollbar-size-vertical: 1; }
    """

    def compose(self) -> ComposeResult:
        yield Static()

    def show(self, cited: Cited) -> None:
        """Show the passage of this source instead of the one before."""
        self.border_title = Content(plain(cited.name))
        told = Text().append(f"{cited.share_text}  {plain(cited.about)}".rstrip(), "dim")
        if cited.folder:
            told.append(f"\n{plain(cited.folder)}", "dim")
        told.append(f"\n! {plain(cited.text_from)}" if cited.state else f"\n{plain(cited.text_from)}", "italic")
        told.append("\n\n")
        passage = passage_text(cited)
        self.query_one(Static).update(told + passage)
        self.scroll_home(animate=False)
        if passage.spans:
            before = told + passage[: passage.spans[-1].start]
            self.call_after_refresh(self._bring_into_sight, before, told + passage[: passage.spans[-1].end])

    def _bring_into_sight(self, before: Text, whole: Text) -> None:
        """Scroll to a sentence that ends below: what stands before it, and that with the sentence."""
        width, height = self.scrollable_content_region.size
        first, last = (len(text.wrap(self.app.console, max(1, width))) for text in (before, whole))
        if last > height:
            self.scroll_to(y=first - 1, animate=False)


def passage_text(cited: Cited) -> Text:
    """The passage of a source, made harmless line by line, its sentence underlined."""
    if not cited.passage:
        return Text("The text is no longer available.", "dim")
    passage, words = cited.passage, (cited.sentence or "").split()
    # The sentence was put on one line.
    found = re.search(r"\s+".join(map(re.escape, words)), passage) if words else None
    first, last = found.span() if found else (len(passage), len(passage))
    return Text.assemble(
        _harmless(passage[:first]), (_harmless(passage[first:last]), "bold underline"), _harmless(passage[last:])
    )


def _harmless(text: str) -> str:
    return "\n".join(map(plain, text.split("\n")))
