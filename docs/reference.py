"""Generates docs/commands.md from the commands' own help: `python docs/reference.py`."""

import re
from pathlib import Path

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from mbc_cli.app import app
from mbc_cli.config import CommandPath, long_name, walk_commands

BEGIN, END = "<!-- written by python docs/reference.py -->", "<!-- end of what it writes -->"
_Command = tuple[CommandPath, TyperCommand | TyperGroup]


def reference() -> str:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    commands = [found for found in walk_commands(root, "mbc") if not found[1].hidden]
    return "\n".join(
        [
            "## All commands",
            "",
            "| command | | options |",
            "|---|---|---|",
            *map(_row, commands),
            "",
        ]
    )


def renewed(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{reference()}\n{END}{after}"


def _options(command: TyperCommand | TyperGroup) -> list[TyperOption]:
    return [option for option in command.params if isinstance(option, TyperOption)]


def _row(command: _Command) -> str:
    words, itself = command
    arguments = [_name(param) for param in itself.params if isinstance(param, TyperArgument)]
    summary = re.match(r"[^.]*(?:\.(?! )[^.]*)*\.?", " ".join(_plain(itself.help).split()))
    options = ", ".join(f"`--{long_name(option)}`" for option in _options(itself))
    return f"| `{_escaped(' '.join((*words, *arguments)))}` | {_escaped(summary[0] if summary else '')} | {options} |"


def _name(param: TyperArgument) -> str:
    name = (param.metavar or param.name.upper()) + (" ..." if param.nargs == -1 else "")
    return name if param.required else f"[{name}]"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _plain(text: str | None) -> str:
    return re.sub(r"\[/?b\]", "", text or "")


if __name__ == "__main__":
    page = Path(__file__).with_name("commands.md")
    page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
