"""What the protocols find out, as an evaluation keeps it and its report shows it. All shares are in percent.

Replies as predictions: how each compares with the gold answers, what they come to, and the file they are kept in.

A file that keeps one value, as it was when it was put there.
"""

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from mbc_engine.atomic_write import atomic_write
from mbc_engine.errors import DataError
from mbc_engine.evaluation.statistics import interval
from mbc_engine.events import RateTried
from mbc_engine.metrics import Golds, compare
from mbc_engine.text.decoding import storable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mbc_engine.datasets.layout import QAExample
    from mbc_engine.methods.method import MethodReply


@dataclass(frozen=True)
class Prediction:
    """A question, what a method answered, and how that compares with the gold answers.

    Attributes:
        id: what its dataset calls the question.
        document: its document's place in the stream.
        question: the question.
        answers: all gold answers.
        answer: what the method said.
        exact_match: strict EM.
        f1: token F1, in [0, 1].
        lenient_match: the released code's match.
        rank: place of its own document among the method's sources, 0 is first; None beyond the first five, or where
            the method names none.
    """

    id: str
    document: int
    question: str
    answers: tuple[str, ...]
    answer: str
    exact_match: bool
    f1: float
    lenient_match: bool
    rank: int | None


@dataclass(frozen=True)
class Figure:
    """A mean in percent, with its 95% bootstrap interval over documents."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Cost:
    """What a method takes. Bytes are of its memory with `documents` documents in it.

    Attributes:
        seconds_per_document: to take a document in.
        seconds_per_answer: to answer a question, everything included.
        on_disk: bytes as they are stored.
        paper_bytes: bytes as the paper counts them; None where it counts none.
    """

    documents: int
    seconds_per_document: float
    seconds_per_answer: float
    on_disk: int
    paper_bytes: int | None


@dataclass(frozen=True)
class QuestionScores:
    """Figures of a set of questions.

    `first_source` and `in_five` say how often the question's own document ranked first, or among the first five; None
    where the method names no sources.
    """

    questions: int
    exact_match: Figure
    f1: Figure
    lenient_match: float
    first_source: float | None
    in_five: float | None


@dataclass(frozen=True)
class Online:
    """Online adaptation: all documents, then the questions about them (paper, section 4.2).

    `banks` is how many memories of `cost.documents` documents each were asked, 1 in the paper's protocol.
    """

    banks: int
    scores: QuestionScores
    cost: Cost


@dataclass(frozen=True)
class RetentionStep:
    """The first documents' questions after `documents` documents; `retention` is F1 in percent of the first step's,
    None where that is 0."""

    documents: int
    exact_match: float
    f1: float
    retention: float | None
    on_disk: int
    paper_bytes: int | None


@dataclass(frozen=True)
class Retention:
    """How well the first documents are kept while others arrive (paper, section 4.4.3)."""

    questions: int
    steps: tuple[RetentionStep, ...]


@dataclass(frozen=True)
class ScalingStep:
    """Scores and costs with so many documents in the memory."""

    scores: QuestionScores
    cost: Cost


@dataclass(frozen=True)
class Scaling:
    """How quality, time and bytes change with the number of documents."""

    steps: tuple[ScalingStep, ...]


@dataclass(frozen=True)
class Curve:
    """Perplexity of code usage after steps of training."""

    steps: tuple[int, ...]
    perplexity: tuple[float, ...]


@dataclass(frozen=True)
class CodeUsage:
    """Code usage over training with and without the online reset (paper, section 4.4.4)."""

    codes: int
    with_reset: Curve
    without_reset: Curve


@dataclass(frozen=True)
class RateSweep:
    """The learning rates tried on validation questions, and the one that did best."""

    best: float
    tried: tuple[RateTried, ...]


_SOURCES: Final = 5
_LINE: Final = TypeAdapter(Prediction)


def predict(example: "QAExample", reply: "MethodReply", *, document: int, place: int, golds: Golds) -> Prediction:
    """A reply, compared with the gold answers.

    Args:
        example: what was asked.
        reply: what the method answered.
        document: the question's document's place in the stream.
        place: its place among the documents that the method has taken in.
        golds: which gold answers count.
    """
    answer = storable(reply.text)
    compared = compare(answer, example.answers, golds)
    sources = (reply.sources or ())[:_SOURCES]
    return Prediction(
        id=example.id,
        document=document,
        question=example.question,
        answers=example.answers,
        answer=answer,
        exact_match=compared.exact_match,
        f1=compared.f1,
        lenient_match=compared.lenient_match,
        rank=sources.index(place) if place in sources else None,
    )


def score(predictions: "Sequence[Prediction]", *, names_sources: bool, seed: int) -> QuestionScores:
    """What one or more predictions come to.

    Args:
        predictions: all of a method's.
        names_sources: whether the method names sources; where it does not, no rank of one is a failure.
        seed: of the bootstrap's draws.
    """
    documents = [prediction.document for prediction in predictions]

    def figure(values: "Sequence[float]") -> Figure:
        found = interval([100 * value for value in values], documents, seed=seed)
        return Figure(found.mean, found.low, found.high)

    return QuestionScores(
        questions=len(predictions),
        exact_match=figure([prediction.exact_match for prediction in predictions]),
        f1=figure([prediction.f1 for prediction in predictions]),
        lenient_match=_percent([prediction.lenient_match for prediction in predictions]),
        first_source=_percent([prediction.rank == 0 for prediction in predictions]) if names_sources else None,
        in_five=_percent([prediction.rank is not None for prediction in predictions]) if names_sources else None,
    )


def write_predictions(predictions: "Sequence[Prediction]", path: "Path") -> None:
    """Keep predictions as JSON Lines, in their order, in a file that is there whole or not at all."""
    with atomic_write(path) as file:
        file.writelines(_LINE.dump_json(prediction) + b"\n" for prediction in predictions)


def read_predictions(path: "Path") -> list[Prediction]:
    """The predictions of a file.

    Raises:
        DataError: it is missing or cannot be read, or a line of it is no prediction.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    if lines.pop():
        raise DataError(f"{path} is cut off in line {len(lines) + 1:,}.")
    predictions = []
    for number, line in enumerate(lines, 1):
        try:
            predictions.append(_LINE.validate_json(line, strict=True))
        except ValidationError as error:
            raise DataError(f"{path}, line {number:,} is not a prediction: {fault(error)}.") from error
    return predictions


