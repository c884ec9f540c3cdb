"""Lines typed on a terminal, with arrow keys and a history that outlives the session, where there is `readline`.

One question: its answer, word by word where it is generated, and its sources.

A conversation with a bank on the terminal: all but the answers themselves.

A conversation: questions typed one after the other, each standing alone.
"""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.text import Text

from mbc_cli.asking import QuestionHistory
from mbc_cli.commands.bank.show import info
from mbc_cli.paths import question_history
from mbc_cli.render.answer import (
    NOT_IN_MEMORY,
    AnswerStream,
    reply_json,
    show_reply,
    show_state,
    show_times,
    source_line,
)
from mbc_cli.render.bank import holdings
from mbc_cli.render.terminal import errors, notes, out, print_indented, print_json
from mbc_cli.text import near, plain
from mbc_engine.bank import Banks
from mbc_engine.errors import MBCError
from mbc_engine.text.decoding import storable

if TYPE_CHECKING:
    from mbc_cli.asking import Asker
    from mbc_engine.bank import BankTotals
    from mbc_engine.question import Answer


try:
    import readline
except ImportError:  # not every system has it
    readline = None  # type: ignore[assignment]

PROMPT: Final = "? "


class LineEditor:
    """Call it for the next line.

    Args:
        history: what was typed before, and keeps what is typed.
        words: what the tab key completes at the beginning of a line.
    """

    def __init__(self, history: QuestionHistory, words: Sequence[str] = ()) -> None:
        self._history, self._words = history, words
        if readline is not None:
            self._set_up()

    def __call__(self) -> str:
        """The next line; "" for one that was begun and given up with Ctrl-C.

        Raises:
            EOFError: there is none.
            KeyboardInterrupt: on Ctrl-C where nothing was typed.
        """
        if not sys.stdout.isatty():  # the prompt must not stand among the answers
            notes.print(PROMPT, end="")
            return input()
        if readline is None:
            return input(PROMPT)
        before = readline.get_current_history_length()
        try:
            line = input(PROMPT)
        except KeyboardInterrupt:
            if not readline.get_line_buffer():
                raise
            notes.print()
            return ""
        if readline.get_current_history_length() > before:  # not where it is empty, or the same again
            self._history.add(line)
        return line

    def _set_up(self) -> None:
        readline.set_auto_history(True)
        readline.set_completer_delims("")
        readline.set_completer(self._completed)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        for line in self._history.read():
            readline.add_history(line)

    def _completed(self, typed: str, number: int) -> str | None:
        fitting = [word for word in self._words if word.startswith(typed)]
        return fitting[number] if typed and number < len(fitting) else None


def ask_one(asker: "Asker", *, question: str, as_json: bool) -> None:
    """What `mbc ask QUESTION` does."""
    if as_json:
        (reply,) = asker.ask([question])
        print_json(reply_json(reply, asker.paths, asker.loading))
        return
    reply = answer(asker, question)
    show_times(reply, asker.loading)


def answer(asker: "Asker", question: str) -> "Answer":
    """Show the answer to a question and return it."""
    is_live = out.is_terminal and asker.can_be_streamed
    with AnswerStream() as stream:
        (reply,) = asker.ask([question], stream if is_live else None)
    show_reply(reply, with_bank=len(asker.paths) > 1, is_streamed=stream.has_begun)
    return reply


COMMANDS: Final = {
    "/sources": "show the passages behind the last answer in full",
    "/bank": "show what each bank holds and how large it is",
    "/history": "list the questions so far with their answers",
    "/help": "show this list",
    "/quit": "quit; so does Ctrl-D",
}
_ABOUT: Final = (
    "Anything else is a question. Each question stands alone, so name what it is about. Below an answer stands how "
    "likely it is right, and the file it was read in. Ctrl-C stops an answer. Documents that other programs ingest in "
    "the meantime are found."
)


def show_welcome(banks: Sequence[Path], totals: "BankTotals") -> None:
    """Which banks are asked, and how."""
    notes.print(f"{' + '.join(map(near, banks))}: {holdings(totals)}.")
    notes.print("Type a question; /help shows the commands, Ctrl-D quits.")


