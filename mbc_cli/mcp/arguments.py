"""What the tools take, as an assistant is told of it."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from mbc_cli.asker import Manner
from mbc_cli.patterns import Pattern
from mbc_cli.selecting import selection
from mbc_engine.answers import Answers
from mbc_engine.errors import ConfigError

_LONGEST: Final = 8_000
_MOST: Final = 20


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


class Arguments(BaseModel):
    """What one call gives; nothing but what is described."""

    model_config = ConfigDict(extra="forbid")


class Question(Arguments):
    """A question to the memory, and how to answer it."""

    question: Annotated[str, AfterValidator(_said)] = Field(
        max_length=_LONGEST, description="A question in plain words, complete in itself."
    )
    answers: Literal["both", "memory", "read"] | None = Field(
        None,
        description="Which answers to give: from memory, which is the bank's codes alone; read, in the files they "
        "lead to; or both. Left out, it is both where the model has a reader, else memory.",
    )
    sources: int = Field(Manner.sources, ge=0, le=_MOST, description="How many documents to name.")
    since: str | None = Field(None, description="Only documents from this day on: 2024-05-31, 2024-05 or 2024.")
    as_of: str | None = Field(None, description="Only documents up to this day, and ages counted back from it.")
    half_life: str | None = Field(
        None, description="Let documents count half as much when they are this much older: 30d, 4w, 6m or 1y."
    )
    only: list[Pattern] = Field(
        [], description="Only documents whose path fits one of these patterns, as in .gitignore, such as 'sport/**'."
    )
    exclude: list[Pattern] = Field([], description="No documents whose path fits one of these patterns.")

    @property
    def manner(self) -> Manner:
        """How it is to be answered.

        Raises:
            ConfigError: a day, a time or a pattern means nothing.
        """
        chosen = selection(self.since, self.as_of, self.half_life, self.only, self.exclude)
        answers = None if self.answers is None else Answers(self.answers)
        return Manner(answers=answers, selection=chosen, sources=self.sources)


class Query(Arguments):
    """What to look for."""

    query: Annotated[str, AfterValidator(_said)] = Field(
        max_length=_LONGEST, description="What to look for: a question or a few words."
    )
    limit: int = Field(5, ge=1, le=_MOST, description="The most passages to give.")


class Paths(Arguments):
    """What to memorise."""

    paths: list[str] = Field(
        min_length=1, description="Files and folders, absolute or relative to a folder that may be memorised."
    )


def refusal(error: ValidationError) -> ConfigError:
    """What is wrong with arguments, in a line."""
    wrong = (f"{'.'.join(map(str, own['loc']))}: {own['msg']}" for own in error.errors(include_url=False))
    return ConfigError(f"The arguments do not fit: {'; '.join(wrong)}.", hint="The tool's schema tells what it takes.")
