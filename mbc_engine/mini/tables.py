"""Finding the whole table of which a chunk is a row or a part, to work out figures from it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import methodcaller
from pathlib import Path
from typing import Final, NamedTuple

from mbc_engine.answer import Source
from mbc_engine.bank import ReadableBank, StoredChunk
from mbc_engine.mini.kinds.figures import YEAR, operation_of, worked_out
from mbc_engine.mini.kinds.passages import Passage, Reply, table_rows
from mbc_engine.mini.kinds.periods import during, names_day
from mbc_engine.mini.penalties import is_superseded
from mbc_engine.ranking import Hit
from mbc_engine.sources import Passages

_MOST_ROWS: Final = 512  # of a table, in chunks, and how far around one it is looked for
_LATEST: Final = re.compile(r"\bthis (?:year|season)\b|\b(?:now|currently|so far)\b", re.IGNORECASE)
_ROW: Final = re.compile(r"(?P<sheet>.*)row (?P<number>\d+)")  # a part of a file


class Table(NamedTuple):
    """A sheet of a file, or a document by its digest, in a bank."""

    bank: str
    source: str
    sheet: str


def work_out(
    question: str, hits: Sequence[Hit], bank: ReadableBank, passages: Passages
) -> tuple[Sequence[Hit], Reply | None]:
    """What is worked out, or said of a day, from the only table among the best chunks that can say it; its rows' chunks."""
    of_day = names_day(question) and operation_of(question) is None
    if operation_of(question) is None and not of_day:
        return (), None
    answer = during if of_day else worked_out

    def sources_of(chunks: Iterable[int]) -> dict[int, Source]:
        return passages.of((), beside=[Hit(chunk, 0.0) for chunk in chunks])  # without what an LM has to decode

    found, stored = sources_of(hit.chunk for hit in hits), bank.chunks_at([hit.chunk for hit in hits])
    replies: list[tuple[str, Sequence[Hit], Reply]] = []  # each with the last year in its table's name or title
    tried = set[Table]()
    for hit, table in [(hit, table) for hit, place in zip(hits, stored, strict=True) for table, _ in _places(place)]:
        if table in tried or not table_rows(found[hit.chunk].passage or ""):
            continue
        tried.add(table)
        sources = sources_of(chunks := _chunks_of(table, hit.chunk, bank))
        given = [Passage.of(sources[chunk], chunk, passages.known(chunk)) for chunk in chunks]
        is_valid = bool(given) and not is_superseded(question, Path(table.source).name)
        if is_valid and all(passage.text for passage in given) and (reply := answer(question, given)):
            year = max(YEAR.findall(f"{Path(table.source).name} {given[0].context}"), default="")
            replies.append((year, [replace(hit, chunk=chunk) for chunk in chunks], reply))
    if len(replies) > 1 and _LATEST.search(question):
        latest = max(year for year, *_ in replies)
        replies = [reply for reply in replies if reply[0] == latest]
    # Else what several tables say is not known to be asked of one of them.
    return replies[0][1:] if len(replies) == 1 else ((), None)


def _chunks_of(table: Table, chunk: int, bank: ReadableBank) -> list[int]:
    """The chunks of a table, found around one, in order, one for each row of a file; none unless all are there."""
    around = range(max(0, chunk - _MOST_ROWS), min(chunk + _MOST_ROWS, bank.totals().chunks))
    stored = dict(zip(around, bank.chunks_at(around), strict=True))
    rows = sorted((number, at) for at, each in stored.items() for of, number in _places(each) if of == table)
    numbers = {number for number, _ in rows}
    if is_file := any(_ROW.fullmatch(origin.part) for origin in stored[chunk].document.origins):
        named = map(_ROW.fullmatch, chain(*bank.each(methodcaller("parts_of", table.source))))
        expected = {int(row["number"]) for row in named if row and row["sheet"] == table.sheet}
    is_whole = numbers == (expected if is_file else {*range(stored[chunk].document.chunks)})
    return [at for _, at in rows] if is_whole and len(rows) == len(numbers) <= _MOST_ROWS else []


def _places(stored: StoredChunk) -> Iterator[tuple[Table, int]]:
    """The tables that a chunk is in, and its number there: those of which it is a row, or else its document."""
    rows = [(origin.source, row) for origin in stored.document.origins if (row := _ROW.fullmatch(origin.part))]
    yield from ((Table(stored.bank, source, row["sheet"]), int(row["number"])) for source, row in rows)
    if not rows:
        yield Table(stored.bank, stored.document.digest, ""), stored.ordinal
