"""The block tables of a bank: finding documents, reading them in whole or in part, adding and removing them."""

import sqlite3
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain, islice
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.block import (
    Block,
    KeyIndex,
    Lengths,
    OriginColumns,
    Row,
    digest_keys,
    key,
    keys_of,
    locate_chunks,
    read_block,
    read_digests,
    read_first_texts,
    read_keys,
    read_lengths,
    read_origin_columns,
    require_sizes,
    row_checksum,
)
from mbc_engine.bank.database import damaged, read_state, read_totals, wrap_invalid_data
from mbc_engine.bank.records import (
    BankHeader,
    BlockTotals,
    Codes,
    Counts,
    EncodedText,
    Indices,
    Origin,
    StoredChunk,
    StoredDocument,
    TextState,
    check,
    count,
    pack,
    require_size,
    unpack,
)
from mbc_engine.bank.text_codec import CHECK_BYTES, TextTable
from mbc_engine.bank.word_index import WordIndex, WordPart, find_words, read_words, write_words
from mbc_engine.bank.words import WORDS

# Decoded blocks in memory. Files come in folder order, so one block serves thousands of them.
_CACHED_BLOCKS: Final = 4
# Chunks whose codes are scanned together: much of the time for 8,192 would go into numpy's calls. Several threads make
# that longer, not shorter, as they wait for each other in each of these.
_SCANNED_CHUNKS: Final = 1 << 15
# Blocks whose words are looked up together.
_SEARCHED_BLOCKS: Final = 64
_COLUMNS: Final = "documents, origins, chunks, blocks.crc, keys, digests, lengths, described, texts, outlines"

_T = TypeVar("_T")
Name = tuple[str, str]  # a source, and a part of it
Location = tuple[int, int]  # a document's block, and its row there


def by_block(items: Iterable[tuple[Location, _T]]) -> dict[int, dict[int, list[_T]]]:
    """Group items by the blocks and rows of their documents."""
    blocks: defaultdict[int, defaultdict[int, list[_T]]] = defaultdict(lambda: defaultdict(list))
    for (block, row), item in items:
        blocks[block][row].append(item)
    return dict(blocks)


