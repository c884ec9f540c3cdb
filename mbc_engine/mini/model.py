"""The retriever-reader behind `mini`: codes find chunks, and the answer is a span of their text, or none.

A chunk is encoded as address codes; the bank stores its words and text beside them. A question is scored against all
codes and words (`retrieval.py`); a reader finds the likeliest span in the text of the best few (`span_reader.py`,
`penalties.py`, `span_selection.py`), and a logistic regression estimates how likely that answer is right (`confidence.py`).
Questions for lists, steps, summaries and the like are answered by rule (`kinds`).
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from mbc_engine.answer import AskOptions, Confidence
from mbc_engine.bank import (
    CodeMap,
    CodeShape,
    ReadableBank,
    Selection,
    digest_arrays,
    fingerprint,
    spread,
)
from mbc_engine.bank.words import word_numbers
from mbc_engine.config import ReaderSettings, RetrieverReaderConfig, RetrieverReaderSettings
from mbc_engine.errors import ConfigError, ModelError, NothingToRead
from mbc_engine.lm.bert import Bert, Floats, map_tensors
from mbc_engine.lm.chat import OnToken
from mbc_engine.lm.packaged import is_available_offline, remembered
from mbc_engine.lm.quantized import kept_layers
from mbc_engine.mini.confidence import label_of
from mbc_engine.mini.kinds import compose
from mbc_engine.mini.kinds.definitions import said_of_name
from mbc_engine.mini.kinds.figures import is_of_one_row, operation_of
from mbc_engine.mini.kinds.forms import LOOKED_AT, READ, kind_of
from mbc_engine.mini.kinds.lists import cells_alike, length_of_list
from mbc_engine.mini.kinds.passages import Passage, Reply, search_text, table_rows
from mbc_engine.mini.kinds.quotations import asked_there
from mbc_engine.mini.kinds.settings import is_of_another_file, setting, settings_in
from mbc_engine.mini.penalties import penalty
from mbc_engine.mini.retrieval import Address, Scope, by_document
from mbc_engine.mini.span_reader import Span, SpanReader, load_span_reader
from mbc_engine.mini.span_selection import ReadChunk, SpanAnswer, likeliest, may_be_outdated, priors, two_likeliest
from mbc_engine.mini.tables import work_out
from mbc_engine.model import Draft, DraftItem, Model
from mbc_engine.names import CONFIG, WEIGHTS
from mbc_engine.ranking import Hit
from mbc_engine.sources import Known, Passages, matches
from mbc_engine.text.characters import on_one_line, readable
from mbc_engine.text.chunks import Chunker
from mbc_engine.text.language import canonical_question

_FORMAT: Final = "mbc-retriever-reader-1"
# A chunk with at least this share of the probability is read alone; on held-out questions, that cost nothing.
_SINGLE_PASSAGE_SHARE: Final = 0.9
# What the vector of a chunk's context counts beside that of its text; chosen on held-out articles.
CONTEXT_WEIGHT: Final = 0.15
_KNOWN_CONTEXTS: Final = 1024  # whose vectors are kept
_BATCH: Final = 256  # texts that another device than the CPU encodes at once
_TORCH_PAYS: Final = 128  # texts whose encoding is shortened by torch by as much as its import takes


TextsOf = Callable[[Iterable[Hit]], Mapping[int, str | None]]  # by chunk; None if it is gone
KnownOf = Callable[[int], Known]  # by chunk, once its text was looked up


@dataclass(frozen=True)
class FoundChunks:
    """The best chunks of a scope for each question."""

    scope: Scope
    chunks: list[list[Hit]]


class RetrieverReader(Model):
    """Finds passages and reads answers in them; see the module.

    `reader_settings` holds the settings of the reader, which `open_reader` opens, or another, for the first question.
    """

    keeps_text: ClassVar[bool] = True
    is_english_only: ClassVar[bool] = True

    def __init__(
        self,
        settings: RetrieverReaderSettings,
        *,
        encoder: Bert,
        address: Address,
        reader_settings: ReaderSettings,
        open_reader: Callable[[], SpanReader],
    ) -> None:
        self.settings, self.reader_settings = settings, reader_settings
        self.encoder, self.address = encoder, address
        self._open_reader = open_reader
        self._known_contexts: dict[str, Floats] = {}
        self._memorised = 0

    @property
    def device(self) -> str:
        return self.encoder.device

    @property
    def code_shape(self) -> CodeShape:
        return CodeShape(*self.settings.code_numbers)

    @property
    def context_tokens(self) -> int:
        return self.settings.context_window

    @property
    def codebooks(self) -> Floats:
        return self.address.books[None]

    @cached_property
    def chunker(self) -> Chunker:
        return self.encoder.chunker(self.settings.window)

    @cached_property
    def _document_encoder(self) -> Bert:
        """The encoder, in 8 bits where they are faster: its vectors are rounded to codes, and questions are few."""
        encoder = copy(self.encoder)
        encoder.layers = kept_layers(encoder)
        return encoder

    def sentence_vectors(self, texts: Sequence[str]) -> Floats:
        """Unit vectors of texts of documents, the mean of the encoder's token states: [B, E]."""
        return self._document_encoder.vectors(texts, self.settings.window)

    def memorise_stepwise(
        self, texts: Sequence[str], contexts: Sequence[str] = ()
    ) -> Generator[tuple[Sequence[int], NDArray[np.uint16]], None, None]:
        encoder = self._document_encoder
        self._memorised += len(texts)
        if encoder.layers is None and self._memorised > _TORCH_PAYS:
            encoder.use_torch()
        size = 1 if self.device == "cpu" else _BATCH
        batches = [range(start, min(start + size, len(texts))) for start in range(0, len(texts), size)]

        def encode(batch: Sequence[int]) -> NDArray[np.uint16]:
            return self._encode([texts[row] for row in batch], [contexts[row] for row in batch] if contexts else ())

        with closing(encoder.in_threads(encode, batches)) as encoded:
            yield from zip(batches, encoded, strict=True)

    def _encode(self, texts: Sequence[str], contexts: Sequence[str]) -> NDArray[np.uint16]:
        vectors = self.sentence_vectors(list(map(readable, texts)))
        # What the text says itself is not added.
        added = {
            row: context
            for row, context in enumerate(contexts)
            if set(word_numbers(context)).difference(word_numbers(texts[row]))
        }
        if added:
            known = self._context_vectors(set(added.values()))
            rows = list(added)
            vectors[rows] += np.float32(CONTEXT_WEIGHT) * np.stack([known[context] for context in added.values()])
            vectors[rows] /= np.linalg.norm(vectors[rows], axis=1, keepdims=True)
        return self.address.encode(self.address.of_documents(vectors))[..., None].astype(np.uint16)

    def _context_vectors(self, contexts: Iterable[str]) -> Mapping[str, Floats]:
        """How the sentence vectors of contexts differ from an ordinary text's, [E] each, by context."""
        # Many chunks share one. Other threads may still read from a dictionary that is given up.
        known = self._known_contexts if len(self._known_contexts) < _KNOWN_CONTEXTS else {}
        if missing := [context for context in contexts if context not in known]:
            vectors = self.sentence_vectors(list(map(readable, missing)))
            known |= zip(missing, vectors - self.address.document_mean, strict=True)
        self._known_contexts = known
        return known

    def fingerprints(self) -> tuple[str, str]:
        return self._coding_digest, fingerprint(self.codebooks)

    @cached_property
    def _coding_digest(self) -> str:
        addresses = {"address.basis": self.address.basis, "address.mean": self.address.document_mean}

        def digest(arrays: Mapping[str, Floats]) -> str:
            return digest_arrays(sorted(arrays.items()), str(self.settings.window))

        def of_all() -> str:
            return digest(addresses | {f"encoder.{name}": value for name, value in self.encoder.weights.items()})

        version = self.encoder.version
        if version is None:
            return of_all()[:16]
        shapes = sorted((name, value.shape) for name, value in self.encoder.weights.items())
        return remembered(version, of_all, digest(addresses), repr(shapes))[:16]

    @cached_property
    def reader(self) -> SpanReader:
        return self._open_reader()

    def check(self, options: AskOptions) -> None:
        if options.read_mode is not None:
            raise ConfigError(
                f"--read does not apply to {self.name}, which has only one way to search its bank.",
                hint="Leave out --read; it is for models of the paper's method.",
            )

    def can_stream(self, options: AskOptions) -> bool:
        return bool(options.write)

    def scope(self, bank: ReadableBank, selection: Selection | None = None) -> Scope:
        return Scope(self.address, bank, selection)

    def search(
        self, questions: Sequence[str], scope: Scope, *, top: int = 0, read_mode: str | None = None
    ) -> FoundChunks:
        queries = list(map(search_text, questions))
        vectors = self.encoder.vectors(list(map(canonical_question, queries)), self.settings.question_window)
        top, weight = max(top, self.settings.candidates), self.settings.word_weight
        return FoundChunks(scope, scope.search(queries, vectors, top, weight))

    def ranked(self, queries: Sequence[str], found: FoundChunks, passages: Passages) -> list[list[Hit]]:
        return [found.scope.looked_up(query, hits, passages) for query, hits in zip(queries, found.chunks, strict=True)]

    def answer(
        self,
        questions: Sequence[str],
        found: FoundChunks,
        options: AskOptions,
        passages: Passages,
        *,
        on_token: OnToken = None,
    ) -> list[Draft]:
        """Raises NothingToRead if no text of the chunks is left."""
        listed = [by_document(hits, options.sources) for hits in found.chunks]

        def texts_of(wanted: Iterable[Hit]) -> dict[int, str | None]:
            # What will be listed is looked up too, so that all is decoded together.
            sources = passages.of((hit.chunk for hit in wanted), beside=chain(*listed))
            return {chunk: source.passage for chunk, source in sources.items()}

        answers = self.read(questions, found.chunks, texts_of, passages.known)
        if not any(answer.read_chunks for answer in answers):
            raise NothingToRead(
                "The text of the passages found is no longer available.",
                hint="Ingest the files again, into a bank that keeps text if they are to be moved or deleted.",
            )
        drafts, thresholds = [], self.reader_settings.confidence
        least = thresholds.perhaps if options.min_confidence is None else options.min_confidence
        for question, hits, answer in zip(questions, found.chunks, answers, strict=True):
            text = first = None
            items: tuple[DraftItem, ...] = ()
            likely = answer.probability
            confidence: Confidence | None = Confidence(likely, label_of(likely, thresholds.sure))
            tentative = likely < thresholds.sure
            if answer.best:
                first = answer.read_chunks[answer.best.passage].hit
                if answer.probability >= least:
                    text = on_one_line(answer.best.text)
                    items = two_likeliest(answer) if tentative else ()
            found_in, reply = self._reply(question, hits, answer, found.scope, passages, is_answered=text is not None)
            if reply:
                is_certain = reply.is_certain and options.min_confidence is None
                if is_certain or text is not None:
                    text = reply.text
                    items = tuple(DraftItem(item.text, found_in[item.passage], item.sentence) for item in reply.items)
                    first = items[0].hit if items else first
                if is_certain:
                    confidence, tentative = None, False
            drafts.append(
                Draft(
                    text,
                    confidence,
                    by_document(hits, options.sources, None if text is None else first),
                    {read.hit.chunk: read.sentence for read in answer.read_chunks if read.span is not None},
                    codes=self._codes(answer, found.scope.bank) if options.with_codes else None,
                    tentative=tentative and text is not None,
                    items=items,
                    withheld=text is None and thresholds.perhaps <= likely < least,
                )
            )
        return drafts

    def _reply(
        self,
        question: str,
        hits: Sequence[Hit],
        answer: SpanAnswer,
        scope: Scope,
        passages: Passages,
        *,
        is_answered: bool,
    ) -> tuple[Sequence[Hit], Reply | None]:
        """The answer to a question that wants more than a span, and the chunks of which its passages are indices."""
        best = None if answer.best is None else answer.read_chunks[answer.best.passage]
        is_sure = answer.probability >= self.reader_settings.confidence.sure
        is_of_row = best is not None and bool(table_rows(best.text))
        is_stated = is_sure and not is_of_row  # a sentence that states a figure is believed before the rows of a table
        kind = kind_of(question)
        read = [Passage(each.text, context=each.known.context) for each in answer.read_chunks]
        reply = None if kind == "yes_no" else asked_there(question, read) or said_of_name(question, read)
        if reply and not (is_stated and answer.best and answer.best.text in str(reply.text)):
            return [each.hit for each in answer.read_chunks], reply
        is_of_setting = best is not None and any(settings_in(best.text))
        if kind in ("fact", "keywords", "yes_no") and (
            is_of_setting or (not is_sure and any(any(settings_in(each.text)) for each in read))
        ):
            looked_at = self._looked_at(hits, answer, passages)
            reply = setting(question, looked_at, is_state=kind == "yes_no")
            if reply is None and best and is_of_setting and kind == "fact":
                is_other = is_of_another_file(question, looked_at[hits.index(best.hit)], looked_at)
                reply = Reply(None) if is_other else None
            if reply:
                return hits, reply
        if scope.is_whole and not is_stated:
            rows, reply = work_out(question, hits, scope.bank, passages)
            if reply:
                return rows, reply
        is_counting = not is_sure and operation_of(question) == "count"
        if kind not in ("fact", "change", "identifier") or not (is_of_row or is_counting):
            return hits, self._of_kind(question, hits, answer, passages, is_answered=is_answered)
        looked_at = self._looked_at(hits, answer, passages)
        reply = length_of_list(question, looked_at) if is_counting else None
        if reply is None and best and is_of_row:
            is_part = is_of_one_row(question, best.text, [each.text for each in looked_at])
            reply = Reply(None) if is_part else cells_alike(question, looked_at, hits.index(best.hit))
        return hits, reply

    def _looked_at(self, hits: Sequence[Hit], answer: SpanAnswer, passages: Passages) -> list[Passage]:
        """The passages of the best chunks, those without text that an LM has to decode."""
        hits = hits[: LOOKED_AT["list"]]
        sources = passages.of((), beside=hits)
        spans = {each.hit.chunk: each.span for each in answer.read_chunks}
        return [
            Passage.of(sources[hit.chunk], hit.chunk, passages.known(hit.chunk), spans.get(hit.chunk)) for hit in hits
        ]

    def _of_kind(
        self, question: str, hits: Sequence[Hit], answer: SpanAnswer, passages: Passages, *, is_answered: bool
    ) -> Reply | None:
        """The answer to a question of a kind, from the best chunks."""
        kind = kind_of(question)
        if kind not in LOOKED_AT:
            return None
        hits = hits[: max(LOOKED_AT[kind], len(answer.read_chunks))]
        sources = passages.of(hit.chunk for hit in hits)
        texts = {chunk: source.passage for chunk, source in sources.items()}

        def looked_at(read: Iterable[ReadChunk]) -> list[Passage]:
            spans = {each.hit.chunk: each.span for each in read}
            return [
                Passage.of(sources[hit.chunk], hit.chunk, passages.known(hit.chunk), spans.get(hit.chunk))
                for hit in hits
            ]

        read = answer.read_chunks
        best = None if answer.best is None else hits.index(read[answer.best.passage].hit)
        reply = None if kind == "several" else compose(kind, question, looked_at(read), best, is_answered=is_answered)
        if reply is None and (further := hits[len(read) : READ.get(kind, 0)]):
            read += self._read([question], [further], [priors(hits)], lambda _: texts, passages.known)[0]
        if reply is None and kind in READ:
            reply = compose("several", question, looked_at(read), best)
        return reply

    def _codes(self, answer: SpanAnswer, bank: ReadableBank) -> CodeMap | None:
        """The share of each code in the chunks that were read."""
        if not answer.read_chunks:
            return None
        hits, shape = [hit for hit, *_ in answer.read_chunks], self.code_shape
        shares = np.repeat(np.array([[hit.share] for hit in hits]), shape.tokens, axis=1)
        codes: CodeMap = spread(shares[None], bank.codes_at([hit.chunk for hit in hits])[None], shape)[0]
        return codes

    def read(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        texts_of: TextsOf,
        known_of: KnownOf | None = None,
    ) -> list[SpanAnswer]:
        """The likeliest answer to each question in its best chunks, and how likely it is right.

        The best chunk is read alone at first if it has nearly all of the probability. If "not here" is likelier than
        any span, the next chunks are read too.
        """
        _ = self.reader  # opened first, since another may take its place, with other settings
        first, last = self.reader_settings.passages, self.reader_settings.passages + self.reader_settings.further
        shares = list(map(priors, hits))
        counts = [1 if best and best[0].share >= _SINGLE_PASSAGE_SHARE else first for best in hits]
        firsts = [best[:count] for best, count in zip(hits, counts, strict=True)]
        read = self._read(questions, firsts, shares, texts_of, known_of)
        confidence = self.reader_settings.confidence
        answers = [likeliest(question, chunks, confidence) for question, chunks in zip(questions, read, strict=True)]
        unsure = [
            row
            for row, answer in enumerate(answers)
            if answer.best is None or answer.best.margin < 0 or may_be_outdated(questions[row], answer, hits[row])
        ]
        further = [hits[row][counts[row] : last] for row in unsure]
        if any(further):
            asked = [questions[row] for row in unsure]
            more = self._read(asked, further, [shares[row] for row in unsure], texts_of, known_of)
            for row, chunks in zip(unsure, more, strict=True):
                answers[row] = likeliest(questions[row], read[row] + chunks, confidence)
        return answers

    def _read(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        shares: Sequence[Mapping[int, float]],
        texts_of: TextsOf,
        known_of: KnownOf | None,
    ) -> list[tuple[ReadChunk, ...]]:
        texts = texts_of(chain(*hits))
        chunks = [[(hit, text) for hit in best if (text := texts[hit.chunk])] for best in hits]
        if not any(chunks):
            return [() for _ in hits]
        known = [[known_of(hit.chunk) if known_of else Known("", None) for hit, _ in pairs] for pairs in chunks]
        # One that has no word of the question tells the reader nothing about it, and cost 3 points on newswire.
        contexts = [
            [about.context if matches(question, about.context) else "" for about in each]
            for question, each in zip(questions, known, strict=True)
        ]
        spans = self.reader.spans(questions, [[text for _, text in pairs] for pairs in chunks], contexts)
        return [
            tuple(
                ReadChunk(hit, text, about, share[hit.chunk], span and _penalised(question, text, about, span))
                for (hit, text), about, span in zip(pairs, each, best, strict=True)
            )
            for question, pairs, each, best, share in zip(questions, chunks, known, spans, shares, strict=True)
        ]


