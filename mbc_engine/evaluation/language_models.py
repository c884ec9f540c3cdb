"""Methods that only ask a base LM: without a document (closed book), or reading one (BM25 as in Lucene; oracle)."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import bm25s
import numpy as np

from mbc_engine.datasets.examples import QAExample
from mbc_engine.evaluation.methods import Footprint, Method, MethodAnswer
from mbc_engine.lm.base import BaseLM
from mbc_engine.lm.encoders import padded_batches
from mbc_engine.paper.scoring import SOURCES, within_window
from mbc_engine.text.chunks import Chunker

MAX_NEW_TOKENS: Final = 16
QUESTION_WINDOW: Final = 128  # as in `BaseLM.generate`
_BATCH: Final = 32
# Characters of a batch, padding included: 32 short questions, or eight with passages of a thousand tokens.
_CHARACTERS: Final = 32_768


def answers(
    base: BaseLM,
    questions: Sequence[str],
    passages: Sequence[str] = (),
    *,
    size: int = _BATCH,
    longest: float = _CHARACTERS,
) -> list[str]:
    """Greedy answers of at most `MAX_NEW_TOKENS` tokens, each after a passage (see `BaseLM.generate`) or none.

    A batch has at most `size` questions and `longest` characters, padding included.
    """
    passages, answered = passages or [""] * len(questions), dict[int, str]()
    lengths = [len(question) + len(passage) for question, passage in zip(questions, passages, strict=True)]
    for batch in padded_batches(lengths, size=size, longest=longest):
        asked, read = [questions[index] for index in batch], [passages[index] for index in batch]
        generated = base.generate(base.no_prefix(len(batch)), asked, passages=read, max_new_tokens=MAX_NEW_TOKENS)
        answered |= zip(batch, generated, strict=True)
    return [answered[index] for index in range(len(questions))]


def passage_chunker(base: BaseLM) -> Chunker:
    """Chunks documents to fit the context beside a question and its answer, or half the context if it is small."""
    room = base.context - QUESTION_WINDOW - MAX_NEW_TOKENS
    return Chunker(base.tokenizer.backend_tokenizer, max(room, base.context // 2))


class BM25Index:
    """A BM25 index of texts (Robertson and Zaragoza 2009). Words of one letter and English stop words are ignored."""

    def __init__(self, texts: Sequence[str]) -> None:
        words = self._words(texts)
        self._index = bm25s.BM25() if any(words) else None  # bm25s cannot index nothing
        if self._index:
            self._index.index(words, show_progress=False)

    def _words(self, texts: Sequence[str]) -> Any:
        return bm25s.tokenize(list(texts), stopwords="en", return_ids=False, show_progress=False)

    def ranking(self, question: str) -> list[int]:
        """Indices of the texts that share a word with a question, best first; ties keep the order of the texts."""
        (words,) = self._words([question])
        if not words or not self._index:
            return []
        scores = self._index.get_scores(words)
        order: list[int] = np.argsort(-scores, kind="stable").tolist()
        return order[: np.count_nonzero(scores > 0)]

    def size_on_disk(self) -> int:
        with tempfile.TemporaryDirectory() as folder:
            if self._index:
                self._index.save(folder)
            return sum(file.stat().st_size for file in Path(folder).iterdir())


class ClosedBook(Method):
    """The base LM answers from its weights alone: the baseline every memory has to beat."""

    def __init__(self, base: BaseLM) -> None:
        self._base = base

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        return [MethodAnswer(text) for text in answers(self._base, questions)]


class BM25Reading(Method):
    """The base LM reads the chunk with the best BM25 score, or nothing if no chunk shares a word with the question."""

    def __init__(self, base: BaseLM) -> None:
        self._base, self._chunker = base, passage_chunker(base)
        self.reset()

    def reset(self) -> None:
        self._documents: list[str] = []
        self._chunks: list[tuple[int, str]] = []  # with their documents' indices
        self._index: BM25Index | None = None

    def adapt(self, documents: Sequence[str]) -> None:
        for index, document in enumerate(documents, start=len(self._documents)):
            self._chunks += [(index, chunk) for chunk in self._chunker(document)]
        self._documents += documents
        self._index = None

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        ranked = [[self._chunks[index] for index in self._indexed().ranking(question)] for question in questions]
        texts = answers(self._base, questions, [chunks[0][1] if chunks else "" for chunks in ranked])
        sources = [tuple(dict.fromkeys(document for document, _ in chunks))[:SOURCES] for chunks in ranked]
        return list(map(MethodAnswer, texts, sources))

    def footprint(self) -> Footprint:
        texts = sum(len(document.encode(errors="surrogatepass")) for document in self._documents)
        return Footprint(on_disk=texts + self._indexed().size_on_disk())

    def _indexed(self) -> BM25Index:
        self._index = self._index or BM25Index([chunk for _, chunk in self._chunks])
        return self._index


class OracleReading(ClosedBook):
    """The base LM reads the document a question is about, or the first of several: the upper bound of reading."""

    def __init__(self, base: BaseLM, examples: Sequence[QAExample]) -> None:
        super().__init__(base)
        first = {example.question: example for example in reversed(examples)}
        self._passages = {one.question: one.text for one in within_window([*first.values()], passage_chunker(base))}

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        passages = [self._passages.get(question, "") for question in questions]
        return [MethodAnswer(text) for text in answers(self._base, questions, passages)]
