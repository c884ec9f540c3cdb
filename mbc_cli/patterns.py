"""Patterns of paths that other programs send: of a kind that matches quickly, whatever the path."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

_LONGEST: Final = 200
# Each star may take any length of a path, in every combination with the others: 3 of them take milliseconds for a name
# of 200 characters, 4 take a tenth of a second, 6 for ever, in which nobody else is answered.
_MOST_STARS: Final = 3
_STARS: Final = re.compile(r"\*+")


def _affordable(pattern: str) -> str:
    if "\0" in pattern:
        raise ValueError("no path holds a NUL")
    if len(_STARS.findall(pattern)) > _MOST_STARS:
        raise ValueError(f"a pattern may have * or ** in at most {_MOST_STARS} places")
    return pattern


Pattern = Annotated[
    str,
    Field(
        min_length=1,
        max_length=_LONGEST,
        json_schema_extra={"pattern": rf"^[^*\x00]*(\*+[^*\x00]*){{0,{_MOST_STARS}}}$"},
    ),
    AfterValidator(_affordable),
]
