"""The names of the ways to read a bank, for all who name one; what they do is in `model/reads.py`."""

from typing import Final, NamedTuple

from mbc_engine.errors import ConfigError

READ_MODES: Final = {
    "flat": "all documents at once, as in the paper",
    "hierarchical": "groups of documents, then the groups",
    "routed": "the few documents that fit best",
}


class ReadMode(NamedTuple):
    """A read, and the number that it makes something of, or None for the model's own."""

    name: str
    number: int | None


def parse_read_mode(text: str) -> ReadMode:
    """What NAME or NAME:NUMBER means.

    Raises:
        ConfigError: there is no such read, or that is no number.
    """
    name, colon, number = text.partition(":")
    if name not in READ_MODES or (colon and not (number.isascii() and number.isdecimal())):
        raise ConfigError(
            f"There is no read {text!r}.",
            hint=f"There are {', '.join(READ_MODES)}; a number may follow, as in routed:2.",
        )
    return ReadMode(name, int(number) if colon else None)
