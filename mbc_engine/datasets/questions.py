"""Questions without answers, one per line: JSON Lines of `{"question": ..., "id": ...}`, or plain text.

A file is read completely before the first question is asked; a stream is read as it arrives. Also splits a dataset into
training and validation examples.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

from mbc_engine.datasets.examples import QAExample
from mbc_engine.errors import DataError
from mbc_engine.text.decoding import LINE_CHARACTERS, lines, open_bytes, split_suffixes, storable
from mbc_engine.text.document import UnreadableFile, reason

_HINT: Final = 'A JSON line looks like {"question": "Who won?", "id": 7}; only "question" is required.'
# Whether files with this suffix are JSON; None: the first line decides.
_IS_JSON: Final = {".jsonl": True, ".txt": False, "": None}
_BLOCK_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Question:
    """A non-blank question; its id is the JSON value given, or else the line number."""

    id: Any
    text: str


def permuted(examples: Sequence[QAExample]) -> list[QAExample]:
    """The same questions about other documents: each document gives way to the one halfway round."""
    texts = list(dict.fromkeys(example.text for example in examples))
    other = dict(zip(texts, texts[len(texts) // 2 :] + texts[: len(texts) // 2], strict=True))
    return [replace(example, text=other[example.text]) for example in examples]


def load_questions(path: Path) -> list[Question]:
    """The questions in a .jsonl or .txt file, optionally compressed (.gz, .xz), or from a pipe."""
    kind, compression = split_suffixes(path.name)
    if kind not in _IS_JSON:
        raise DataError(f"{path} is not a .jsonl or .txt file.", hint="Compressed files end in .gz or .xz.")
    parser, questions = _Parser(str(path), _IS_JSON[kind]), []
    try:
        with path.open("rb") as file, open_bytes(file, compression) as stream:
            for line in lines(stream, "\n"):
                questions += parser.parse(line)
            stream.require_undamaged()
    except (OSError, UnreadableFile) as error:
        raise DataError(f"{path} {reason(error)}.", hint="--questions takes a .jsonl or .txt file.") from error
    if not questions:
        raise no_questions(str(path))
    return questions


def stream_questions(stream: BinaryIO, name: str) -> Iterator[list[Question]]:
    """Yield the questions of a stream that has `read1`, batched as they arrive; `name` is used in messages.

    Raises DataError at a bad line, after yielding the questions before it.
    """
    parser, block, rest = _Parser(name), b"-", b""
    while block:
        block = stream.read1(_BLOCK_BYTES)  # type: ignore[attr-defined]  # not declared by BinaryIO
        *whole, rest = (rest + block).split(b"\n")
        questions: list[Question] = []
        try:
            for line in whole if block else [rest]:
                questions += parser.parse(line.decode(errors="replace").removeprefix("\ufeff"))
            if len(rest) > LINE_CHARACTERS:
                parser.parse(None)
        finally:
            if questions:
                yield questions


def no_questions(name: str) -> DataError:
    """The error for a file without questions."""
    return DataError(f"{name} holds no questions.", hint='Write one per line, as text or as {"question": "Who won?"}.')


class _Parser:
    """Turns lines into questions; if `is_json` is None, the first non-blank line decides."""

    def __init__(self, name: str, is_json: bool | None = None) -> None:
        self._name, self._is_json, self._number = name, is_json, 0

    def parse(self, line: str | None) -> list[Question]:
        self._number += 1
        if line is None:
            raise self._wrong(f"is longer than {LINE_CHARACTERS >> 20} MB")
        text = storable(line).strip()
        if not text:
            return []
        if self._is_json is None:
            self._is_json = text.startswith("{")
        return [self._row(text) if self._is_json else Question(self._number, text)]

    def _row(self, text: str) -> Question:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            raise self._wrong("is not JSON") from None
        question = row.get("question") if isinstance(row, dict) else None
        if not isinstance(question, str) or not question.strip():
            raise self._wrong("has no question")
        given = row.get("id")
        try:
            json.dumps(given, allow_nan=False)  # Python also reads NaN, and 1e999 as infinity
        except (ValueError, RecursionError):
            raise self._wrong("has an id that is not JSON") from None
        return Question(self._number if given is None else given, storable(question).strip())

    def _wrong(self, what: str) -> DataError:
        return DataError(f"{self._name}, line {self._number} {what}.", hint=_HINT)


def hold_out(
    examples: Sequence[QAExample], share: float, *, max_questions: int = 500
) -> tuple[list[QAExample], list[QAExample]]:
    """Split examples into training and validation sets, both in order; validation takes the last documents.

    `share`, in [0, 1], is the fraction of documents held out: at least one, but one is always left to train on. At most
    `max_questions` are held out, unless the first document held out has more.
    """
    questions = Counter(example.text for example in examples)
    documents = list(questions)
    count = min(max(1, round(share * len(documents))), len(documents) - 1)
    held: set[str] = set()
    total = 0
    for text in documents[: -count - 1 : -1] if count > 0 else []:
        total += questions[text]
        if held and total > max_questions:
            break
        held.add(text)
    training = [example for example in examples if example.text not in held]
    return training, [example for example in examples if example.text in held]
