"""The user's config file: defaults for options, as TOML. Its keys are the commands' own options."""

import os
import shlex
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
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

PATH_VARIABLE: Final = "MBC_CONFIG"
_CORRECT: Final = f"Correct it with `mbc config edit`, or ignore it for once: {PATH_VARIABLE}=/dev/null mbc …"
_TEMPLATE: Final = (
    '# For every command with this option:\n# bank = "~/work.mbc"\n\n# For one command:\n# ask.sources = 5\n'
)

Words = tuple[str, ...]
# The options that a key sets, by the words of their commands.
Options = dict[Words, TyperOption]


def config_path() -> Path:
    """Where the file is, whether it exists or not."""
    return Path(os.environ.get(PATH_VARIABLE) or platformdirs.user_config_path("mbc") / "config.toml")


def read_config(path: Path) -> dict[str, Any]:
    """The content of the file; empty if there is none.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"The config file {path} is not TOML: {error}.", hint=_CORRECT) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"The config file {path} cannot be read: {reason}.", hint=_CORRECT) from error


def configured(key: str) -> str | None:
    """A value from the top of the file, for code outside of commands; None if it is not set or cannot be read."""
    try:
        value = read_config(config_path()).get(key)
    except ConfigError:
        return None
    return os.path.expanduser(value) if isinstance(value, str) and value else None  # noqa: PTH111


def entries(content: Mapping[str, Any]) -> dict[str, Any]:
    """All keys with their values, in the file's order: `model`, `ask.sources`."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        found |= {f"{name}.{own}": its for own, its in value.items()} if isinstance(value, Mapping) else {name: value}
    return found


def set_value(path: Path, key: str, value: Any) -> None:
    """Set a key; None removes it. All else in the file, with its comments, stays as it is.

    Raises:
        ConfigError: the file cannot be read or written, has a value where the table would be, or has no such key.
    """
    import tomlkit

    document: Any = _parsed(path)
    table, _, name = key.rpartition(".")
    inside = document.setdefault(table, tomlkit.table()) if table else document
    if not isinstance(inside, dict):
        raise ConfigError(f"{path} has a value for {table}, not a table.", hint=f"Remove it: mbc config unset {table}")
    if value is not None:
        inside[name] = value
    elif name in inside:
        del inside[name]
    else:
        raise not_set(path, key)
    if table and not inside:
        del document[table]
    _write(path, tomlkit.dumps(document))


def not_set(path: Path, key: str) -> ConfigError:
    """The error of a key that the file does not have."""
    return ConfigError(f"{key} is not set in {path}.", hint="`mbc config list` shows the settings.")


