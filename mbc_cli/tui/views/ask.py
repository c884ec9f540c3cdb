"""Asking questions: answers as they are generated, their sources and passages."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Collapsible, Select

from mbc_cli.formatting import display_path, pluralise, sanitise
from mbc_cli.paths import add_question, question_history, read_questions
from mbc_cli.render.answer import answer_text, source_location
from mbc_cli.render.bank import content_summary
from mbc_cli.tui.jobs import AnswerWorker, ModelState, start_thread
from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views import Facts, View, error_text, no_bank_text
from mbc_cli.tui.widgets.answer import ChatTurn, Citation, PassagePane
from mbc_cli.tui.widgets.cells import HeatMap
from mbc_cli.tui.widgets.inputs import QuestionLine
from mbc_engine.answer import Answer, AskOptions, Source
from mbc_engine.errors import MBCError
from mbc_engine.text.decoding import storable

_SOURCE_COUNTS: Final = (1, 2, 3, 5, 10)
_MAX_TURNS, _MAX_RECENT = 100, 6
_DEFAULT_MODE: Final = ("default read mode", "")


class AskView(View):
    NAME, TITLE, ABOUT = "ask", "Ask", "Ask questions; see each answer, its sources and the codes that were read"
    HELP = """
    Up and Down recall earlier questions. Below the input line, choose how many sources are listed and, for a model
    you trained, how it reads the bank. Escape leaves the input line, so that letters and digits are keys; `/` returns.

    Enter on a source shows its passage, with the sentence the answer was taken from underlined. If the file has changed
    or is gone, the bank's copy is shown. `y` copies a source's path, elsewhere the answer.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop"),
        Binding("escape", "close", "Close"),
        Binding("escape", "leave", "Leave"),
        Binding("slash", "take_focus", "Ask"),
        Binding("ctrl+o", "sources", "Sources"),
        Binding("enter", "open", "Passage"),
        Binding("o", "open_file", "Open"),
        Binding("d", "document", "Document"),
        Binding("y", "copy", "Copy"),
        Binding("up", "recall(-1)", "Previous question", show=False),
        Binding("down", "recall(1)", "Next question", show=False),
    ]

    def __init__(self, key: int, options: DashboardOptions) -> None:
        super().__init__(key, options)
        self._waiting: dict[int, ChatTurn] = {}  # unanswered questions, by number
        self._asked = 0
        self._model_state: ModelState = "unloaded"
        self._model_error: MBCError | None = None
        self._earlier: list[str] = []
        self._recalled, self._typed = 0, ""  # which of these is shown, and what was typed before
        placeholder = "Ask a question, or follow up on the last one."
        self._line = QuestionLine(placeholder=placeholder, id="question", highlight_cursor_line=False)
        self._line.cursor_blink = False  # half of an idle dashboard's work

    def compose(self) -> ComposeResult:
        with Horizontal(id="talk"):
            with VerticalScroll(id="turns", can_focus=True):
                yield Facts(id="about")
            with Vertical(id="aside"):
                yield PassagePane(id="passage", classes="panel")
                with Collapsible(title="Codes read", id="codes"):
                    yield HeatMap(id="read", can_focus=False)
        yield self._line
        with Horizontal(id="options"):
            counts = [(pluralise(number, "source"), number) for number in _SOURCE_COUNTS]
            yield Select(counts, value=AskOptions.sources, allow_blank=False, compact=True, id="number")
            yield Select([_DEFAULT_MODE], allow_blank=False, compact=True, id="how")

    def on_mount(self) -> None:
        turns = self.query_one("#turns", VerticalScroll)
        for question, answer in self.state.transcript:
            turns.mount(ChatTurn(question, answer))
        self.run_job("history", lambda: read_questions(question_history(self.options.bank)), self._remember)
        callbacks = self.show_model, self.show_token, self.show_answer
        self.answer_worker = AnswerWorker(self.options, self.app.call_later, *callbacks)

    def on_unmount(self) -> None:
        for number in self._waiting:
            self.answer_worker.cancel(number)
        self.answer_worker.close()

    def _remember(self, questions: list[str]) -> None:
        for question in map(sanitise, questions):  # Input draws text as it is
            if self._earlier[-1:] != [question]:
                self._earlier.append(question)
        self._recalled = len(self._earlier)

    def take_focus(self) -> None:
        (self.query_one("#turns") if self.has_class("-no-bank") else self._line).focus()

    def draw(self) -> None:
        if self.state.bank is not None and self._model_state == "unloaded":
            self._model_state = "requested"
            self.answer_worker.load()
        has_bank = self.state.bank_error is None
        if has_bank == self.has_class("-no-bank"):  # keys are keys when there is nothing to ask
            self.set_class(not has_bank, "-no-bank")
            if self.dashboard.view is self and not self.app.screen.is_modal:
                self.call_after_refresh(self.take_focus)
        self._show_about()
        name = sanitise(self.options.model)
        states = {"loading": f"Loading model {name}…", "ready": f"model {name}", "decoding": "Decoding passages…"}
        model = states.get(self._model_state, "")
        self._line.border_subtitle = Content(model)
        read = self.state.codes_read
        self.query_one("#codes").display = read is not None and self.screen.has_class("-wide")
        if read is not None:
            self.query_one("#read", HeatMap).show(read.sum((0, 1)))

    def available(self) -> dict[str, bool]:
        return {
            "recall": self._line.has_focus,
            "stop": bool(self._waiting),
            "close": self._covers_turns,
            "leave": not self.query_one("#turns").has_focus,
            "take_focus": not (self._line.has_focus or self.has_class("-no-bank")),
            "open": self._focused_source is not None and self.screen.has_class("-narrow"),
            **dict.fromkeys(("open_file", "document"), self._focused_source is not None),
            "sources": self._focused_source is None and bool(self.query(Citation)),
            "copy": bool(self.state.transcript) and not self._line.has_focus,
        }

    def action_stop(self) -> None:
        """Cancel the question that is being answered; the next one waits until the model has noticed."""
        number = min(self._waiting)
        self.answer_worker.cancel(number)
        self._waiting.pop(number).stop()
        self.dashboard.request_redraw()

    def action_close(self) -> None:
        self.query_one("#aside").remove_class("-open")
        if self.query_one("#aside").has_focus_within:
            self.query_one("#turns").focus()

    def action_leave(self) -> None:
        self.query_one("#turns").focus()

    def action_recall(self, by: int) -> None:
        index, line = self._recalled + by, self._line
        if not 0 <= index <= len(self._earlier):
            return
        if self._recalled == len(self._earlier):
            self._typed = line.text
        self._recalled = index
        line.text = self._typed if index == len(self._earlier) else self._earlier[index]
        line.move_cursor(line.document.end)

    def action_sources(self) -> None:
        for turn in reversed(self.query(ChatTurn)):
            if citations := turn.query(Citation):
                turn.fold(False)
                self.call_after_refresh(citations.first().focus)
                return

    @property
    def _focused_source(self) -> Source | None:
        return self.screen.focused.source if isinstance(self.screen.focused, Citation) else None

    def action_open(self) -> None:
        if (source := self._focused_source) is not None:
            self._show_passage(source)

    def action_open_file(self) -> None:
        if (source := self._focused_source) is not None:
            self.dashboard.open_file(Path(source.path), source.line)

    def action_document(self) -> None:
        if (source := self._focused_source) is not None:
            self.dashboard.show_document(source.name)

    def action_copy(self) -> None:
        """Copy the path of the source at the cursor, or else the last answer."""
        source = self._focused_source
        self.dashboard.copy(self.state.transcript[-1][1] if source is None else source_location(source))

    @on(events.Click)
    def _open_clicked(self, event: events.Click) -> None:
        if event.widget is not None and isinstance(event.widget.parent, Citation):
            self._show_passage(event.widget.parent.source)

    @on(events.DescendantFocus)
    def _follow_focus(self, event: events.DescendantFocus) -> None:
        if isinstance(event.widget, Citation) and self.screen.has_class("-wide"):
            self._show_passage(event.widget.source)

    @on(QuestionLine.Submitted)
    async def _ask(self, event: QuestionLine.Submitted) -> None:
        question = storable(event.text).strip()
        if not question:
            return
        history = question_history(self.options.bank)
        start_thread(partial(add_question, history, question), self.app.call_later)
        self._remember([question])
        if self._covers_turns:
            self.query_one("#aside").remove_class("-open")  # it is about an earlier answer
        turns = self.query_one("#turns", VerticalScroll)
        for turn in self.query(ChatTurn):
            turn.fold(True)
        turn = ChatTurn(question)
        await turns.mount(turn)  # before anything is shown in it
        self._asked += 1
        self._waiting[self._asked] = turn
        for old in list(self.query(ChatTurn))[:-_MAX_TURNS]:
            old.remove()
        how = self.query_one("#how", Select)
        read_mode = str(how.value) or None if how.display else None
        options = AskOptions(read_mode=read_mode, sources=int(str(self.query_one("#number", Select).value)))
        self.answer_worker.ask(self._asked, question, options)
        self._show_reasons()

    def show_model(self, state: ModelState, error: MBCError | None, read_modes: Sequence[str]) -> None:
        self._model_state, self._model_error = state, error
        if state == "ready":
            how = self.query_one("#how", Select)
            if how.display != bool(read_modes):
                how.set_options([_DEFAULT_MODE, *((f"{mode} read", mode) for mode in read_modes)])
                how.display = bool(read_modes)
        self._show_reasons()
        self.draw()

    def show_token(self, number: int, piece: str) -> None:
        if turn := self._waiting.get(number):
            turn.append(piece)

    def show_answer(self, number: int, answer: Answer | MBCError | None) -> None:
        """Show a question's answer or error; None if it was cancelled."""
        turn = self._waiting.pop(number, None)
        if isinstance(answer, MBCError):
            if turn is not None:
                turn.fail(answer.message, answer.hint)
        elif answer is not None:
            self._model_state, self._model_error = "ready", None
            if turn is not None:
                turn.show(answer)
                self.state.transcript.append((answer.question, answer_text(answer)))
                if answer.sources and self.screen.has_class("-wide"):
                    self._show_passage(answer.sources[0])
                if answer.codes is not None:
                    self.state.codes_read = answer.codes
        self._show_reasons()

    def _show_reasons(self) -> None:
        self.dashboard.request_redraw()
        for number, turn in enumerate(self._waiting.values()):
            if self._model_state == "loading":
                turn.wait(f"waiting for model {sanitise(self.options.model)}…")
            else:
                turn.wait("waiting for the previous answer…" if number else "searching the bank…")

    @property
    def _covers_turns(self) -> bool:
        return self.query_one("#aside").has_class("-open") and self.screen.has_class("-narrow")

    def _show_passage(self, source: Source) -> None:
        self.query_one("#aside").add_class("-open")
        self.query_one(PassagePane).show(source)
        if self._covers_turns and self.screen.focused is not None:
            self.call_after_refresh(self.screen.focused.scroll_visible, animate=False)
        self.dashboard.request_redraw()

    def _show_about(self) -> None:
        """Show what can be asked about and, before the first question, what was read and asked last."""
        about, state = self.query_one("#about", Facts), self.state
        if state.bank_error is not None:
            about.update(no_bank_text(state.bank_error))
        elif self._model_error is not None:
            about.update(error_text(self._model_error))
        elif state.bank is not None:
            facts = [("memory", f"{display_path(self.options.bank)}: {content_summary(state.bank.totals)}")]
            if not self.query(ChatTurn):
                recent = ("read last", [*map(display_path, state.ingest.sources)]), ("asked last ↑", self._earlier)
                for label, lines in recent:
                    newest = dict.fromkeys(lines[::-1])
                    facts += [("", ""), *zip([label, *[""] * _MAX_RECENT], [*newest][:_MAX_RECENT], strict=False)]
            about.show(facts)
