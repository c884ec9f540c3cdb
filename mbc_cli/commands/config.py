"""`mbc config`: the options that are not typed each time."""

from typing import Annotated

import typer

from mbc_cli.completion import config_keys, config_values
from mbc_cli.options import JsonOption

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
    from mbc_cli.config.file import config_path, entries, read_config
    from mbc_cli.render.config import settings_json, show_settings

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
    from mbc_cli.config.file import config_path, set_value
    from mbc_cli.config.keys import checked, find_key
    from mbc_cli.program import commands_of
    from mbc_cli.render.config import setting_json, show_setting

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
    from mbc_cli.config.file import config_path, unset_value
    from mbc_cli.render.config import setting_json, show_setting

    path = config_path()
    unset_value(path, key)
    (setting_json if json else show_setting)(path, key, None)


def edit(ctx: typer.Context, *, json: JsonOption = False) -> None:
    """Edit the config file in $VISUAL or $EDITOR, then check it.

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
    """Print the path of the config file, whether it exists or not.

    \b
    Examples:
      mbc config path
    """
    from mbc_cli.config.file import config_path
    from mbc_cli.render.config import path_json, show_path

    (path_json if json else show_path)(config_path())
