"""The options of a question as fields of a request to `mbc serve` or `mbc mcp`, with their limits."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

MAX_QUESTION_LENGTH: Final = 8_000
MAX_SOURCES: Final = 20
# Matching tries every combination of the stars: three take milliseconds for a name of 200 characters, four a tenth of a
# second, six forever. Only a folder's whole name may be `**`; elsewhere each star of a run counts.
_MAX_STARS: Final = 3
_STARS: Final = re.compile(r"(?<![^/])\*\*(?![^/])|\*")
# Options of `mbc ask` that are fields of a request.
_OPTION: Final = re.compile(r"--(since|as-of|half-life|only|exclude|read|min-confidence|write)\b")


def as_fields(message: str) -> str:
    """An error message with options of `mbc ask` spelled as the fields of a request."""
    return _OPTION.sub(lambda match: match[1].replace("-", "_"), message)


def _limit_stars(pattern: str) -> str:
    if "\0" in pattern:
        raise ValueError("a path cannot contain NUL")
    if len(_STARS.findall(pattern)) > _MAX_STARS:
        raise ValueError(f"a pattern may have * or ** in at most {_MAX_STARS} places")
    return pattern


Word = Annotated[str, Field(min_length=1, max_length=200)]
_Patterns = Annotated[list[Annotated[Word, AfterValidator(_limit_stars)]], Field(max_length=20)]

SourceCount = Annotated[int, Field(ge=0, le=MAX_SOURCES, description="How many source documents to return.")]
Top = Annotated[int, Field(ge=1, le=MAX_SOURCES, description="How many passages to return, at most.")]
MinConfidence = Annotated[
    Annotated[float, Field(ge=0, le=1)] | None,
    Field(description="Give no answer below this confidence, from 0 to 1; left out, the model decides."),
]
Since = Annotated[Word | None, Field(description="Only documents from this date on: 2024-05-31, 2024-05 or 2024.")]
AsOf = Annotated[Word | None, Field(description="Only documents up to this date; ages are measured back from it.")]
HalfLife = Annotated[Word | None, Field(description="Half-life of a document's weight as it ages: 30d, 4w, 6m or 1y.")]
Only = Annotated[
    _Patterns,
    Field(
        description="Only documents whose path matches one of these patterns, as in .gitignore, such as 'sport/**'; "
        f"at most {_MAX_STARS} stars in each."
    ),
]
Exclude = Annotated[_Patterns, Field(description="Leave out documents whose path matches one of these patterns.")]