def _penalised(question: str, text: str, known: Known, span: Span) -> Span:
    return replace(span, margin=span.margin - penalty(question, text, known, span.start, span.end))


def build(
    settings: RetrieverReaderSettings,
    reader_settings: ReaderSettings,
    open_reader: Callable[[], SpanReader],
    device: str = "cpu",
) -> RetrieverReader:
    """A model around its pretrained encoder, with addresses still to be loaded or fitted."""
    encoder, sizes = Bert.open(settings.encoder, device=device), settings.address
    address = Address(encoder.width, tokens=sizes.tokens, dim=sizes.dim, num_codes=sizes.codes)
    return RetrieverReader(
        settings, encoder=encoder, address=address, reader_settings=reader_settings, open_reader=open_reader
    )


def reader_of(settings: RetrieverReaderSettings, name: str | None = None) -> ReaderSettings:
    """The reader of this name, or the best one whose encoder is available. Raises ConfigError for an unknown name."""
    names = [reader.name for reader in settings.readers]
    if name is not None and name not in names:
        raise ConfigError(f"There is no reader {name!r}.", hint=f"Choose from {', '.join(names)}.")
    if name is not None:
        return settings.readers[names.index(name)]
    return next((reader for reader in settings.readers if is_available_offline(reader.encoder)), settings.readers[-1])


