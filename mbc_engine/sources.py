"""From a chunk to its file and its best sentence; no torch."""

import math
import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from mbc_engine.answer import Source, State, TextFrom
from mbc_engine.names import is_on_cluster
from mbc_engine.text import (
    Chunk,
    Document,
    Part,
    Skipped,
    read_parts,
    split_sentences,
    without_piece_number,
)
from mbc_engine.text.characters import on_one_line, readable
from mbc_engine.text.chunks import Chunker
from mbc_engine.text.document import Place
from mbc_engine.text.file_reader import is_changed
from mbc_engine.text.language import ENGLISH, word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mbc_engine.bank import EncodedText, Origin, ReadableBank, StoredChunk, StoredDocument
    from mbc_engine.bank.text_codec import TextCoder
    from mbc_engine.ranking import Hit

_FEWEST_WORDS: Final = 4
# What a word of a question as it is, or two that follow each other, count beside words in any form.
_EXACTNESS: Final = 0.25
# Of a document's origins, for one whose file is unchanged.
_MOST_LOOKED_AT: Final = 256


class Files:
    """Finds memorised parts in their files; parts that are looked up in order need only one pass over a file.

    After `most_seconds` of processor time, no further parts of a file are read.
    """

    def __init__(self, most_seconds: float = math.inf) -> None:
        self.most_seconds = most_seconds
        self._spent = 0.0
        self._seen: dict[str, set[str]] = {}
        self._last: dict[str, Part] = {}
        self._unread: dict[str, Iterator[Part | Skipped]] = {}
        self._unreadable: set[str] = set()

    def look(self, origin: "Origin", digest: str) -> "tuple[State, Document | None]":
        """The state of an origin, and the document if it still has this digest.

        The state is `unknown` if it was never a file, or would take too long to find.
        """
        if not Path(origin.source).is_absolute():
            return "unknown", None
        if not origin.part and is_changed(Path(origin.source), digest):
            return "changed", None
        try:
            document = self._find(origin.source, origin.part)
        except TimeoutError:
            return "unknown", None
        if document is not None:
            return ("unchanged", document) if document.digest.startswith(digest) else ("changed", None)
        with suppress(OSError):  # a closed folder or an unreachable disk: the file may be there
            if not Path(origin.source).exists():
                return "gone", None
        otherwise: State = "gone" if origin.part else "changed"
        return ("unreadable" if origin.source in self._unreadable else otherwise), None

    def first_unchanged(self, document: "StoredDocument") -> "tuple[Origin, State, Document | None]":
        """The first of a document's origins that `look` finds unchanged, with what it finds; else its first origin."""
        origins = document.origins[:_MOST_LOOKED_AT] or (document.origin,)
        # Lazily, as each look may read a file.
        looked = ((origin, *self.look(origin, document.digest)) for origin in origins)
        first = next(looked)
        return next((found for found in chain([first], looked) if found[2]), first)

    def _find(self, source: str, part: str) -> Document | None:
        """A part of a source as it is now. Raises TimeoutError after `most_seconds`."""
        if source in self._last and self._last[source].may_hold(part):
            return self._last[source].find(part)
        if self._seen.get(source, set()) & {part, without_piece_number(part)}:  # already read past it
            del self._unread[source], self._seen[source]
        items = self._unread.setdefault(source, read_parts(Path(source)))
        seen = self._seen.setdefault(source, set())
        began = time.thread_time()
        try:
            for item in items:
                if isinstance(item, Skipped):
                    if item.source == source:
                        self._unreadable.add(source)
                    continue
                seen.add(item.name)
                self._last[source] = item
                if item.may_hold(part):
                    return item.find(part)
                if self._spent + time.thread_time() - began > self.most_seconds:
                    raise TimeoutError
        finally:
            self._spent += time.thread_time() - began
        return None


# Larger files are not searched for a line.
_MOST_BYTES: Final = 16 << 20
# Seconds of reading files to answer, as long as the bank has the text: to find a message in a large mailbox takes minutes.
MOST_SECONDS: Final = 1.0


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


