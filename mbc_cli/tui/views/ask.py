"""Answers in words: how sure an answer is, where it was read, and how long it took.

A place to ask: answers as they come, where they come from, and what the sources say.
"""

import os
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from mbc_cli.paths import question_history
from mbc_cli.question_history import QuestionHistory
from mbc_cli.render.answer import NOT_IN_MEMORY, confidence_line, share_of, state_of, times
from mbc_cli.render.bank import holdings
from mbc_cli.text import counted, near, plain
from mbc_cli.tui.jobs.answering import (
    Answered,
    Answering,
    Asked,
    ModelLoading,
    ModelMissing,
    ModelReady,
    Said,
    Unanswered,
)
from mbc_cli.tui.jobs.processes import start_thread
from mbc_cli.tui.state import Places
from mbc_cli.tui.views.view import View, told_no_bank, told_trouble
from mbc_cli.tui.widgets.heat_map import HeatMap
from mbc_cli.tui.widgets.inputs import Choice, QuestionInput
from mbc_cli.tui.widgets.turn import Citation, Cited, Passage, Told, Turn
from mbc_engine.bank import origin_name
from mbc_engine.config import READ_MODES
from mbc_engine.question import AskOptions
from mbc_engine.text.decoding import storable

if TYPE_CHECKING:
    from mbc_engine.errors import MBCError
    from mbc_engine.question import Answer
    from mbc_engine.sources import Source


_SURE: Final = ("high", "memory")


def told_of(reply: "Answer") -> Told:
    """An answer as it is shown."""
    read = 0 if reply.codes is None else int(np.count_nonzero(reply.codes))
    codes = f" · {counted(read, 'code')} read" if read else ""
    confidence = confidence_line(reply)
    is_sure = reply.confidence is not None and reply.confidence.label in _SURE
    count = len(reply.sources)
    return Told(
        answer=NOT_IN_MEMORY if reply.text is None else reply.text,
        is_found=reply.text is not None,
        confidence=confidence.plain if confidence else "",
        colour="text-success" if is_sure else "text-warning",
        cited=tuple(map(_cited, reply.sources)),
        heading=counted(count, "source" if reply.text is not None else "closest passage"),
        spent=f"{times(reply)}{codes}",
    )


def _cited(source: "Source") -> Cited:
    ties = f"tied with {counted(source.ties, 'other')}" if source.ties else ""
    about = "  ".join(filter(None, (source.date, ties)))
    folder, _, name = near(source.path).rpartition(os.sep)
    called = origin_name(name, source.part)
    return Cited(
        name=called,
        folder=folder,
        share=source.share,
        share_text=share_of(source),
        about=about,
        state=state_of(source),
        text_from=_text_from(source),
        sentence=source.sentence,
        passage=source.passage,
    )


def _text_from(source: "Source") -> str:
    """Where the passage that is shown is from."""
    match source.text_from:
        case "file":
            return "from the file"
        case "bank":
            return state_of(source) or "the bank's copy"
    state = f"{own}; " if (own := state_of(source)) else ""
    return f"{state}the bank keeps no copy"


_READS: Final = (None, *READ_MODES)
_NUMBERS: Final = (1, 2, 3, 5, 10)
# Turns that stay to be scrolled back to.
_MOST_TURNS: Final = 100


