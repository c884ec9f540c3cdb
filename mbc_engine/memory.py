"""Memory: a model with its bank or banks, the session that every front end uses."""

import gc
import os
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence, Sized
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property, wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, ParamSpec, Self, TypeVar

from mbc_engine.answer import Answer, AnswerItem, AskOptions, Source
from mbc_engine.bank import (
    BankHeader,
    Banks,
    BankSizes,
    BankTotals,
    MemoryBank,
    ReadableBank,
    Selection,
    deleting_if_unused,
)
from mbc_engine.conversation import is_small_talk, joined, questions_in, reply_to, rewritten
from mbc_engine.errors import ConfigError, MBCError, NothingToRead, ShardLost, require_several
from mbc_engine.machine import return_free_memory
from mbc_engine.names import is_on_cluster
from mbc_engine.sources import OnDecoding, Passages, merged, text_model
from mbc_engine.text import printable_path

if TYPE_CHECKING:
    from mbc_engine.events import Event
    from mbc_engine.mini.writer import Writer
    from mbc_engine.model import Draft, Model
    from mbc_engine.ranking import Hit

_P = ParamSpec("_P")
_T = TypeVar("_T")
# More passages that are looked at if some have the same text.
_SPARE: Final = 8
# Texts that two slow cores recode in five minutes, 7 a second.
_RECODED_SOON: Final = 2_000


