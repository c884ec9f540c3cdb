"""`mbc config`: default options, in the user's config file."""

import json as json_
import os
from typing import Annotated, Any

import typer

from mbc_cli import config
from mbc_cli.formatting import display_path, sanitise
from mbc_cli.options import JsonOption, argument, complete_config_keys
from mbc_cli.render.terminal import notes, out, print_json, print_rows

_KEY = "An option, such as model, or a command and its option, such as ask.sources."
_VALUE = "The option's value; several if the option can be repeated."
KeyArgument = Annotated[str, argument("KEY", _KEY, complete_config_keys)]
ValueArgument = Annotated[list[str], argument("VALUE", _VALUE)]


def list_settings(*, json: JsonOption = False) -> None:
    """List the settings in the config file: key and value, tab-separated in a pipe.

    Examples:
      mbc config list
      mbc config list --json
    """
    path = config.config_path()
    settings = config.flatten_settings(config.read_config(path))
    if json:
        print_json({"path": str(path), "exists": os.path.exists(path), "settings": settings})
    elif settings:
        width = max(len(sanitise(key)) for key in settings)
        print_rows((("key", f"<{width}"), ("value", "")), ((key, _as_text(value)) for key, value in settings.items()))
    else:
        notes.print(f"Nothing is set in {display_path(path)}. Set something: mbc config set KEY VALUE")


def get(key: KeyArgument, *, json: JsonOption = False) -> None:
    """Print a setting. The exit code is 2 if it is not set.

    Examples:
      mbc config get model
      mbc config get ask.sources --json
    """
    settings = config.flatten_settings(config.read_config(config.config_path()))
    if key not in settings:
        raise config.not_set_error(config.config_path(), key)
    value = settings[key]
    if json:
        print_json(value)
        return
    for item in value if isinstance(value, list) else [value]:
        out.print(sanitise(_as_text(item)))


def set_(ctx: typer.Context, key: KeyArgument, values: ValueArgument, *, json: JsonOption = False) -> None:
    """Set an option's default; the command line and environment variables override it.

    KEY is an option's name, for every command that has it, or COMMAND.OPTION for one command, its words joined by
    dashes.

    Examples:
      mbc config set bank ~/work.mbc
      mbc config set ask.sources 5
      mbc config set ingest.ignore 'drafts/' '*.tmp'
      mbc config set bank-list.json true
    """
    options = config.find_key(config.options_by_key(ctx.find_root().command), key)
    _change(key, config.parse_value(key, options, values), as_json=json)


def unset(key: KeyArgument, *, json: JsonOption = False) -> None:
    """Remove a setting. The exit code is 2 if it is not set.

    Examples:
      mbc config unset ask.sources
    """
    _change(key, None, as_json=json)


def path(*, json: JsonOption = False) -> None:
    """Print the path of the config file, whether it exists or not.

    Examples:
      mbc config path
      $EDITOR "$(mbc config path)"
    """
    file = config.config_path()
    if json:
        print_json({"path": str(file), "exists": os.path.exists(file)})
    else:
        out.print(sanitise(file))


def _change(key: str, value: Any, *, as_json: bool) -> None:
    path = config.config_path()
    config.set_value(path, key, value)
    if as_json:
        print_json({"path": str(path), "key": key, "value": value})
    else:
        notes.print(sanitise(f"{key} {'is no longer set' if value is None else f'is {_as_text(value)}'} in {path}."))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json_.dumps(value, ensure_ascii=False, default=str)
