"""Methods that read: a base LM with or without a passage (BM25 as in Lucene), and a retriever-reader."""

import hashlib
import tempfile
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import bm25s
import numpy as np

from mbc_engine.bank import MemoryBank, ModelSignature, StoredDocument
from mbc_engine.bank.exchange import merge
from mbc_engine.datasets.layout import QAExample
from mbc_engine.lm.base import BaseLM
from mbc_engine.lm.encoders import padded_batches
from mbc_engine.methods.method import Footprint, Method, MethodAnswer
from mbc_engine.mini.model import RetrieverReader
from mbc_engine.mini.retrieval import Scope, by_document
from mbc_engine.model import Model
from mbc_engine.paper.scoring import within_window
from mbc_engine.ranking import Hit
from mbc_engine.text.chunks import Chunker

MAX_NEW_TOKENS: Final = 16
QUESTION_WINDOW: Final = 128  # as in `BaseLM.generate`
_SOURCES: Final = 5
_BATCH: Final = 32
# Characters of a batch, padding included: 32 short questions, or eight with passages of a thousand tokens.
_CHARACTERS: Final = 32_768


def answers(base: BaseLM, questions: Sequence[str], passages: Sequence[str] | None = None) -> list[str]:
    """Greedy answers of at most `MAX_NEW_TOKENS` tokens, each after a passage (see `BaseLM.generate`) or none."""
    read = [""] * len(questions) if passages is None else passages
    lengths = [len(question) + len(passage) for question, passage in zip(questions, read, strict=True)]
    found = [""] * len(questions)
    for batch in padded_batches(lengths, size=_BATCH, longest=_CHARACTERS):
        generated = base.generate(
            base.no_prefix(len(batch)),
            [questions[index] for index in batch],
            passages=[read[index] for index in batch],
            max_new_tokens=MAX_NEW_TOKENS,
        )
        for index, answer in zip(batch, generated, strict=True):
            found[index] = answer
    return found


