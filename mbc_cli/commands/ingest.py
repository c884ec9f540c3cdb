"""`mbc ingest`: files into a bank."""

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.text import Text

import mbc_engine
from mbc_cli.command_line import interrupt_message, is_from_command_line, stop_on_interrupt, stopped
from mbc_cli.formatting import display_path, format_duration, format_size, pluralise, sanitise
from mbc_cli.loading import loading, open_memory, unpack_language_model
from mbc_cli.options import BankOption, DeviceOption, JsonOption, ModelOption, WorkersOption, argument, option
from mbc_cli.render.bank import content_summary, holdings, size_facts
from mbc_cli.render.terminal import ProgressView, is_on, notes, out, print_facts, print_json, print_json_lines
from mbc_engine import events
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.machine import yield_to_others
from mbc_engine.text import HIDDEN, IGNORE_FILE, is_empty, printable_path, require_paths

if TYPE_CHECKING:
    from mbc_engine.ingestion.ray import Actors

_ON_RAY: Final = "With --engine ray"
_ray = partial(option, panel=_ON_RAY)
_STDIN: Final = Path("-")
_READABLE: Final = (
    "Files that can be read: text, Markdown, HTML, PDF, Office, OpenDocument, RTF, EPUB, mail, subtitles, LaTeX, tables, "
    "JSON and source code; those of text also as .gz and .xz."
)
_REASONS = _NAMES = 5
_IGNORE = "Skip files that match this pattern, as in .gitignore; can be repeated."
_ALL_FILES = "Also memorise what .gitignore files exclude, installed software, caches and temporary files."
_PRUNE = "Also remove documents whose files are no longer in these folders, or whose folder is gone."
_WATCH = "Keep running and memorise changes as they happen, until Ctrl-C."
_COLUMN = "Memorise only the rows of tables and JSON that have a text in this column or field."
_TEXT = (
    "Keep a compressed copy of the documents' text; only for a new bank. mini reads its answers from this text; models "
    "you train do not need it."
)
_CODEC = (
    "How the bank's texts are compressed. zstd is fast. lm recodes them with the language model, if installed, once "
    "everything is memorised: less than half the size, a few texts a second. auto recodes only if at most 2,000 texts wait for it."
)
_ENGINE = "Encode in this process (local) or on a Ray cluster (ray)."


def ingest(
    ctx: typer.Context,
    paths: Annotated[list[Path], argument("PATH", "Files and folders to memorise; - alone is stdin.")],
    *,
    bank: BankOption,
    model: ModelOption,
    ignore: Annotated[list[str] | None, option(_IGNORE, metavar="PATTERN")] = None,
    all_files: Annotated[bool, option(_ALL_FILES, "--all-files")] = False,
    prune: Annotated[bool, option(_PRUNE, "--prune")] = False,
    watch: Annotated[bool, option(_WATCH, "--watch")] = False,
    text_column: Annotated[str | None, option(_COLUMN, metavar="NAME")] = None,
    no_sources: Annotated[bool, option("Store no file names or dates; only for a new bank.", "--no-sources")] = False,
    text: Annotated[bool | None, option(_TEXT, "--text/--no-text", show_default="depends on the model")] = None,
    codec: Annotated[Literal["auto", "lm", "zstd"], option(_CODEC, envvar="MBC_CODEC")] = "auto",
    workers: WorkersOption,
    device: DeviceOption = None,
    engine: Annotated[Literal["local", "ray"], option(_ENGINE)] = "local",
    address: Annotated[
        str | None,
        _ray("The Ray cluster: HOST:PORT, or auto.", metavar="ADDR", show_default="start a temporary local cluster"),
    ] = None,
    actors: Annotated[int | None, _ray("Number of encoder processes.", min=1, show_default="as many as fit")] = None,
    actor_batch: Annotated[int, _ray("Chunks per encoder batch.", min=1)] = 64,
    actor_cpus: Annotated[float, _ray("CPUs, and threads, per encoder process.", metavar="X", min=0.0)] = 1.0,
    actor_gpus: Annotated[float, _ray("GPUs per encoder process; fractions are allowed.", metavar="X", min=0.0)] = 0.0,
    json: JsonOption = False,
) -> None:
    """Memorise files and folders. Files that haven't changed since the last run are skipped.

    Hidden files, what .mbcignore and .gitignore files exclude, installed software, caches, temporary and lock files are
    skipped, but never a file that you name. Each row of a table or of JSON becomes a document with all its columns. The
    first Ctrl-C saves what has been encoded and stops; run the same command again to continue. With --watch --json,
    each change is one line of JSON.

    Examples:
      mbc ingest ~/notes
      mbc ingest report.pdf minutes/ --bank work.mbc --ignore 'drafts/'
      mbc ingest ~/notes --watch --prune
      mbc ingest reviews.csv --text-column review
      mbc ingest /shared/news --engine ray --address head:6379 --actor-gpus 1
      curl -s https://example.org/page.txt | mbc ingest -
    """
    is_stream, how = _STDIN in paths, dict[str, Any](keeps_origins=not no_sources, keeps_text=text, codec=codec)
    _check_option_conflicts(ctx)
    if on_ray := engine == "ray":
        from mbc_engine.ingestion.ray import Actors

        how["actors"] = Actors(actors, actor_batch, actor_cpus, actor_gpus, device)
        _require_ray(how["actors"], address, other="stdin" if is_stream else "--watch" if watch else None)
    if not is_stream:
        _require_files(paths, bank, ignore or [], is_choosy=not all_files, prunes=prune, watches=watch)
        how |= {"ignore": ignore or [], "is_choosy": not all_files, "prune": prune, "text_column": text_column}
        if not on_ray:
            how["workers"] = workers
    _require_fitting_bank(bank, prune=prune, no_sources=no_sources, text=text)
    with open_memory([bank], model, "cpu" if on_ray else device) as memory:
        with interrupt_message("Nothing was memorised yet."):
            if codec == "lm":
                unpack_language_model()
            memory.model  # noqa: B018  # load it now, so that Ctrl-C ends it
        with ExitStack() as connection:
            if on_ray:
                from mbc_engine.ingestion.ray import connected

                with loading("Ray"):
                    connection.enter_context(connected(address, verbose=is_on("verbose")))
            _memorise(memory, paths, how, watch=watch, as_json=json)