def load(
    config: RetrieverReaderConfig, folder: Path, *, device: str | None = None, reader: str | None = None
) -> RetrieverReader:
    """Open the model in a folder: `config.toml`, `model.safetensors` (addresses) and a file for each reader.

    Raises ModelError if anything is missing or damaged, ConfigError if it has no such reader.
    """
    settings = config.retriever_reader
    reader_settings = reader_of(settings, reader)
    on = device if device and not device.startswith("cpu") else "cpu"

    def opened(chosen: ReaderSettings) -> SpanReader:
        shared = model.encoder if chosen.encoder == settings.encoder else None
        return load_span_reader(folder / f"{chosen.name}.safetensors", chosen, device=on, encoder=shared)

    def open_reader() -> SpanReader:
        last = settings.readers[-1]
        try:
            return opened(reader_settings)
        except ModelError as error:
            if reader or last == reader_settings:
                raise
            model.on_problem(
                f"The {last.name} reader answers, as the {reader_settings.name} one fails: {error.message}"
            )
        model.reader_settings = last
        return opened(last)

    model = build(settings, reader_settings, open_reader, on)
    try:
        stored = map_tensors(folder / WEIGHTS)
    except (OSError, SafetensorError, ValueError) as error:
        message = f"The weights in {folder} cannot be read: {error}"
        raise ModelError(message, hint="Get the model again.") from error
    arrays = {f"address.{name}": value for name, value in model.address.arrays().items()}
    if {name: value.shape for name, value in arrays.items()} != {name: value.shape for name, value in stored.items()}:
        raise ModelError(
            f"The weights in {folder / WEIGHTS} do not fit the model's settings.", hint="Get the model again."
        )
    if not all(np.isfinite(value).all() for value in stored.values()):
        raise ModelError(f"The weights in {folder / WEIGHTS} are not all numbers.", hint="Get the model again.")
    for name, value in arrays.items():
        value[...] = stored[name]
    return model


def save(model: RetrieverReader, folder: Path, *, dtype: type[np.floating] = np.float16) -> None:
    """Write the model's files except its readers', which `recipes/mini/reader.py` writes."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {f"address.{name}": value.astype(dtype) for name, value in model.address.arrays().items()}
    save_file(state, folder / WEIGHTS, {"format": _FORMAT})
    (folder / CONFIG).write_text(RetrieverReaderConfig(retriever_reader=model.settings).to_toml())
