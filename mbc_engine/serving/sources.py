"""From chunks to what a person can look up: the file, the text as it was ingested, and the sentence that matters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from mbc_engine.bank import ReadableBank, StoredDocument
from mbc_engine.documents import Chunk, split_sentences
from mbc_engine.model.chunker import Chunker
from mbc_engine.model.ranking import Ranked
from mbc_engine.serving.file_state import Files, State

if TYPE_CHECKING:
    from torch import Tensor

_FEWEST_WORDS: Final = 4
TextFrom = Literal["file", "bank"]


@dataclass(frozen=True)
class Passage:
    """A chunk's text, and where it came from.

    Attributes:
        path: where it was read from; the document's digest in a bank without origins.
        part: which part of that, "" for all of it.
        state: whether the file is still what was ingested; `unknown` in a bank without origins.
        date: when it was written, ISO 8601, if known.
        bank: the name of the bank that holds it.
        text: the chunk, exactly as it was ingested; None where neither the file nor the bank has it any more.
        text_from: the file while it is unchanged, otherwise the bank; None without text.
        start: the character of the document's text that it starts at; None without text.
    """

    path: str
    part: str
    state: State
    date: str | None
    bank: str
    text: str | None
    text_from: TextFrom | None
    start: int | None


@dataclass(frozen=True)
class Source:
    """A document an answer came from.

    Attributes:
        path, part, state, date, bank, text_from, start: see `Passage`; of the document's best chunk.
        share: the probability that a search gives the document, or its share of the attention. In [0, 1].
        ties: how many other documents of the bank have the same share.
        sentence: the sentence that the answer was read in; of other sources, the one that fits the question best; None
            where the text is not to be had.
        passage: the chunk that this is from; None likewise.
    """

    path: str
    part: str
    share: float
    ties: int
    state: State
    sentence: str | None
    passage: str | None
    text_from: TextFrom | None
    start: int | None
    date: str | None
    bank: str

    @classmethod
    def of(cls, passage: Passage, ranked: Ranked, sentence: str | None) -> "Source":
        """The source that a chunk among the best stands for."""
        return cls(
            passage.path,
            passage.part,
            ranked.share,
            ranked.ties,
            passage.state,
            sentence,
            passage.text,
            passage.text_from,
            passage.start,
            passage.date,
            passage.bank,
        )


class SentenceEncoder(Protocol):
    """What makes sentences comparable."""

    def sentence_vectors(self, texts: Sequence[str]) -> "Tensor":
        """Unit vectors, [B, E]."""


def passages_of(bank: ReadableBank, chunker: Chunker, chunks: Iterable[int]) -> dict[int, Passage]:
    """The passages of chunks, by their indices in stored order; call it in the snapshot they were found in.

    Args:
        bank: where they were found.
        chunker: of the bank's model, which cuts the files as they were cut.
        chunks: their indices.
    """
    wanted = sorted(set(chunks))
    stored = bank.chunks_at(wanted)
    kept = list(bank.texts_at(wanted)) if bank.keeps_text else [None] * len(wanted)
    files = Files()
    # What two banks hold was read in other places for each.
    documents = {(own.bank, own.document.digest): own.document for own in stored}
    places = {key: _place(files, chunker, document) for key, document in documents.items()}
    found: dict[int, Passage] = {}
    for chunk, own, text in zip(wanted, stored, kept, strict=True):
        place = places[own.bank, own.document.digest]
        read = place.chunk(own.ordinal)
        # A file cut by other rules since gives other chunks; the codes are of the text in the bank.
        is_same = read is not None and text in (None, read)
        best, text_from = (read, "file") if is_same else (text, "bank" if text else None)
        found[chunk] = Passage(
            place.path,
            place.part,
            place.state,
            place.date,
            own.bank,
            best.text if best else None,
            text_from,  # type: ignore[arg-type]  # the two names above
            best.start if best else None,
        )
    return found


def best_sentences(encoder: SentenceEncoder, wanted: Sequence[tuple[str, str | None]]) -> list[str | None]:
    """The sentence of each passage that fits its question best; None of no passage.

    Args:
        encoder: compares them, all in one batch: many small ones would take several times as long.
        wanted: questions, each with a passage.
    """
    sentences = [_sentences(passage) if passage else [] for _, passage in wanted]
    texts = list(
        dict.fromkeys([question for question, _ in wanted] + [own for several in sentences for own in several])
    )
    if not any(sentences):
        return [None] * len(wanted)
    vectors = dict(zip(texts, encoder.sentence_vectors(texts), strict=True))
    return [
        max(several, key=lambda own: float(vectors[own] @ vectors[question]), default=None)
        for (question, _), several in zip(wanted, sentences, strict=True)
    ]


def sentence_around(passage: str, start: int, end: int) -> str:
    """The sentence that some characters of a passage lie in, or the few, on one line."""
    around = (passage[first:last] for first, last in split_sentences(passage) if first < end and last > start)
    return " ".join(" ".join(around).split())


@dataclass(frozen=True)
class _Place:
    """Where a document is to be found now; `chunks` are those of its file, none where it is not as it was."""

    path: str
    part: str
    state: State
    chunks: Sequence[Chunk]
    date: str | None

    def chunk(self, ordinal: int) -> Chunk | None:
        """The chunk of that number; None also if chunks are made by other rules since."""
        return self.chunks[ordinal] if ordinal < len(self.chunks) else None


def _place(files: Files, chunker: Chunker, document: StoredDocument) -> _Place:
    """The first origin of a document that is still what was ingested, or else the first."""
    origins, digest = document.origins, document.digest
    if not origins:
        return _Place(digest, "", "unknown", (), None)
    looks = []
    for origin in origins:
        looks.append((origin, files.look(origin, digest)))
        if looks[-1][1].document:
            break
    origin, look = next((found for found in looks if found[1].document), looks[0])
    chunks = chunker.chunks(look.document.text) if look.document else ()
    return _Place(origin.source, origin.part, look.state, chunks, origin.date)


def _sentences(passage: str) -> list[str]:
    """The sentences of a passage; headings, which would often fit best and say nothing, only where nothing else is."""
    sentences = [" ".join(passage[start:end].split()) for start, end in split_sentences(passage)]
    return [sentence for sentence in sentences if len(sentence.split()) >= _FEWEST_WORDS] or sentences