class AskView(View):
    """Questions and answers."""

    NAME, TITLE, ABOUT = "ask", "Ask", "Ask the bank: the answer, its sources, and which codes were read"
    HELP = """
    Up and down bring back earlier questions. **sources** is how many documents are listed. **read** is how a model of
    the paper's method reads its bank; other models have one way.

    Enter on a source shows its passage, with the sentence that the answer was read in underlined. Where the file has
    changed or is gone, the text is the copy kept in the bank. Escape leaves the input line, so that digits switch views.
    """
    SCOPED_CSS = False
    DEFAULT_CSS = """
    AskView {
        & #talk { height: 1fr; }
        & #turns { width: 1fr; height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
        & #about { height: auto; color: $text-muted; margin-bottom: 1; }
        & #aside { width: 2fr; display: none; }
        & #passage { height: 1fr; }
        & #read { max-height: 60%; }
        & #question { border: round $surface-lighten-2; background: transparent; height: 3; }
        & #question { border-subtitle-color: $text-muted; }
        & #question:focus { border: round $accent; }
        & #options { height: 1; padding: 0 1; }
        & #options Choice { margin-right: 3; }
        & #how { display: none; }
    }
    .-wide AskView #turns { width: 3fr; }
    .-wide AskView #aside.-open { display: block; }
    .-narrow AskView #talk { layout: vertical; }
    .-narrow AskView #aside.-open { display: block; width: 1fr; height: 1fr; }
    .-narrow AskView #read { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop"),
        Binding("escape", "leave", "Leave"),
        Binding("escape", "type", "Ask"),
        Binding("ctrl+o", "sources", "Sources"),
        Binding("ctrl+r", "step('how')", "Read"),
        Binding("ctrl+n", "step('number')", "Count"),
    ]

    def __init__(self, key: int, places: Places) -> None:
        super().__init__(key, places)
        self._answering = Answering(places, self.post_message)
        self._turns: dict[int, Turn] = {}
        self._asked = 0
        self._is_loading = self._is_ready = self._was_wanted = False
        self._trouble: MBCError | None = None
        self._told = Text()
        self._history = QuestionHistory(question_history())

    def compose(self) -> ComposeResult:
        with Horizontal(id="talk"):
            with VerticalScroll(id="turns", can_focus=True):
                yield Static(id="about")
            with Vertical(id="aside"):
                yield Passage(id="passage", classes="panel")
                yield HeatMap("Codes read", id="read", can_focus=False)
        yield QuestionInput(
            placeholder="What do you want to know? Each question is answered on its own.", id="question"
        )
        with Horizontal(id="options"):
            yield Choice([str(number) for number in _NUMBERS], label="sources", is_folded=True, id="number")
            yield Choice([read or "model's own" for read in _READS], label="read", is_folded=True, id="how")

    def on_mount(self) -> None:
        self.query_one("#number", Choice).choose(_NUMBERS.index(AskOptions.sources))
        self.query_one("#turns", VerticalScroll).anchor()
        self.query_one(QuestionInput).remember(self._history.read())
        start_thread("answering", self._answering.run, self.post_message)

    def on_unmount(self) -> None:
        self._answering.stop()

    def take_focus(self) -> None:
        self.query_one(QuestionInput).focus()

    def draw(self) -> None:
        """Show what is asked, and which codes were read."""
        bank = self.known.bank
        if bank is not None and not self._was_wanted:
            self._was_wanted = True
            self._answering.load()
        about = self._about()
        if about != self._told:
            self._told = about
            self.query_one("#about", Static).update(about)
        self.query_one("#question").border_subtitle = Content(self._state())
        read = self.known.codes_read
        heat = self.query_one("#read", HeatMap)
        heat.display = read is not None and self.screen.has_class("-wide")
        if read is not None and heat.display:
            books = read.shape[0] * read.shape[1]
            heat.border_title = Content("Codes read" if books == 1 else f"Codes read, sum over {books} codebooks")
            heat.show(read.sum((0, 1)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Stop only while a question waits, leave only what has the focus, and choose a read only where there are some."""
        if action == "step" and parameters == ("how",):
            return self.query_one("#how").display
        if action == "leave":
            return self._covers or self.query_one(QuestionInput).has_focus
        return bool(self._turns) if action == "stop" else True

    def action_stop(self) -> None:
        """Leave the question that is being answered; the next one waits until the model has come to an end."""
        number = min(self._turns)
        self._answering.drop(number)
        self._turns.pop(number).stop()
        self.refresh_bindings()

    def action_leave(self) -> None:
        """Close the passage where it takes room from the answers, or go from the line to the answers."""
        if self._covers:
            self.query_one("#aside").remove_class("-open")
            self.take_focus()
        else:
            self.query_one("#turns").focus()

    def action_type(self) -> None:
        """Go back to the line."""
        self.take_focus()

    def action_sources(self) -> None:
        """Go to the sources of the last answer that has some."""
        for turn in reversed(self.query(Turn)):
            if sources := turn.query(Citation):
                turn.unfold()
                self.call_after_refresh(sources.first().focus)
                return

    def action_step(self, choice: str) -> None:
        """Change how the next question is answered."""
        self.query_one(f"#{choice}", Choice).action_step(1)

    @on(Input.Submitted, "#question")
    async def _ask(self, event: Input.Submitted) -> None:
        question = storable(event.value).strip()
        if not question:
            return
        event.input.clear()
        self._history.add(question)
        self.query_one(QuestionInput).remember([question])
        turns = self.query_one("#turns", VerticalScroll)
        for turn in self.query(Turn):
            turn.fold()
        turn = Turn(question)
        await turns.mount(turn)  # what is told of it finds it there
        turns.anchor()
        self._asked += 1
        self._turns[self._asked] = turn
        for old in list(self.query(Turn))[:-_MOST_TURNS]:
            old.remove()
        how = self.query_one("#how", Choice)
        options = AskOptions(
            read_mode=_READS[how.at] if how.display else None,
            sources=_NUMBERS[self.query_one("#number", Choice).at],
        )
        self._answering.ask(Asked(self._asked, question, options))
        self._tell_reasons()
        self.refresh_bindings()

    @on(Citation.Reached)
    def _look_at(self, event: Citation.Reached) -> None:
        if self.screen.has_class("-wide"):
            self._show_passage(event.cited)

    @on(Citation.Opened)
    def _open(self, event: Citation.Opened) -> None:
        self._show_passage(event.cited)

    def on_model_loading(self, message: ModelLoading) -> None:
        """Say what takes so long."""
        self._is_loading, self._trouble = True, None
        self._tell_reasons()
        self.draw()

    def on_model_ready(self, message: ModelReady) -> None:
        """Say that it no longer does."""
        self._is_loading, self._is_ready, self._trouble = False, True, None
        self.query_one("#how").display = message.has_reads
        self.refresh_bindings()
        self._tell_reasons()
        self.draw()

    def on_model_missing(self, message: ModelMissing) -> None:
        """Say what is missing; the next question tries again."""
        self._is_loading, self._trouble = False, message.trouble
        self.draw()

    def on_said(self, message: Said) -> None:
        """Show what is said."""
        if turn := self._turns.get(message.number):
            turn.say(message.piece)

    def on_answered(self, message: Answered) -> None:
        """Show the whole answer, and which codes it comes from."""
        turn, reply = self._done(message.number), message.reply
        self._is_ready, self._trouble = True, None
        if turn is None:
            return
        told = told_of(reply)
        turn.show(told)
        self.call_after_refresh(self._show_from_the_top, turn)
        if told.cited and self.screen.has_class("-wide"):
            self._show_passage(told.cited[0])
        if reply.codes is not None:
            self.known.codes_read = reply.codes
            self.dashboard.changed()

    def on_unanswered(self, message: Unanswered) -> None:
        """Show why there is no answer."""
        self._is_loading = False
        turn = self._done(message.number)
        if turn is not None and message.trouble is not None:
            turn.fail(message.trouble.message, message.trouble.hint)
        self.draw()

    def _done(self, number: int) -> Turn | None:
        """The turn that has come to its end, unless nobody waits for it any more."""
        turn = self._turns.pop(number, None)
        self._tell_reasons()
        self.refresh_bindings()
        return turn

    def _tell_reasons(self) -> None:
        """Say what each question waits for."""
        for place, turn in enumerate(self._turns.values()):
            if self._is_loading:
                turn.wait(f"waiting for model {plain(self.places.model)}…")
            else:
                turn.wait("waiting for the previous answer…" if place else "searching the bank…")

    def _show_from_the_top(self, turn: Turn) -> None:
        """Keep a long answer's beginning in sight, where scrolling to the end would show its last sources only."""
        turns = self.query_one("#turns", VerticalScroll)
        if turn.outer_size.height > turns.size.height:
            turns.release_anchor()
            turns.scroll_to_widget(turn, top=True, animate=False)

    @property
    def _covers(self) -> bool:
        """Whether the passage takes room from the answers."""
        return self.query_one("#aside").has_class("-open") and self.screen.has_class("-narrow")

    def _show_passage(self, cited: Cited) -> None:
        self.query_one("#aside").add_class("-open")
        self.query_one(Passage).show(cited)
        self.refresh_bindings()

    def _about(self) -> Text:
        """What is asked, or why nothing can be, and what to do about it."""
        known = self.known
        if known.trouble is not None:
            return told_no_bank(known.trouble)
        if self._trouble is not None:
            return told_trouble(self._trouble)
        if known.bank is None:
            return Text()
        return Text(f"{near(known.bank.path)}: {holdings(known.bank.totals)}.")

    def _state(self) -> str:
        """What there is to say of the model."""
        name = plain(self.places.model)
        if self._is_loading:
            return f"Loading model {name}…"
        return f"model {name}" if self._is_ready else ""