def edit_file(path: Path) -> None:
    """Open the file in the user's editor and wait for its end.

    Raises:
        ConfigError: there is no editor, or it failed.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    if not path.exists():
        _write(path, _TEMPLATE)
    try:
        subprocess.run([*shlex.split(command), str(path)], check=True)  # noqa: S603  # the user's own editor
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"The editor {command} failed.", hint=f"Set EDITOR, or open {path}.") from error


def _parsed(path: Path) -> "TOMLDocument":
    import tomlkit

    read_config(path)  # what cannot be read must not be overwritten
    return tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")


def _write(path: Path, text: str) -> None:
    target = Path(os.path.realpath(path))
    try:
        make_private_folder(target.parent)
        with atomic_write(target, is_private=True) as file:
            file.write(text.encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", hint="Check the path.") from error


def commands_below(group: TyperGroup, *words: str) -> Iterator[tuple[Words, TyperCommand | TyperGroup]]:
    """All commands in their order, each by its words; groups that are commands by themselves among them."""
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


def keys(root: TyperGroup) -> dict[str, Options]:
    """Every key that can be set: `bank` for all commands that have the option, then `ask.sources` for one command.

    A key for all commands is an option that means the same to all that have it.
    """
    every: dict[str, Options] = {}
    own: dict[str, Options] = {}
    for words, command in commands_below(root):
        for option in command.params:
            if isinstance(option, TyperOption) and option.expose_value:
                every.setdefault(long_name(option), {})[words] = option
                own[f"{'-'.join(words)}.{long_name(option)}"] = {words: option}
    return {name: found for name, found in every.items() if len(set(map(_meaning, found.values()))) == 1} | own


def _meaning(option: TyperOption) -> object:
    """An environment variable means the same to all that name it, though `mbc ask` takes several banks and others one."""
    return option.envvar or (option.help, option.multiple, option.is_flag)


def find_key(root: TyperGroup, key: str) -> Options:
    """The options that a key sets.

    Raises:
        ConfigError: there is no such option, or it means several things at the top.
    """
    known = keys(root)
    if key in known:
        return known[key]
    if meant := [name for name in known if name.rpartition(".")[2] == key]:
        raise ConfigError(f"{key} means different things to different commands.", hint=f"Use {' or '.join(meant)}.")
    near = get_close_matches(key, known, cutoff=0.5)
    hint = (
        f"Did you mean {' or '.join(near)}?" if near else "Keys are options: model, bank, ask.sources, ingest.workers."
    )
    raise ConfigError(f"No command has an option for the key {key}.", hint=hint)


def one_of(options: Options) -> TyperOption:
    """One of the options of a key: they are alike, but some may be repeated, and this one only if all may be."""
    return min(options.values(), key=lambda option: option.multiple)


def defaults(root: TyperGroup, content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The content of the file as a Click default map: parameters by name, within their commands and groups.

    Raises:
        ConfigError: a key is no option, or its value is nothing that an option takes.
    """
    found: dict[str, Any] = {}
    # What is for one command comes last, and so overrides what is for all.
    for key, value in sorted(entries(content).items(), key=lambda entry: "." in entry[0]):
        try:
            options = find_key(root, key)
        except ConfigError as error:
            hint = f"{error.hint} `mbc config unset {plain(key)}` removes it."
            raise ConfigError(f"{path}: {error.message}", hint=hint) from error
        for words, option in options.items():
            inner = found
            for word in words:
                inner = inner.setdefault(word, {})
            inner[option.name] = _as_typed(value, is_list=option.multiple, origin=f"{path}: {key}")
    return found


def checked(key: str, options: Options, typed: list[str]) -> Any:
    """A value for the file, from what was typed, checked by the option itself.

    Raises:
        ConfigError: the key takes one value.
        typer.BadParameter: the option does not take it.
    """
    option, words = one_of(options), next(iter(options))
    if not option.multiple and len(typed) != 1:
        raise ConfigError(f"{key} takes one value, not {len(typed)}.", hint="Quote values with spaces.")
    given = _as_typed(typed if option.multiple else typed[0], is_list=option.multiple, origin=key)
    context = typer.Context(TyperCommand(words[-1]), info_name=" ".join(("mbc", *words)))
    value = option.process_value(context, given)
    return list(map(_stored, value, given)) if option.multiple else _stored(value, given)


def _as_typed(value: Any, *, is_list: bool, origin: str) -> Any:
    """A value as if it had been typed."""
    if is_list:
        return [
            _as_typed(item, is_list=False, origin=origin) for item in (value if isinstance(value, list) else [value])
        ]
    if isinstance(value, list | dict):
        raise ConfigError(f"{origin} takes one value.", hint=_CORRECT)
    text = str(value)
    if plain(text) != text:
        raise ConfigError(f"{origin} holds a character that controls terminals: {text}", hint=_CORRECT)
    return value if isinstance(value, bool) else os.path.expanduser(text) if text.startswith("~") else text  # noqa: PTH111


def _stored(value: Any, given: str) -> Any:
    """A path is stored absolute; numbers and switches are what they are, all else is text."""
    if isinstance(value, Path) or (os.sep in given and Path(given).exists()):
        return str(Path(given).absolute())
    return value if isinstance(value, bool | int | float) else given
