"""A question with its answer, as far as it has come, its sources, and the passage of one of them."""

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Collapsible, Static

from mbc_cli.render.answer import NOT_IN_MEMORY, confidence_line, share_of, state_of, times
from mbc_cli.text import counted, near, plain
from mbc_engine.bank import origin_name

if TYPE_CHECKING:
    from mbc_engine.question import Answer, Source

_BAR_WIDTH, _INDENT = 8, 3
_FIRST_LINES, _LINES = 4, 2  # of the first source's sentence, in which the answer was read, and of the others'
_CERTAIN: Final = ("high", "memory")


class ChatTurn(Vertical):
    """One question, which may be untrusted text, and its answer."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question
        self._text = ""

    def compose(self) -> ComposeResult:
        yield Static(Text(f"? {plain(self._question)}"), classes="question")
        yield Static(classes="answer waiting")

    def wait(self, reason: str) -> None:
        if not self._text:
            self._answer.update(Text(reason))

    def append(self, piece: str) -> None:
        self._text += piece
        self._answer.remove_class("waiting")
        self._answer.update(Text(plain(self._text)))

    def show(self, answer: "Answer") -> None:
        is_found, confidence = answer.text is not None, confidence_line(answer)
        text = NOT_IN_MEMORY if answer.text is None else answer.text
        self._answer.set_class(not text, "waiting")
        self._answer.set_class(not is_found, "-missing")
        self._answer.update(Text(plain(text) or "(no answer)"))
        below: list[Static | Collapsible] = []
        if confidence:
            is_certain = answer.confidence is not None and answer.confidence.label in _CERTAIN
            colour = "$text-success" if is_certain else "$text-warning"
            below.append(Static(Content.assemble((plain(confidence.plain), colour))))
        read = 0 if answer.codes is None else int(np.count_nonzero(answer.codes))
        spent = times(answer) + (f" · {counted(read, 'code')} read" if read else "")
        below.append(Static(Text(spent), classes="spent"))
        if answer.sources:
            heading = counted(len(answer.sources), "source" if is_found else "closest passage")
            citations = (Citation(number, source) for number, source in enumerate(answer.sources, 1))
            below.append(Collapsible(*citations, title=heading, collapsed=False))
        self.mount(*below)

    def fail(self, message: str, hint: str | None) -> None:
        self._answer.remove_class("waiting")
        self._answer.add_class("-error")
        self._answer.update(Text(plain(message)))
        if hint:
            self.mount(Static(Text(plain(hint)), classes="spent"))

    def stop(self) -> None:
        self._answer.display = bool(self._text)
        self.mount(Static(Text("Stopped."), classes="spent"))

    def fold(self, is_folded: bool) -> None:
        for sources in self.query(Collapsible):
            sources.collapsed = is_folded

    @property
    def _answer(self) -> Static:
        return self.query_one(".answer", Static)


class Citation(Static, can_focus=True):
    """A source, which may hold untrusted text: its rank, file, share of the answer, and the sentence that matters."""

    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", "Up", show=False),
        Binding("down", "app.focus_next", "Down", show=False),
    ]

    def __init__(self, number: int, source: "Source") -> None:
        folder, name = _folder_and_name(source)
        filled = min(_BAR_WIDTH, round(source.share * _BAR_WIDTH))
        line = Grid.grid(padding=(0, 1), expand=True)
        for options in ({}, {}, {"overflow": "ellipsis", "ratio": 1}, {"style": "dim"}):
            line.add_column(no_wrap=True, **options)
        line.add_row(
            f"{number}. {'█' * filled}{'░' * (_BAR_WIDTH - filled)}",
            f"{share_of(source):>4}",
            Text.assemble((plain(name), "bold"), (f"  {plain(folder)}", "dim")),
            Text(plain(_date_and_ties(source))),
        )
        below: list[Text | _Clipped] = []
        if source.sentence:
            below.append(_Clipped(Text(plain(source.sentence)), _FIRST_LINES if number == 1 else _LINES))
        if state := state_of(source):
            below.append(Text(f"! {plain(state)}", "italic"))
        super().__init__(Group(line, *(Padding(own, (0, 0, 0, _INDENT)) for own in below)))
        self.source = source


@dataclass(frozen=True)
class _Clipped:
    """A text in at most so many lines, with an ellipsis where there is more."""

    text: Text
    most: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = self.text.wrap(console, options.max_width)
        visible = lines[: self.most]
        if len(lines) > self.most:
            visible[-1].rstrip()
            visible[-1].truncate(options.max_width - 2)
            visible[-1].append(" …")
        yield from visible


class PassagePane(VerticalScroll, can_focus=True):
    """The text of a source, with the sentence that the answer was read in underlined."""

    def compose(self) -> ComposeResult:
        yield Static()

    def show(self, source: "Source") -> None:
        folder, name = _folder_and_name(source)
        state = state_of(source)
        self.border_title = Content(plain(name))
        text = Text().append(f"{share_of(source)}  {plain(_date_and_ties(source))}".rstrip(), "dim")
        if folder:
            text.append(f"\n{plain(folder)}", "dim")
        text.append(f"\n{'! ' if state else ''}{plain(_text_from(source, state))}", "italic")
        text.append("\n\n")
        passage = passage_text(source)
        self.query_one(Static).update(text + passage)
        self.scroll_home(animate=False)
        if passage.spans:
            before = text + passage[: passage.spans[-1].start]
            self.call_after_refresh(self._scroll_to_end_of, before, text + passage[: passage.spans[-1].end])

    def _scroll_to_end_of(self, before: Text, whole: Text) -> None:
        """Bring a sentence into sight that ends below; `before` is what precedes it, `whole` both."""
        width, height = self.scrollable_content_region.size
        first, last = (len(text.wrap(self.app.console, max(1, width))) for text in (before, whole))
        if last > height:
            self.scroll_to(y=first - 1, animate=False)


def passage_text(source: "Source") -> Text:
    """The passage of a source, made harmless line by line, its sentence underlined."""
    if not source.passage:
        return Text("The text is no longer available.", "dim")
    passage, words = source.passage, (source.sentence or "").split()
    # The sentence was put on one line.
    found = re.search(r"\s+".join(map(re.escape, words)), passage) if words else None
    first, last = found.span() if found else (len(passage), len(passage))
    before, sentence, after = (
        "\n".join(map(plain, text.split("\n"))) for text in (passage[:first], passage[first:last], passage[last:])
    )
    return Text.assemble(before, (sentence, "bold underline"), after)


def _folder_and_name(source: "Source") -> tuple[str, str]:
    folder, _, name = near(source.path).rpartition(os.sep)
    return folder, origin_name(name, source.part)


def _date_and_ties(source: "Source") -> str:
    ties = f"tied with {counted(source.ties, 'other')}" if source.ties else ""
    return "  ".join(filter(None, (source.date, ties)))


def _text_from(source: "Source", state: str | None) -> str:
    if source.text_from == "file":
        return "from the file"
    if source.text_from == "bank":
        return state or "the bank's copy"
    return f"{state}; the bank keeps no copy" if state else "the bank keeps no copy"
