"""The user's config file on the disk: read, and changed with all else in it left as it is.

What its keys mean, `keys.py` says.
"""

import os
import shlex
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import platformdirs

from mbc_engine.errors import ConfigError
from mbc_engine.whole_file import make_private_folder, whole_file

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
        with whole_file(target, is_private=True) as file:
            file.write(text.encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", hint="Check the path.") from error
