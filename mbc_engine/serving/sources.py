"""From the documents a read names to what a person can look up: files, and the sentences that fit the question."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from mbc_engine.bank import ReadableBank, StoredDocument
from mbc_engine.documents import split_sentences
from mbc_engine.model.ranking import Ranked
from mbc_engine.model.text_encoder import TextEncoder
from mbc_engine.serving.file_state import Files, State

_FEWEST_WORDS: Final = 4


@dataclass(frozen=True)
class Source:
    """A document an answer came from.

    Attributes:
        path: where it was read from; its digest in a bank without origins.
        part: which part of that, "" for all of it.
        share: routed, the probability the router gives it; otherwise its share of the attention. In [0, 1].
        ties: how many other documents of the bank have the same share.
        state: whether the file is still what was memorised; `unknown` in a bank without origins.
        sentence: the sentence that fits the question best, or that the best span was read in; None where the text
            memorised is not to be had.
        passage: the chunk that this is from; None likewise.
        date: when it was written, ISO 8601, if known.
        bank: the name of the bank that holds it.
    """

    path: str
    part: str
    share: float
    ties: int
    state: State
    sentence: str | None
    passage: str | None
    date: str | None
    bank: str


@dataclass(frozen=True)
class _Place:
    """Where a document is to be found now; `passages` are its chunks, none where its text is not to be had."""

    path: str
    part: str
    state: State
    passages: Sequence[str]
    date: str | None

    def passage(self, ordinal: int) -> str | None:
        """The chunk of that number; None also if chunks are made by other rules since."""
        return self.passages[ordinal] if ordinal < len(self.passages) else None


def find_sources(
    bank: ReadableBank,
    encoder: TextEncoder,
    questions: Sequence[str],
    ranked: Sequence[Sequence[Ranked]],
    *,
    shown: int | None = None,
) -> list[tuple[Source, ...]]:
    """The sources of each question.

    Args:
        bank: the bank that was read, in the snapshot it was read in.
        encoder: the document side of its model.
        questions: one or more.
        ranked: the documents that were named for each.
        shown: for how many of them a sentence is looked for, which takes the encoder; None for all.
    """
    chunks = sorted({own.chunk for several in ranked for own in several})
    stored = dict(zip(chunks, bank.chunks_at(chunks), strict=True))
    # What two banks hold was read in other places for each.
    files, documents = Files(), {(own.bank, own.document.digest): own.document for own in stored.values()}
    by_document = {key: _place(files, encoder, document) for key, document in documents.items()}
    places = {chunk: by_document[own.bank, own.document.digest] for chunk, own in stored.items()}
    passages = {chunk: places[chunk].passage(own.ordinal) for chunk, own in stored.items()}
    shown_chunks = {own.chunk for several in ranked for own in several[:shown]}
    sentences = {chunk: _sentences(passage) for chunk in shown_chunks if (passage := passages[chunk])}
    # Everything in one batch: many small ones would take several times as long.
    texts = dict.fromkeys(sentence for several in sentences.values() for sentence in several)
    together = [*questions, *texts] if texts else []
    vectors = dict(zip(together, encoder.sentence_vectors(together), strict=True))

    def source(question: str, own: Ranked) -> Source:
        place, wanted = places[own.chunk], vectors.get(question)
        fitting = None if wanted is None else _closest(sentences.get(own.chunk, []), vectors, wanted)
        passage, bank = passages[own.chunk], stored[own.chunk].bank
        return Source(place.path, place.part, own.share, own.ties, place.state, fitting, passage, place.date, bank)

    return [
        tuple(source(question, own) for own in several) for question, several in zip(questions, ranked, strict=True)
    ]


def _place(files: Files, encoder: TextEncoder, document: StoredDocument) -> _Place:
    """The first origin of a document that is still what was memorised, or else the first."""
    origins, digest = document.origins, document.digest
    if not origins:
        return _Place(digest, "", "unknown", (), None)
    looks = []
    for origin in origins:
        looks.append((origin, files.look(origin, digest)))
        if looks[-1][1].document:
            break
    origin, look = next((found for found in looks if found[1].document), looks[0])
    passages = encoder.chunker(look.document.text) if look.document else ()
    return _Place(origin.source, origin.part, look.state, passages, origin.date)


def _sentences(passage: str) -> list[str]:
    """The sentences of a passage; headings, which would often fit best and say nothing, only where nothing else is."""
    sentences = [" ".join(passage[start:end].split()) for start, end in split_sentences(passage)]
    return [sentence for sentence in sentences if len(sentence.split()) >= _FEWEST_WORDS] or sentences


def _closest(sentences: Sequence[str], vectors: dict[str, Tensor], wanted: Tensor) -> str | None:
    """The sentence whose vector is closest to `wanted` [E]."""
    return max(sentences, key=lambda sentence: float(vectors[sentence] @ wanted), default=None)
