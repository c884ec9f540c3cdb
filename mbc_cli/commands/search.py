"""`mbc search`: the passages that fit a query best, without an answer."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mbc_cli.options import JsonOption, memory_command, option
from mbc_cli.render.answer import (
    file_state_note,
    highlight_matches,
    language_note,
    missing_note,
    passage_json,
    shared_words,
    show_source,
    source_location,
)
from mbc_cli.render.terminal import notes, out, print_json
from mbc_cli.text import display_path, sanitise
from mbc_engine.answer import AskOptions, Source
from mbc_engine.errors import ConfigError
from mbc_engine.sources import matches

if TYPE_CHECKING:
    from mbc_engine.memory import Memory

_NULL = "With --files, end each name with a NUL byte, as xargs -0 expects."


@memory_command(answers=False)
def search(
    words: Annotated[list[str], typer.Argument(metavar="QUERY", help="Words or a question; quotes are optional.")],
    *,
    memory: "Memory",
    top: Annotated[int, option("How many passages to show, at most.", min=1)] = 5,
    files: Annotated[bool, option("Print only the files, each once, best first.", "--files")] = False,
    null: Annotated[bool, option(_NULL, "--null", "-0")] = False,
    options: AskOptions,
    json: JsonOption = False,
) -> None:
    """Find the passages that best match a query, by meaning and by words, without answering it.

    Each passage comes with its file and line, its score, its date and its best sentence, in which the words of the
    query are marked. In a pipe, each is one line, FILE:LINE:SENTENCE, as from grep. The line is left out where it is
    not known: in PDF, Word and HTML, and where the file has changed. With --json, passages are whole.

    Examples:
      mbc search robotics competition
      mbc search "Who repaired the bridge?" --top 10 --only 'sport/**'
      mbc search bridge --since 2024 --json
      mbc search bridge --files --null | xargs -0 grep -c bridge
    """
    query = " ".join(words).encode(errors="replace").decode()
    if not query.strip():
        raise ConfigError("The query is empty.", hint="Search like this: mbc search robotics competition")
    if null and not files:
        raise ConfigError("--null is only for lists of files.", hint="Add --files.")
    if files and json:
        raise ConfigError("--files and --json cannot be combined.", hint="With --json, each passage has its path.")
    with memory.open(options):
        (sources,) = memory.search([query], options, top=top, with_text=not files)
        missing = memory.missing_banks
        note = language_note(query) if memory.model.is_english_only else None
        note = missing_note(missing) if missing else note
    if files:
        _print_files(sources, ends_with_nul=null)
    elif json:
        passages = [passage_json(query, source) for source in sources]
        print_json({"query": query, "note": note, "passages": passages, "missing": list(missing)})
    else:
        _print_passages(query, sources, note, with_bank=len(memory.paths) > 1)


def _print_files(sources: Sequence[Source], *, ends_with_nul: bool) -> None:
    """Print paths: verbatim if NUL-separated and not on a terminal, otherwise sanitised."""
    for path in dict.fromkeys(source.path for source in sources if os.path.isabs(source.path)):  # noqa: PTH117
        shown = path if ends_with_nul and not sys.stdout.isatty() else display_path(path)
        print(shown, end="\0" if ends_with_nul else "\n")


def _print_passages(query: str, sources: Sequence[Source], note: str | None, *, with_bank: bool) -> None:
    for number, source in enumerate(sources, 1):
        if out.is_terminal:
            lines = [highlight_matches(query, source.sentence)] if source.sentence else []
            show_source(number, source, lines, with_bank=with_bank)
        else:
            bank = f"{display_path(source.bank)}:" if with_bank else ""
            print(f"{bank}{source_location(source)}:{sanitise(source.sentence or '')}")
            if not source.passage and (state := file_state_note(source)):
                notes.print(f"{source_location(source)}: {state}", style="yellow")
    sys.stdout.flush()
    if note:
        notes.print(note, style="yellow")
        return
    has_words = any(shared_words(query, source) or matches(query, source.path) for source in sources)
    if not has_words and any(source.passage for source in sources):
        notes.print("None of these contains a word of the query; they are the closest in meaning.", style="dim")