class Known(NamedTuple):
    """What a document says of a chunk: names, title and headings as one line, and its day, ISO 8601."""

    context: str
    date: str | None


class Passages:
    """The passages of chunks in one snapshot of a bank; each file is read at most once, as `Files` does."""

    def __init__(self, bank: "ReadableBank", chunker: Chunker, on_decoding: OnDecoding | None = None) -> None:
        self._bank, self._chunker, self._files = bank, chunker, Files(MOST_SECONDS)
        self._on_decoding: OnDecoding = on_decoding or nullcontext
        self._documents: dict[tuple[str, str], tuple[Source, Document | None]] = {}
        self._rechunked: dict[tuple[str, str], Sequence[Chunk]] = {}
        self._sources: dict[int, Source] = {}
        self._stored: dict[int, tuple[StoredChunk, Chunk | None]] = {}  # with the text as it was ingested
        self._known: dict[int, Known] = {}
        self._first_lines: dict[int, int | None] = {}

    def of(self, chunks: "Iterable[int]", beside: "Iterable[Hit]" = ()) -> dict[int, Source]:
        """The passages of chunks, by their indices in stored order, and of the hits `beside` them.

        A hit with a share under 1% gets none if a language model would have to decode it.
        """
        from mbc_engine.bank.text_codec import MOST_READ, decode_found

        hits = list(beside)
        needed = {*chunks, *(hit.chunk for hit in hits if hit.share >= _WORTH_DECODING)}
        wanted = sorted(needed | {hit.chunk for hit in hits})
        known = self._sources
        missing = [
            chunk for chunk in wanted if chunk not in known or (chunk in needed and known[chunk].passage is None)
        ]
        stored, encoded = self._bank.chunks_at(missing), self._bank.encoded_texts_at(missing)
        if None in encoded:
            self._files.most_seconds = math.inf
        # Looking into the file is worth it if decoding would be slow or the bank keeps no text.
        in_file = [
            self._in_file(chunk, text) if text is None or text.lm else None
            for chunk, text in zip(stored, encoded, strict=True)
        ]
        to_decode = [
            None if cut or (text and text.lm and chunk not in needed) else text
            for chunk, cut, text in zip(missing, in_file, encoded, strict=True)
        ]
        slow = sum(bool(text and text.lm) for text in to_decode)
        with self._on_decoding(slow) if slow else nullcontext():
            decoded = decode_found(to_decode, self._bank.name, text_model)
        for index, chunk, cut, text in zip(missing, stored, in_file, decoded, strict=True):
            found = cut or text
            found = found and found._replace(text=found.text[:MOST_READ])
            known[index] = self._with_passage(chunk, found)
            self._stored[index] = chunk, found
            document, source = chunk.document, self._looked_at(chunk)[0]
            headed, chunker = Chunk("", 0, document.outline.of_chunk(chunk.ordinal)), self._chunker
            (context,) = chunker.leaving(chunk.context_tokens).contexts(source.path, document.outline.title, [headed])
            self._known[index] = Known(context, source.date)
        return {chunk: known[chunk] for chunk in wanted}

    def known(self, chunk: int) -> "Known":
        """What its document says of a chunk that `of` has looked up."""
        return self._known[chunk]

    def sources(
        self,
        questions: "Sequence[str]",
        hits: "Sequence[Sequence[Hit]]",
        sentences: "Sequence[Mapping[int, str]] | None" = None,
    ) -> list[tuple[Source, ...]]:
        """The sources of each question's hits, with the passages that `of` gives `beside` others.

        `sentences` are those that were read for each question, by chunk; other sources get the best match, see
        `best_sentence`.
        """
        self.of((), beside=chain(*hits))
        for chunk in sorted({hit.chunk for hit in chain(*hits)}):  # in the order of their files
            self._document(self._stored[chunk][0])
        read = sentences or [{}] * len(questions)
        unread = [(row, hit.chunk) for row, each in enumerate(hits) for hit in each if hit.chunk not in read[row]]
        matches = {(row, chunk): best_sentence(questions[row], self._sources[chunk].passage) for row, chunk in unread}
        return [
            tuple(self.source(hit, read[row].get(hit.chunk, matches.get((row, hit.chunk)))) for hit in each)
            for row, each in enumerate(hits)
        ]

    def source(self, hit: "Hit", sentence: str | None) -> Source:
        """The source of a hit that `of` has looked up, with its share and ties for one question, as its file is now."""
        stored, found = self._stored[hit.chunk]
        self._document(stored)
        source = replace(self._with_passage(stored, found), share=hit.share, ties=hit.ties, sentence=sentence)
        span = source.span()
        if span is None or source.passage is None or source.text_from != "file":
            return source
        if place := self._place(hit.chunk, (source.start or 0) + span[0]):
            return replace(source, page=place.page or None, line=place.line or None)
        if hit.chunk not in self._first_lines:
            self._first_lines[hit.chunk] = _first_line(Path(source.path), found.text if found else "")
        first = self._first_lines[hit.chunk]
        return replace(source, line=first and first + source.passage.count("\n", 0, span[0]))

    def _place(self, chunk: int, start: int) -> Place | None:
        """Where in the file of a chunk that is still there the character `start` of its document is."""
        document = self._document(self._stored[chunk][0])[1]
        index = bisect_right(document.places, start, key=lambda place: place.start) - 1 if document else -1
        if document is None or index < 0:
            return None
        place = document.places[index]
        return place._replace(line=place.line and place.line + document.text.count("\n", place.start, start))

    def _in_file(self, stored: "StoredChunk", text: "EncodedText | None") -> Chunk | None:
        """The chunk from its file, if the file is unchanged; it is chunked as today's settings have it."""
        from mbc_engine.bank.text_codec import text_checksum

        key = stored.bank, stored.document.digest
        if key not in self._rechunked:
            content = self._document(stored)[1]
            chunker = self._chunker.leaving(stored.context_tokens)
            self._rechunked[key] = [] if content is None else chunker.chunks(content.text, content.sections)
        chunks = self._rechunked[key]
        if text is None:
            return chunks[stored.ordinal] if stored.ordinal < len(chunks) else None
        return next((cut for cut in chunks if cut.start == text.start and text_checksum(cut.text) == text.check), None)

    def _with_passage(self, stored: "StoredChunk", chunk: Chunk | None) -> Source:
        source, document = self._looked_at(stored)
        if chunk is None:
            return source
        # The codes are of the text in the bank, however the file would be chunked today.
        text_from: TextFrom = "bank"
        if document is not None and document.text.startswith(chunk.text, chunk.start):
            text_from = "file"
        return replace(source, passage=readable(chunk.text), text_from=text_from, start=chunk.start)

    def _looked_at(self, stored: "StoredChunk") -> tuple[Source, Document | None]:
        """What `_document` gives if that is known, or needed to choose between files; else only where the document is."""
        document = stored.document
        if len(document.origins) > 1 or (stored.bank, document.digest) in self._documents:
            return self._document(stored)
        return _source_at(document.origin, stored), None

    def _document(self, stored: "StoredChunk") -> tuple[Source, Document | None]:
        """Where a chunk's document is, and the document if its file is unchanged."""
        digest = stored.document.digest
        key = stored.bank, digest  # each bank has its own origins
        if key in self._documents:
            return self._documents[key]
        origin, state, document = self._files.first_unchanged(stored.document)
        if state == "gone" and is_on_cluster(Path(stored.bank)):
            state = "unknown"  # it may be there
        others = tuple(other.name for other in stored.document.origins if other != origin)
        source = replace(_source_at(origin, stored), state=state, others=others)
        return self._documents.setdefault(key, (source, document))


