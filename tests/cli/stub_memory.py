"""A stub `Memory` for tests of front ends: it answers from a script and records what it was asked. No torch."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self

from mbc_engine.answer import Answer, AskOptions, Confidence, Source
from mbc_engine.bank import BankHeader, Banks, BankSizes, BankTotals, CodeShape, MemoryBank, ModelSignature
from mbc_engine.events import DocumentsIngested, Event, IngestFinished, IngestStarted
from mbc_engine.sources import OnDecoding

if TYPE_CHECKING:
    from mbc_engine.errors import MBCError

TOTALS = BankTotals(documents=2, origins=2, chunks=2)
SIZES = BankSizes(codes=54, words=40, texts=60, codebook=4096, file=8192)


def source(path: Path | str = "/notes/ada.txt", sentence: str | None = "Ada moved to Aalen.", **changes: Any) -> Source:
    """A source with the whole sentence as its passage, in an unchanged file."""
    made = Source(str(path), "", 0.5, 0, "unchanged", sentence, sentence, "file", 0, None, "memory.mbc")
    return replace(made, **changes)


def answer(
    text: str | None = "Aalen", *sources: Source, question: str = "Where did Ada move?", **changes: Any
) -> Answer:
    """An answer as mini gives it, with a probability of 0.82; with a `gain`, as a model of the paper's method does."""
    seconds = {"search": 0.01, "answer": 0.2, "sources": 0.03}
    made = Answer(question, text, Confidence(0.82, "high"), sources, seconds, TOTALS, SIZES)
    return replace(made, **changes)


class StubMemory:
    """What a front end sees of a `Memory`; its signatures are `Memory`'s.

    Attributes:
        made_with: the arguments it was made with, by name.
        reply: gives the answer to a question: an `Answer`, or its text.
        passages: what every search finds.
        events: what every `add` yields, ended early once `stop` is set; by default two files, of two documents.
        problem: raised by every call, if set.
        streams: whether answers can be streamed.
        batches: the questions of each `ask`, with their options.
        queries, added, removed: the arguments of the other calls.
        is_open, is_loaded: by the last `open`, `close` or `unload`.
    """

    def __init__(
        self,
        banks: Path | Sequence[Path] | MemoryBank | Banks,
        model: "str | Any" = "mini",
        *,
        device: str | None = None,
        weights: Sequence[float] | None = None,
        log: Path | None = None,
        load: Callable[[str, str | None], Any] | None = None,
        llm: str | None = None,
        load_writer: Callable[[str | None, str | None], Any] | None = None,
        on_decoding: OnDecoding | None = None,
    ) -> None:
        self.made_with = {"banks": banks, "model": model, "device": device, "weights": weights, "llm": llm}
        self.paths = (banks,) if isinstance(banks, Path) else () if isinstance(banks, MemoryBank | Banks) else (*banks,)
        self.loading = 0.0
        self.reply: Callable[[str], Answer | str | None] = lambda question: answer("Aalen", question=question)
        self.passages: tuple[Source, ...] = (source(),)
        self.events: Sequence[Event] = ingested()
        self.problem: MBCError | None = None
        self.streams = True
        self.batches: list[tuple[list[str], AskOptions]] = []
        self.queries: list[tuple[list[str], AskOptions, int]] = []
        self.added: list[tuple[Any, dict[str, Any]]] = []
        self.removed: list[str] = []
        self.is_open = self.is_loaded = False

    @property
    def model(self) -> Any:
        self._begin()
        self.is_loaded = True
        chunker = SimpleNamespace(token_counts=lambda texts: [len(text.split()) for text in texts])
        return SimpleNamespace(
            name=self.made_with["model"], fingerprint="a" * 16, is_english_only=True, read_modes=(), chunker=chunker
        )

    @property
    def writer(self) -> Any:
        self._begin()
        return SimpleNamespace(name=self.made_with["llm"] or "SmolLM2")

    @property
    def missing_banks(self) -> tuple[str, ...]:
        return ()

    def open(self, options: AskOptions | None = None) -> Self:
        self._begin()
        self.is_open = True
        self.is_loaded |= options is not None
        return self

    def ask(
        self,
        questions: Sequence[str],
        options: AskOptions | None = None,
        *,
        on_token: Callable[[str], None] | None = None,
        **changes: Any,
    ) -> list[Answer]:
        self.open(options := replace(options or AskOptions(), **changes))
        self.batches.append(([*questions], options))
        answers = []
        for question in questions:
            given = self.reply(question)
            made = given if isinstance(given, Answer) else answer(given)
            answers.append(replace(made, question=question, sources=made.sources[: options.sources]))
        for piece in re.findall(r"\S+\s*", answers[0].text or "") if on_token and answers else ():
            on_token(piece)
        return answers

    def search(
        self,
        queries: Sequence[str],
        options: AskOptions | None = None,
        *,
        top: int = 5,
        with_text: bool = True,
        **changes: Any,
    ) -> list[tuple[Source, ...]]:
        self.open(options := replace(options or AskOptions(), **changes))
        self.queries.append(([*queries], options, top))
        return [self.passages[:top] for _ in queries]

    def add(
        self,
        documents: Sequence[Path] | BinaryIO,
        *,
        watch: bool = False,
        keeps_origins: bool = True,
        keeps_text: bool | None = None,
        codec: Literal["lm", "zstd"] = "zstd",
        **options: Any,
    ) -> Iterator[Event]:
        self._begin()
        given = {"watch": watch, "keeps_origins": keeps_origins, "keeps_text": keeps_text, "codec": codec, **options}
        self.added.append((documents, given))
        stop = options.get("stop")
        for event in self.events:
            is_cut_short = isinstance(event, IngestFinished) and stop is not None and stop.is_set()
            yield replace(event, is_complete=False) if is_cut_short else event

    def remove(self, sources: Collection[str]) -> int:
        self._begin()
        self.removed += sources
        return len(sources)

    def info(self) -> tuple[BankHeader, BankTotals, BankSizes]:
        self._begin()
        header = BankHeader(ModelSignature("mini", "a" * 16, "b" * 16), CodeShape(2, 1, 8, False), 3)
        return header, TOTALS, SIZES

    def can_stream(self, options: AskOptions) -> bool:
        return self.streams

    def close(self) -> None:
        self.is_open = False

    def unload(self) -> None:
        self.is_open = self.is_loaded = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> None:
        if self.problem is not None:
            raise self.problem


def ingested(documents: int = 2, **changes: Any) -> tuple[Event, ...]:
    """The events of an ingest of so many files, each of 10 bytes, one document and one chunk."""
    bank = {"bank_documents": documents, "bank_origins": documents, "bank_chunks": documents}
    sizes = {"code_bytes": SIZES.codes, "codebook_bytes": SIZES.codebook, "file_bytes": SIZES.file}
    finished = IngestFinished(documents, documents, 0, 0, 0, 0.5, 0.1, True, **bank, **sizes)
    return (
        IngestStarted(documents, 10 * documents),
        DocumentsIngested(
            documents, documents, 0, 10 * documents, 0.1, ("/notes/ada.txt", "/notes/bruno.md"), 1, "/notes/bruno.md"
        ),
        replace(finished, **changes),
    )
