"""The keys of the config file, and what they mean to the commands.

A key is an option's long name. At the top of the file it holds for every command that has the option, in a table for
the command of that name alone: `[ask]`, and `[bank-list]` for `mbc bank list`. There is no list of keys: the commands
themselves say what they take.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from mbc_cli.command_tree import Words, commands_below, long_name
from mbc_cli.config.file import MEND, entries
from mbc_cli.text import plain
from mbc_engine.errors import ConfigError


@dataclass(frozen=True)
class Key:
    """A key, as `model` or `ask.sources`.

    Attributes:
        table: the command's, "" for the top of the file.
        name: the option's long name, without dashes in front.
        options: the options that it sets, by the words of their commands.
    """

    table: str
    name: str
    options: Mapping[Words, TyperOption]

    def __str__(self) -> str:
        return f"{self.table}.{self.name}" if self.table else self.name

    @property
    def option(self) -> TyperOption:
        """One of the options; they are all alike, but that some may be given several times where others may not."""
        return min(self.options.values(), key=lambda option: option.multiple)


def keys(root: TyperGroup) -> dict[str, Key]:
    """Every key that can be set: those of all commands, then those of each.

    At the top stands only what means the same wherever it is taken.
    """
    every: dict[str, dict[Words, TyperOption]] = {}
    alone = []
    for words, options in _options(root):
        for name, option in options.items():
            every.setdefault(name, {})[words] = option
            alone.append(Key("-".join(words), name, {words: option}))
    shared = [Key("", name, found) for name, found in every.items() if len({_meaning(o) for o in found.values()}) == 1]
    return {str(key): key for key in (*shared, *alone)}


def _options(root: TyperGroup) -> Iterator[tuple[Words, dict[str, TyperOption]]]:
    """Each command by its words, with the options that a file may set."""
    for words, command in commands_below(root):
        found = (option for option in command.params if isinstance(option, TyperOption) and option.expose_value)
        yield words, {long_name(option): option for option in found}


def _meaning(option: TyperOption) -> object:
    """What the options of one name have in common that mean the same.

    An environment variable holds for all that name it, so that the file may, too: --bank is one bank to most commands,
    and one or more to `mbc ask`.
    """
    return option.envvar or (option.help, option.multiple, option.is_flag)


def find_key(root: TyperGroup, typed: str) -> Key:
    """The key that was typed.

    Raises:
        ConfigError: there is no such option, or it means several things at the top.
    """
    known = keys(root)
    if typed in known:
        return known[typed]
    meant = [name for name, key in known.items() if key.table and key.name == typed]
    if meant:
        raise ConfigError(f"The commands mean different things by {typed}.", hint=f"Say which: {', '.join(meant)}.")
    near = get_close_matches(typed, known, cutoff=0.5)
    hint = (
        f"Did you mean {' or '.join(near)}?" if near else "Keys are options: model, bank, ask.sources, ingest.workers."
    )
    raise ConfigError(f"No command has an option for the key {typed}.", hint=hint)


def defaults(root: TyperGroup, table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """What a file says as a Click default map: parameters by name within their commands, those within their groups.

    Raises:
        ConfigError: a key is no option, or a value holds what no option takes.
    """
    found: dict[str, Any] = {}
    # What is for one command counts more than what is for all.
    for typed, value in sorted(entries(table), key=lambda entry: "." in entry[0]):
        try:
            key = find_key(root, typed)
        except ConfigError as error:
            raise ConfigError(
                f"{path}: {error.message}", hint=f"{error.hint} `mbc config unset {plain(typed)}` takes it out."
            ) from error
        for words, option in key.options.items():
            inner = found
            for word in words:
                inner = inner.setdefault(word, {})
            inner[option.name] = _given(value, is_list=option.multiple, origin=f"{path}: {typed}")
    return found


def _given(value: Any, *, is_list: bool, origin: str) -> Any:
    """A value as if it had been typed.

    Raises:
        ConfigError: nobody could have.
    """
    if is_list:
        return [_given(item, is_list=False, origin=origin) for item in (value if isinstance(value, list) else [value])]
    if isinstance(value, list | dict):
        raise ConfigError(f"{origin} takes one value.", hint=MEND)
    text = str(value)
    if plain(text) != text:
        raise ConfigError(f"{origin} holds a character that controls terminals: {text}", hint=MEND)
    if isinstance(value, bool):
        return value
    return os.path.expanduser(text) if text.startswith("~") else text  # noqa: PTH111


def checked(key: Key, typed: list[str]) -> Any:
    """A value for the file, from what was typed, judged as the option itself judges.

    Raises:
        ConfigError: the key takes one value.
        typer.BadParameter: the option does not take it.
    """
    option = key.option
    if not option.multiple and len(typed) != 1:
        raise ConfigError(f"{key} takes one value, not {len(typed)}.", hint="Put quotes around what holds spaces.")
    given = _given(typed if option.multiple else typed[0], is_list=option.multiple, origin=str(key))
    words = next(iter(key.options))
    context = typer.Context(TyperCommand(words[-1]), info_name=" ".join(("mbc", *words)))
    value = option.process_value(context, given)
    return (
        [_stored(item, text) for item, text in zip(value, given, strict=True)]
        if option.multiple
        else _stored(value, given)
    )


def _stored(value: Any, given: str) -> Any:
    """A path means the same from everywhere; numbers and switches are what they are, all else is text."""
    if isinstance(value, Path) or (os.sep in given and Path(given).exists()):
        return str(Path(given).absolute())
    return value if isinstance(value, bool | int | float) else given
