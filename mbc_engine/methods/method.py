"""What a method is to an evaluation: it takes in documents, answers questions, and says what it keeps."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class MethodAnswer:
    """An answer, and the documents it is from, best first, by their places in the stream; None if it can name none."""

    text: str
    sources: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Footprint:
    """What a method keeps of the documents, in bytes: `on_disk`, everything that has to be stored, as it is stored.

    `paper_row` is what the paper counts for a row of the bank, None for methods whose memory it does not count,
    `paper_fixed` what it counts beside the rows. The released code's bank has a row for each question, so that a
    document with five questions counts five times.
    """

    on_disk: int
    paper_row: int | None = None
    paper_fixed: int = 0


class Method(Protocol):
    """A system under evaluation. It sees documents and questions, never a gold answer."""

    def reset(self) -> None:
        """Forget all documents."""

    def adapt(self, documents: "Sequence[str]") -> None:
        """Take in the next documents of the stream, in order; it does not matter how a stream is cut into calls."""

    def answer(self, questions: "Sequence[str]") -> list[MethodAnswer]:
        """Answer questions from what was taken in so far; the order of the questions does not matter."""
        ...

    def footprint(self) -> Footprint: ...
