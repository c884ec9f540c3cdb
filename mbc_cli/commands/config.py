"""`mbc config`: the options that are not typed each time.

The config file on the terminal, or as JSON.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from mbc_cli.completion import config_keys, config_values
from mbc_cli.options import JsonOption
from mbc_cli.render.terminal import notes, out, print_json, print_rows
from mbc_cli.text import near, plain

KeyArgument = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="An option, such as model, or a command and its option, such as ask.sources.",
        autocompletion=config_keys,
    ),
]


def list_settings(*, json: JsonOption = False) -> None:
    """List the settings in the config file: key and value, tab-separated in a pipe.

    \b
    Examples:
      mbc config list
      mbc config list --json
    """
    from mbc_cli.config import config_path, entries, read_config

    path = config_path()
    found = dict(entries(read_config(path)))
    if json:
        settings_json(path, found)
    else:
        show_settings(path, found)


def get(key: KeyArgument, *, json: JsonOption = False) -> None:
    """Print a setting. The exit code is 2 if it is not set.

    \b
    Examples:
      mbc config get model
      mbc config get ask.sources --json
    """
    from mbc_cli.config import config_path, entries, not_set, read_config

    path = config_path()
    found = dict(entries(read_config(path)))
    if key not in found:
        raise not_set(path, key)
    (value_json if json else show_value)(found[key])


def set_(
    ctx: typer.Context,
    key: KeyArgument,
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="VALUE",
            help="The option's value; several if the option can be repeated.",
            autocompletion=config_values,
        ),
    ],
    *,
    json: JsonOption = False,
) -> None:
    """Set an option's default; the command line and environment variables override it.

    An option's name sets it for every command that has it; COMMAND.OPTION sets it for
    one command, whose words are joined by dashes.

    \b
    Examples:
      mbc config set bank ~/work.mbc
      mbc config set ask.sources 5
      mbc config set ingest.ignore 'drafts/' '*.tmp'
      mbc config set bank-list.json true
    """
    from mbc_cli.config import checked, config_path, find_key, set_value
    from mbc_cli.program import commands_of

    path, found = config_path(), find_key(commands_of(ctx), key)
    value = checked(found, values)
    set_value(path, found.table, found.name, value)
    (setting_json if json else show_setting)(path, key, value)


def unset(key: KeyArgument, *, json: JsonOption = False) -> None:
    """Remove a setting. The exit code is 2 if it is not set.

    \b
    Examples:
      mbc config unset ask.sources
    """
    from mbc_cli.config import config_path, unset_value

    path = config_path()
    unset_value(path, key)
    (setting_json if json else show_setting)(path, key, None)


def edit(ctx: typer.Context, *, json: JsonOption = False) -> None:
    """Edit the config file in $VISUAL or $EDITOR, then check it.

    \b
    Examples:
      mbc config edit
    """
    from mbc_cli.config import config_path, defaults, edited, entries, read_config
    from mbc_cli.program import commands_of

    path = config_path()
    edited(path)
    found = read_config(path)
    defaults(commands_of(ctx), found, path)
    if json:
        settings_json(path, dict(entries(found)))
    else:
        show_path(path)


def path(*, json: JsonOption = False) -> None:
    """Print the path of the config file, whether it exists or not.

    \b
    Examples:
      mbc config path
    """
    from mbc_cli.config import config_path

    (path_json if json else show_path)(config_path())


def show_settings(path: Path, found: Mapping[str, Any]) -> None:
    """A line a key."""
    if not found:
        notes.print(f"Nothing is set in {near(path)}. Set something: mbc config set KEY VALUE")
        return
    width = max(map(len, map(plain, found)))
    print_rows((("key", f"<{width}"), ("value", "")), ((key, _told(value)) for key, value in found.items()))


def settings_json(path: Path, found: Mapping[str, Any]) -> None:
    """The same as JSON; a day of TOML is text."""
    print_json({"path": str(path), "exists": path.exists(), "settings": {k: _plain_json(v) for k, v in found.items()}})


def show_value(value: Any) -> None:
    """A value alone on stdout, each of several on its line."""
    for item in value if isinstance(value, list) else [value]:
        out.print(plain(_told(item)))


def value_json(value: Any) -> None:
    """The same as JSON."""
    print_json(_plain_json(value))


def show_setting(path: Path, key: str, value: Any) -> None:
    """What was done to a key; None took it out."""
    done = "is not set any more" if value is None else f"is {_told(value)}"
    notes.print(plain(f"{key} {done} in {path}."))


def setting_json(path: Path, key: str, value: Any) -> None:
    """The same as JSON."""
    print_json({"path": str(path), "key": key, "value": _plain_json(value)})


def show_path(path: Path) -> None:
    """Where it is, alone on stdout."""
    out.print(plain(path))


def path_json(path: Path) -> None:
    """The same as JSON."""
    print_json({"path": str(path), "exists": path.exists()})


def _told(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(_plain_json(value), ensure_ascii=False)


def _plain_json(value: Any) -> Any:
    """JSON has no days, which TOML has."""
    return json.loads(json.dumps(value, default=str))