def _memorise(
    memory: "mbc_engine.Memory", paths: Sequence[Path], how: dict[str, Any], *, watch: bool, as_json: bool
) -> None:
    with (
        interrupt_message("What was committed before is saved; run the same command again to continue."),
        IngestProgress(str(memory.paths[0]), as_json=as_json, watches=watch) as view,
        stop_on_interrupt(view, view.stopping) as stop,
    ):
        if _STDIN in paths and sys.stdin.isatty():
            view.line("Type the text; Ctrl-D ends it.")
        documents = sys.stdin.buffer if _STDIN in paths else paths
        for event in memory.add(documents, watch=watch, stop=stop, **how):
            view.show(event)
            if isinstance(event, events.TextsRecoded) and event.done and not watch:
                yield_to_others()  # a watch does other work afterwards
    if not watch:
        view.show_result()
    if not view.end.is_complete:
        raise stopped(view, "Everything counted above is saved; run the same command again to continue.")
    if not watch:
        view.require_documents(may_be_none=bool(how.get("prune")), text_column=how.get("text_column"))


def _check_option_conflicts(ctx: typer.Context) -> None:
    given = ctx.params
    if _STDIN in given["paths"]:
        if len(given["paths"]) > 1:
            raise ConfigError("- stands for stdin and cannot be mixed with paths.", hint="A file of that name is ./-")
        if given["prune"] or given["watch"]:
            raise ConfigError("--prune and --watch need folders, not stdin.", hint="Leave them out.")
        if given["text_column"] is not None:
            raise ConfigError("--text-column needs files with rows, not stdin.", hint="Leave it out.")
    if given["prune"] and given["no_sources"]:
        raise ConfigError("--prune needs sources, which --no-sources does not keep.", hint="Leave one of them out.")
    for param in ctx.command.params if given["engine"] == "local" else ():
        if getattr(param, "rich_help_panel", None) == _ON_RAY and param.name and is_from_command_line(ctx, param.name):
            raise ConfigError(f"{param.opts[0]} needs --engine ray.", hint="Add it, or leave this out.")


def _require_ray(actors: "Actors", address: str | None, *, other: str | None) -> None:
    from mbc_engine.ingestion.ray import require_ray

    if other:
        raise ConfigError(f"--engine ray cannot be combined with {other}.", hint="Use --engine local.")
    if not actors.cpus and not actors.gpus:
        raise ConfigError("Each actor needs at least a fraction of a CPU or a GPU.", hint="Set --actor-cpus.")
    require_ray(address)


