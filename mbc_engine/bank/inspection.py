"""Finds documents in a bank by name, as the user types, and shows what its codes stand for."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from typing import Final, NamedTuple

import numpy as np

from mbc_engine.bank.block import Block
from mbc_engine.bank.memory_bank import MemoryBank
from mbc_engine.bank.readable import ReadableBank
from mbc_engine.bank.records import EncodedText, Indices, Numbers, Origin, StoredChunk, StoredDocument
from mbc_engine.bank.text_codec import MOST_READ, decode_found, text_checksum
from mbc_engine.bank.words import numbered_words

# Chunks compared per code, and texts read for all codes; words looked up per code, and words returned.
_SAMPLED: Final = 128
_MAX_TEXTS: Final = 512
_MAX_WORDS, _SHOWN_WORDS = 32, 6


class CodeUse(NamedTuple):
    """How many chunks have a code, the most typical of them with their texts, and their distinctive words."""

    chunks: int
    typical: list[tuple[StoredChunk, str]]
    words: list[str]


def code_uses(
    bank: MemoryBank,
    codes: Sequence[tuple[int, int, int]],
    top: int = 10,
    file_text: Callable[[StoredDocument], str | None] = lambda _: None,
) -> list[CodeUse]:
    """What codes stand for, each given by level, position and number as in `MemoryBank.counts`; one scan of the bank.

    An evenly spaced sample of at most `_SAMPLED` chunks with the code is compared; the `top` that share the most codes
    with the others are typical. Texts that a language model would have to decode are cut from what `file_text` returns
    as the text of the document's file; unavailable ones are "".

    A word's score is its term p log(p/q) of the Kullback-Leibler divergence of the chunks with the code from all, where
    p and q are the shares of chunks that contain it. Words in only one of the chunks with the code do not count.

    Raises ValueError if there is no such code.
    """
    shape, start = bank.header.shape, 0
    sizes = shape.levels, shape.positions, shape.num_codes
    if any(not 0 <= at < size for use in codes for at, size in zip(use, sizes, strict=True)):
        raise ValueError(f"there is no such code among {shape}: {codes}")
    users: list[list[Indices]] = [[np.empty(0, np.int64)] for _ in codes]
    with bank.snapshot():
        for block, _ in bank.blocks():
            for (level, position, code), chunks in zip(codes, users, strict=True):
                tokens = block[:, position : position + 1 if shape.per_position else None, level]
                chunks.append(start + np.flatnonzero((tokens == code).any(1)))
            start += len(block)
        limit = min(_SAMPLED, max(top, _MAX_TEXTS // max(1, len(codes))))
        typical = [_typical(bank, np.concatenate(chunks))[:limit] for chunks in users]
        read = np.unique(np.concatenate([np.empty(0, np.int64), *typical]))
        stored = dict(zip(read.tolist(), bank.chunks_at(read), strict=True))
        text_of = dict(zip(stored, _texts(bank, read, list(stored.values()), file_text), strict=True))
        texts = [[text_of[chunk] for chunk in chunks.tolist()] for chunks in typical]
        return [
            CodeUse(sum(map(len, chunks)), [(stored[at], text_of[at]) for at in best[:top].tolist()], words)
            for chunks, best, words in zip(users, typical, _distinctive_words(bank, texts), strict=True)
        ]


def _typical(bank: MemoryBank, chunks: Indices) -> Indices:
    sample = chunks[:: -(-len(chunks) // _SAMPLED) or 1]
    codes = bank.codes_at(sample)
    return sample[np.argsort(-(codes[:, None] == codes).sum((1, 2, 3)), kind="stable")]


def _texts(
    bank: MemoryBank, chunks: Indices, stored: Sequence[StoredChunk], file_text: Callable[[StoredDocument], str | None]
) -> list[str]:
    encoded = bank.encoded_texts_at(chunks)
    texts = [text or "" for text in _plain(bank, encoded)]
    slow = [at for at, encoded_text in enumerate(encoded) if encoded_text is not None and encoded_text.lm]
    before_others = [at for at in slow if stored[at].ordinal + 1 < stored[at].document.chunks]
    following = dict(zip(before_others, bank.encoded_texts_at(chunks[before_others] + 1), strict=True))
    for at in slow:
        encoded_text, after, text = encoded[at], following.get(at), file_text(stored[at].document)
        if encoded_text is not None and text is not None:
            cut = text[encoded_text.start : after and after.start].rstrip()
            texts[at] = cut if text_checksum(cut) == encoded_text.check else ""
    return texts


def plain_texts(bank: ReadableBank, chunks: Numbers) -> list[str | None]:
    """The texts of some chunks, by index; None where none is kept or only a language model can decode it."""
    return _plain(bank, bank.encoded_texts_at(chunks))


def _plain(bank: ReadableBank, encoded: Sequence[EncodedText | None]) -> list[str | None]:
    quick = [None if text is None or text.lm else text for text in encoded]
    return [text and text.text[:MOST_READ] for text in decode_found(quick, bank.name, None)]


def _distinctive_words(bank: MemoryBank, groups: Sequence[Sequence[str]]) -> list[list[str]]:
    """For each group of texts, the words that are more frequent in it than in the bank's chunks overall."""
    numbered = {text: numbered_words(text) for texts in groups for text in texts}
    spellings = [Counter(item for text in texts for item in numbered[text].items()) for texts in groups]
    shared_by_group: list[list[tuple[int, int]]] = []
    for spelt in spellings:
        times: Counter[int] = Counter()
        for (number, _), count in spelt.items():
            times[number] += count
        shared_by_group.append([(number, count) for number, count in times.most_common(_MAX_WORDS) if count > 1])
    numbers = sorted({number for spelt in shared_by_group for number, _ in spelt})
    chunks_having = dict(zip(numbers, map(len, bank.chunks_with(numbers)), strict=True)) if numbers else {}
    total, words = bank.totals().chunks, []
    for texts, shared, spelt in zip(groups, shared_by_group, spellings, strict=True):
        size = sum(map(bool, texts))
        scores = {
            number: count * math.log(count * total / (size * max(count, chunks_having[number])))
            for number, count in shared
        }
        best = nlargest(_SHOWN_WORDS, (number for number in scores if scores[number] > 0), key=scores.__getitem__)
        forms = {number: word for (number, word), _ in reversed(spelt.most_common())}
        words.append([forms[number] for number in best])
    return words


