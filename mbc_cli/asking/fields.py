"""What another program may send with a question, in a request to the server or to an assistant's tool, and its limits."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, Field

from mbc_cli.asking.manner import Manner
from mbc_cli.asking.selecting import selection
from mbc_engine.serving.answers import Answers

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
    """Which answers are wanted, and of which documents."""

    answers: Literal["both", "memory", "read"] | None = Field(
        None,
        description="Which answers to give: from memory, which is the bank's codes alone; read, in the files they "
        "lead to; or both. Left out, it is both where the model has a reader, else memory.",
    )
    sources: int = Field(Manner.sources, ge=0, le=MOST_SOURCES, description="How many documents to name.")
    since: Word | None = Field(None, description="Only documents from this day on: 2024-05-31, 2024-05 or 2024.")
    as_of: Word | None = Field(None, description="Only documents up to this day, and ages counted back from it.")
    half_life: Word | None = Field(
        None, description="Let documents count half as much when they are this much older: 30d, 4w, 6m or 1y."
    )
    only: list[_Pattern] = Field(
        [],
        max_length=_MOST_PATTERNS,
        description="Only documents whose path fits one of these patterns, as in .gitignore, such as 'sport/**'.",
    )
    exclude: list[_Pattern] = Field(
        [], max_length=_MOST_PATTERNS, description="No documents whose path fits one of these patterns."
    )

    def manner(self) -> Manner:
        """How the question is to be answered.

        Raises:
            ConfigError: a day, a time or a pattern means nothing, or two of them contradict each other.
        """
        return Manner(
            answers=None if self.answers is None else Answers(self.answers),
            selection=selection(self.since, self.as_of, self.half_life, self.only, self.exclude),
            sources=self.sources,
        )