def _require_files(
    paths: Sequence[Path], bank: Path, ignore: Sequence[str], *, is_choosy: bool, prunes: bool, watches: bool
) -> None:
    """Raises DataError if a path is missing or unreadable, or if there are no files unless it prunes or watches."""
    from mbc_engine.bank.database import bytes_at
    from mbc_engine.ingestion.ingest import holds_below

    def holds(*places: Path) -> bool:
        if not bytes_at(bank):
            return False
        with mbc_engine.MemoryBank.open(bank, read_only=True) as memory:
            return holds_below(memory, places)

    prunable = "The bank still holds what was read from it; --prune removes that."
    existing = [path for path in paths if os.path.lexists(path) or not holds(path)]
    if len(existing) < len(paths) and (watches or not prunes):
        gone = printable_path(next(path for path in paths if path not in existing))
        raise DataError(f"{gone} does not exist.", hint=prunable)
    require_paths(existing, ignore)
    for path in existing:
        if not os.access(path, os.R_OK):
            raise DataError(f"{path} cannot be read: permission denied.", hint="Check the path and its permissions.")
    if not (prunes or watches) and is_empty(paths, ignore, is_choosy=is_choosy):
        hint = prunable if holds(*paths) else _READABLE
        raise DataError(f"No files to ingest in {', '.join(map(str, paths))}.", hint=hint)


def _require_fitting_bank(path: Path, *, prune: bool, no_sources: bool, text: bool | None) -> None:
    from mbc_engine.bank.database import bytes_at

    if not bytes_at(path):
        return
    with mbc_engine.MemoryBank.open(path, read_only=True) as memory:
        keeps_origins, keeps_text = memory.header.keeps_origins, memory.header.keeps_text
    made = "This was decided when the bank was created: name another file with --bank, or leave out"
    if no_sources and keeps_origins:
        raise ConfigError(f"{path} keeps sources.", hint=f"{made} --no-sources.")
    if prune and not keeps_origins:
        raise ConfigError(f"{path} keeps no sources to prune by.", hint=f"{made} --prune.")
    if text is not None and text != keeps_text:
        does, option = ("keeps", "--no-text") if keeps_text else ("does not keep", "--text")
        raise ConfigError(f"{path} {does} the text of its documents.", hint=f"{made} {option}.")


