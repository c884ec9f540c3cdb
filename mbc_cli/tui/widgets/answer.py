"""A question with its answer so far, its sources, and the passage of one of them."""

from pathlib import Path
from typing import ClassVar, Final

import numpy as np
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Collapsible, Static

from mbc_cli.formatting import pluralise, sanitise
from mbc_cli.render import answer as rendering
from mbc_engine.answer import Answer, Source

_BAR_WIDTH: Final = 8
_MAX_FIRST_SENTENCE, _MAX_SENTENCE = 300, 150  # characters of the first source's sentence, and of the others'
_CERTAIN: Final = ("high", "memory")


class ChatTurn(Vertical):
    """One question, which may be untrusted text, and its answer."""

    def __init__(self, question: str, text: str = "") -> None:
        super().__init__()
        self._question, self._text = question, text
        self._answer = Static(Text(sanitise(text)), classes="answer" if text else "answer waiting")

    def compose(self) -> ComposeResult:
        yield Static(Text("? " + "\n  ".join(map(sanitise, self._question.splitlines()))), classes="question")
        yield self._answer

    def on_resize(self) -> None:
        if self.parent is not None and self.parent.children[-1] is self:
            self.scroll_visible(animate=False)  # the last answer grows

    def wait(self, reason: str) -> None:
        if not self._text:
            self._answer.update(Text(reason))

    def append(self, piece: str) -> None:
        self._text += piece
        self._answer.remove_class("waiting")
        self._answer.update(Text(sanitise(self._text)))

    def show(self, answer: Answer) -> None:
        is_found, confidence = answer.text is not None, rendering.confidence_line(answer)
        text = "\n".join(map(sanitise, rendering.answer_lines(answer)))
        self._answer.set_class(not text, "waiting")
        self._answer.set_class(not is_found, "-missing")
        self._answer.set_class(answer.tentative, "-perhaps")
        self._answer.update(Text(text or "(no answer)"))
        if answer.asked is not None:
            self.mount(Static(rendering.asked_line(answer.asked), classes="spent"), before=self._answer)
        is_certain = answer.confidence is not None and answer.confidence.label in _CERTAIN
        read = 0 if answer.codes is None else int(np.count_nonzero(answer.codes))
        notes = (
            (rendering.answer_note(answer), "-perhaps"),
            (confidence and sanitise(confidence.plain), "-certain" if is_certain else "-perhaps"),
            (rendering.more_note(answer), "spent"),
            (rendering.timing_summary(answer) + (f" · {pluralise(read, 'code')} read" if read else ""), "spent"),
        )
        self.mount(*(Static(Text(note), classes=kind) for note, kind in notes if note))
        if sources := rendering.item_sources(answer) or answer.sources:
            heading = pluralise(len(sources), "source" if is_found else "closest passage")
            citations = (Citation(number, source, with_share=is_found) for number, source in enumerate(sources, 1))
            self.mount(Collapsible(*citations, title=heading, collapsed=False))

    def fail(self, message: str, hint: str | None) -> None:
        self._answer.remove_class("waiting")
        self._answer.add_class("-error")
        self._answer.update(Text(sanitise(message)))
        if hint:
            self.mount(Static(Text(sanitise(hint)), classes="spent"))

    def stop(self) -> None:
        self._answer.display = bool(self._text)
        self.mount(Static(Text("Stopped."), classes="spent"))

    def fold(self, is_folded: bool) -> None:
        for sources in self.query(Collapsible):
            sources.collapsed = is_folded


def _place(source: Source, *, with_share: bool) -> Content:
    """Where a source is, its path in the theme's colour."""
    line = rendering.source_line("", source, with_share=with_share)
    return Content.from_rich_text(line).stylize("$text-primary", 0, line.spans[0].end)


class Citation(Vertical, can_focus=True):
    """A source: its rank, share of the answer, file and key sentence."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "app.focus_previous", "Up", show=False),
        Binding("down,j", "app.focus_next", "Down", show=False),
    ]

    def __init__(self, number: int, source: Source, *, with_share: bool) -> None:
        longest, state = _MAX_FIRST_SENTENCE if number == 1 else _MAX_SENTENCE, rendering.file_state_note(source)
        share = (f"{bar(source.share, _BAR_WIDTH):<{_BAR_WIDTH}} " if with_share else "", "$primary")
        sentence = " ".join((source.sentence or "").split())
        if len(sentence) > longest:
            sentence = f"{sentence[: longest - 2].rstrip()} …"
        super().__init__(
            Static(Content.assemble(f"{number}. ", share, _place(source, with_share=with_share))),
            *([Static(Text(sanitise(sentence)), classes="quote")] if sentence else ()),
            *([Static(Text(f"! {sanitise(state)}", "italic"), classes="quote")] if state else ()),
        )
        self.source = source


class PassagePane(VerticalScroll, can_focus=True):
    """The text of a source, with the sentence that the answer was found in underlined."""

    def compose(self) -> ComposeResult:
        yield Static(classes="heading")
        yield Static(classes="passage")

    def show(self, source: Source, *, is_document: bool = False) -> None:
        """Show a passage, or a whole document, which needs no heading."""
        state, passage = rendering.file_state_note(source), passage_text(source)
        self.border_title = Content(sanitise(Path(source.path).name))
        heading = self.query_one(".heading", Static)
        heading.display = not is_document
        note = f"{'! ' if state else ''}{_text_from(source, state)}"
        heading.update(Content.assemble(_place(source, with_share=False), "\n", (note, "i")))
        self.query_one(".passage", Static).update(passage)
        self.scroll_home(animate=False)
        for span in passage.spans:
            self.call_after_refresh(self._centre, passage[: span.start], passage[: span.end])

    def _centre(self, before: Text, text: Text) -> None:
        """Centre what `text` has after `before`."""
        width, height = self.scrollable_content_region.size
        first, last = (len(shown.wrap(self.app.console, max(1, width))) for shown in (before, text))
        top = self.query_one(".passage").virtual_region.y
        self.scroll_to(y=top + min(first - 1, (first + last - height) // 2), animate=False)


def passage_text(source: Source) -> Text:
    """The passage of a source, sanitised line by line, its sentence underlined."""
    if not source.passage:
        return Text("The text is no longer available.", "dim")
    passage = source.passage
    first, last = source.span() or (len(passage), len(passage))
    before, sentence, after = (
        "\n".join(map(sanitise, text.split("\n"))) for text in (passage[:first], passage[first:last], passage[last:])
    )
    return Text.assemble(before, (sentence, "bold underline"), after)


def _text_from(source: Source, state: str | None) -> str:
    if source.text_from == "file":
        return "from the file"
    if source.text_from == "bank":
        return state or "the bank's copy"
    return f"{state}; the bank keeps no copy" if state else "the bank keeps no copy"


def bar(share: float, width: int) -> str:
    """A bar in eighths of a cell; never empty above 0, full only at 1."""
    eighths = max(int(share * width * 8), int(share > 0))
    full, part = divmod(eighths, 8)
    return "█" * full + " ▏▎▍▌▋▊▉"[part].rstrip()
