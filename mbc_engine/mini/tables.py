"""Finding the whole table of which a chunk is a row or a part, to work out figures from it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from mbc_engine.answer import Source
from mbc_engine.bank import MemoryBank, ReadableBank, StoredChunk
from mbc_engine.mini.kinds.figures import operation_of, worked_out
from mbc_engine.mini.kinds.passages import Passage, Reply, table_rows
from mbc_engine.ranking import Hit
from mbc_engine.sources import Passages

_LOOKED_AT: Final = 8  # of the best chunks, whose tables are tried
_MOST_ROWS: Final = 512  # of a table, in chunks, and how far around one it is looked for
_YEAR: Final = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_ROW: Final = re.compile(r"(?P<sheet>.*)row (?P<number>\d+)")  # a part of a file

Table = tuple[str, str]  # a file and the name of its sheet, or a document's digest


def work_out(
    question: str, hits: Sequence[Hit], bank: ReadableBank, passages: Passages
) -> tuple[Sequence[Hit], Reply | None]:
    """What is worked out from a table of which one of the best chunks is, and the chunks that the reply's passages are."""
    if operation_of(question) is None:
        return (), None

    def sources_of(chunks: Iterable[int]) -> dict[int, Source]:
        return passages.of((), beside=[Hit(chunk, 0.0) for chunk in chunks])  # without what an LM has to decode

    tried, best = set[int](), hits[:_LOOKED_AT]
    replies: dict[str, tuple[Sequence[Hit], Reply]] = {}  # by the last year that is said of their tables
    found = sources_of(hit.chunk for hit in best)
    for hit in best:
        if hit.chunk in tried or not table_rows(found[hit.chunk].passage or ""):
            continue
        chunks = _table_around(hit.chunk, bank)
        tried |= {*chunks}
        sources = sources_of(chunks)
        given = [Passage.of(sources[chunk], chunk, passages.known(chunk)) for chunk in chunks]
        if all(passage.text for passage in given) and (reply := worked_out(question, given)):
            year = max(_YEAR.findall(f"{given[0].name} {given[0].context}"), default="")
            replies.setdefault(year, ([replace(hit, chunk=chunk) for chunk in chunks], reply))
    return replies[max(replies)] if replies else ((), None)


def _table_around(chunk: int, bank: ReadableBank) -> list[int]:
    """The chunks of the table that one is of, in order, one for each row of a file; none unless all are there."""
    around = range(max(0, chunk - _MOST_ROWS), min(chunk + _MOST_ROWS, bank.totals().chunks))
    stored = dict(zip(around, bank.chunks_at(around), strict=True))
    table = next(of for of, _ in _places(stored[chunk]))
    rows = sorted((number, at) for at, each in stored.items() for of, number in _places(each) if of == table)
    numbers = {number for number, _ in rows}
    source, sheet = table
    is_file = any(_ROW.fullmatch(origin.part) for origin in stored[chunk].document.origins)
    named = {*map(_ROW.fullmatch, set().union(*bank.each(partial(_parts_of, source=source))))} if is_file else set()
    expected = {int(row["number"]) for row in named if row and row["sheet"] == sheet}
    is_whole = numbers == (expected or {*range(stored[chunk].document.chunks)})
    return [at for _, at in rows] if is_whole and len(rows) == len(numbers) <= _MOST_ROWS else []


def _places(stored: StoredChunk) -> Iterator[tuple[Table, int]]:
    """The tables that a chunk is in, and its number there: those of which it is a row, or else its document."""
    rows = [(origin.source, row) for origin in stored.document.origins if (row := _ROW.fullmatch(origin.part))]
    yield from (((source, row["sheet"]), int(row["number"])) for source, row in rows)
    if not rows:
        yield (stored.document.digest, ""), stored.ordinal


def _parts_of(bank: MemoryBank, source: str) -> set[str]:
    return bank.parts_of(source)