def show_help() -> None:
    """What can be typed."""
    for command, told in COMMANDS.items():
        out.print(Text.assemble((f"{command:<10}", "cyan"), told))
    out.print(_ABOUT, soft_wrap=False)


def show_history(turns: Sequence[tuple[str, str | None]]) -> None:
    """Questions with their answers, None where there is none."""
    for number, (question, said) in enumerate(turns, 1):
        label = f"{number}. "
        out.print(label + plain(question))
        print_indented(NOT_IN_MEMORY if said is None else said, by=len(label), style="bold" if said else "dim")
    if not turns:
        notes.print("No questions yet.")


def show_passages(reply: "Answer | None", *, with_bank: bool) -> None:
    """The passages of an answer's sources in full."""
    if reply is None:
        notes.print("There is no answer yet.")
        return
    if not reply.sources:
        notes.print("The last answer has no sources.")
    for number, source in enumerate(reply.sources, 1):
        label = f"{number}. "
        out.print(source_line(label, source, with_bank=with_bank))
        for line in (source.passage or "").splitlines():
            print_indented(line, by=len(label))
        if not source.passage:
            print_indented("the text is not available", by=len(label), style="dim")
        show_state(source, by=len(label))


def show_error(error: "MBCError") -> None:
    """What went wrong with a question, on one line."""
    errors.print(Text(plain(f"{error.message} {error.hint or ''}".rstrip()), "red"))


# A question may begin with a path.
_COMMAND: Final = re.compile(r"/\w*")


def chat(asker: "Asker") -> None:
    """What `mbc ask` does on a terminal."""
    with Banks.open(asker.paths) as banks:
        show_welcome(asker.paths, banks.totals())
    converse(asker, LineEditor(QuestionHistory(question_history()), tuple(COMMANDS)))


def converse(asker: "Asker", read_line: Callable[[], str]) -> None:
    """Answer what is typed until it ends.

    Args:
        asker: whom to ask.
        read_line: gives the next line; raises EOFError at the end, KeyboardInterrupt on Ctrl-C.
    """
    conversation = _Conversation(asker)
    was_interrupted = False
    while not conversation.is_over:
        try:
            line = read_line().strip()
        except EOFError:
            notes.print()
            return
        except KeyboardInterrupt:
            notes.print()
            if was_interrupted:
                return
            was_interrupted = True
            notes.print("Press Ctrl-C again, or Ctrl-D, to quit.", style="dim")
            continue
        was_interrupted = False
        try:
            conversation.take(storable(line))
        except MBCError as error:
            show_error(error)
        except KeyboardInterrupt:
            notes.print("Stopped.", style="dim")


class _Conversation:
    """What was said so far.

    Args:
        asker: whom to ask.
    """

    def __init__(self, asker: "Asker") -> None:
        self._asker = asker
        self._turns: list[tuple[str, str | None]] = []
        self._last: Answer | None = None
        self.is_over = False

    def take(self, line: str) -> None:
        """A question, or a command."""
        word = line.partition(" ")[0]
        if not word:
            return
        if not _COMMAND.fullmatch(word):
            self._ask(line)
        elif word in COMMANDS:
            self._obey(word)
        else:
            notes.print(f"There is no command {plain(word)}; /help lists them.", style="yellow")

    def _ask(self, question: str) -> None:
        self._last = None  # what is not answered leaves no sources
        reply = self._last = answer(self._asker, question)
        self._turns.append((question, reply.text))
        show_times(reply)
        out.print()

    def _obey(self, command: str) -> None:
        match command:
            case "/sources":
                show_passages(self._last, with_bank=len(self._asker.paths) > 1)
            case "/bank":
                for number, path in enumerate(self._asker.paths):
                    if number:
                        out.print()
                    info(bank=path)
            case "/history":
                show_history(self._turns)
            case "/help":
                show_help()
            case "/quit":
                self.is_over = True
