"""What requests and replies look like, but for chat completions and what is listed."""

from typing import Annotated, Final, Literal

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from mbc_cli.server.document_folder import LONGEST_NAME
from mbc_cli.server.listing import DocumentShape

MOST_DOCUMENTS: Final = 100
_PAGE: Final = 20
_MOST_SHOWN: Final = 100


class DocumentGiven(BaseModel):
    """A document to memorise; the same name again takes its place."""

    model_config = ConfigDict(strict=True, extra="forbid")

    text: str = Field(min_length=1, description="What to memorise.", json_schema_extra={"pattern": r"\S"})
    name: str | None = Field(None, min_length=1, max_length=LONGEST_NAME, description="What it is called.")
    date: Annotated[str, Field(max_length=100, json_schema_extra={"format": "date"})] | None = Field(
        None, description="The day it was written, such as 2024-05-31."
    )


class PageWanted(BaseModel):
    """Which documents to list."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(_PAGE, ge=1, le=_MOST_SHOWN)
    after: str = Field("", max_length=LONGEST_NAME, description="The last id of the page before.")


class DocumentsAdded(BaseModel):
    """Documents that the bank has, in the order in which they were sent."""

    object: Literal["list"] = "list"
    data: list[DocumentShape]


class DocumentRemoved(BaseModel):
    """A document that is gone."""

    id: str
    object: Literal["document.deleted"] = "document.deleted"
    deleted: Literal[True] = True


class ModelShape(BaseModel):
    """The model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["mbc"] = "mbc"


class ModelList(BaseModel):
    """All models that are served: one."""

    object: Literal["list"] = "list"
    data: list[ModelShape]


class Health(BaseModel):
    """Whether questions are answered."""

    status: Literal["ok", "unavailable"]


# Told apart by their shape, so that what is wrong is told of the one that is meant.
_ONE, _SEVERAL = "one", "several"
Given = Annotated[
    Annotated[DocumentGiven, Tag(_ONE)]
    | Annotated[list[DocumentGiven], Field(min_length=1, max_length=MOST_DOCUMENTS), Tag(_SEVERAL)],
    Discriminator(lambda given: _SEVERAL if isinstance(given, list) else _ONE),
]
# What pydantic adds to the place of a mistake, and nobody has sent.
BRANCHES: Final = (_ONE, _SEVERAL, "str")
Id = Annotated[str, Path(max_length=LONGEST_NAME)]