class IngestProgress(ProgressView):
    """Shows an ingest's progress from its events or, when watching, several in succession.

    `doing` and `done` are the verbs for what happens to files; `stopping` is what to announce after Ctrl-C.
    """

    def __init__(
        self, bank: str, *, as_json: bool, watches: bool = False, doing: str = "Memorising", done: str = "Memorised"
    ) -> None:
        super().__init__()
        self._bank, self._as_json, self._watches = bank, as_json, watches
        self._doing, self._done = doing, done
        saving = "" if watches else " Saving the documents encoded so far; Ctrl-C again stops at once."
        self.stopping = f"Stopping.{saving}"
        self._started = events.IngestStarted(0, 0)
        self._skipped: list[events.FileSkipped] = []  # all for JSON or with --verbose, else the first of each reason
        self._reasons: Counter[str] = Counter()
        self._left_out: list[events.FilesLeftOut] = []
        self._lost: list[events.ContentLost] = []
        self._recoded: events.TextsRecoded | None = None
        self._problem = ""
        self._end: events.IngestFinished | None = None

    def show(self, event: events.Event) -> None:
        match event:
            case events.IngestStarted():
                self._begin(event)
            case events.FileSkipped():
                self._reasons[event.reason] += 1
                if self._as_json or is_on("verbose") or self._reasons[event.reason] == 1:
                    self._skipped.append(event)
            case events.FilesLeftOut():
                self._left_out.append(event)
            case events.ContentLost():
                self._lost.append(event)
            case events.DocumentsIngested():
                self._show_progress(event)
            case events.TextsRecoded():
                self._show_recoding(event)
            case events.IngestFinished():
                is_first, self._end = self._end is None, event
                if self._watches:
                    self._show_round(event, is_first=is_first)

    def _begin(self, event: events.IngestStarted) -> None:
        self._started, self._recoded = event, None
        self._skipped, self._reasons, self._left_out, self._lost = [], Counter(), [], []
        if self._end is None and not self.is_live:  # no bar shows it
            sizes = f", {format_size(event.size)}" if event.size else ""  # unknown for a stream
            self.line(f"{self._doing} {pluralise(event.files, 'file')}{sizes}.")
        self.bar(self._doing, event.size or None, in_bytes=True)

    def _show_progress(self, event: events.DocumentsIngested) -> None:
        size, files = self._started.size, self._started.files
        notes = [f"{event.files:,}/{files:,} files"] if files > 1 else []
        if event.current:
            notes.append(sanitise(Path(event.current).name))
        if event.chunks:
            notes.append(_rate(event.chunks, "chunk", event.seconds))
        elif done := event.documents + event.unchanged:
            notes.append(_rate(done, "document", event.seconds))
        self.bar(self._doing, size or None, completed=event.size, note=" · ".join(notes), in_bytes=True)

    def _show_recoding(self, event: events.TextsRecoded) -> None:
        if event.problem:
            if event.problem != self._problem:  # a watch would repeat it after every change
                self.line(f"Texts remain compressed with zstd: {event.problem}")
            self._problem, self._recoded = event.problem, event
            self.remove_bar("Recoding texts")
            return
        # Only once a text is done is the language model known to be available. A watch reports each round anyway.
        if event.done and not self._recoded and self._end is None:
            self.line(
                f"You can ask questions now. Recoding {pluralise(event.chunks, 'text')} with the language model to save "
                "space, when nothing else needs the machine: leave it, or stop it with Ctrl-C; the next ingest continues."
            )
        self.recoding_bar(event)
        if self._watches and event.done == event.chunks:
            self.remove_bar("Recoding texts")  # the watch continues
        self._recoded = event if event.done else None

    def show_result(self) -> None:
        if self._as_json:
            print_json(self._summary_json(self.end))
        else:
            self._show_summary(self.end)

    def require_documents(self, *, may_be_none: bool = False, text_column: str | None = None) -> None:
        """Raises DataError if not a single document could be read, unless there may be none and none was skipped."""
        end = self.end
        if not (end.documents or end.unchanged or end.removed or (may_be_none and not self._skipped)):
            if text_column is not None:
                raise DataError(f"No rows with a text in {text_column!r} were found.", hint="Check --text-column.")
            raise DataError("No readable files were found.", hint=_READABLE)

    def show_skipped(self) -> None:
        """Print every skipped file with --verbose, else the first for each reason."""
        for number, skipped in enumerate(self._skipped):
            if not is_on("verbose") and number == _REASONS:
                rest = self._reasons.total() - sum(self._reasons[item.reason] for item in self._skipped[:_REASONS])
                out.print(Text(f"  skipped: {rest:,} more; --verbose lists every file", "yellow"))
                return
            alike = 0 if is_on("verbose") else self._reasons[skipped.reason] - 1
            others = f" (and {alike:,} more)" if alike else ""
            out.print(Text(f"  skipped: {display_path(skipped.source)} {sanitise(skipped.reason)}{others}", "yellow"))

    def _show_lost(self) -> None:
        """Print what was not kept of documents: all with --verbose, else of the first."""
        shown = self._lost if is_on("verbose") else self._lost[:_NAMES]
        for lost in shown:
            what = sanitise(", ".join(lost.losses))
            out.print(Text(f"  not kept: {what} of {display_path(lost.source)}", "yellow"))
        if rest := len(self._lost) - len(shown):
            out.print(Text(f"  not kept: parts of {pluralise(rest, 'more document')}; --verbose lists them", "yellow"))

    def _show_round(self, end: events.IngestFinished, *, is_first: bool) -> None:
        has_changed = bool(end.documents or end.removed)
        self.remove_bar(self._doing)
        if self._as_json and (is_first or has_changed):
            print_json_lines([self._summary_json(end)])
        elif is_first:
            self._show_summary(end)
        elif has_changed and not self._as_json:
            out.print(f"{time.strftime('%H:%M:%S')}  {_changes(end)}")
            self.show_skipped()
            self._show_lost()
        if is_first:
            self.line("Watching for changes; Ctrl-C stops.")

    def _show_summary(self, end: events.IngestFinished) -> None:
        """One line, after what should be known of some files; --verbose adds sizes, and --quiet leaves out all."""
        if is_on("quiet"):
            return
        if end.not_english:
            counts = f"{pluralise(end.not_english, 'document')} {'does' if end.not_english == 1 else 'do'}"
            out.print(Text(f"{counts} not seem to be in English: {_listed(end.not_english_sources)}", "yellow"))
        self.show_skipped()
        self._show_lost()
        for left_out in self._left_out:
            them = "it" if left_out.count == 1 else "them"
            ways_out = {IGNORE_FILE: "", HIDDEN: f"; name {them} to take {them}"}
            way_out = ways_out.get(left_out.reason, f"; --all-files takes {them}")
            out.print(Text(f"  left out: {_listed(left_out.sources)} ({sanitise(left_out.reason)}){way_out}"))
        if end.gone:
            are, them = ("file is", "it") if end.gone == 1 else ("files are", "them")
            names = f": {_listed(end.gone_sources)}" if end.gone_sources else ""
            out.print(Text(f"{end.gone:,} ingested {are} gone{names}; --prune removes {them}", "yellow"))
        if end.removed_sources:
            out.print(Text(f"  removed: {_listed(end.removed_sources)}"))
        done = [pluralise(end.documents, "document"), pluralise(end.chunks, "chunk")]
        rest = {"unchanged": end.unchanged, "removed": end.removed, "skipped": end.skipped}
        done += [f"{count:,} {what}" for what, count in rest.items() if count]
        line = f"{self._done} {', '.join(done)} in {format_duration(end.seconds)}."
        if end.bank_documents:
            totals, sizes = holdings(end)
            line += f" {display_path(self._bank)} holds {content_summary(totals)}, {format_size(sizes.file)}."
        out.print(line)
        if end.pruned:
            notes.print(
                "`mbc bank undo` restores what --prune removed; `mbc bank compact` deletes what is kept for that."
            )
        if is_on("verbose"):
            self._show_sizes(end)

    def _show_sizes(self, end: events.IngestFinished) -> None:
        share = f"{end.encoding / max(end.seconds, 1e-3):.0%} of the time in the encoder"
        recoding = None
        if (recoded := self._recoded) and recoded.done:
            recoding = f"{pluralise(recoded.done, 'text')} in {format_duration(recoded.seconds)}, "
            recoding += f"{format_size(recoded.before_bytes)} to {format_size(recoded.after_bytes)}"
        print_facts(
            ("speed", end.chunks > 0 and f"{_rate(end.chunks, 'chunk', end.seconds)}, {share}"),
            ("recoded", recoding),
            *(size_facts(holdings(end)[1], end.bank_chunks) if end.bank_documents else ()),
        )

    def _summary_json(self, end: events.IngestFinished) -> dict[str, Any]:
        totals, sizes = holdings(end)
        return {
            **{name: getattr(end, name) for name in ("documents", "chunks", "unchanged", "removed")},
            "skipped": self._skipped,
            "left_out": self._left_out,
            "losses": self._lost,
            "gone": {"files": end.gone, "sources": end.gone_sources},
            "not_english": {"documents": end.not_english, "sources": end.not_english_sources},
            "memorised": end.memorised_sources,
            "pruned": end.removed_sources,
            "seconds": end.seconds,
            "encoding": end.encoding,
            "recoded": self._recoded,
            "bank": {"path": self._bank, **asdict(totals), "sizes": sizes},
        }

    @property
    def end(self) -> events.IngestFinished:
        assert self._end is not None, "the ingest's last event has not come"
        return self._end


def _changes(end: events.IngestFinished) -> str:
    """What one round of a watch did: `memorised clara.txt (1 document, 1 chunk), removed ada.txt`."""
    documents, chunks = pluralise(end.documents, "document"), pluralise(end.chunks, "chunk")
    named, gone = _listed(end.memorised_sources), _listed(end.removed_sources)
    done = [
        end.documents and f"memorised {f'{named} ({documents}, {chunks})' if named else f'{documents} ({chunks})'}",
        end.removed and f"removed {gone or pluralise(end.removed, 'document')}",
        end.skipped and f"{end.skipped:,} skipped",
    ]
    return ", ".join(str(part) for part in done if part)


def _listed(sources: Sequence[str]) -> str:
    return ", ".join(map(display_path, sources[:_NAMES])) + (", …" if len(sources) > _NAMES else "")


def _rate(count: int, noun: str, duration: float) -> str:
    """`84 chunks/s`; one decimal below ten."""
    value = count / max(duration, 1e-3)
    return f"{value:,.0f} {noun}s/s" if value >= 10 else f"{value:.1f} {noun}s/s"
