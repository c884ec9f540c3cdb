"""The arguments of the tools, as an assistant sees them."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from mbc_cli.asking.fields import LONGEST_QUESTION, MOST_SOURCES, QuestionFields
from mbc_engine.errors import ConfigError


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


class Arguments(BaseModel):
    """What one call gives; nothing but what is described."""

    model_config = ConfigDict(extra="forbid")


class _Asked(Arguments):
    """A question; a class of its own, so that it comes first in what an assistant is told."""

    question: Annotated[str, AfterValidator(_said)] = Field(
        max_length=LONGEST_QUESTION,
        description="A question in plain words that can be understood without the conversation.",
    )


class Question(QuestionFields, _Asked):
    """A question to the memory, and how to answer it."""


class Query(Arguments):
    """What to look for."""

    query: Annotated[str, AfterValidator(_said)] = Field(
        max_length=LONGEST_QUESTION, description="A question or a few words to look for."
    )
    limit: int = Field(5, ge=1, le=MOST_SOURCES, description="The most passages to return.")


class Paths(Arguments):
    """What to memorise."""

    paths: list[str] = Field(min_length=1, description="Files and folders, absolute or relative to an allowed folder.")


def refusal(error: ValidationError) -> ConfigError:
    """What is wrong with arguments, in a line."""
    wrong = (f"{'.'.join(map(str, own['loc']))}: {own['msg']}" for own in error.errors(include_url=False))
    return ConfigError(f"Invalid arguments: {'; '.join(wrong)}.", hint="See the tool's input schema.")
