"""A question's options, its answer, and the answer's sources: files, whether they changed, sentences. No torch."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from mbc_engine.errors import ConfigError
from mbc_engine.text import (
    Chunk,
    Document,
    Part,
    Skipped,
    read_document,
    reread_file,
    split_sentences,
    without_piece_number,
)
from mbc_engine.text.chunks import Chunker
from mbc_engine.text.language import ENGLISH, canonical_question, word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mbc_engine.bank import BankSizes, BankTotals, EncodedText, Origin, ReadableBank, Selection, StoredChunk
    from mbc_engine.bank.text_codec import TextCoder
    from mbc_engine.load import Model
    from mbc_engine.paper.codebook import CodeMap
    from mbc_engine.ranking import Hit


GENERATED_TOKENS, WRITTEN_TOKENS = 16, 48


@dataclass(frozen=True)
class AskOptions:
    """How to answer questions; raises ConfigError if a number is out of range.

    Attributes:
        read_mode: for a model of the paper's method, NAME or NAME:NUMBER; None for its own.
        selection: which documents count, and how much; None for all.
        sources: documents to name for each answer; 0 saves a model of the paper's method a scan in flat reads.
        min_confidence: withhold answers below this probability; None for a retriever-reader's own threshold.
        with_codes: also return which codes were read.
        max_new_tokens: of an answer that an LM generates or writes; None for 16 or 48.
        beams: the width of beam search; 1 is greedy.
        write: have a chat LM write a retriever-reader's answer as a sentence, from the passage it was found in.
    """

    read_mode: str | None = None
    selection: "Selection | None" = None
    sources: int = 3
    min_confidence: float | None = None
    with_codes: bool = False
    max_new_tokens: int | None = None
    beams: int = 1
    write: bool = False

    def __post_init__(self) -> None:
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            raise ConfigError(
                f"--min-confidence {self.min_confidence:g} is not between 0 and 1.", hint="0.5 means even odds."
            )
        for name, least in (("sources", 0), ("beams", 1), ("max_new_tokens", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(
                    f"--{name.replace('_', '-')} {value} is less than {least}.", hint="Give a larger one."
                )


Label = Literal["high", "medium", "low", "memory", "model", "unsure"]


@dataclass(frozen=True)
class Confidence:
    """How far to trust an answer, calibrated on held-out questions.

    Attributes:
        probability: for a retriever-reader, that the answer is right; otherwise, that the bank held what was asked.
        label: for a retriever-reader, high, medium or low; otherwise, where the answer comes from.
    """

    probability: float
    label: Label


@dataclass(frozen=True)
class Answer:
    """An answer with its sources.

    Attributes:
        text: the answer; None if the model judges that it is not in this memory.
        confidence: in the answer, withheld or not; None if the model is not calibrated, or not for this read mode.
        sources: the document the answer was read in, then the others, best first.
        seconds: of the whole batch: to `search` the bank, to read or generate the `answer`, to look up `sources`.
        totals, sizes: of the banks, summed.
        gain: what the bank adds to the answer's log-likelihood per token, in nats; None for a retriever-reader.
        codes: each code's share of the attention, [levels, positions, num_codes], summing to 1 per level; None unless
            asked for. A hierarchical read estimates it, see `paper/reads.py`.
        extracted: the words of the passage that `confidence` refers to, if `text` was written from them; else None.
        written_by: the chat LM that wrote `text`, by hub id or path; None if it was not written.
        asked: in a conversation, the follow-up question as completed; None if it was asked unchanged.
    """

    question: str
    text: str | None
    confidence: Confidence | None
    sources: tuple["Source", ...]
    seconds: Mapping[str, float]
    totals: "BankTotals"
    sizes: "BankSizes"
    gain: float | None = None
    codes: "CodeMap | None" = field(default=None, repr=False, compare=False)
    extracted: str | None = None
    written_by: str | None = None
    asked: str | None = None

    def with_question(self, question: str) -> "Answer":
        """This answer for `question`, which was completed to the one it answers."""
        return self if question == self.question else replace(self, question=question, asked=self.question)


State = Literal["unchanged", "changed", "gone", "unreadable", "unknown"]


class Files:
    """Finds memorised parts in their files; parts that are looked up in order need only one pass over a file."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}
        self._last: dict[str, Part] = {}
        self._unread: dict[str, Iterator[Part | Skipped]] = {}
        self._unreadable: set[str] = set()

    def look(self, origin: "Origin", digest: str) -> "tuple[State, Document | None]":
        """The state of an origin, `unknown` if it was never a file, and the document if it still has this digest."""
        if not Path(origin.source).is_absolute():
            return "unknown", None
        found = self._find(origin.source, origin.part, digest)
        if found is not None:
            return ("unchanged", found) if found.digest.startswith(digest) else ("changed", None)
        with suppress(OSError):  # a closed folder or an unreachable disk: the file may be there
            if not Path(origin.source).exists():
                return "gone", None
        if origin.source in self._unreadable:
            return "unreadable", None
        return ("gone" if origin.part else "changed"), None

    def _find(self, source: str, part: str, digest: str) -> Document | None:
        """A part of a source as it is now, read as the document with this digest if possible."""
        if source in self._last and self._last[source].may_hold(part):
            return self._last[source].find(part, digest)
        if self._seen.get(source, set()) & {part, without_piece_number(part)}:  # already read past it
            return read_document(source, part, digest)
        items = self._unread.setdefault(source, reread_file(Path(source)))
        seen = self._seen.setdefault(source, set())
        for item in items:
            if isinstance(item, Skipped):
                if item.source == source:
                    self._unreadable.add(source)
                continue
            seen.add(item.name)
            self._last[source] = item
            if item.may_hold(part):
                return item.find(part, digest)
        return None


