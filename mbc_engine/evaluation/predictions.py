"""Replies as predictions: how each compares with the gold answers, what they come to, and the file they are kept in."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

from pydantic import TypeAdapter, ValidationError

from mbc_engine.datasets.example import QAExample
from mbc_engine.documents.encoding import storable
from mbc_engine.errors import DataError
from mbc_engine.evaluation.results import Figure, Prediction, QuestionScores
from mbc_engine.evaluation.statistics import interval
from mbc_engine.methods.method import Reply
from mbc_engine.metrics import Golds, compare
from mbc_engine.whole_file import whole_file

_SOURCES: Final = 5
_LINE: Final = TypeAdapter(Prediction)


def predict(example: QAExample, reply: Reply, *, document: int, place: int, golds: Golds) -> Prediction:
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


def score(predictions: Sequence[Prediction], *, names_sources: bool, seed: int) -> QuestionScores:
    """What one or more predictions come to.

    Args:
        predictions: all of a method's.
        names_sources: whether the method names sources; where it does not, no rank of one is a failure.
        seed: of the bootstrap's draws.
    """
    documents = [prediction.document for prediction in predictions]

    def figure(values: Sequence[float]) -> Figure:
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


def write_predictions(predictions: Sequence[Prediction], path: Path) -> None:
    """Keep predictions as JSON Lines, in their order, in a file that is there whole or not at all."""
    with whole_file(path) as file:
        file.writelines(_LINE.dump_json(prediction) + b"\n" for prediction in predictions)


def read_predictions(path: Path) -> list[Prediction]:
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


def _percent(values: Sequence[float]) -> float:
    return 100 * fmean(values)
