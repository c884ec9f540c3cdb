"""What another program may send with a question, to the server or to an assistant's tool, and its limits."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, Field

from mbc_cli.options import selection
from mbc_engine.question import AskOptions

LONGEST_QUESTION: Final = 8_000
MOST_SOURCES: Final = 20
_MOST_PATTERNS: Final = 20
_LONGEST_WORD: Final = 200
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


# Of a kind that matches quickly, whatever the path.
_Pattern = Annotated[
    str,
    Field(
        min_length=1,
        max_length=_LONGEST_WORD,
        json_schema_extra={"pattern": rf"^[^*\x00]*(\*+[^*\x00]*){{0,{_MOST_STARS}}}$"},
    ),
    AfterValidator(_affordable),
]
Word = Annotated[str, Field(min_length=1, max_length=_LONGEST_WORD)]


class QuestionFields(BaseModel):
    """How sure an answer must be, how many sources to name, and which documents to search."""

    sources: int = Field(AskOptions.sources, ge=0, le=MOST_SOURCES, description="How many source documents to return.")
    min_confidence: float | None = Field(
        None, ge=0, le=1, description="Give no answer below this confidence, from 0 to 1; left out, the model decides."
    )
    since: Word | None = Field(None, description="Only documents from this date on: 2024-05-31, 2024-05 or 2024.")
    as_of: Word | None = Field(None, description="Only documents up to this date; ages are measured back from it.")
    half_life: Word | None = Field(
        None, description="Halve a document's weight for each such period of age: 30d, 4w, 6m or 1y."
    )
    only: list[_Pattern] = Field(
        [],
        max_length=_MOST_PATTERNS,
        description="Only documents whose path matches one of these patterns, as in .gitignore, such as 'sport/**'.",
    )
    exclude: list[_Pattern] = Field(
        [], max_length=_MOST_PATTERNS, description="No documents whose path matches one of these patterns."
    )

    def options(self) -> AskOptions:
        """How the question is to be answered.

        Raises:
            ConfigError: a date, a period or a pattern is not valid, or two of them contradict each other.
        """
        return AskOptions(
            selection=selection(self.since, self.as_of, self.half_life, self.only, self.exclude),
            sources=self.sources,
            min_confidence=self.min_confidence,
        )
