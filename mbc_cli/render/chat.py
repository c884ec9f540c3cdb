"""A conversation with a bank on the terminal: all but the answers themselves."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.text import Text

from mbc_cli.render.answer import source_line
from mbc_cli.render.bank.facts import holdings
from mbc_cli.render.consoles import errors, notes, out, print_indented
from mbc_cli.render.reply import show_state
from mbc_cli.text import near, plain

if TYPE_CHECKING:
    from mbc_engine.bank import BankTotals
    from mbc_engine.errors import MBCError
    from mbc_engine.serving.ask import Reply

COMMANDS: Final = {
    "/sources": "the sources of the last answer in full",
    "/bank": "what the bank holds, and what it weighs; of several, each",
    "/history": "the questions so far, with their answers",
    "/help": "this list",
    "/quit": "the end; so does Ctrl-D",
}
_ABOUT: Final = (
    "Anything else is a question. Each stands alone: say again what it is about. An answer that was read names its "
    "file, the other one is from memory alone. Confidence, which a calibrated model tells, is the probability that the "
    "bank holds what was asked. Ctrl-C stops an answer. What other programs ingest meanwhile is found."
)


def show_welcome(banks: Sequence[Path], totals: "BankTotals") -> None:
    """What is asked, and how to go on."""
    notes.print(f"{' + '.join(map(near, banks))}: {holdings(totals)}.")
    notes.print("Ask what you want to know; /help tells more, Ctrl-D ends.")


def show_help() -> None:
    """What can be typed."""
    for command, told in COMMANDS.items():
        out.print(Text.assemble((f"{command:<10}", "cyan"), told))
    out.print(_ABOUT, soft_wrap=False)


def show_history(turns: Sequence[tuple[str, str | None]]) -> None:
    """Questions with their answers, None where one was withheld."""
    for number, (question, answer) in enumerate(turns, 1):
        label = f"{number}. "
        out.print(label + plain(question))
        print_indented(answer if answer is not None else "not known", by=len(label), style="bold" if answer else "dim")
    if not turns:
        notes.print("Nothing was asked yet.")


def show_passages(reply: "Reply | None", *, with_bank: bool) -> None:
    """The passages that an answer's sources remember, whole."""
    if reply is None:
        notes.print("Nothing was answered.")
        return
    if not reply.sources:
        notes.print("No sources were named.")
    for number, source in enumerate(reply.sources, 1):
        label = f"{number}. "
        out.print(source_line(label, source, with_bank=with_bank))
        for line in (source.passage or "").splitlines():
            print_indented(line, by=len(label))
        if not source.passage:
            print_indented("the text is not to be had", by=len(label), style="dim")
        show_state(source, by=len(label))


def show_error(error: "MBCError") -> None:
    """What went wrong with a question, on one line."""
    errors.print(Text(plain(f"{error.message} {error.hint or ''}".rstrip()), "red"))
