"""The options of a question that another program may send, to the server or to an assistant's tool, and their limits."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from mbc_cli.options import selection
from mbc_engine.question import AskOptions

LONGEST_QUESTION: Final = 8_000
MOST_SOURCES: Final = 20
# A star matches any length of a path, in every combination with the others: three take milliseconds for a name of 200
# characters, four a tenth of a second, six for ever.
_MOST_STARS: Final = 3


def _affordable(pattern: str) -> str:
    if "\0" in pattern:
        raise ValueError("a path cannot contain NUL")
    if len(re.findall(r"\*+", pattern)) > _MOST_STARS:
        raise ValueError(f"a pattern may have * or ** in at most {_MOST_STARS} places")
    return pattern


Word = Annotated[str, Field(min_length=1, max_length=200)]
_Patterns = Annotated[list[Annotated[Word, AfterValidator(_affordable)]], Field(max_length=20)]

SourceCount = Annotated[int, Field(ge=0, le=MOST_SOURCES, description="How many source documents to return.")]
MinConfidence = Annotated[
    Annotated[float, Field(ge=0, le=1)] | None,
    Field(description="Give no answer below this confidence, from 0 to 1; left out, the model decides."),
]
Since = Annotated[Word | None, Field(description="Only documents from this date on: 2024-05-31, 2024-05 or 2024.")]
AsOf = Annotated[Word | None, Field(description="Only documents up to this date; ages are measured back from it.")]
HalfLife = Annotated[
    Word | None, Field(description="Halve a document's weight for each such period of age: 30d, 4w, 6m or 1y.")
]
Only = Annotated[
    _Patterns,
    Field(
        description="Only documents whose path matches one of these patterns, as in .gitignore, such as 'sport/**'; "
        f"at most {_MOST_STARS} stars in each."
    ),
]
Exclude = Annotated[_Patterns, Field(description="No documents whose path matches one of these patterns.")]


def ask_options(
    *,
    sources: int,
    min_confidence: float | None,
    since: str | None,
    as_of: str | None,
    half_life: str | None,
    only: list[str],
    exclude: list[str],
) -> AskOptions:
    chosen = selection(since, as_of, half_life, only, exclude)
    return AskOptions(selection=chosen, sources=sources, min_confidence=min_confidence)
