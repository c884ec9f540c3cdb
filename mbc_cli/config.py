"""The user's config file, whose keys are the commands' options."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

import platformdirs
import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from mbc_cli.formatting import sanitise
from mbc_engine.atomic_write import atomic_write, make_private_folder
from mbc_engine.errors import ConfigError

PATH_VARIABLE: Final = "MBC_CONFIG"
_FIX = f"Edit it (`mbc config path` prints its path), or ignore it this time: {PATH_VARIABLE}=/dev/null mbc …"

# Options that have no validators of their own: the commands parse them together.
_PARSED_TOGETHER: Final = ("since", "as_of", "half_life", "only", "exclude")

CommandPath = tuple[str, ...]
# The options a key sets, each with its command's words.
Options = list[tuple[CommandPath, TyperOption]]


def config_path() -> Path:
    return Path(os.environ.get(PATH_VARIABLE) or platformdirs.user_config_path("mbc") / "config.toml")


def read_config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"The config file {path} cannot be read: {error}.", hint=_FIX) from error


def flatten_settings(content: Mapping[str, Any]) -> dict[str, Any]:
    """All keys with their values, in the file's order: `model`, `ask.sources`."""
    settings: dict[str, Any] = {}
    for name, value in content.items():
        table = {f".{option}": inner for option, inner in value.items()} if isinstance(value, Mapping) else {"": value}
        settings |= {f"{name}{option}": inner for option, inner in table.items()}
    return settings


def set_value(path: Path, key: str, value: Any) -> None:
    """Set a key, or remove it with None; the rest of the file and its comments stay."""
    import tomlkit

    known = flatten_settings(read_config(path))  # an unreadable file must not be overwritten
    if value is None and key not in known:
        raise not_set_error(path, key)
    document: Any = tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
    table, _, name = key.rpartition(".")
    inside = document.setdefault(table, tomlkit.table()) if table else document
    if not isinstance(inside, dict):
        raise ConfigError(f"{path} has a value for {table}, not a table.", hint=f"Remove it: mbc config unset {table}")
    if value is None:
        del inside[name]
    else:
        inside[name] = value
    if table and not inside:
        del document[table]
    target = Path(os.path.realpath(path))
    try:
        make_private_folder(target.parent)
        with atomic_write(target, is_private=True) as file:
            file.write(tomlkit.dumps(document).encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", hint="Check the path.") from error


def not_set_error(path: Path, key: str) -> ConfigError:
    return ConfigError(f"{key} is not set in {path}.", hint="`mbc config list` shows the settings.")


def walk_commands(group: TyperGroup, *words: str) -> Iterator[tuple[CommandPath, TyperCommand | TyperGroup]]:
    """All commands in order, each with its words, including groups that are commands themselves."""
    for word, command in group.commands.items():
        if not isinstance(command, TyperGroup) or command.invoke_without_command:
            yield (*words, word), cast("TyperCommand", command)
        if isinstance(command, TyperGroup):
            yield from walk_commands(command, *words, word)


def long_name(option: TyperOption) -> str:
    return max(option.opts, key=len).lstrip("-")


def options_by_key(program: Any) -> dict[str, Options]:
    """Every key that can be set: shared ones like `bank`, then those of one command like `ask.sources`.

    A shared key is an option that means the same in every command that has it: it has the same environment variable
    (though `mbc ask` takes several banks and others one) or the same description. Repeatable options come last.
    """
    shared: dict[str, Options] = {}
    single: dict[str, Options] = {}
    for words, command in walk_commands(program):
        for option in command.params:
            if isinstance(option, TyperOption) and option.expose_value:
                shared.setdefault(long_name(option), []).append((words, option))
                single[f"{'-'.join(words)}.{long_name(option)}"] = [(words, option)]
    for name, options in [*shared.items()]:
        options.sort(key=lambda entry: entry[1].multiple)
        if len({option.envvar or (option.help, option.multiple) for _, option in options}) > 1:
            del shared[name]
    return shared | single


def find_key(known: Mapping[str, Options], key: str) -> Options:
    """The options that a key sets. Raises ConfigError with a suggestion if there are none."""
    if key in known:
        return known[key]
    near = [name for name in known if name.endswith(f".{key}")] or get_close_matches(key, known, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Keys are options: model, bank, ask.sources."
    raise ConfigError(f"No command has an option for the key {key}.", hint=hint)


def default_map(program: Any, content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The file as a Click default map: parameters by name, nested by group and command."""
    defaults: dict[str, Any] = {}
    known = options_by_key(program) if content else {}
    # Keys of one command come last, and so override shared ones.
    for key, value in sorted(flatten_settings(content).items(), key=lambda entry: "." in entry[0]):
        try:
            options = find_key(known, key)
        except ConfigError as error:
            hint = f"{error.hint} `mbc config unset {sanitise(key)}` removes it."
            raise ConfigError(f"{path}: {error.message}", hint=hint) from error
        for words, option in options:
            inner = defaults
            for word in words:
                inner = inner.setdefault(word, {})
            inner[option.name] = _as_typed(value, is_list=option.multiple, origin=f"{path}: {key}")
    return defaults


def parse_value(key: str, options: Options, typed: list[str]) -> Any:
    """The typed value as stored in the file, validated by the option itself, which may raise typer.BadParameter.

    Paths, and files in datasets' names, are stored absolute, numbers and flags as they are, everything else as text.
    """
    words, option = options[0]
    if not option.multiple and len(typed) != 1:
        raise ConfigError(f"{key} takes one value, not {len(typed)}.", hint="Quote values with spaces.")
    given = _as_typed(typed, is_list=True, origin=key)
    context = typer.Context(TyperCommand(words[-1]), info_name=" ".join(("mbc", *words)))
    value = option.process_value(context, given if option.multiple else given[0])
    if option.name in _PARSED_TOGETHER:
        from mbc_cli.question_options import ask_options

        ask_options(**{**dict.fromkeys(_PARSED_TOGETHER), option.name: value})
    from mbc_engine.datasets.by_name import absolute

    stored: list[Any] = []
    is_there = os.path.isfile if option.metavar == "NAME|FILE" else lambda text: os.sep in text and os.path.exists(text)
    for parsed, text in zip(value if option.multiple else [value], given, strict=True):
        if option.metavar == "SPEC":
            stored.append(absolute(text))
        elif isinstance(parsed, Path) or is_there(text):
            stored.append(str(Path(text).absolute()))
        else:
            stored.append(parsed if isinstance(parsed, bool | int | float) else text)
    return stored if option.multiple else stored[0]


def _as_typed(value: Any, *, is_list: bool, origin: str) -> Any:
    """A value of the file as if it had been typed. Raises ConfigError if it could not have been."""
    if is_list:
        values = value if isinstance(value, list) else [value]
        return [_as_typed(item, is_list=False, origin=origin) for item in values]
    if isinstance(value, list | dict) or sanitise(value) != str(value):
        raise ConfigError(f"{origin} takes one value, without control characters.", hint=_FIX)
    return value if isinstance(value, bool) else os.path.expanduser(str(value))  # noqa: PTH111
