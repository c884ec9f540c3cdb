"""The error hierarchy. Every error a user can cause or meet is one of these, saying what is wrong and what to do."""

import os


class MBCError(Exception):
    """An error in the user's words: a line saying what is wrong, and a hint on what to do next, or None."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(MBCError):
    """A preset, an override or an option that cannot be used."""

    exit_code = 2


class DataError(MBCError):
    """Documents or question files that cannot be read."""

    exit_code = 3


class ModelError(MBCError):
    """A model folder, hub id or weight file that cannot be used."""

    exit_code = 4


class ModelMismatch(ModelError):
    """A bank or an adapter that belongs to another model."""


class BankError(MBCError):
    """A bank that cannot be opened, read or written."""

    exit_code = 5


class BankBusy(BankError):
    """A bank that another process is still writing after the timeout."""


class BankDamaged(BankError):
    """A bank with invalid content."""


class ShardLost(BankError):
    """A bank of a cluster whose actor has ended; the next call is answered without it."""


class NothingToRead(BankError):
    """A bank that is empty, or has nothing that was selected."""


def require_several(given: object, name: str) -> None:
    """Raises ConfigError for a lone string or path: type checkers take a string for a sequence, of its letters."""
    if isinstance(given, str | os.PathLike):
        raise ConfigError(
            f"`{name}` takes several, not {os.fspath(given)!r} alone.", hint="Put it in a list or a tuple."
        )