def fault(error: ValidationError) -> str:
    """The first thing that is wrong with what was read, in words."""
    wrong = error.errors(include_url=False, include_input=False)[0]
    return "".join(f"{part}: " for part in wrong["loc"]) + wrong["msg"]


def _percent(values: "Sequence[float]") -> float:
    return 100 * fmean(values)


T = TypeVar("T")


class Record(Generic[T]):
    """A file that holds one value, or is not there.

    Args:
        path: the file.
        kind: what it holds.
    """

    def __init__(self, path: "Path", kind: TypeAdapter[T]) -> None:
        self.path, self._kind = path, kind

    @property
    def is_there(self) -> bool:
        """Whether there is a value."""
        return self.path.is_file()

    def write(self, value: T) -> None:
        """Keep a value, in place of what was kept before."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.path) as file:
            file.write(self._kind.dump_json(value, indent=2) + b"\n")

    def read(self) -> T | None:
        """What was written; None if nothing was.

        Raises:
            DataError: the file cannot be read or is damaged.
        """
        try:
            return self._kind.validate_json(self.path.read_bytes(), strict=True)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(
                f"{self.path} cannot be read: {error.strerror or error}.", hint="Check its permissions."
            ) from error
        except ValidationError as error:
            raise DataError(f"{self.path} is damaged: {fault(error)}.", hint=again(self.path)) from error


def again(path: "Path") -> str:
    """How to come by what a damaged file held."""
    return f"Delete {path}; the evaluation then finds it anew."