def _of_those_left(call: Callable[_P, _T]) -> Callable[_P, _T]:
    """Repeats a call without a bank that was lost during it."""

    @wraps(call)
    def repeated(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        while True:
            with suppress(ShardLost):
                return call(*args, **kwargs)

    return repeated


class Memory:
    """Documents in, answers out; the model and the banks are opened on first use.

    Every call sees what other processes have changed in the banks.

    Args:
        banks: files of one or more banks of one model, asked as one; documents go into the first, which is created if
            needed. Or an open bank, or `Banks`, which stay open. Those named MACHINE:/PATH are on a Ray cluster, see
            `shards.Shards`.
        model: the banks' model, or its name or folder, loaded onto `device` by `load` or `mbc_engine.load_model`.
        llm: the chat LM that writes answers, named as in `lm.chat.open_chat` and loaded by `load_writer`; None for the
            built-in one, which writes only if asked to.
        weights: how much the documents of each bank count; None for all alike.
        log: a file that keeps the events of `add` for other processes to follow.
        on_decoding: called with the number of texts that a language model is about to decode; returns a context
            manager that is active meanwhile.

    Attributes:
        paths: of the banks; empty for open ones.
        loading: seconds spent loading the model, and the chat LM if needed.
    """

    def __init__(
        self,
        banks: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | ReadableBank,
        model: "str | Model" = "mini",
        *,
        device: str | None = None,
        weights: Sequence[float] | None = None,
        log: Path | None = None,
        load: "Callable[[str, str | None], Model] | None" = None,
        llm: str | None = None,
        load_writer: "Callable[[str | None, str | None], Writer] | None" = None,
        on_decoding: OnDecoding | None = None,
    ) -> None:
        self._given = banks if isinstance(banks, ReadableBank) else None
        self.paths: tuple[Path, ...] = ()
        if not isinstance(banks, ReadableBank):
            self.paths = tuple(map(Path, (banks,) if isinstance(banks, str | os.PathLike) else banks))
        self._model: str | Model = model
        self._name = model if isinstance(model, str) else None
        self._device, self._weights, self._log, self._load = device, weights, log, load or _load_model
        self._llm, self._load_writer = llm, load_writer or _load_writer
        self._on_decoding = on_decoding
        self.loading = 0.0
        self._banks: ReadableBank | None = None
        self._is_checked = False  # the banks are of this model
        self._whole: tuple[Hashable, Sized] | None = None

    @property
    def model(self) -> "Model":
        """The model, loaded if needed. Raises ModelError, or ConfigError if there is no such device."""
        if isinstance(self._model, str):
            began = time.perf_counter()
            self._model = self._load(self._model, self._device)
            self.loading += time.perf_counter() - began
        return self._model

    @cached_property
    def writer(self) -> "Writer":
        """The chat LM that writes answers, loaded if needed. Raises ModelError if it cannot be, or is no chat LM."""
        began = time.perf_counter()
        writer = self._load_writer(self._llm, self._device)
        self.loading += time.perf_counter() - began
        return writer

    @_of_those_left
    def open(self, options: AskOptions | None = None) -> Self:
        """Open everything a question needs; problems with the banks are found before the model is loaded.

        Raises BankError if there is no bank, ModelError if the model cannot be loaded, ModelMismatch if the banks are
        not all of this model, and ConfigError if a bank is named twice, weights do not fit, or the model cannot be
        asked with these options.
        """
        self._bank()
        if options is not None:
            options = self._resolved(options)
            self.model.check(options)
            if options.write:
                self.writer  # noqa: B018  # loaded now
        with self._reading():
            return self

    @_of_those_left
    def ask(
        self,
        questions: Sequence[str],
        options: AskOptions | None = None,
        *,
        on_token: Callable[[str], None] | None = None,
        **changes: Any,
    ) -> list[Answer]:
        """Answer questions, all in one batch. Raises what `open` raises, and NothingToRead if nothing is selected.

        If one is several, as "Who won, and when was it?", they are answered one by one, in lines of one answer,
        unless a model generates it or an LM that reads passages writes it.

        Args:
            options: None for the defaults.
            **changes: single options, such as `sources=5`.
            on_token: gets a generated or written answer in pieces as they become final; for one question, greedy.
        """
        require_several(questions, "questions")
        options = self._resolved(replace(options or AskOptions(), **changes))
        if not questions:
            return []
        model = self.model
        model.check(options)
        writer = self.writer if options.write else None
        if model.keeps_text and (apart := self._answered_apart(questions, options)):
            rest = iter(self.ask([question for question in questions if question not in apart], options))
            return [apart[question] if question in apart else next(rest) for question in questions]
        began = time.perf_counter()
        with self._reading() as bank:
            totals, sizes = bank.totals(), bank.sizes()
            passages = Passages(bank, model.chunker, self._on_decoding)
            scope = self._scope(bank, options.selection)
            found = model.search(questions, scope, top=options.sources, read_mode=options.read_mode)
            searched = time.perf_counter()
            # A writer needs at least the passage that holds the quotation.
            listed = replace(options, sources=max(options.sources, 1)) if writer is not None else options
            drafts = model.answer(questions, found, listed, passages, on_token=None if writer else on_token)
            answered = time.perf_counter()
            documents = [draft.documents for draft in drafts]
            if writer is not None and writer.reads_passages:
                documents = [_to_read(draft, hits) for draft, hits in zip(drafts, found.chunks, strict=True)]
            # For sources that were not even read, an encoder is not worth its time.
            sources = passages.sources(questions, documents, [draft.sentences for draft in drafts])
            items = [
                tuple(AnswerItem(item.text, passages.source(item.hit, item.sentence)) for item in draft.items)
                for draft in drafts
            ]
        seconds = {"search": searched - began, "answer": answered - searched, "sources": time.perf_counter() - answered}
        answers = [
            Answer(
                question,
                draft.text,
                draft.confidence,
                named,
                seconds,
                totals,
                sizes,
                draft.gain,
                draft.codes,
                tentative=draft.tentative,
                items=parts,
                missing_banks=self.missing_banks,
                withheld=draft.withheld,
            )
            for question, draft, named, parts in zip(questions, drafts, map(merged, sources), items, strict=True)
        ]
        if writer is None:
            return answers
        began = time.perf_counter()
        answers = [writer.write(answer, options, on_token) for answer in answers]
        seconds["write"] = time.perf_counter() - began
        return answers

    def _answered_apart(self, questions: Sequence[str], options: AskOptions) -> dict[str, Answer]:
        """The answers to lines that ask nothing, or several questions, where a language model does not see to it."""
        writer, apart = self.writer if options.write else None, dict[str, Answer]()
        if writer is not None and writer.reads_passages:
            return {}
        for question in questions:
            if len(parts := questions_in(question)) > 1:
                conversation = Conversation(self)
                apart[question] = joined(question, [conversation.ask(part, options) for part in parts])
            elif reply := reply_to(question):
                _, totals, sizes = self.info()
                none = dict.fromkeys(("search", "answer", "sources"), 0.0)
                apart[question] = Answer(
                    question, reply, None, (), none, totals, sizes, missing_banks=self.missing_banks
                )
        return apart

    @_of_those_left
    def search(
        self,
        queries: Sequence[str],
        options: AskOptions | None = None,
        *,
        top: int = 5,
        with_text: bool = True,
        **changes: Any,
    ) -> list[tuple[Source, ...]]:
        """The best passages for each query, best first, with shares and sentences; raises the same errors as `ask`.

        A document may have several, except in a hierarchical read, which finds only its best. The same text from
        several places is one passage. No reader is loaded.
        Without `with_text`, there are no sentences, and passages only if no language model has to decode them.
        """
        require_several(queries, "queries")
        if top < 1:
            raise ConfigError(f"`top` is {top}, less than 1.", hint="Give a larger one.")
        options = replace(options or AskOptions(), **changes)
        if not queries:
            return []
        model = self.model
        model.check(options)
        with self._reading() as bank:
            scope = self._scope(bank, options.selection)
            found = model.search(queries, scope, top=top, read_mode=options.read_mode)
            passages = Passages(bank, model.chunker, self._on_decoding)
            if not with_text:
                best = [hits[:top] for hits in found.chunks]
                passages.of((), beside=[replace(hit, share=0.0) for hit in chain(*best)])
                return [tuple(passages.source(hit, None) for hit in hits) for hits in best]
            ranked = model.ranked(queries, found, passages)
            for most in (top, top + _SPARE):
                best = [hits[:most] for hits in ranked]
                passages.of(hit.chunk for hit in chain(*best))
                listed = [merged(each) for each in passages.sources(queries, best)]
                if all(len(each) == len(hits) for each, hits in zip(listed, best, strict=True)):
                    break  # otherwise copies have taken the places of others
            return [each[:top] for each in listed]

    def add(
        self,
        documents: Sequence[str | os.PathLike[str]] | BinaryIO,
        *,
        watch: bool = False,
        keeps_origins: bool = True,
        keeps_text: bool | None = None,
        codec: Literal["auto", "lm", "zstd"] = "zstd",
        **options: Any,
    ) -> "Iterator[Event]":
        """Memorise files and folders, or what a stream holds; events and options are those of `mbc_engine.ingest`.

        With `watch`, changes to the files are memorised too, until `stop` is set, as in `mbc_engine.watch`.
        `keeps_origins` and `keeps_text` are for a new bank; None keeps text if the model reads it. With the codec `lm`,
        texts are recoded with the language model once all documents are stored, if it is installed; with `auto` unless
        that would take over five minutes.

        Raises DataError if a path does not exist, BankError if the bank cannot be written, ModelMismatch if another
        model wrote it.
        """
        require_several(documents, "documents")
        if isinstance(documents, Sequence) and not all(map(os.fspath, documents)):
            raise ConfigError("The path of a document is empty.", hint="The working folder is named `.`.")
        with self._writing(keeps_origins=keeps_origins, keeps_text=keeps_text) as bank:
            from mbc_engine.ingestion.ingest import ingest, ingest_stream
            from mbc_engine.ingestion.ingest import watch as follow
            from mbc_engine.runs.ingests import recorded

            options["open_model"] = None if codec == "zstd" else text_model
            options["most_recoded"] = _RECODED_SOON if codec == "auto" else None
            if isinstance(documents, Sequence):
                paths = [Path(document) for document in documents]
                events = (follow if watch else ingest)(self.model, bank, paths, **options)
            else:
                events = ingest_stream(self.model, bank, documents, **options)
            # Nothing is logged for a bank that must not keep names.
            yield from recorded(events, self._log) if self._log and bank.header.keeps_origins else events

    def remove(self, sources: Collection[str | os.PathLike[str]]) -> int:
        """Remove what was read from these files; returns how many documents were removed. Needs no model."""
        require_several(sources, "sources")
        given = self._given if isinstance(self._given, MemoryBank) else None
        with nullcontext(given) if given else MemoryBank.open(self._path_to_write()) as bank, bank.changing():
            names = [printable_path(os.fspath(source)) for source in sources]
            # A bank stores real paths.
            stored = (name if bank.parts_of(name) else os.path.realpath(name) for name in names)
            removed = bank.remove({(name, part) for name in stored for part in bank.parts_of(name)})
        if self._log:
            from mbc_engine.runs.ingests import forget_names

            forget_names(self._log)
        return removed

    @_of_those_left
    def info(self) -> tuple[BankHeader, BankTotals, BankSizes]:
        """The first bank's header; totals and sizes in bytes, summed over the banks. Needs no model."""
        with nullcontext(self._given) if self._given else self._open() as bank, bank.snapshot():
            return bank.header, bank.totals(), bank.sizes()

    @property
    def missing_banks(self) -> tuple[str, ...]:
        """Banks of a cluster that the last call was answered without."""
        bank = self._given or self._banks
        return bank.missing if bank is not None else ()

    def can_stream(self, options: AskOptions) -> bool:
        """Whether an answer can be streamed: it is generated greedily, and cannot be withheld once begun."""
        return self.model.can_stream(self._resolved(options))

    def _resolved(self, options: AskOptions) -> AskOptions:
        return replace(options, write=self._llm is not None) if options.write is None else options

    def close(self) -> None:
        """Close the banks until the next call."""
        if self._banks is not None:
            self._banks.close()
        self._banks = self._whole = None
        self._is_checked = False

    def unload(self) -> None:
        """Also unload the model and the writer, until a call needs them. A model given as an object stays."""
        self.close()
        self._model = self._name or self._model
        self.__dict__.pop("writer", None)
        was_frozen = gc.get_freeze_count() > 0
        gc.unfreeze()  # a model frozen at the end of its loading would never be collected
        gc.collect()
        if was_frozen:
            gc.freeze()
        return_free_memory()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _writing(self, *, keeps_origins: bool, keeps_text: bool | None) -> Iterator[MemoryBank]:
        """The bank that documents go into; a new one is deleted if left empty."""
        if isinstance(self._given, MemoryBank):
            yield self._given
            return
        path, model = self._path_to_write(), self.model
        from mbc_engine.model import open_bank

        with (
            deleting_if_unused(path),
            open_bank(model, path, keeps_origins=keeps_origins, keeps_text=keeps_text) as bank,
        ):
            yield bank

    def _path_to_write(self) -> Path:
        if not self.paths:
            raise ConfigError(
                "Open banks that are read as one cannot be written.", hint="Give the path of one of them."
            )
        if is_on_cluster(self.paths[0]):
            raise ConfigError("Banks of a cluster are only read.", hint="Name a bank of this machine first.")
        return self.paths[0]

    @contextmanager
    def _reading(self) -> Iterator[ReadableBank]:
        """A snapshot of the banks, which are opened again if their files were replaced.

        The banks are closed on anything but an MBCError: Ctrl-C may come between any two lines.
        """
        try:
            if self._banks is not None and self._banks.is_replaced():
                self.close()
            model, bank = self.model, self._bank()
            if not self._is_checked:
                from mbc_engine.model import signature

                bank.require(signature(model), model.code_shape)
                self._is_checked = True
            with bank.snapshot():
                yield bank
        except BaseException as error:
            if not isinstance(error, MBCError):
                self.close()
            raise

    def _scope(self, bank: ReadableBank, selection: Selection | None) -> Sized:
        """What is searched; the scope of the whole bank is kept until the bank changes."""
        if selection is not None and not selection.is_everything:
            scope = self.model.scope(bank, selection)
        elif self._whole is not None and self._whole[0] == bank.version():
            scope = self._whole[1]
        else:
            scope = self.model.scope(bank)
            self._whole = bank.version(), scope
        if len(scope):
            return scope
        if bank.totals().chunks:
            raise NothingToRead(
                f"No document in {bank.name} matches the selection.",
                hint="Widen --since, --as-of, --only or --exclude; `mbc bank list` shows dates and names.",
            )
        left_out = f"{', '.join(bank.missing)} did not answer." if bank.missing else None
        raise NothingToRead(f"{bank.name} is empty.", hint=left_out or "Fill it with `mbc ingest FOLDER`.")

    def _bank(self) -> ReadableBank:
        if self._given is not None:
            return self._given
        if self._banks is None:
            self._banks = self._open()
        return self._banks

    def _open(self) -> ReadableBank:
        if any(map(is_on_cluster, self.paths)):
            from mbc_engine.shards import Shards

            if self._weights is not None:
                raise ConfigError("Banks of a cluster cannot be weighted.", hint="Leave out --weight.")
            return Shards(self.paths)
        if len(self.paths) == 1 and self._weights is None:
            return MemoryBank.open(self.paths[0], read_only=True)
        return Banks.open(self.paths, self._weights)


def _to_read(draft: "Draft", hits: "Sequence[Hit]") -> "list[Hit]":
    """The best chunks for an LM to read, that of the quotation first; a document may have several."""
    from mbc_engine.mini.writer import PASSAGES_READ

    return list({hit.chunk: hit for hit in (*draft.documents[:1], *hits)}.values())[:PASSAGES_READ]


class Conversation:
    """Questions to a memory, of which each may follow up on the one before."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.previous: Answer | None = None  # that the next question may follow up on

    def completed(self, question: str) -> str:
        """The next question as a standalone one."""
        if self.previous is None:
            return question
        before = self.previous
        return rewritten(question, before.asked or before.question, before.extracted or before.text)

    def ask(
        self,
        question: str,
        options: AskOptions | None = None,
        *,
        on_token: Callable[[str], None] | None = None,
        **changes: Any,
    ) -> Answer:
        """Answer the next question, `completed`; arguments and errors are those of `Memory.ask`."""
        if self.previous is not None and self.previous.text is not None:
            changes = {"earlier": ((self.previous.question, self.previous.text),)} | changes
        (answer,) = self.memory.ask([self.completed(question)], options, on_token=on_token, **changes)
        answer = answer.with_question(question)
        if not is_small_talk(question):
            self.previous = answer
        return answer


def _load_model(name: str, device: str | None) -> "Model":
    from mbc_engine.model import load_model

    return load_model(name, device=device or "cpu")


def _load_writer(llm: str | None, device: str | None) -> "Writer":
    from mbc_engine.mini.writer import load_writer

    return load_writer(llm, device=device or "cpu")
