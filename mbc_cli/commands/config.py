"""`mbc config`: the options that are not typed each time."""

from typing import Annotated

import typer

from mbc_cli.completion import config_keys, config_values
from mbc_cli.options import JsonOption

KeyArgument = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="An option, as model, or a command and its option, as ask.sources.",
        autocompletion=config_keys,
    ),
]


def list_settings(*, json: JsonOption = False) -> None:
    """List what the config file says: key and value, tab-separated in a pipe.

    \b
    Examples:
      mbc config list
      mbc config list --json
    """
    from mbc_cli.config.file import config_path, entries, read_config
    from mbc_cli.render.config import settings_json, show_settings

    path = config_path()
    found = dict(entries(read_config(path)))
    if json:
        settings_json(path, found)
    else:
        show_settings(path, found)


def get(key: KeyArgument, *, json: JsonOption = False) -> None:
    """Print a value of the config file. Exit code 2 if it has none.

    \b
    Examples:
      mbc config get model
      mbc config get ask.sources --json
    """
    from mbc_cli.config.file import config_path, entries, not_set, read_config
    from mbc_cli.render.config import show_value, value_json

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
            help="What the option takes; several if it may be given again.",
            autocompletion=config_values,
        ),
    ],
    *,
    json: JsonOption = False,
) -> None:
    """Let an option have this value unless it is typed, or given by the environment.

    The key of an option alone is for all commands that have it; with a command in
    front, the words of a longer one joined by dashes, it is for that command.

    \b
    Examples:
      mbc config set bank ~/work.mbc
      mbc config set ask.sources 5
      mbc config set ingest.ignore 'drafts/' '*.tmp'
      mbc config set bank-list.json true
    """
    from mbc_cli.config.file import config_path, set_value
    from mbc_cli.config.keys import checked, find_key
    from mbc_cli.program import commands_of
    from mbc_cli.render.config import setting_json, show_setting

    path, found = config_path(), find_key(commands_of(ctx), key)
    value = checked(found, values)
    set_value(path, found.table, found.name, value)
    (setting_json if json else show_setting)(path, key, value)


def unset(key: KeyArgument, *, json: JsonOption = False) -> None:
    """Take a key out of the config file. Exit code 2 if it is not there.

    \b
    Examples:
      mbc config unset ask.sources
    """
    from mbc_cli.config.file import config_path, unset_value
    from mbc_cli.render.config import setting_json, show_setting

    path = config_path()
    unset_value(path, key)
    (setting_json if json else show_setting)(path, key, None)


def edit(ctx: typer.Context, *, json: JsonOption = False) -> None:
    """Open the config file in your editor, $VISUAL or $EDITOR, and see whether it can be used afterwards.

    \b
    Examples:
      mbc config edit
    """
    from mbc_cli.config.file import config_path, edited, entries, read_config
    from mbc_cli.config.keys import defaults
    from mbc_cli.program import commands_of
    from mbc_cli.render.config import settings_json, show_path

    path = config_path()
    edited(path)
    found = read_config(path)
    defaults(commands_of(ctx), found, path)
    if json:
        settings_json(path, dict(entries(found)))
    else:
        show_path(path)


def path(*, json: JsonOption = False) -> None:
    """Print where the config file is, whether there is one or not.

    \b
    Examples:
      mbc config path
    """
    from mbc_cli.config.file import config_path
    from mbc_cli.render.config import path_json, show_path

    (path_json if json else show_path)(config_path())