class BlockTable:
    """Reads and writes blocks and texts; the caller manages transactions.

    Checksums are verified when a block or a row of texts is read into memory. Call `forget` after another connection's
    write, or a rollback. Invalid stored values raise BankError, or ValueError or TypeError where a method says so.
    """

    counts: Counts  # how often each code occurs, after the changes in progress; the caller sets it from `state`

    def __init__(self, connection: sqlite3.Connection, header: BankHeader, name: str) -> None:
        self._connection, self.header, self.name = connection, header, name
        self.texts = TextTable(connection, header, name)
        self.forget()

    def forget(self) -> None:
        self._cached: OrderedDict[int, Block] = OrderedDict()
        self._indexes: dict[str, KeyIndex] = {}  # of origins by `keys`, of contents by `digests`
        self._checked: set[tuple[str, int]] = set()  # rows whose checksums match, by table and id
        self._sizes: NDArray[np.int64] | None = None
        self._words: dict[int, WordIndex] = {}
        self.texts.forget()

    def state(self) -> tuple[Counts, TextState]:
        """How often each code occurs, and the totals of all texts, as stored."""
        return read_state(self._connection, self.header, self.name)

    def sizes(self) -> NDArray[np.int64]:
        """Number, documents, origins and chunks of each block in stored order, [blocks, 4]; checksums not verified."""
        if self._sizes is None:
            rows = self._connection.execute("SELECT id, documents, origins, chunks FROM blocks ORDER BY id").fetchall()
            with wrap_invalid_data(self.name):
                if not all(type(value) is int for row in rows for value in row):
                    raise TypeError("a block's sizes are not numbers")
                self._sizes = np.array(rows, np.int64).reshape(-1, 4)
        return self._sizes

    def totals(self) -> BlockTotals:
        """How much the blocks hold; checksums are not verified."""
        sizes = self.sizes()
        return (len(sizes), *sizes[:, 1:].sum(0).tolist())

    def require_totals(self) -> None:
        """Raises BankError unless all blocks are there, and the file is large enough for the texts of their chunks."""
        pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        room = self._connection.execute(pages).fetchone()[0] // CHECK_BYTES
        totals = self.totals()
        if totals != read_totals(self._connection, self.name) or (self.header.keeps_text and totals[-1] > room):
            raise damaged(self.name)

    def numbers(self) -> list[int]:
        return list(map(int, self.sizes()[:, 0]))

    def chunks_per_block(self) -> NDArray[np.int64]:
        """Number and chunks of each block in stored order, [blocks, 2]."""
        self._check_rows()
        sizes = self.sizes()[:, [0, 3]]
        if not ((sizes > 0) & (sizes < [1 << 32, 1 << 40])).all():
            raise damaged(self.name)
        return sizes

    def row(self, block: int) -> Row:
        """A block's columns except codes. Raises KeyError if there is none, ValueError or TypeError if damaged."""
        query = f"SELECT length(data), {_COLUMNS} FROM blocks LEFT JOIN codes USING (id) WHERE id = ?"  # noqa: S608 - constant names
        columns = self._connection.execute(query, (block,)).fetchone()
        if columns is None:
            raise KeyError(block)
        code_bytes, *values = columns
        row = Row(*values)
        if ("blocks", block) not in self._checked:
            if row.checksum(block) != row.crc:
                raise ValueError("the checksum of its documents does not match")
            require_sizes(row, self.header, code_bytes)
            self._checked.add(("blocks", block))
        return row

    def packed(self, block: int, table: str = "codes") -> bytes:
        """A block's packed codes or words. Raises ValueError or TypeError if they are missing or damaged."""
        row = self._connection.execute(f"SELECT crc, data FROM {table} WHERE id = ?", (block,)).fetchone()  # noqa: S608 - constant names
        return self._require_checksum((table, block), *(row or (None, None)))

    def chunks_with(self, numbers: Sequence[int]) -> list[Indices]:
        """For each word number, the chunks that contain it, by their indices in stored order; none without text."""
        chunks_of: list[list[Indices]] = [[np.empty(0, np.int64)] for _ in numbers]
        start, blocks = 0, iter(self.chunks_per_block().tolist() if numbers and self.header.keeps_text else ())
        while some := list(islice(blocks, _SEARCHED_BLOCKS)):
            with wrap_invalid_data(self.name):
                chunks_of_words = find_words(numbers, [self._words_with(numbers, *block) for block in some])
            for of_word, of_blocks in zip(chunks_of, chunks_of_words, strict=True):
                of_word.append(of_blocks + start)
            start += sum(chunks for _, chunks in some)
        return list(map(np.concatenate, chunks_of))

    def _words_with(self, numbers: Sequence[int], block: int, chunks: int) -> WordPart:
        index = self._words.get(block)
        if index is None:
            data = self.packed(block, "words")
            index = self._words[block] = WordIndex(data, chunks)
            return index.part_with(numbers, data)
        # The checksum was verified with all of it, so a part is enough.
        with self._connection.blobopen("words", "data", block, readonly=True) as blob:
            return index.part_with(numbers, blob)

    def read_codes(self, read: Callable[[bytes, int], _T]) -> Iterator[tuple[_T, Lengths]]:
        """For all blocks in stored order, several at a time, `read` of their bits and number of chunks, and the lengths
        of their documents.
        """
        self._check_rows()
        query = """SELECT blocks.id, codes.crc, data, lengths, documents, chunks
            FROM blocks LEFT JOIN codes USING (id) ORDER BY blocks.id"""
        shape, pieces, lengths, chunks = self.header.shape, list[bytes](), list[Lengths](), 0
        last = self.sizes()[-1:, 0]
        for block, crc, data, *columns in self._connection.execute(query):
            with wrap_invalid_data(self.name):
                pieces.append(self._require_checksum(("codes", block), crc, data))
                lengths.append(read_lengths(*columns))
                require_size(len(pieces[-1]), shape, total := int(lengths[-1].sum()))
                chunks += total
                # What follows must begin on a whole byte.
                if chunks < _SCANNED_CHUNKS and total * shape.bits_per_chunk % 8 == 0 and block != last:
                    continue
                result = read(b"".join(pieces), chunks), np.concatenate(lengths)
            yield result
            pieces, lengths, chunks = [], [], 0

    def all_origins(self) -> Iterator[tuple[OriginColumns, Lengths]]:
        """The origins of each block in stored order and the chunks of each document; codes are not read."""
        for block in self.numbers():
            with wrap_invalid_data(self.name):
                row = self.row(block)
                origins_and_lengths = read_origin_columns(row)[1], read_lengths(row.lengths, row.documents, row.chunks)
            yield origins_and_lengths

    def find(self, block: int, *, with_codes: bool = False) -> Block | None:
        """A block, or None if there is none of this number: an index may name deleted blocks."""
        content = self._cached.get(block)
        if content is None:
            row = self._row_if_there(block)
            if row is None:
                return None
            with wrap_invalid_data(self.name):
                content = read_block(row, self.header, None)
        if with_codes and content.codes is None:
            chunks = sum(content.lengths)
            with wrap_invalid_data(self.name):
                content = replace(content, codes=unpack(self.packed(block), self.header.shape, chunks))
                if self.header.keeps_text:
                    content = replace(content, words=read_words(self.packed(block, "words"), chunks))
        self._hold(block, content)
        return content

    def get(self, block: int, *, with_codes: bool = False) -> Block:
        content = self.find(block, with_codes=with_codes)
        if content is None:
            raise damaged(self.name)
        return content

    def codes_at(self, block: int, within: Indices) -> Codes:
        sizes = self.sizes()
        with wrap_invalid_data(self.name):
            codes = unpack(self.packed(block), self.header.shape, int(sizes[sizes[:, 0] == block, 3][0]))
        return codes[within]

    def encoded_texts_at(self, block: int, within: Indices) -> Iterator[EncodedText | None]:
        if not self.header.keeps_text:
            yield from [None] * len(within)
            return
        cached = self._cached.get(block)
        if cached is not None:
            lengths, firsts = np.array(cached.lengths), cached.first_texts
        else:
            with wrap_invalid_data(self.name):
                row = self.row(block)
                lengths = read_lengths(row.lengths, row.documents, row.chunks)
                firsts = read_first_texts(row, self.header, lengths)
        rows, ordinals = locate_chunks(lengths, within)
        for number in (np.array(firsts)[rows] + ordinals).tolist():
            yield from self.texts.read(number, 1)

    def chunks_at(self, block: int, within: Indices) -> Iterator[StoredChunk]:
        content = self.get(block)
        for row, ordinal in zip(*locate_chunks(np.array(content.lengths), within), strict=True):
            yield StoredChunk(content.document(row), int(ordinal), self.name, self.header.context_tokens)

    def documents(
        self, block: int, rows: Collection[int] | None = None, *, with_texts: bool = True
    ) -> Iterator[StoredDocument]:
        """Some documents of a block, or all, with their codes and, where the bank keeps them, texts."""
        content = self.find(block, with_codes=True)
        if content is None:
            return
        for row, document in enumerate(content.documents()):
            if rows is None or row in rows:
                if with_texts and self.header.keeps_text:
                    texts = self.texts.read(content.first_texts[row], document.chunks)
                    document = replace(document, texts=texts)  # noqa: PLW2901
                yield document

    def find_parts(self, source: str) -> set[str]:
        blocks = self._index("keys").blocks_of(np.array([key(source)], np.uint32)).get(key(source), ())
        return {part for block in blocks for part in self._rows_in(block).get(source, ())}

    def find_origins(self, names: Collection[Name]) -> dict[Name, Location]:
        if not names:  # avoids building the index
            return {}
        keys = {name: key(*name) for name in names}
        holding = self._index("keys").blocks_of(np.array(list(keys.values()), np.uint32))
        wanted: defaultdict[int, list[Name]] = defaultdict(list)
        for name, number in keys.items():
            for block in holding.get(number, ()):
                wanted[block].append(name)
        found: dict[Name, Location] = {}
        for block, sought in wanted.items():
            rows = self._rows_in(block)
            there = ((name, rows.get(name[0], {}).get(name[1])) for name in sought)
            found.update({name: (block, row) for name, row in there if row is not None})
        return found

    def find_digests(self, digests: Collection[bytes]) -> dict[bytes, Location]:
        if not digests:
            return {}
        holding = self._index("digests").blocks_of(digest_keys(b"".join(digests), self.header))
        in_blocks = ((block, self._digests_in(block)) for block in set().union(*holding.values()))
        return {
            digest: (block, row)
            for block, digests_there in in_blocks
            for row, digest in enumerate(digests_there)
            if digest in digests
        }

    def digest_at(self, location: Location) -> bytes:
        return self.get(location[0]).digests[location[1]]

    def put(self, documents: Sequence[StoredDocument]) -> list[int]:
        if any(document.codes is not None and not len(document.codes) for document in documents):
            raise ValueError("a document has at least one chunk")
        digests = self.header.shortened(document.digest for document in documents)
        known = self.find_digests(set(digests))
        new: dict[bytes, StoredDocument] = {}
        for digest, document in zip(digests, documents, strict=True):
            if digest not in known and document.codes is not None:
                new.setdefault(digest, document)
        absent = [index for index, digest in enumerate(digests) if digest not in known and digest not in new]
        if not self.header.keeps_origins:
            self._append_documents(new, {})
            return absent
        # If a name occurs twice, the last document wins.
        owners: dict[Name, tuple[bytes, Origin]] = {}
        for digest, document in zip(digests, documents, strict=True):
            if not document.origins:
                raise ValueError("a document has at least one origin")
            if digest in known or digest in new:
                owners.update({origin[:2]: (digest, origin) for origin in document.origins})
        origins: defaultdict[bytes, list[Origin]] = defaultdict(list)
        for digest, origin in owners.values():
            origins[digest].append(origin)
        before = self.find_origins(owners)
        replaced = {name: at for name, at in before.items() if self.digest_at(at) != owners[name][0]}
        self._add_origins({known[digest]: new_origins for digest, new_origins in origins.items() if digest in known})
        self._append_documents({digest: document for digest, document in new.items() if digest in origins}, origins)
        self._drop_origins(replaced)  # last, so that renamed content is never without an origin
        return absent

    def remove(self, names: Collection[Name], digests: Collection[bytes]) -> int:
        """Remove origins, documents left without any, and documents by digest; returns how many."""
        origins = self.find_origins(names)
        self._drop_origins(origins)
        documents = self.find_digests(digests)
        for block, gone in by_block((location, digest) for digest, location in documents.items()).items():
            self._drop_rows(block, gone)
        return len(origins) + len(documents)

    def compact(self) -> None:
        sizes = self.chunks_per_block()
        if len(sizes) > -(-int(sizes[:, 1].sum()) // self.header.block_chunks):
            for block in sizes[:, 0].tolist():
                content = self.get(block, with_codes=True)
                self._write(block, Block.empty(self.header.shape))
                self._append(content)

    def _append_documents(self, new: Mapping[bytes, StoredDocument], origins: Mapping[bytes, Sequence[Origin]]) -> None:
        if not new:
            return
        documents, header = list(new.values()), self.header
        codes_of = [document.codes for document in documents if document.codes is not None]
        codes, lengths = check(np.concatenate(codes_of), header.shape), list(map(len, codes_of))
        sizes = [document.size if header.keeps_origins else None for document in documents]
        sorted_origins = [tuple(sorted(origins.get(digest, ()))) for digest in new]
        starts = accumulate(lengths, initial=0)
        words = [
            WORDS * start + document.words
            for start, document in zip(starts, documents, strict=False)
            if document.words is not None and header.keeps_text
        ]
        every_word = np.concatenate([np.empty(0, np.int64), *words])
        outlines = [document.outline for document in documents]
        first_texts = [0] * len(documents)
        if header.keeps_text:
            texts = [text for document in documents for text in document.texts or () if isinstance(text, EncodedText)]
            first_texts = list(accumulate(lengths[:-1], initial=self.texts.append(texts)))
        self._append(Block(list(new), lengths, sizes, sorted_origins, first_texts, outlines, codes, every_word))
        self.counts += count(codes, header.shape)

    def _append(self, new: Block) -> None:
        last = self._connection.execute("SELECT max(id) FROM blocks").fetchone()[0]
        empty = Block.empty(self.header.shape)
        block, content = (last, self.get(last, with_codes=True)) if last else (1, empty)
        start = 0
        while start < len(new):
            room = self.header.block_chunks - len(content.known_codes)
            if room <= 0:
                block, content = block + 1, empty
                continue
            added = new.filling(start, room)
            content = content + added
            self._write(block, content)
            if "digests" in self._indexes:
                self._indexes["digests"].add(block, digest_keys(b"".join(added.digests), self.header))
            self._note_origins(block, added.origins)
            start += len(added)

    def _write(self, block: int, content: Block) -> None:
        self._sizes = None
        self._checked -= {(table, block) for table in ("blocks", "codes", "words")}
        self._words.pop(block, None)
        if not len(content):
            for table in ("blocks", "codes", "words"):
                self._connection.execute(f"DELETE FROM {table} WHERE id = ?", (block,))  # noqa: S608 - constant names
            self._cached.pop(block, None)
            return
        packed = pack(content.known_codes, self.header.shape)
        row = block, *content.row(block)
        self._connection.execute("REPLACE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._write_part("codes", block, packed)
        if self.header.keeps_text:
            self._write_part("words", block, write_words(content.words, len(content.known_codes)))
        self._hold(block, content)

    def _write_part(self, table: str, block: int, data: bytes) -> None:
        row = block, row_checksum(table, block, data), data
        self._connection.execute(f"REPLACE INTO {table} VALUES (?, ?, ?)", row)  # noqa: S608 - constant names

    def _add_origins(self, added: Mapping[Location, Sequence[Origin]]) -> None:
        for block, rows in by_block(
            (location, origin) for location, new_origins in added.items() for origin in new_origins
        ).items():
            content = self.get(block, with_codes=True)
            origins = content.origins.copy()
            for row, new_origins in rows.items():
                united = {origin[:2]: origin for origin in (*origins[row], *new_origins)}  # the new one wins
                origins[row] = tuple(sorted(united.values()))
            if origins != content.origins:
                self._write(block, replace(content, origins=origins))
                self._note_origins(block, rows.values())

    def _drop_origins(self, dropped: Mapping[Name, Location]) -> None:
        for block, rows in by_block((location, name) for name, location in dropped.items()).items():
            content = self.get(block, with_codes=True)
            origins = content.origins.copy()
            for row, names in rows.items():
                gone = set(names)
                origins[row] = tuple(origin for origin in origins[row] if origin[:2] not in gone)
            self._hold(block, replace(content, origins=origins))
            self._drop_rows(block, [row for row in rows if not origins[row]])

    def _drop_rows(self, block: int, rows: Iterable[int]) -> None:
        content = self.get(block, with_codes=True)
        is_gone = np.zeros(len(content), np.bool_)
        is_gone[list(rows)] = True
        self.counts -= count(content.where(is_gone).known_codes, self.header.shape)
        if self.header.keeps_text:
            spans = (range(content.first_texts[row], content.first_texts[row] + content.lengths[row]) for row in rows)
            self.texts.change(dict.fromkeys(chain.from_iterable(spans)))
        self._write(block, content.where(~is_gone))

    def _hold(self, block: int, content: Block) -> None:
        self._cached[block] = content
        self._cached.move_to_end(block)
        if len(self._cached) > _CACHED_BLOCKS:
            self._cached.popitem(last=False)

    def _row_if_there(self, block: int) -> Row | None:
        with wrap_invalid_data(self.name), suppress(KeyError):
            return self.row(block)
        return None

    def _check_rows(self) -> None:
        for block in self.numbers():
            if ("blocks", block) not in self._checked:
                self._row_if_there(block)

    def _require_checksum(self, row: tuple[str, int], crc: object, data: Any) -> bytes:
        if row not in self._checked:
            if type(data) is not bytes or row_checksum(*row, data) != crc:
                raise ValueError(f"the checksum of its {row[0]} does not match")
            self._checked.add(row)
        packed: bytes = data
        return packed

    def _rows_in(self, block: int) -> dict[str, dict[str, int]]:
        content = self.find(block)
        return content.rows if content else {}

    def _digests_in(self, block: int) -> list[bytes]:
        if block in self._cached:
            return self._cached[block].digests
        row = self._row_if_there(block)
        if row is None:
            return []
        with wrap_invalid_data(self.name):
            return read_digests(row, self.header)

    def _note_origins(self, block: int, origins: Iterable[Sequence[Origin]]) -> None:
        if "keys" in self._indexes:
            self._indexes["keys"].add(block, keys_of(origins))

    def _index(self, column: str) -> KeyIndex:
        if column not in self._indexes:
            self._check_rows()
            read = read_keys if column == "keys" else partial(digest_keys, header=self.header)
            rows = self._connection.execute(f"SELECT id, {column} FROM blocks")  # noqa: S608 - constant names
            with wrap_invalid_data(self.name):
                self._indexes[column] = KeyIndex((block, read(data)) for block, data in rows)
        return self._indexes[column]
