"""What is served, as every route knows it."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from mbc_cli.server.document_folder import DocumentFolder
from mbc_cli.server.turns import Turns


@dataclass(frozen=True)
class Served:
    """A memory with its name.

    Attributes:
        name: the model's, as clients call it.
        banks: the files of the banks; documents go into the first.
        loading: seconds that loading the model took.
        folder: where clients' documents are.
        turns: the thread that has the model.
        has_token: whether requests bring one.
        since: when it was begun, in seconds of Unix time.
    """

    name: str
    banks: tuple[Path, ...]
    loading: float
    folder: DocumentFolder
    turns: Turns
    has_token: bool
    since: int = field(default_factory=lambda: int(time.time()))


async def _served(request: Request) -> Served:
    served: Served = request.app.state.served
    return served


# A route that takes it gets what its app serves.
ServedHere = Annotated[Served, Depends(_served)]