_FEWEST_WORDS: Final = 4
TextFrom = Literal["file", "bank"]


@dataclass(frozen=True)
class Source:
    """A passage found for a question: a chunk of a document, and where it came from.

    Attributes:
        path: where it was read from; the document's digest in a bank without origins.
        part: which part of that, "" for all of it.
        share: the probability that the search gives the document, or its share of the attention, in [0, 1].
        ties: how many other documents of the bank have the same share.
        state: whether the file is still what was ingested; `unknown` in a bank without origins.
        sentence: the one the answer was read in; for other sources, the best match for the question; None if none was
            looked for.
        passage: the chunk, exactly as it was ingested; None if neither the file nor the bank still has it.
        text_from: the file while it is unchanged, otherwise the bank; None without text, as is `start`.
        start: the character offset of the chunk in the document's text.
        date: when it was written, ISO 8601, if known.
        bank: the name of the bank that holds it.
        line: the line of the file that the sentence begins on, from 1; None unless the file has the passage verbatim,
            and only once.
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
    line: int | None = None

    def span(self) -> tuple[int, int] | None:
        """Start and end of the sentence in the passage, where it may be on several lines."""
        words = (self.sentence or "").split()
        found = re.search(r"\s+".join(map(re.escape, words)), self.passage or "") if words else None
        return found and found.span()


# Larger files are not searched for a line.
_MOST_BYTES: Final = 16 << 20


def _first_line(file: Path, passage: str) -> int | None:
    with suppress(OSError):
        data = file.read_bytes().replace(b"\r\n", b"\n") if file.stat().st_size <= _MOST_BYTES else b""
        encoded = passage.encode()
        start = data.find(encoded)
        if start >= 0 and data.find(encoded, start + 1) < 0:  # otherwise it could be either
            return 1 + data.count(b"\n", 0, start)
    return None


def text_model(fingerprint: str = "") -> "TextCoder":
    """The language model that compresses texts, opened once. Raises ModelError if it is missing or another one."""
    from mbc_engine.lm.text_model import open_text_model

    return open_text_model(fingerprint or None)


# The smallest share of a source for which a language model decodes text.
_WORTH_DECODING: Final = 0.01
# Returns the context to enter while so many texts are decoded, which may take seconds.
OnDecoding = Callable[[int], AbstractContextManager[object]]


class Passages:
    """The passages of chunks in one snapshot of a bank; files are read in passing, as `Files` does."""

    def __init__(self, bank: "ReadableBank", chunker: Chunker, on_decoding: OnDecoding | None = None) -> None:
        self._bank, self._chunker, self._files = bank, chunker, Files()
        self._on_decoding: OnDecoding = on_decoding or nullcontext
        self._places: dict[tuple[str, str], tuple[Source, str | None]] = {}
        self._cut: dict[tuple[str, str], Sequence[Chunk]] = {}
        self._found: dict[int, Source] = {}
        self._first_lines: dict[int, int | None] = {}

    def of(self, chunks: "Iterable[int]", beside: "Iterable[Hit]" = ()) -> dict[int, Source]:
        """The passages of chunks, by their indices in stored order, and of the hits `beside` them.

        A hit with a share under 1% gets none if a language model would have to decode it.
        """
        found = list(beside)
        worth = {*chunks, *(hit.chunk for hit in found if hit.share >= _WORTH_DECODING)}
        wanted = sorted(worth | {hit.chunk for hit in found})
        missing = [
            chunk
            for chunk in wanted
            if chunk not in self._found or (chunk in worth and self._found[chunk].passage is None)
        ]
        stored = self._bank.chunks_at(missing)
        encoded = self._bank.encoded_texts_at(missing)
        unchanged = [self._unchanged(own, text) for own, text in zip(stored, encoded, strict=True)]
        kept = self._decoded(
            [
                None if cut or (text and text.lm and chunk not in worth) else text
                for chunk, cut, text in zip(missing, unchanged, encoded, strict=True)
            ]
        )
        for chunk, own, cut, text in zip(missing, stored, unchanged, kept, strict=True):
            self._found[chunk] = self._passage(own, cut or text)
        return {chunk: self._found[chunk] for chunk in wanted}

    def ranked(self, hit: "Hit", sentence: str | None) -> Source:
        """The source of a hit that `of` has looked up, with its share and ties for one question."""
        source = replace(self._found[hit.chunk], share=hit.share, ties=hit.ties, sentence=sentence)
        span = source.span()
        if span is None or source.passage is None or source.text_from != "file":
            return source
        if hit.chunk not in self._first_lines:
            self._first_lines[hit.chunk] = _first_line(Path(source.path), source.passage)
        first = self._first_lines[hit.chunk]
        return replace(source, line=first and first + source.passage.count("\n", 0, span[0]))

    def _unchanged(self, stored: "StoredChunk", kept: "EncodedText | None") -> Chunk | None:
        """The chunk from its file, if decoding it would be slow or the bank keeps no text."""
        from mbc_engine.bank.text_codec import text_checksum

        if kept is not None and not kept.lm:
            return None
        cut = self._cut_today(stored)
        if kept is None:
            return cut[stored.ordinal] if stored.ordinal < len(cut) else None
        return next((own for own in cut if own.start == kept.start and text_checksum(own.text) == kept.check), None)

    def _cut_today(self, stored: "StoredChunk") -> "Sequence[Chunk]":
        _, text = self._place_of(stored)
        key = stored.bank, stored.document.digest
        if key not in self._cut:
            self._cut[key] = [] if text is None else self._chunker.chunks(text)
        return self._cut[key]

    def _decoded(self, texts: "Sequence[EncodedText | None]") -> "Sequence[Chunk | None]":
        from mbc_engine.bank.text_codec import decode_found

        slow = sum(bool(text and text.lm) for text in texts)
        with self._on_decoding(slow) if slow else nullcontext():
            return decode_found(texts, self._bank.name, text_model)

    def _passage(self, stored: "StoredChunk", kept: Chunk | None) -> Source:
        source, text = self._place_of(stored)
        if kept is None:
            return source
        # The codes are of the text in the bank, however the file would be chunked today.
        is_in_file = text is not None and text.startswith(kept.text, kept.start)
        return replace(source, passage=kept.text, text_from="file" if is_in_file else "bank", start=kept.start)

    def _place_of(self, stored: "StoredChunk") -> tuple[Source, str | None]:
        key = stored.bank, stored.document.digest  # each bank has its own origins
        if key not in self._places:
            self._places[key] = self._place(stored)
        return self._places[key]

    def _place(self, stored: "StoredChunk") -> tuple[Source, str | None]:
        """The first unchanged origin of a document, with its text, or else the first origin."""
        digest, first = stored.document.digest, None
        nowhere = Source(digest, "", 0.0, 0, "unknown", None, None, None, None, None, stored.bank)
        for origin in stored.document.origins:
            state, unchanged = self._files.look(origin, digest)
            found = replace(nowhere, path=origin.source, part=origin.part, state=state, date=origin.date)
            if unchanged:
                return found, unchanged.text
            first = first or found
        return first or nowhere, None


def best_sentences(encoder: "Model | None", wanted: "Sequence[tuple[str, str | None]]") -> list[str | None]:
    """The sentence of each passage that best matches its question, or None.

    It is the one with the most words in common, weighted by inverse document frequency over the passage's sentences.
    Ties, which are compared in one batch, go to the one closest in meaning; without an encoder, to the first.
    """
    closest = [_closest(question, _sentences(passage)) if passage else [] for question, passage in wanted]
    if encoder is None:
        return [next(iter(own), None) for own in closest]
    forms = {question: canonical_question(question) for question, _ in wanted}
    tied = [[forms[question], *own] for (question, _), own in zip(wanted, closest, strict=True) if len(own) > 1]
    texts = list(dict.fromkeys(chain.from_iterable(tied)))
    vectors = dict(zip(texts, encoder.sentence_vectors(texts), strict=True)) if texts else {}
    return [
        max(own, key=lambda sentence: float(vectors[sentence] @ vectors[forms[question]]))
        if len(own) > 1
        else next(iter(own), None)
        for (question, _), own in zip(wanted, closest, strict=True)
    ]


def _closest(question: str, sentences: "Sequence[str]") -> list[str]:
    """The sentences with the most words in common with a question, weighted by inverse document frequency."""
    from mbc_engine.bank.words import stems_of

    asked = _asked(question)
    shared = [asked & stems_of(sentence) for sentence in sentences]
    holders = Counter(chain.from_iterable(shared))
    weights = [math.fsum(math.log((len(shared) + 1) / (holders[own] + 0.5)) for own in each) for each in shared]
    most = max(weights, default=0.0)
    return [sentence for sentence, weight in zip(sentences, weights, strict=True) if weight == most]


_FUNCTION_WORDS: Final = ENGLISH | word_set("him may me might must should then these those us")
_WORD: Final = re.compile(r"[\w\u0300-\u036f]+")


def matches(query: str, text: str) -> list[tuple[int, int]]:
    """The words of a text that are in a query, in any inflected form, as (start, end) offsets."""
    from mbc_engine.bank.words import stems_of

    asked = _asked(query)
    return [found.span() for found in _WORD.finditer(text) if asked & stems_of(found[0])]


def _asked(question: str) -> set[str]:
    """The stems of a question's words, without function words unless there are no others."""
    from mbc_engine.bank.words import stems_of, words_in

    return stems_of(" ".join(words_in(question) - _FUNCTION_WORDS)) or stems_of(question)


def sentence_around(passage: str, start: int, end: int) -> str:
    """The sentence or sentences around some characters of a passage, on one line."""
    around = (passage[first:last] for first, last in split_sentences(passage) if first < end and last > start)
    return " ".join(" ".join(around).split())


def _sentences(passage: str) -> list[str]:
    """The sentences of a passage, without headings unless there is nothing else."""
    sentences = [" ".join(passage[start:end].split()) for start, end in split_sentences(passage)]
    return [sentence for sentence in sentences if len(sentence.split()) >= _FEWEST_WORDS] or sentences
