"""What a method is to an evaluation: it takes in documents, answers questions, and says what it keeps."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Reply:
    """What a method answered.

    Attributes:
        text: the answer.
        sources: the documents it was drawn from, best first, by their place in the stream; None where a method cannot
            name any.
    """

    text: str
    sources: tuple[int, ...] | None = None


@dataclass(frozen=True)
class PaperCount:
    """What the paper counts of a memory, in bytes: its tables are `fixed` + `row` for each row of the bank.

    The released code's bank has a row for each question, so that a document with five questions counts five times.
    """

    fixed: int
    row: int


@dataclass(frozen=True)
class Footprint:
    """What a method keeps of the documents, in bytes.

    Attributes:
        on_disk: everything that has to be stored to answer about the documents, as it is stored.
        paper: what the paper counts; None for methods whose memory it does not count.
    """

    on_disk: int
    paper: PaperCount | None = None


class Method(Protocol):
    """A system under evaluation. It sees documents and questions, never an answer."""

    def reset(self) -> None:
        """Be as before the first document."""
        ...

    def adapt(self, documents: "Sequence[str]") -> None:
        """Take in the next documents of the stream, in order; it does not matter how a stream is cut into calls."""
        ...

    def answer(self, questions: "Sequence[str]") -> list[Reply]:
        """Answer questions from what was taken in so far; the order of the questions does not matter."""
        ...

    def footprint(self) -> Footprint:
        """What is kept of the documents taken in so far."""
        ...
