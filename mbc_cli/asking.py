"""Questions to banks, for all who ask them: the terminal, the dashboard, the server and assistants.

A model that answers from banks as they are at each question, whatever other processes do to them meanwhile."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mbc_engine.memory import Memory
from mbc_engine.question import Answer, AskOptions
from mbc_engine.sources import Source

if TYPE_CHECKING:
    from mbc_engine.load import Model


class Asker:
    """A memory, and the options that its questions are asked with."""

    def __init__(
        self,
        model: "Model | str",
        paths: Sequence[Path],
        options: AskOptions,
        name: str,
        loading: float = 0.0,
        *,
        device: str | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        from mbc_cli.engine import load_model

        self.memory = Memory(paths, model, device=device, weights=weights, load=load_model)
        self.memory.loading = loading
        self.options, self.name, self.paths = options, name, self.memory.paths

    @classmethod
    def load(
        cls,
        banks: Sequence[Path],
        model: str,
        options: AskOptions,
        device: str | None = None,
        *,
        weights: Sequence[float] | None = None,
    ) -> Self:
        asker = cls(model, banks, options, model, device=device, weights=weights)
        asker.memory.model  # noqa: B018 now, not at the first question
        return asker

    @property
    def model(self) -> "Model":
        return self.memory.model

    @property
    def loading(self) -> float:
        return self.memory.loading

    @property
    def can_be_streamed(self) -> bool:
        return self.memory.can_stream(self.options)

    def ask(
        self, questions: Sequence[str], on_token: Callable[[str], None] | None = None, *, with_codes: bool = False
    ) -> list[Answer]:
        return self.memory.ask(questions, self.options, on_token=on_token, with_codes=with_codes)

    def search(self, queries: Sequence[str], top: int) -> list[tuple[Source, ...]]:
        return self.memory.search(queries, self.options, top=top)

    def recall(self) -> None:
        self.memory.open()

    def close(self) -> None:
        self.memory.close()


@contextmanager
def opened(
    banks: Sequence[Path],
    model: str,
    options: AskOptions,
    device: str | None = None,
    *,
    weights: Sequence[float] | None = None,
) -> Iterator[Asker]:
    """As `Memory.open`, closed in the end."""
    asker = Asker(model, banks, options, model, device=device, weights=weights)
    asker.memory.open(options)
    try:
        yield asker
    finally:
        asker.close()
