"""Many questions, of a file or as they arrive, in batches."""

import io
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mbc_cli.render.batch import BatchView
from mbc_cli.render.consoles import notes
from mbc_engine.datasets.questions import Question, arriving_questions, load_questions, no_questions

if TYPE_CHECKING:
    from mbc_cli.asking.asker import Asker

BATCH: Final = 16


@dataclass(frozen=True)
class Questions:
    """What is asked.

    Attributes:
        groups: questions that are there together.
        total: how many there are, None if nobody knows.
        is_typed: whether they come from a terminal.
    """

    groups: Iterable[Sequence[Question]]
    total: int | None
    is_typed: bool = False


def of_file(path: Path) -> Questions:
    """The questions of a file.

    Raises:
        DataError: there are none, or a line is not what it should be.
    """
    questions = load_questions(path)
    return Questions([questions], len(questions))


def of_stdin() -> Questions:
    """Questions as they arrive; waits for the first.

    Raises:
        DataError: there are none, or the first is not what it should be; for a later one, when it is its turn.
    """
    is_typed = sys.stdin is not None and sys.stdin.isatty()
    if is_typed:
        notes.print("Type one question per line; finish with Ctrl-D.")
    groups = arriving_questions(sys.stdin.buffer if sys.stdin is not None else io.BytesIO(), "stdin")
    first = next(groups, None)
    if first is None:
        raise no_questions("stdin")
    return Questions(chain([first], groups), None, is_typed)


def ask_all(asker: "Asker", *, questions: Questions, as_json: bool) -> None:
    """Answer questions in their order."""
    began = time.perf_counter()
    view = BatchView(
        asker.paths,
        asker.loading,
        total=questions.total,
        as_json=as_json,
        is_shown=not questions.is_typed,
    )
    with view:
        for batch in _batches(questions.groups):
            view.show(batch, asker.ask([question.text for question in batch]))
    view.finish(time.perf_counter() - began)


def _batches(groups: Iterable[Sequence[Question]]) -> Iterator[list[Question]]:
    for group in groups:
        rest = iter(group)
        while batch := list(islice(rest, BATCH)):
            yield batch
