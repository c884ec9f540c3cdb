"""The user's config: options that are not typed each time.

The user's config file on the disk: read, and changed with all else in it left as it is.

The commands of a group and of the groups in it, each by its words, and what their options are called.

The keys of the config file, and what they mean to the commands.
"""

import os
import shlex
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import platformdirs
import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from mbc_cli.text import plain
from mbc_engine.atomic_write import atomic_write, make_private_folder
from mbc_engine.errors import ConfigError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.container import Container


PATH_VARIABLE: Final = "MBC_CONFIG"
MEND: Final = f"Mend it with `mbc config edit`, or go on without: {PATH_VARIABLE}=/dev/null mbc …"
_NEW: Final = """\
# Options for mbc. At the top, for every command that has them:
# bank = "~/work.mbc"

# For one command:
# [ask]
# sources = 5
"""


def config_path() -> Path:
    """Where the file is, whether there is one or not."""
    return Path(os.environ.get(PATH_VARIABLE) or platformdirs.user_config_path("mbc") / "config.toml")


def read_config(path: Path) -> dict[str, Any]:
    """What the file says; nothing if there is none.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"The config file {path} cannot be read: {reason}.", hint=MEND) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"The config file {path} is not TOML: {error}.", hint=MEND) from error


def configured(key: str) -> str | None:
    """A value from the top of the file, for what is no command's option; None if it says nothing that can be read."""
    try:
        value = read_config(config_path()).get(key)
    except ConfigError:
        return None
    return os.path.expanduser(value) if isinstance(value, str) and value else None  # noqa: PTH111


def entries(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """All keys with their values, as they stand in the file."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", value) for inner, value in value.items())
        else:
            yield name, value


def set_value(path: Path, table: str, name: str, value: Any) -> None:
    """Write a value of a table, "" for the top of the file.

    Raises:
        ConfigError: the file cannot be read or written, or has a value where the table would be.
    """
    import tomlkit
    from tomlkit.items import Table

    document = _parsed(path)
    if not table:
        _put(document, name, value)
    else:
        inside = document.setdefault(table, tomlkit.table())
        if isinstance(inside, Table):
            _put(inside.value, name, value)
        elif isinstance(inside, dict):  # written in braces
            inside[name] = value
        else:
            raise ConfigError(
                f"{path} has a value for {table}, not a table.", hint=f"`mbc config unset {table}` helps."
            )
    _write(path, tomlkit.dumps(document))


def _put(container: "Container", name: str, value: Any) -> None:
    """Set a key. A new one stands behind the others, and above the comment that is there for what follows."""
    from tomlkit.items import Comment, Whitespace

    is_new, body = name not in container, container.body
    container[name] = value
    if not is_new:
        return
    place = now = next(number for number, (key, _) in enumerate(body) if key is not None and key.key == name)
    while place and isinstance(body[place - 1][1], Comment):
        place -= 1
    while place and isinstance(body[place - 1][1], Whitespace):
        place -= 1
    if place or now + 1 < len(body):  # a heading that is alone in the file stays above
        body.insert(place, body.pop(now))


def unset_value(path: Path, typed: str) -> None:
    """Take a key out, whether it is one or not.

    Raises:
        ConfigError: it is not in the file, or that cannot be read or written.
    """
    import tomlkit

    document: Any = _parsed(path)
    name, _, inner = typed.partition(".")
    try:
        if inner:
            table = document[name]
            del table[inner]
            if not table:
                del document[name]
        else:
            del document[name]
    except (KeyError, TypeError) as error:
        raise not_set(path, typed) from error
    _write(path, tomlkit.dumps(document))


def not_set(path: Path, key: str) -> ConfigError:
    """The error of a key that the file does not have."""
    return ConfigError(f"{key} is not set in {path}.", hint="`mbc config list` shows what is.")


def edited(path: Path) -> None:
    """Open the file in the user's editor, made if there is none, and wait for its end.

    Raises:
        ConfigError: there is no editor, or it failed.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    if not path.exists():
        _write(path, _NEW)
    try:
        done = subprocess.run([*shlex.split(command), str(path)], check=False)  # noqa: S603  # the user's own editor
    except (OSError, ValueError) as error:
        raise ConfigError(f"The editor {command} cannot be run.", hint=f"Set EDITOR, or open {path}.") from error
    if done.returncode:
        raise ConfigError(f"The editor {command} ended with exit code {done.returncode}.", hint=f"The file is {path}.")


def _parsed(path: Path) -> "TOMLDocument":
    import tomlkit

    read_config(path)  # what cannot be read must not be written over
    return tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")


def _write(path: Path, text: str) -> None:
    target = Path(os.path.realpath(path))
    try:
        make_private_folder(target.parent)
        with atomic_write(target, is_private=True) as file:
            file.write(text.encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", hint="Check the path.") from error


Words = tuple[str, ...]


def commands_below(group: TyperGroup, *words: str) -> Iterator[tuple[Words, TyperCommand | TyperGroup]]:
    """All commands in their order, groups that are commands by themselves among them.

    Args:
        group: where to begin.
        words: that lead to it.
    """
    for word, command in group.commands.items():
        if isinstance(command, TyperGroup):
            if command.invoke_without_command:
                yield (*words, word), command
            yield from commands_below(command, *words, word)
        elif isinstance(command, TyperCommand):
            yield (*words, word), command


def long_name(option: TyperOption) -> str:
    """An option's longest name, without dashes in front."""
    return max(option.opts, key=len).lstrip("-")


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
