"""The ways to read a bank, for all who name one; what they do is in `model/reads.py`."""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from mbc_engine.errors import ConfigError

# Each number is written in one way, so that reads are the same where their texts are.
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class ReadKind:
    """What can be said of a read before any model is loaded.

    Attributes:
        words: what it reads; the number that may be given with its name is N.
        least: the least such number; None if it takes none.
        needs_router: whether the model must have been trained with a router.
        reads_residual: whether codes may have several levels.
    """

    words: str
    least: int | None = None
    needs_router: bool = False
    reads_residual: bool = False


READ_MODES: Final = {
    "flat": ReadKind("all documents at once, as in the paper"),
    "hierarchical": ReadKind("groups of N documents, then the groups", least=2, reads_residual=True),
    "routed": ReadKind("the N documents that fit best", least=1, needs_router=True, reads_residual=True),
}


class ReadMode(NamedTuple):
    """A read, and the number that it makes something of, or None for the model's own."""

    name: str
    number: int | None


def parse_read_mode(text: str) -> ReadMode:
    """What NAME or NAME:NUMBER means.

    Raises:
        ConfigError: there is no such read, or it makes nothing of the number.
    """
    name, colon, number = text.partition(":")
    if name not in READ_MODES or (colon and not _NUMBER.fullmatch(number)):
        raise ConfigError(
            f"There is no read {text!r}.",
            hint=f"There are {', '.join(READ_MODES)}; a number may follow, as in routed:2.",
        )
    if not colon:
        return ReadMode(name, None)
    least = READ_MODES[name].least
    if least is None:
        raise ConfigError(f"The {name} read takes no number.", hint=f"Say {name} alone.")
    if int(number) < least:
        raise ConfigError(f"The number of a {name} read is at least {least}.", hint=f"For example {name}:{least}.")
    return ReadMode(name, int(number))
