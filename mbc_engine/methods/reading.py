"""What a base LM answers without a memory: from its weights, or from a passage put before the question.

BM25 over texts: finds them by the words of a question (Robertson and Zaragoza 2009; as Lucene, by bm25s).

The documents kept as they are and read again: by BM25, or by an oracle that knows which one to read.

No memory at all: the base LM answers from its weights alone, which is what every memory has to beat.

A retriever-reader: passages found by their address codes and words, and the answer read in their text.
"""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import bm25s
import numpy as np
from torch import Tensor

from mbc_engine.bank import MemoryBank, ModelSignature, Record
from mbc_engine.bank.exchange import merge
from mbc_engine.lm.base import BaseLM
from mbc_engine.lm.efficiency import padded_batches
from mbc_engine.methods.method import Footprint, Reply
from mbc_engine.mini.model import RetrieverReader
from mbc_engine.mini.retrieval import Scope, by_document
from mbc_engine.paper.reads import Ranked
from mbc_engine.text.chunks import Chunker

MAX_NEW_TOKENS: Final = 16
QUESTION_WINDOW: Final = 128  # as `BaseLM.generate`
# Characters of a batch, padding included: 32 short questions, or eight of them after passages of a thousand tokens.
_CHARACTERS: Final = 32_768


def answers(
    base: BaseLM, questions: Sequence[str], passages: Sequence[str] | None = None, *, batch_size: int = 32
) -> list[str]:
    """Greedy answers of at most `MAX_NEW_TOKENS` tokens.

    Args:
        base: what answers.
        questions: any number, in any order.
        passages: what is read before each question (see `BaseLM.generate`); None reads nothing.
        batch_size: most questions at a time.
    """
    read = [""] * len(questions) if passages is None else passages
    lengths = [len(question) + len(passage) for question, passage in zip(questions, read, strict=True)]
    found = [""] * len(questions)
    for batch in padded_batches(lengths, size=batch_size, longest=_CHARACTERS):
        said = base.generate(
            base.no_prefix(len(batch)),
            [questions[index] for index in batch],
            passages=[read[index] for index in batch],
            max_new_tokens=MAX_NEW_TOKENS,
        )
        for index, answer in zip(batch, said, strict=True):
            found[index] = answer
    return found


