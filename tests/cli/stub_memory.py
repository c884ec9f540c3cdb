"""A stub `Memory` for tests of front ends: it answers from a script and records what it was asked. No torch."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from mbc_engine.answer import Answer, AskOptions, Confidence, Source
from mbc_engine.bank import BankHeader, Banks, BankSizes, BankTotals, CodeShape, MemoryBank, ModelSignature
from mbc_engine.events import DocumentsIngested, IngestFinished, IngestStarted

TOTALS = BankTotals(documents=2, origins=2, chunks=2)
SIZES = BankSizes(codes=54, words=40, texts=60, codebook=4096, file=8192)


def source(path="/notes/ada.txt", sentence="Ada moved to Aalen.", **changes):
    """A source with the whole sentence as its passage, in an unchanged file."""
    made = Source(str(path), "", 0.5, 0, "unchanged", sentence, sentence, "file", 0, None, "memory.mbc")
    return replace(made, **changes)


def answer(text="Aalen", *sources, question="Where did Ada move?", **changes):
    """An answer as mini gives it, with a probability of 0.82; with a `gain`, as a model of the paper's method does."""
    seconds = {"search": 0.01, "answer": 0.2, "sources": 0.03}
    made = Answer(question, text, Confidence(0.82, "high"), sources, seconds, TOTALS, SIZES)
    return replace(made, **changes)


class StubMemory:
    """What a front end sees of a `Memory`; its signatures are `Memory`'s.

    `reply` gives the answer to a question: an `Answer`, or its text. Every search finds `passages`, every `add` yields
    `events`, ended early once `stop` is set, and every call raises `problem`, if set. `made_with`, `batches`, `queries`,
    `added` and `removed` are the arguments of the calls.
    """

    def __init__(
        self, banks, model="mini", *, device=None, weights=None, log=None, load=None, llm=None,
        load_writer=None, on_decoding=None,
    ):  # fmt: skip
        self.made_with = {"banks": banks, "model": model, "device": device, "weights": weights, "llm": llm}
        self.paths = (banks,) if isinstance(banks, Path) else () if isinstance(banks, MemoryBank | Banks) else (*banks,)
        self.loading = 0.0
        self.reply = lambda question: answer("Aalen", question=question)
        self.passages = (source(),)
        self.events = ingested()
        self.problem = None
        self.streams = True
        self.batches = []
        self.queries = []
        self.added = []
        self.removed = []
        self.is_open = self.is_loaded = False

    @property
    def model(self):
        self._begin()
        self.is_loaded = True
        chunker = SimpleNamespace(token_counts=lambda texts: [len(text.split()) for text in texts])
        return SimpleNamespace(name=self.made_with["model"], is_english_only=True, read_modes=(), chunker=chunker)

    @property
    def writer(self):
        self._begin()
        return SimpleNamespace(name=self.made_with["llm"] or "SmolLM2")

    @property
    def missing_banks(self):
        return ()

    def open(self, options=None):
        self._begin()
        self.is_open = True
        self.is_loaded |= options is not None
        return self

    def ask(self, questions, options=None, *, on_token=None, **changes):
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

    def search(self, queries, options=None, *, top=5, with_text=True, **changes):
        self.open(options := replace(options or AskOptions(), **changes))
        self.queries.append(([*queries], options, top))
        return [self.passages[:top] for _ in queries]

    def add(self, documents, *, watch=False, keeps_origins=True, keeps_text=None, codec="zstd", **options):
        self._begin()
        given = {"watch": watch, "keeps_origins": keeps_origins, "keeps_text": keeps_text, "codec": codec, **options}
        self.added.append((documents, given))
        stop = options.get("stop")
        for event in self.events:
            is_cut_short = isinstance(event, IngestFinished) and stop is not None and stop.is_set()
            yield replace(event, is_complete=False) if is_cut_short else event

    def remove(self, sources):
        self._begin()
        self.removed += sources
        return len(sources)

    def info(self):
        self._begin()
        header = BankHeader(ModelSignature("mini", "a" * 16, "b" * 16), CodeShape(2, 1, 8, False), 3)
        return header, TOTALS, SIZES

    def can_stream(self, options):
        return self.streams

    def close(self):
        self.is_open = False

    def unload(self):
        self.is_open = self.is_loaded = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _begin(self):
        if self.problem is not None:
            raise self.problem


def ingested(documents=2, **changes):
    """The events of an ingest of so many files, each of 10 bytes, one document and one chunk."""
    bank = {"bank_documents": documents, "bank_origins": documents, "bank_chunks": documents}
    sizes = {"code_bytes": SIZES.codes, "codebook_bytes": SIZES.codebook, "file_bytes": SIZES.file}
    finished = IngestFinished(documents, documents, 0, 0, 0, 0.5, 0.1, True, **bank, **sizes)
    names = ("/notes/ada.txt", "/notes/bruno.md")
    step = DocumentsIngested(documents, documents, 0, 10 * documents, 0.1, names, 1, names[1])
    return IngestStarted(documents, 10 * documents), step, replace(finished, **changes)