def passage_chunker(base: BaseLM) -> Chunker:
    """Chunks documents to fit the context beside a question and its answer, or half the context if it is small."""
    room = base.context - QUESTION_WINDOW - MAX_NEW_TOKENS
    return Chunker(base.tokenizer.backend_tokenizer, max(room, base.context // 2))


class BM25Index:
    """A BM25 index of texts (Robertson and Zaragoza 2009). Words of one letter and English stop words are ignored."""

    def __init__(self, texts: Sequence[str]) -> None:
        words = _words(texts)
        self._index = bm25s.BM25()
        self._has_words = any(words)  # bm25s cannot index nothing
        if self._has_words:
            self._index.index(words, show_progress=False)

    def ranking(self, question: str) -> list[int]:
        """Indices of the texts that share a word with a question, best first; ties keep the order of the texts."""
        (words,) = _words([question])
        if not words or not self._has_words:
            return []
        scores = self._index.get_scores(words)
        order = np.argsort(-scores, kind="stable")
        return [int(place) for place in order[: np.count_nonzero(scores > 0)]]

    def size_on_disk(self) -> int:
        if not self._has_words:
            return 0
        with tempfile.TemporaryDirectory() as folder:
            self._index.save(folder)
            return sum(file.stat().st_size for file in Path(folder).iterdir())


def _words(texts: Sequence[str]) -> list[list[str]]:
    words: list[list[str]] = bm25s.tokenize(list(texts), stopwords="en", return_ids=False, show_progress=False)
    return words


class ClosedBook(Method):
    """The base LM answers from its weights alone: the baseline every memory has to beat."""

    def __init__(self, base: BaseLM) -> None:
        self._base = base

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        return [MethodAnswer(text) for text in answers(self._base, questions)]


class BM25Reading(Method):
    """The base LM reads the piece with the best BM25 score, or nothing if no piece shares a word with the question."""

    def __init__(self, base: BaseLM) -> None:
        self._base, self._cut = base, passage_chunker(base)
        self.reset()

    def reset(self) -> None:
        self._documents: list[str] = []
        self._pieces: list[tuple[int, str]] = []  # with their documents' indices
        self._index: BM25Index | None = None

    def adapt(self, documents: Sequence[str]) -> None:
        for place, document in enumerate(documents, start=len(self._documents)):
            self._pieces += [(place, piece) for piece in self._cut(document)]
        self._documents += documents
        self._index = None

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        read = [self._passage(question) for question in questions]
        texts = answers(self._base, questions, [passage for passage, _ in read])
        return [MethodAnswer(text, sources) for text, (_, sources) in zip(texts, read, strict=True)]

    def footprint(self) -> Footprint:
        texts = sum(len(document.encode(errors="surrogatepass")) for document in self._documents)
        return Footprint(on_disk=texts + self._indexed().size_on_disk())

    def _passage(self, question: str) -> tuple[str, tuple[int, ...]]:
        found = [self._pieces[place] for place in self._indexed().ranking(question)]
        passage = found[0][1] if found else ""
        return passage, tuple(dict.fromkeys(document for document, _ in found))[:_SOURCES]

    def _indexed(self) -> BM25Index:
        if self._index is None:
            self._index = BM25Index([piece for _, piece in self._pieces])
        return self._index


class OracleReading(ClosedBook):
    """The base LM reads the document a question is about, or the first of several: the upper bound of reading."""

    def __init__(self, base: BaseLM, examples: Sequence[QAExample]) -> None:
        super().__init__(base)
        cut, first = passage_chunker(base), {example.question: example for example in reversed(examples)}
        self._passages = {one.question: one.text for one in within_window(list(first.values()), cut)}

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        passages = [self._passages.get(question, "") for question in questions]
        return [MethodAnswer(text) for text in answers(self._base, questions, passages)]


class RetrieveAndRead(Method):
    """A retriever-reader such as mini with a bank of the stream's documents, codes and text.

    It always answers with the likeliest span, however unlikely, since a withheld answer counts as wrong here.
    """

    def __init__(self, model: RetrieverReader) -> None:
        self._model = model
        self.reset()

    def reset(self) -> None:
        self._bank = bank_in_memory(self._model, keeps_text=True)
        self._places: dict[str, int] = {}  # index in the stream by document digest
        self._documents = 0
        self._searched: Scope | None = None

    def adapt(self, documents: Sequence[str]) -> None:
        """Chunk and store documents; a blank one is not stored but still counts in the stream."""
        chunked = [self._model.chunker.chunks(text) for text in documents]
        codes = iter(self._model.memorise([chunk.text for chunks in chunked for chunk in chunks]))
        items = []
        for place, (text, chunks) in enumerate(zip(documents, chunked, strict=True), start=self._documents):
            if chunks:
                digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
                self._places.setdefault(self._bank.header.shortened([digest])[0].hex(), place)
                own = np.stack(list(islice(codes, len(chunks))))
                items.append(StoredDocument(digest, len(chunks), None, (), own, chunks))
        self._bank.put(items)
        self._documents += len(documents)
        self._searched = None

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        model, bank = self._model, self._bank
        if not bank.totals().chunks:
            return [MethodAnswer("", ()) for _ in questions]
        if self._searched is None:
            self._searched = model.scope(bank)

        def texts_of(hits: Iterable[Hit]) -> dict[int, str | None]:
            several = [hit.chunk for hit in hits]
            kept = zip(several, bank.texts_at(several), strict=True)
            return {chunk: own.text if own else None for chunk, own in kept}

        found_answers = []
        with bank.snapshot():
            hits = model.search(questions, self._searched).chunks
            for found, answered in zip(hits, model.read(questions, hits, texts_of), strict=True):
                span = answered.best
                ranked = by_document(found, _SOURCES, answered.read_chunks[span.passage][0] if span else None)
                chunks = bank.chunks_at([source.chunk for source in ranked])
                sources = tuple(self._places[chunk.document.digest] for chunk in chunks)
                found_answers.append(MethodAnswer(" ".join(span.text.split()) if span else "", sources))
        return found_answers

    def footprint(self) -> Footprint:
        """The bank file, as `mbc ingest --no-sources` would make it. The paper does not count text."""
        return Footprint(size_as_file(self._bank))


def bank_in_memory(model: Model, *, keeps_text: bool) -> MemoryBank:
    """An empty bank without origins, which only this process reads."""
    # All fingerprints have the same length, and computing a large model's takes longer than everything else.
    signature = ModelSignature(model.name, "0" * 16, "0" * 16)
    shape, dim = model.code_shape, model.codebooks.shape[-1]
    return MemoryBank.create(None, signature, shape, dim, keeps_origins=False, keeps_text=keeps_text)


def size_as_file(bank: MemoryBank) -> int:
    """Bytes of a new bank file with a bank's documents."""
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryBank.open(Path(folder, "bank.mbc"), create=bank.header) as copy,
    ):
        for _ in merge(copy, bank):
            pass
        copy.checkpoint()
        return copy.sizes().file