def _source_at(origin: "Origin", stored: "StoredChunk") -> Source:
    path = origin.source or stored.document.digest
    return Source(path, origin.part, 0.0, 0, "unknown", None, None, None, None, origin.date, stored.bank)


def merged(sources: "Iterable[Source]") -> tuple[Source, ...]:
    """The sources, those with the same text as one: the first, with the places of the others and their shares."""
    by_text: dict[str, Source] = {}
    for number, source in enumerate(sources):
        text = " ".join((source.passage or "").split()) or f"\0{number}"
        if (first := by_text.setdefault(text, source)) is not source:
            names = (*first.others, source.name, *source.others)
            others = tuple(name for name in dict.fromkeys(names) if name != first.name)
            by_text[text] = replace(first, share=min(1.0, first.share + source.share), others=others)
    return tuple(by_text.values())


def best_sentence(question: str, passage: str | None) -> str | None:
    """The first sentence of a passage with the most words and neighbours in common with a question, or None.

    What they share is weighted by inverse document frequency over the passage's sentences.
    """
    from mbc_engine.bank.words import matcher, stems_of

    sentences = _sentences(passage or "")
    stems, found = content_stems(question), matcher(question)
    shared = [(stems & stems_of(sentence)) | {("as it is", what) for what in found(sentence)} for sentence in sentences]
    counts = Counter(chain.from_iterable(shared))
    weights = {what: math.log((len(shared) + 1) / (count + 0.5)) for what, count in counts.items()}

    def weight(number: int) -> float:
        return math.fsum((1 if what in stems else _EXACTNESS) * weights[what] for what in shared[number])

    return sentences[max(range(len(sentences)), key=weight)] if sentences else None


