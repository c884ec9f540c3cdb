"""Generates docs/commands.md from the commands' own help: `python docs/reference.py`."""

import re
from pathlib import Path
from typing import Literal, get_args, get_origin

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from mbc_cli.app import app
from mbc_cli.config import CommandPath, long_name, walk_commands
from mbc_cli.options import COMMON_PANEL

BEGIN, END = "<!-- written by python docs/reference.py -->", "<!-- end of what it writes -->"
_Command = tuple[CommandPath, TyperCommand | TyperGroup]


def reference() -> str:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    commands = [found for found in walk_commands(root, "mbc") if not found[1].hidden]
    return "\n".join(
        [
            "## Options that commands share",
            "",
            "| | |",
            "|---|---|",
            *(f"| `{_name(param)}` | {_help(param)} |" for param in _shared(commands)),
            "",
            "## All commands",
            "",
            "`mbc COMMAND --help` explains each option.",
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


def _shared(commands: list[_Command]) -> list[TyperOption]:
    """Options that mean the same in several commands."""
    found: dict[tuple[str, str | None], list[TyperOption]] = {}
    for _, command in commands:
        for option in _options(command):
            found.setdefault((option.name, option.help), []).append(option)
    return [same[0] for same in found.values() if len(same) > 1 and same[0].rich_help_panel != COMMON_PANEL]


def _row(command: _Command) -> str:
    words, itself = command
    arguments = [_name(param) for param in itself.params if isinstance(param, TyperArgument)]
    summary = re.match(r"[^.]*(?:\.(?! )[^.]*)*\.?", " ".join(_plain(itself.help).split()))
    options = ", ".join(f"`--{long_name(option)}`" for option in _options(itself))
    return f"| `{_escaped(' '.join((*words, *arguments)))}` | {_escaped(summary[0] if summary else '')} | {options} |"


def _name(param: TyperArgument | TyperOption) -> str:
    if isinstance(param, TyperArgument):
        name = (param.metavar or param.name.upper()) + (" ..." if param.nargs == -1 else "")
        return name if param.required else f"[{name}]"
    annotation = param.type_descriptor.annotation
    choices = get_args(annotation) if get_origin(annotation) is Literal else ("VALUE",)
    value = "" if param.is_flag else f" {param.metavar or '|'.join(choices)}"
    return _escaped(f"--{long_name(param)}{value}")


def _help(param: TyperArgument | TyperOption) -> str:
    parts = [_plain(param.help)]
    if isinstance(param.show_default, str):
        parts.append(f"Default: {param.show_default}.")
    elif param.default not in (None, False) and not callable(param.default) and isinstance(param, TyperOption):
        parts.append(f"Default: {param.default}.")
    if param.envvar:
        parts.append(f"Environment: `{param.envvar}`.")
    return _escaped(" ".join(parts))


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _plain(text: str | None) -> str:
    return re.sub(r"\[/?b\]", "", text or "")


if __name__ == "__main__":
    page = Path(__file__).with_name("commands.md")
    page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
