"""What one transaction does to a bank: documents in, documents and origins out, and the counts as they will be."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.block import Block, Counts, Origins, count
from mbc_engine.bank.blocks import BlockTable, Name, Place
from mbc_engine.bank.codes import Codes, check
from mbc_engine.bank.records import BankHeader, DocumentRecord, Origin

# A document, its codes, and each chunk's text as `encode_chunk` gives it; None in a bank without texts.
Item = tuple[DocumentRecord, NDArray[np.integer[Any]], Sequence[bytes] | None]


class Change:
    """Changes of a bank's blocks, inside a transaction that is the caller's.

    Attributes:
        counts: how often each code occurs, all changes so far included.
        text_bytes: bytes of all texts, likewise.
    """

    def __init__(self, blocks: BlockTable, header: BankHeader, counts: Counts, text_bytes: int) -> None:
        self._blocks, self._header = blocks, header
        self.counts, self.text_bytes = counts, text_bytes

    def add(self, items: Sequence[Item]) -> None:
        """Add documents as `MemoryBank.add` does.

        Raises:
            ValueError: a document has no chunks, its codes do not fit the bank, or a text of it is not Unicode.
        """
        digests = self._header.shortened(document.digest for document, _, _ in items)
        lengths = [len(codes) for _, codes, _ in items]
        if 0 in lengths:
            raise ValueError("a document has at least one chunk")
        codes = check(np.concatenate([codes for _, codes, _ in items]), self._header.shape)
        if self._header.keeps_origins:
            # A name that comes twice means the document that came last.
            latest = {(document.source, document.part): place for place, (document, _, _) in enumerate(items)}
            self._drop_origins(self._otherwise_read({name: digests[place] for name, place in latest.items()}))
            places: Iterable[int] = latest.values()
        else:
            places = range(len(items))
        first: dict[bytes, int] = {}
        further: defaultdict[int, list[int]] = defaultdict(list)
        for place in places:
            own = first.setdefault(digests[place], place)
            if own != place:
                further[own].append(place)
        known = self._blocks.find_digests(first)
        if self._header.keeps_origins:
            self._add_origins(
                {at: _origins(items, [first[digest], *further.get(first[digest], ())]) for digest, at in known.items()}
            )
        # In the order of the items, so that the codes of the new ones stay in theirs.
        new = sorted(place for digest, place in first.items() if digest not in known)
        if new:
            is_new = np.zeros(len(items), bool)
            is_new[new] = True
            self._append(
                Block(
                    digests=[digests[place] for place in new],
                    lengths=[lengths[place] for place in new],
                    sizes=[items[place][0].size if self._header.keeps_origins else None for place in new],
                    origins=self._origins_of(items, new, further),
                    first_texts=self._append_texts([items[place][2] for place in new]),
                    codes=codes[np.repeat(is_new, lengths)],
                )
            )

    def adopt(self, documents: Sequence[DocumentRecord]) -> list[int]:
        """Let contents that the bank has be known as these documents; returns the places of those it has not.

        What was read under the same names before goes last: a content that only changes its name is never without one.
        """
        digests = self._header.shortened(document.digest for document in documents)
        known = self._blocks.find_digests(set(digests))
        if self._header.keeps_origins:
            names = {(document.source, document.part): place for place, document in enumerate(documents)}
            kept = {name: place for name, place in names.items() if digests[place] in known}
            stale = self._otherwise_read({name: digests[place] for name, place in kept.items()})
            added: defaultdict[Place, list[Origin]] = defaultdict(list)
            for (source, part), place in kept.items():
                added[known[digests[place]]].append(Origin(source, part, documents[place].date))
            self._add_origins(added)
            self._drop_origins(stale)
        return [place for place, digest in enumerate(digests) if digest not in known]

    def remove(self, names: Collection[Name]) -> int:
        """Remove origins, and the documents left without one. Returns how many origins there were."""
        found = self._blocks.find_origins(names)
        self._drop_origins(found)
        return len(found)

    def remove_documents(self, digests: Collection[bytes]) -> int:
        """Remove documents wherever they were read. Returns how many there were."""
        found = self._blocks.find_digests(digests)
        rows: defaultdict[int, list[int]] = defaultdict(list)
        for place in found.values():
            rows[place.block].append(place.row)
        for block, gone in rows.items():
            self._drop_rows(block, gone)
        return len(found)

    def _origins_of(self, items: Sequence[Item], new: Sequence[int], further: Mapping[int, list[int]]) -> Origins:
        """Where new documents were read: the items at their places, and further items of the same content."""
        if not self._header.keeps_origins:
            return Origins([0] * len(new))
        if further:
            return Origins.of(_origins(items, [place, *further.get(place, ())]) for place in new)
        read = [items[place][0] for place in new]
        return Origins(
            [1] * len(read),
            [document.source for document in read],
            [document.part for document in read],
            [document.date for document in read],
        )

    def _otherwise_read(self, names: Mapping[Name, bytes]) -> dict[Name, Place]:
        """Where documents are that were read under these names and have other digests."""
        found = self._blocks.find_origins(names)
        return {name: at for name, at in found.items() if self._blocks.digest_at(at) != names[name]}

    def _append(self, new: Block) -> None:
        self._blocks.append(new)
        self._count(new.codes, +1)

    def _append_texts(self, documents: Sequence[Sequence[bytes] | None]) -> list[int]:
        """Store the texts of some documents; returns the number of the first of each."""
        if not self._header.keeps_text:
            return [0] * len(documents)
        rows = [data for several in documents for data in several or ()]
        self.text_bytes += sum(map(len, rows))
        lengths = [len(several or ()) for several in documents]
        return list(accumulate(lengths[:-1], initial=self._blocks.append_texts(rows)))

    def _add_origins(self, added: Mapping[Place, Sequence[Origin]]) -> None:
        """Let documents have further origins; one of the same name is replaced."""
        blocks: defaultdict[int, dict[int, Sequence[Origin]]] = defaultdict(dict)
        for place, several in added.items():
            blocks[place.block][place.row] = several
        for block, rows in blocks.items():
            content = self._blocks.get(block)
            before = content.origins.of_rows(rows)
            after = {row: _united(before[row], several) for row, several in rows.items()}
            if any(before[row] != origins for row, origins in after.items()):
                content.origins = content.origins.changed(after)
                self._blocks.put(block, content)
                self._blocks.note(block, [], Origins.of(rows.values()))

    def _drop_origins(self, dropped: Mapping[Name, Place]) -> None:
        """Take origins, found at these places, from their documents, and drop the documents that have no other."""
        blocks: defaultdict[int, defaultdict[int, set[Name]]] = defaultdict(lambda: defaultdict(set))
        for name, place in dropped.items():
            blocks[place.block][place.row].add(name)
        for block, rows in blocks.items():
            content = self._blocks.get(block)
            before = content.origins.of_rows(rows)
            after = {row: [origin for origin in before[row] if origin[:2] not in rows[row]] for row in rows}
            content.origins = content.origins.changed(after)
            self._drop_rows(block, [row for row, origins in after.items() if not origins])

    def _drop_rows(self, block: int, rows: Sequence[int]) -> None:
        content = self._blocks.get(block)
        is_gone = np.zeros(len(content), bool)
        is_gone[list(rows)] = True
        self._count(content.codes[np.repeat(is_gone, content.lengths)], -1)
        if self._header.keeps_text:
            for row in rows:
                self.text_bytes -= self._blocks.delete_texts(content.first_texts[row], content.lengths[row])
        self._blocks.put(block, content.without(rows))

    def _count(self, codes: Codes, sign: int) -> None:
        self.counts += sign * count(codes, self._header.shape)


def _origins(items: Sequence[Item], places: Sequence[int]) -> tuple[Origin, ...]:
    documents = (items[place][0] for place in places)
    return tuple(Origin(document.source, document.part, document.date) for document in documents)


def _united(own: Sequence[Origin], others: Sequence[Origin]) -> tuple[Origin, ...]:
    """Both, sorted; of two with one name the other."""
    return tuple(sorted({origin[:2]: origin for origin in (*own, *others)}.values()))