_FUNCTION_WORDS: Final = ENGLISH | word_set("him may me might must should then these those us")
# Names like C++, words, pictures.
_WORD: Final = re.compile(
    r"\b[^\W\d_]\w?(?:\+\+|#)|[\w\u0300-\u036f]+|[\u2600-\u27bf\u2b50\u2b55\U0001f000-\U0001faff]"
)


def matches(query: str, text: str) -> list[tuple[int, int]]:
    """The words of a text that are in a query, in any inflected form, as (start, end) offsets."""
    from mbc_engine.bank.words import stems_of

    stems = content_stems(query)
    return [match.span() for match in _WORD.finditer(text) if stems & stems_of(match[0])]


_OWNING: Final = re.compile(r"(?<=\w)['\u2019]s\b")
_CAPITAL_INSIDE: Final = re.compile(r"\b[^\W_]*[a-z][A-Z]\w*")


def content_stems(question: str) -> set[str]:
    """The stems of a question's words, without function words unless there are no others."""
    from mbc_engine.bank.words import stem_of, stems_of, words_in

    # YouTube as one word, which a text may write as Youtube.
    words = words_in(_CAPITAL_INSIDE.sub(lambda name: name[0].lower(), _OWNING.sub("", question)))
    content = {word for word in words if not _FUNCTION_WORDS.issuperset(word.split())}  # "what is" is a word as a name
    return set(map(stem_of, content)) or stems_of(question)


def sentence_around(passage: str, start: int, end: int) -> str:
    """The sentence or sentences around some characters of a passage, on one line."""
    around = (passage[first:last] for first, last in split_sentences(passage) if first < end and last > start)
    return on_one_line(" ".join(around))


def _sentences(passage: str) -> list[str]:
    """The sentences of a passage, without headings unless there is nothing else.

    A few words on a line of their own, as an option of a program, belong to what the next line says.
    """
    sentences: list[str] = []
    last = 0
    for start, end in split_sentences(passage):
        sentence = on_one_line(passage[start:end])
        if sentences and len(sentences[-1].split()) < _FEWEST_WORDS and passage[last:start].count("\n") == 1:
            sentence = f"{sentences.pop()} {sentence}"
        sentences.append(sentence)
        last = end
    return [
        sentence
        for sentence in sentences
        if len(sentence.split()) >= _FEWEST_WORDS or sentence.endswith((".", "!", "?"))
    ] or sentences
