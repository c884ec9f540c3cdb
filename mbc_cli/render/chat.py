"""A conversation with a bank on the terminal: all but the answers themselves."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.text import Text

from mbc_cli.render.answer import NOT_IN_MEMORY, source_line
from mbc_cli.render.bank.facts import holdings
from mbc_cli.render.consoles import errors, notes, out, print_indented
from mbc_cli.render.reply import show_state
from mbc_cli.text import near, plain

if TYPE_CHECKING:
    from mbc_engine.bank import BankTotals
    from mbc_engine.errors import MBCError
    from mbc_engine.serving.ask import Reply

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
    for number, (question, answer) in enumerate(turns, 1):
        label = f"{number}. "
        out.print(label + plain(question))
        print_indented(NOT_IN_MEMORY if answer is None else answer, by=len(label), style="bold" if answer else "dim")
    if not turns:
        notes.print("No questions yet.")


def show_passages(reply: "Reply | None", *, with_bank: bool) -> None:
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
