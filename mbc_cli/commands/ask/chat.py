"""A conversation: questions typed one after the other, each standing alone."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mbc_cli.asking.question_history import QuestionHistory
from mbc_cli.commands.ask.editor import LineEditor
from mbc_cli.commands.ask.one import answer
from mbc_cli.commands.bank.info import info
from mbc_cli.paths import question_history
from mbc_cli.render.chat import COMMANDS, show_error, show_help, show_history, show_passages, show_welcome
from mbc_cli.render.consoles import notes, out
from mbc_cli.render.reply import show_times
from mbc_cli.text import plain
from mbc_engine.bank import Banks
from mbc_engine.documents.encoding import storable
from mbc_engine.errors import MBCError

if TYPE_CHECKING:
    from mbc_cli.asking.asker import Asker
    from mbc_engine.serving.ask import Reply

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
        self._last: Reply | None = None
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
        self._turns.append((question, reply.answer))
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
