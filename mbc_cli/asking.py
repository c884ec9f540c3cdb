"""Questions to banks, for all who ask them: the terminal, the dashboard, the server and assistants.

A model that answers from banks as they are at each question, whatever other processes do to them meanwhile.

The questions asked so far, one a line, in a file that only its owner can read.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from mbc_engine.atomic_write import PRIVATE_FILE, atomic_write, make_private_folder
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


LONGEST: Final = 1000


class QuestionHistory:
    """What was typed, kept for the next session, whichever command it was typed into.

    Args:
        path: the file; nothing is kept where it cannot be written.
        most: how many lines are kept.
    """

    def __init__(self, path: Path, most: int = LONGEST) -> None:
        self._path, self._most = path, most

    def read(self) -> list[str]:
        """The lines, the first one typed first. Bytes that are no text come as in `os.fsdecode`."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except OSError:
            return []
        return [line.decode(errors="surrogateescape") for line in lines if line][-self._most :]

    def add(self, line: str) -> None:
        """Write one down at once: a terminal that is closed leaves no time for it."""
        with suppress(OSError):
            make_private_folder(self._path.parent)
            self._path.touch(PRIVATE_FILE)
            self._path.chmod(PRIVATE_FILE)
            with self._path.open("ab") as file:
                file.write(_bytes([line]))
            lines = self.read()
            if self._path.stat().st_size > len(_bytes(lines)):
                with atomic_write(self._path) as file:
                    file.write(_bytes(lines))


def _bytes(lines: Iterable[str]) -> bytes:
    """Lines as the file has them; a line end inside one would make two of it."""
    return b"".join(line.replace("\n", " ").encode(errors="surrogateescape") + b"\n" for line in lines)
