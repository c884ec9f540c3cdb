"""The config file on the terminal, or as JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mbc_cli.render.consoles import notes, out, print_json, print_rows
from mbc_cli.text import near, plain


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
