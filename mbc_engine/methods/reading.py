"""The documents kept as they are and read again: by BM25, or by an oracle that knows which one to read.

A document that does not fit the base LM's context together with a question is kept in pieces that do, cut between
sentences where that is possible, without overlap. One piece is read for a question.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from mbc_engine.methods.answering import answers, passage_chunker
from mbc_engine.methods.method import Footprint, Reply
from mbc_engine.methods.word_index import WordIndex
from mbc_engine.model.base import BaseLM

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
