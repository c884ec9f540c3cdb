"""Finding the passages that a question is about: one scan of the bank's address codes, and matches of its words.

An address is a few codes by which a question scores a chunk: product quantisation (Jégou, Douze and Schmid, 2011) of a
frozen encoder's sentence vectors, centred and rotated so that all positions have an even share of the variance. Coding
shortens some vectors by chance, so the tables subtract a share of the squared length. Questions are whitened by the
covariance of the bank's own codes, since they ask about what distinguishes a chunk in that bank.

Words that a question shares with a chunk are weighted by their rarity in the bank: with them, the right one of 402
SQuAD paragraphs ranks first for 80% of the questions; with address codes alone, for 62%.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial, reduce
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import Codes, ReadableBank, Selection
from mbc_engine.bank.inspection import plain_texts
from mbc_engine.bank.words import content_words, matcher, number_of
from mbc_engine.errors import BankError, ModelError
from mbc_engine.lm.bert import one_thread
from mbc_engine.ranking import Hit, Ranking, log_weights
from mbc_engine.sources import Passages
from mbc_engine.text.dates import Period, period_in
from mbc_engine.text.language import ENGLISH

# Chosen on questions about six articles that are in neither the codebooks' data nor `squad_val`.
LENGTH_SHARE: Final = 0.25
WHITENING: Final = 0.2
# A bank's covariance is estimated as if it had this many more chunks of ordinary text.
PRIOR_CHUNKS: Final = 128
# It is estimated from at most this many chunks; in a large bank, from `_RUNS` runs of neighbours.
SAMPLED_CHUNKS: Final = 8192
_RUNS: Final = 8
# Words beyond which each counts as it is.
_ENOUGH_WORDS: Final = 4
# Chunks whose texts are compared with a query of few words.
_CHECKED: Final = 256
_MOST_CHECKED: Final = 4096  # if so many have all of its words
# Chunks whose texts are looked up for that where a language model may have to decode them, 7 a second.
_LOOKED_UP: Final = 8
# What words as they are written, and next to each other, count beside the words of the index.
EXACTNESS: Final = 0.5
# A date that a document has counts as this many of its words.
_DATE_WORDS: Final = 2.0
# In larger banks, reading all dates takes longer than a question may.
_MOST_DATED: Final = 1 << 18


class Address:
    """Addresses of documents, `tokens` codes for vectors of `dim` each, and the tables by which questions score them.

    A new one is random: `recipes/mini/address.py` sets its arrays in closed form and by k-means (`docs/mini.md`).
    """

    def __init__(self, width: int, *, tokens: int = 24, dim: int = 8, num_codes: int = 512) -> None:
        self.tokens, self.dim, self.num_codes = tokens, dim, num_codes
        rng, size = np.random.default_rng(0), tokens * dim
        self.basis = rng.standard_normal((size, width), np.float32) * np.float32(width**-0.5)
        self.document_mean = np.zeros(width, np.float32)
        self.question_mean = np.zeros(width, np.float32)
        self.books = rng.standard_normal((tokens, num_codes, dim), np.float32) * np.float32(size**-0.5)
        self.log_scale = np.array(math.log(20.0), np.float32)
        self.spread = np.ones(size, np.float32)

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """All that it was fitted to, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def of_documents(self, sentence_vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors to be encoded, from unit sentence vectors [B, E]: [B, tokens, dim]."""
        return self._turned(sentence_vectors - self.document_mean)

    def of_questions(self, sentence_vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors for `tables`, from unit sentence vectors [B, E]: [B, tokens, dim]."""
        return self._turned(sentence_vectors - self.question_mean)

    def _turned(self, centred: NDArray[np.float32]) -> NDArray[np.float32]:
        # Not a matrix product, whose last bits depend on how many there are.
        turned: NDArray[np.float32] = np.einsum("be,ve->bv", centred, self.basis)
        return turned.reshape(len(centred), self.tokens, self.dim)

    def encode(self, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """The nearest code at every position; the lowest wins a tie: [B, tokens, dim] -> [B, tokens]."""
        # |v - e|^2 without |v|^2, which is the same for every code.
        products = np.einsum("btd,tjd->btj", vectors, self.books)
        nearest: NDArray[np.int64] = ((self.books**2).sum(-1) - 2 * products).argmin(-1)
        return nearest

    def lookup(self, codes: NDArray[np.integer]) -> NDArray[np.float32]:
        """Vectors of codes, [..., tokens] -> [..., tokens, dim]."""
        vectors: NDArray[np.float32] = self.books[np.arange(self.tokens), codes]
        return vectors

    @np.errstate(over="ignore", invalid="ignore")
    def tables(
        self, questions: NDArray[np.float32], whitening: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """The score of each code for questions [B, tokens, dim]: [B, tokens, num_codes].

        Summed over positions, these are log-probabilities up to a constant. Raises ModelError if they are no numbers.
        """
        flat = questions.reshape(len(questions), self.tokens * self.dim)
        flat = flat if whitening is None else np.einsum("bv,vw->bw", flat, whitening)
        unit = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)
        products = np.einsum("btd,tjd->btj", unit.reshape(questions.shape), self.books)
        tables: NDArray[np.float32] = products - np.float32(LENGTH_SHARE) * (self.books**2).sum(-1)
        tables *= np.exp(self.log_scale)
        if not np.isfinite(tables).all():
            raise ModelError("The weights of the model's addresses are out of range.", hint="Get the model again.")
        return tables

    @np.errstate(divide="ignore", over="ignore", invalid="ignore")
    def whitening(self, codes: NDArray[np.integer]) -> NDArray[np.float32]:
        """The matrix that whitens questions for a bank with these codes, [N, tokens] -> [tokens * dim, tokens * dim].

        A power of the covariance of the bank's chunks; without chunks, of ordinary texts.
        """
        sample = codes[:: max(1, math.ceil(len(codes) / SAMPLED_CHUNKS))]
        vectors = self.lookup(sample).reshape(len(sample), self.tokens * self.dim)
        away = vectors - vectors.sum(0) / max(1, len(vectors))
        covariance = away.T @ away + PRIOR_CHUNKS * np.diag(self.spread)
        values, directions = np.linalg.eigh(covariance / (len(sample) + PRIOR_CHUNKS))
        matrix: NDArray[np.float32] = (directions * values**-WHITENING) @ directions.T
        return matrix


Term = int | Period  # a word by its number, or a time that documents are of
Weighting = tuple[Selection, float]  # and the log of the largest weight


class Scope:
    """The part of one or more banks that is searched, in one snapshot of them.

    Every read of many chunks is the work of one bank, below; here is what it adds up to.
    """

    def __init__(self, address: Address, bank: ReadableBank, selection: Selection | None = None) -> None:
        self.bank, self._address = bank, address
        selection = selection or Selection()
        self._weighting: Weighting | None = None
        if bank.is_weighted or not selection.is_everything:
            self._weighting = selection, max(bank.each(partial(_peak, selection)))

    @property
    def is_whole(self) -> bool:
        """Whether no document is left out or counts less for its date or path."""
        return self._weighting is None or self._weighting[0].is_everything

    @cached_property
    def _sizes(self) -> list[int]:
        """How many chunks of each bank are searched."""
        return self.bank.each(partial(_size, self._weighting))

    def __len__(self) -> int:
        return sum(self._sizes)

    def sample(self, size: int) -> Codes:
        """The codes of at most `size` chunks, [n, tokens, 1]: of all, or of runs of neighbours, which share blocks."""
        chunks = np.arange(min(len(self), size))
        if len(self) > size:
            run = size // _RUNS
            starts = np.linspace(0, len(self) - run, _RUNS).astype(np.int64)
            chunks = (starts[:, None] + np.arange(run)).ravel()
        ends = np.cumsum(self._sizes)
        holders = np.searchsorted(ends, chunks, side="right")
        of_banks = [
            chunks[holders == at] - end + size for at, (end, size) in enumerate(zip(ends, self._sizes, strict=True))
        ]
        return np.concatenate(self.bank.each(partial(_codes, self._weighting), of_banks))

    @property
    def whitening(self) -> NDArray[np.float32]:
        def compute() -> NDArray[np.float32]:
            codes = self.sample(SAMPLED_CHUNKS)[..., 0]
            with one_thread:  # the first took 200 ms on two, which waited for each other, and 7 ms on one
                return self._address.whitening(codes)

        return self.bank.kept(("whitening", self._address, self._weighting), compute)

    def tables(self, sentence_vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """The lookup tables of questions, from unit sentence vectors [B, E]: [B, tokens, num_codes]."""
        return self._address.tables(self._address.of_questions(sentence_vectors), self.whitening)

    def words(self, questions: Sequence[str], weight: float) -> list[list[tuple[Term, float]]]:
        """For each question, its words that the bank has, and what each adds to the log shares of its chunks.

        This is the word's inverse document frequency in the bank (Spärck Jones, 1972), times the weight; more in a query
        of one or two words, which says nothing else.
        """
        words = [sorted(set(map(number_of, content_words(question)))) for question in questions]
        numbers = tuple(sorted(set().union(*words))) if weight else ()
        total = self.bank.totals().chunks + 1
        counts = np.sum(self.bank.each(partial(_counts, numbers)), 0).tolist() if numbers else []
        scores = {
            number: weight * math.log(total / (count + 0.5)) for number, count in zip(numbers, counts, strict=True)
        }
        return [
            [(number, scores[number] * _emphasis(question)) for number in numbers_of if number in scores]
            for question, numbers_of in zip(questions, words, strict=True)
        ]

    def dated(self, question: str, weight: float) -> list[tuple[Term, float]]:
        """As `words`, for the time that a question names: the chunks of documents of that time count as having it."""
        period, total = period_in(question), self.bank.totals().chunks
        if period is None or not weight or not self.bank.header.keeps_origins or total > _MOST_DATED:
            return []
        (count,) = np.sum(self.bank.each(partial(_counts, (period,))), 0).tolist()
        return [(period, _DATE_WORDS * weight * math.log((total + 1) / (count + 0.5)))] if count else []

    def search(
        self, questions: Sequence[str], vectors: NDArray[np.float32], top: int, weight: float
    ) -> list[list[Hit]]:
        """The best chunks for each question, from unit sentence vectors [B, E] and the weight of words."""
        words = self.words(questions, weight)
        words = [[*terms, *self.dated(question, weight)] for question, terms in zip(questions, words, strict=True)]
        few = max(
            (self._alike(terms) for question, terms in zip(questions, words, strict=True) if _emphasis(question) > 1),
            default=0,
        )
        found = self.best(self.tables(vectors), max(top, few), words)
        return [
            checked(question, hits, plain_texts(self.bank, [hit.chunk for hit in hits]))[:top]
            for question, hits in zip(questions, found, strict=True)
        ]

    def _alike(self, words: Sequence[tuple[Term, float]]) -> int:
        """How many chunks have to be compared to tell those that have all words of a query apart, within reason."""
        alike = sum(self.bank.each(partial(_having_all, tuple(term for term, _ in words))))
        return min(max(_CHECKED, alike), _MOST_CHECKED)

    def looked_up(self, query: str, hits: Sequence[Hit], passages: Passages) -> list[Hit]:
        """The hits of a query of few words, but several, as `checked` if only a language model can decode some texts.

        Only the first few that have all its words are looked up.
        """
        numbers = sorted(set(map(number_of, content_words(query)))) if _emphasis(query) > 1 else []
        if len(numbers) <= 1 or None not in plain_texts(self.bank, [hit.chunk for hit in hits]):
            return list(hits)
        having = [set(chunks.tolist()) for chunks in self.bank.chunks_with(numbers)]
        alike = [hit.chunk for hit in hits if all(hit.chunk in chunks for chunks in having)]
        texts = {chunk: source.passage or "" for chunk, source in passages.of(alike[:_LOOKED_UP]).items()}
        return checked(query, hits, [texts.get(hit.chunk, "") for hit in hits])

    def best(
        self, tables: NDArray[np.float32], top: int, words: Sequence[Sequence[tuple[Term, float]]] = ()
    ) -> list[list[Hit]]:
        """The best chunks for each question by codes and `words`, with their documents, in one scan of the bank."""
        found = self.bank.each(partial(_best, self._weighting, tables, top, words))
        chunks = documents = 0
        document_of: dict[int, int] = {}
        for bank in found:
            document_of |= {chunks + chunk: documents + document for chunk, document in bank.document_of.items()}
            chunks, documents = chunks + bank.chunks, documents + bank.documents
        return [
            [replace(hit, document=document_of[hit.chunk]) for hit in Ranking(top).join(rankings).result()]
            for rankings in zip(*(bank.rankings for bank in found), strict=True)
        ]


class _Found(NamedTuple):
    """The best chunks of one bank for each question, the documents that these are in, and how much the bank holds."""

    rankings: list[Ranking]
    document_of: dict[int, int]
    chunks: int
    documents: int


def _best(
    weighting: Weighting | None,
    tables: NDArray[np.float32],
    top: int,
    words: Sequence[Sequence[tuple[Term, float]]],
    bank: ReadableBank,
) -> _Found:
    rankings, document_of = [Ranking(top) for _ in tables], dict[int, int]()
    start = documents = 0
    having = _having(bank, {term for terms in words for term, _ in terms})
    logs = None if weighting is None else _log_weights(bank, weighting[0]) - np.float32(weighting[1])
    for sums, lengths in bank.scan(tables[:, :, None]):
        end = start + sums.shape[1]
        for scores, terms in zip(sums, words, strict=False):
            for term, added in terms:
                first, last = np.searchsorted(having[term], (start, end))
                scores[having[term][first:last] - start] += np.float32(added)
        scores = sums if logs is None else sums + logs[start:end]
        for ranking, log_scores in zip(rankings, scores, strict=True):
            ranking.add(log_scores)
        # At once, since the lengths of all documents would take more memory than all else.
        if len(new := np.concatenate([ranking.chunks[ranking.chunks >= start] for ranking in rankings])):
            found = documents + np.searchsorted(np.cumsum(lengths), new - start, side="right")
            document_of |= zip(new.tolist(), found.tolist(), strict=True)
        start, documents = end, documents + len(lengths)
    return _Found(rankings, document_of, start, documents)


def _having(bank: ReadableBank, terms: Iterable[Term]) -> dict[Term, NDArray[np.int64]]:
    """The chunks of a bank that have each term; they are looked up twice, to be counted and in the scan."""
    having: dict[Term, NDArray[np.int64]] = {}
    if numbers := tuple(sorted({term for term in terms if isinstance(term, int)})):
        having |= zip(numbers, bank.kept(("words", numbers), partial(bank.chunks_with, numbers)), strict=True)
    return having | {term: bank.kept(term, partial(_of, bank, term)) for term in terms if isinstance(term, Period)}


def _of(bank: ReadableBank, period: Period) -> NDArray[np.int64]:
    first, last = period.span
    logs: list[NDArray[np.float64]] = [np.empty(0)]
    with suppress(BankError):  # another bank keeps no dates
        logs += bank.log_weights(Selection(since=first, as_of=last))
    return np.flatnonzero(np.isfinite(np.concatenate(logs)))


def _counts(terms: Sequence[Term], bank: ReadableBank) -> list[int]:
    having = _having(bank, terms)
    return [len(having[term]) for term in terms]


def _having_all(terms: Sequence[Term], bank: ReadableBank) -> int:
    return len(reduce(np.intersect1d, _having(bank, terms).values())) if terms else 0


def _log_weights(bank: ReadableBank, selection: Selection) -> NDArray[np.float32]:
    return bank.kept(("weights", selection), partial(log_weights, bank, selection))


def _peak(selection: Selection, bank: ReadableBank) -> float:
    return float(_log_weights(bank, selection).max(initial=np.finfo(np.float32).min))


def _size(weighting: Weighting | None, bank: ReadableBank) -> int:
    chunks = bank.totals().chunks
    return chunks if weighting is None else int(np.isfinite(_log_weights(bank, weighting[0])).sum())


def _codes(weighting: Weighting | None, bank: ReadableBank, chunks: NDArray[np.int64]) -> Codes:
    if weighting is not None:
        chunks = np.flatnonzero(np.isfinite(_log_weights(bank, weighting[0])))[chunks]
    return bank.codes_at(chunks)


def checked(question: str, hits: Sequence[Hit], texts: Sequence[str | None]) -> list[Hit]:
    """The hits in the order of shares that also count what `matcher` finds in their texts, by its rarity among them.

    As they are if the text of one is not known: what can be decoded fast should not have an advantage.
    """
    if None in texts:
        return list(hits)
    found, emphasis, content = matcher(question), _emphasis(question), content_words(question)
    held = [found(text or "") for text in texts]
    counts = Counter(chain.from_iterable(held))

    def exactness(each: object) -> float:
        """More the fewer words there are; of two next to each other most, but not of "packages are" and the like."""
        if not isinstance(each, tuple):
            return EXACTNESS * emphasis**2
        return EXACTNESS * (emphasis**3 if content.issuperset(each) or ENGLISH.isdisjoint(each) else 1)

    rarity = {each: exactness(each) * math.log((len(hits) + 1) / (count + 0.5)) for each, count in counts.items()}
    weights = [hit.share * math.exp(sum(map(rarity.__getitem__, stems))) for hit, stems in zip(hits, held, strict=True)]
    total = sum(weights) + max(0.0, 1 - sum(hit.share for hit in hits))
    changed = [replace(hit, share=weight / total) for hit, weight in zip(hits, weights, strict=True)]
    return sorted(changed, key=lambda hit: -hit.share)


def _emphasis(question: str) -> float:
    return max(1.0, _ENOUGH_WORDS / max(1, len(content_words(question))))


def by_document(hits: Sequence[Hit], top: int, first: Hit | None = None) -> list[Hit]:
    """The best documents among chunks, each with its best chunk and the total share of its chunks.

    If `first` is given, its document comes first, with that chunk.
    """
    best: dict[int | None, tuple[int, float]] = {}
    for hit in hits:
        chunk, share = best.get(hit.document, (hit.chunk, 0.0))
        best[hit.document] = chunk, share + hit.share
    if first is not None:
        best[first.document] = first.chunk, best[first.document][1]
    shares = [share for _, share in best.values()]
    order = sorted(best.items(), key=lambda item: (first is None or item[0] != first.document, -item[1][1]))
    return [Hit(chunk, min(1.0, share), shares.count(share) - 1, document) for document, (chunk, share) in order[:top]]
