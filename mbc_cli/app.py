"""The `mbc` program: its commands, and the one place where errors become exit codes."""

import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from mbc_cli.commands import ask, calibrate, demo, evaluate, ingest, train
from mbc_cli.commands.bank import compact, documents, exchange, info, merge, remove, renew, verify
from mbc_engine import __version__
from mbc_engine.errors import MBCError

INTERRUPTED, UNEXPECTED = 130, 1
MEMORY, MODELS = "Memory", "Models"
LOOK, CHANGE, MOVE = "Look into it", "Change it", "Move it"

_HELP = "A compressed long-term memory for language models: a few bytes per document, sources included."
_EXIT_CODES = (
    "Exit codes: 0 done, 1 unexpected error, 2 wrong option or setting, 3 documents or questions, 4 model, 5 bank, "
    "130 interrupted."
)


class _Command(TyperCommand):
    """A command whose errors are told in a line or two, with an exit code that says what kind it was."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        is_debug = bool(ctx.find_root().params.get("debug"))
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except MBCError as error:
            if is_debug:
                traceback.print_exc()
            _tell(f"Error: {error.message}", error.hint)
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            _tell("Interrupted.", None)
            raise typer.Exit(INTERRUPTED) from error
        except Exception as error:
            if is_debug:
                traceback.print_exc()
            _tell(
                f"Unexpected error: {type(error).__name__}: {error}",
                None if is_debug else f"Run again with --debug to see where: mbc --debug{_words(ctx)} …",
            )
            raise typer.Exit(UNEXPECTED) from error


def _words(ctx: typer.Context) -> str:
    """The words of a command after the program's name, each with a space before it."""
    return ctx.command_path.removeprefix(ctx.find_root().command_path)


def _tell(what: str, hint: str | None) -> None:
    from rich.text import Text

    from mbc_cli.render.consoles import notes
    from mbc_cli.render.text import plain

    notes.print(Text(plain(what), "red"))
    if hint:
        notes.print(Text(f"  {plain(hint)}"))


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"mbc {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="mbc",
    help=_HELP,
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
banks = typer.Typer(help="Look into a bank, change it, move it to elsewhere.", no_args_is_help=True)


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


app.command("demo", cls=_Command, rich_help_panel=MEMORY)(demo.demo)
app.command("ingest", cls=_Command, rich_help_panel=MEMORY)(ingest.ingest)
app.command("ask", cls=_Command, rich_help_panel=MEMORY)(ask.ask)
app.add_typer(banks, name="bank", rich_help_panel=MEMORY)
banks.command("info", cls=_Command, rich_help_panel=LOOK)(info.info)
banks.command("list", cls=_Command, rich_help_panel=LOOK)(documents.list_documents)
banks.command("show", cls=_Command, rich_help_panel=LOOK)(documents.show)
banks.command("verify", cls=_Command, rich_help_panel=LOOK)(verify.verify)
banks.command("remove", cls=_Command, rich_help_panel=CHANGE)(remove.remove)
banks.command("merge", cls=_Command, rich_help_panel=CHANGE)(merge.merge)
banks.command("compact", cls=_Command, rich_help_panel=CHANGE)(compact.compact)
banks.command("export", cls=_Command, rich_help_panel=MOVE)(exchange.export)
banks.command("import", cls=_Command, rich_help_panel=MOVE)(exchange.import_)
banks.command("reencode", cls=_Command, rich_help_panel=MOVE)(renew.reencode)
banks.command("upgrade", cls=_Command, rich_help_panel=MOVE)(renew.upgrade)
app.command("train", cls=_Command, rich_help_panel=MODELS)(train.train)
app.command("eval", cls=_Command, rich_help_panel=MODELS)(evaluate.evaluate)
app.command("calibrate", cls=_Command, rich_help_panel=MODELS)(calibrate.calibrate)


def main() -> None:
    """Run the program; what a terminal's encoding lacks is printed as an escape, and read as a mark."""
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace")):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=errors)
    app()
