"""Optional parts of mbc: whether the packages that one brings are installed, before any of them is imported."""

import importlib.util

from mbc_engine.errors import ConfigError


def installing(extra: str) -> str:
    """What brings an extra, typed in the folder of mbc: on the registries its name is another project's."""
    return f"pip install -c constraints.txt -e '.[{extra}]'"


def require_extra(extra: str, *packages: str, asked_by: str) -> None:
    """Make sure that the packages of an extra are there.

    Args:
        extra: its name.
        packages: what it brings.
        asked_by: what was typed that needs them.

    Raises:
        ConfigError: one of them is not installed.
    """
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise ConfigError(
            f"`{asked_by}` needs packages that are not installed: {', '.join(missing)}.",
            hint=f"Install them, in mbc's folder: {installing(extra)}",
        )