def passage_chunker(base: BaseLM) -> Chunker:
    """Cuts documents to what the context has room for beside a question and its answer, or to half of a small one."""
    room = base.context - QUESTION_WINDOW - MAX_NEW_TOKENS
    return Chunker(base.tokenizer.backend_tokenizer, max(room, base.context // 2))


class WordIndex:
    """An index of texts. Words of one letter and English stop words do not count.

    Args:
        texts: any number; those without words are never found.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        words = _words(texts)
        self._index = bm25s.BM25()
        self._has_words = any(words)  # bm25s makes no index of nothing
        if self._has_words:
            self._index.index(words, show_progress=False)

    def ranking(self, question: str) -> list[int]:
        """Places of the texts that share a word with a question, best first; of equals the first comes first."""
        (words,) = _words([question])
        if not words or not self._has_words:
            return []
        scores = self._index.get_scores(words)
        order = np.argsort(-scores, kind="stable")
        return [int(place) for place in order[: np.count_nonzero(scores > 0)]]

    def size_on_disk(self) -> int:
        """Bytes of the index as bm25s saves it, without the texts."""
        if not self._has_words:
            return 0
        with TemporaryDirectory() as folder:
            self._index.save(folder)
            return sum(file.stat().st_size for file in Path(folder).iterdir())


def _words(texts: Sequence[str]) -> list[list[str]]:
    words: list[list[str]] = bm25s.tokenize(list(texts), stopwords="en", return_ids=False, show_progress=False)
    return words


_SOURCES: Final = 5


class BM25Reading:
    """The base LM reads the piece with the best BM25 score, or where no piece has a word of the question, nothing.

    Args:
        base: what reads and answers; best one trained to (`train_on_questions`).
    """

    def __init__(self, base: BaseLM) -> None:
        self._base, self._cut = base, passage_chunker(base)
        self.reset()

    def reset(self) -> None:
        """Drop all documents."""
        self._documents: list[str] = []
        self._pieces: list[str] = []
        self._places: list[int] = []  # of each piece's document
        self._made: WordIndex | None = None

    def adapt(self, documents: Sequence[str]) -> None:
        """Keep documents. They are indexed when a question comes, all at once: some 0.5 ms for 500 words."""
        for place, document in enumerate(documents, start=len(self._documents)):
            pieces = self._cut(document)
            self._pieces += pieces
            self._places += [place] * len(pieces)
        self._documents += documents
        self._made = None

    def answer(self, questions: Sequence[str]) -> list[Reply]:
        """Answers, with the five documents of the best pieces."""
        rankings = [self._index.ranking(question) for question in questions]
        passages = [self._pieces[ranking[0]] if ranking else "" for ranking in rankings]
        sources = [tuple(dict.fromkeys(self._places[piece] for piece in ranking))[:_SOURCES] for ranking in rankings]
        return list(map(Reply, answers(self._base, questions, passages), sources))

    def footprint(self) -> Footprint:
        """The texts and the index, as they are saved."""
        return Footprint(on_disk=_size(self._documents) + self._index.size_on_disk())

    @property
    def _index(self) -> WordIndex:
        if self._made is None:
            self._made = WordIndex(self._pieces)
        return self._made


class OracleReading:
    """The base LM reads the question's own document; of a long one the piece that BM25 prefers, else the first.

    It shows what reading could reach if every question's document were found. A document that has not come yet is not
    read.

    Args:
        base: what reads and answers.
        document_of: each question's own document.
    """

    def __init__(self, base: BaseLM, document_of: Mapping[str, str]) -> None:
        self._base, self._cut, self._document_of = base, passage_chunker(base), document_of
        self.reset()

    def reset(self) -> None:
        """Drop all documents."""
        self._documents: list[str] = []
        self._pieces: list[list[str]] = []  # of each document
        self._places: dict[str, int] = {}

    def adapt(self, documents: Sequence[str]) -> None:
        """Keep documents."""
        for place, document in enumerate(documents, start=len(self._documents)):
            self._places.setdefault(document, place)
            self._pieces.append(self._cut(document))
        self._documents += documents

    def answer(self, questions: Sequence[str]) -> list[Reply]:
        """Answers, each with its own document as the source.

        Raises:
            KeyError: nobody said which document a question is about.
        """
        places = [self._places.get(self._document_of[question]) for question in questions]
        passages = [
            "" if place is None else _best_piece(self._pieces[place], question)
            for place, question in zip(places, questions, strict=True)
        ]
        sources = [() if place is None else (place,) for place in places]
        return list(map(Reply, answers(self._base, questions, passages), sources))

    def footprint(self) -> Footprint:
        """The texts."""
        return Footprint(on_disk=_size(self._documents))


def _best_piece(pieces: Sequence[str], question: str) -> str:
    if len(pieces) < 2:
        return "".join(pieces)
    return pieces[next(iter(WordIndex(pieces).ranking(question)), 0)]


def _size(documents: Sequence[str]) -> int:
    return sum(len(document.encode(errors="surrogatepass")) for document in documents)


class ClosedBook:
    """Documents pass by and leave nothing.

    Args:
        base: what answers.
    """

    def __init__(self, base: BaseLM) -> None:
        self._base = base

    def reset(self) -> None:
        """There is nothing to forget."""

    def adapt(self, documents: Sequence[str]) -> None:
        """Nothing is kept of them."""

    def answer(self, questions: Sequence[str]) -> list[Reply]:
        """What the base LM says to the questions alone, without sources."""
        return [Reply(text) for text in answers(self._base, questions)]

    def footprint(self) -> Footprint:
        """Nothing."""
        return Footprint(on_disk=0)


_RETRIEVE_AND_READ_SOURCES: Final = 5


class RetrieveAndRead:
    """A retriever-reader with a bank of the stream's documents, codes and text.

    It always answers, with the likeliest span, however unlikely: an answer that is withheld is a wrong one here.

    Args:
        model: what finds and reads.
    """

    def __init__(self, model: RetrieverReader) -> None:
        self._model = model
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        # Fingerprints of every model are as long, and these banks are read by this one alone.
        self._signature = ModelSignature(self._model.name, "0" * 16, "0" * 16)
        self._bank = MemoryBank.in_memory(
            self._signature, self._model.code_shape, self._model.books.shape[-1], keeps_origins=False, keeps_text=True
        )
        self._places: dict[str, int] = {}  # in the stream, of each document's digest
        self._documents = 0
        self._searched: tuple[Scope, Tensor] | None = None

    def adapt(self, documents: Sequence[str]) -> None:
        """Keep documents, chunked; one of nothing but white space is not kept, but has its place."""
        chunked = [self._model.chunker.chunks(text) for text in documents]
        codes = iter(self._model.memorise([chunk.text for chunks in chunked for chunk in chunks]))
        items = []
        for place, (text, chunks) in enumerate(zip(documents, chunked, strict=True), start=self._documents):
            if chunks:
                digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
                record = Record("", "", digest, 0, None)
                self._places.setdefault(self._bank.header.shortened([digest])[0].hex(), place)
                items.append((record, np.stack(list(islice(codes, len(chunks)))), chunks))
        self._bank.add(items)
        self._documents += len(documents)
        self._searched = None

    def answer(self, questions: Sequence[str]) -> list[Reply]:
        """Answers, each with five documents: the one that it was read in, then those found best."""
        model, bank = self._model, self._bank
        if not bank.totals().chunks:
            return [Reply("", ()) for _ in questions]
        with bank.snapshot():
            scope, whitening = self._scope()
            hits = model.find(questions, scope, top=model.settings.candidates, whitening=whitening)
            read = [own[: model.settings.passages] for own in hits]
            passages = [
                [(chunk.text, hit) for chunk, hit in zip(bank.texts_at([hit.chunk for hit in own]), own, strict=True)]
                for own in read
            ]
            answers = [own.answer for own in model.read(questions, passages)]
            ranked = [
                by_document(found, _RETRIEVE_AND_READ_SOURCES, own[span.passage] if span else None)
                for found, own, span in zip(hits, read, answers, strict=True)
            ]
            texts = [" ".join(span.text.split()) if span else "" for span in answers]
            return [Reply(text, self._sources(own)) for text, own in zip(texts, ranked, strict=True)]

    def footprint(self) -> Footprint:
        """The bank file, as `mbc ingest --no-sources` makes it. The paper counts no text."""
        with tempfile.TemporaryDirectory() as folder:
            shape, dim = self._model.code_shape, self._model.books.shape[-1]
            path = Path(folder, "bank.mbc")
            with MemoryBank.create(path, self._signature, shape, dim, keeps_origins=False, keeps_text=True) as bank:
                for _ in merge(bank, self._bank):
                    pass
                bank.settle()
                return Footprint(bank.sizes().file)

    def _scope(self) -> tuple[Scope, Tensor]:
        """All that is kept, and its whitening, until more comes."""
        if self._searched is None:
            scope = Scope(self._bank, None)
            self._searched = scope, self._model.whitening(scope)
        return self._searched

    def _sources(self, ranked: Sequence[Ranked]) -> tuple[int, ...]:
        """The places of documents in the stream."""
        found = self._bank.chunks_at([own.chunk for own in ranked])
        return tuple(self._places[chunk.document.digest] for chunk in found)