def find_documents(bank: MemoryBank, text: str = "", limit: int = 1000) -> Iterator[tuple[list[StoredDocument], int]]:
    """Find documents lazily in stored order, block by block. The bank may change meanwhile.

    Args:
        text: a substring of `path` or `path#part`, ignoring case, or a prefix of a date; in a bank without origins, a
            prefix of a digest. "" finds all.
        limit: documents to yield in total; further matches are only counted.

    Yields, for each block, its matches, a document once per matching origin and with that origin alone; and the number
    of matches so far.
    """
    sought = text.casefold()
    matches = yielded = 0
    for block in bank.document_blocks():
        rows = list(_matching(block, sought, has_origins=bank.header.keeps_origins))
        documents = [replace(block.document(row), origins=origins) for row, origins in rows[: limit - yielded]]
        yielded, matches = yielded + len(documents), matches + len(rows)
        yield documents, matches


def _matching(block: Block, sought: str, *, has_origins: bool) -> Iterator[tuple[int, tuple[Origin, ...]]]:
    if not has_origins:
        yield from ((row, ()) for row, digest in enumerate(block.digests) if digest.hex().startswith(sought))
        return
    for row, origins in enumerate(block.origins):
        for origin in origins:
            if sought in origin.name.casefold() or (origin.date is not None and origin.date.startswith(sought)):
                yield row, (origin,)
