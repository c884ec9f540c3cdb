"""`mbc ask`, `mbc chat` and `mbc search`: questions, conversations and queries put to one or several banks."""

import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from rich.text import Text

from mbc_cli.formatting import display_path, format_duration, pluralise, sanitise
from mbc_cli.options import JsonOption, argument, memory_command, option
from mbc_cli.paths import add_question, question_history, read_questions
from mbc_cli.render import answer as render
from mbc_cli.render.bank import content_summary
from mbc_cli.render.terminal import ProgressView, errors, notes, out, print_json, print_json_lines
from mbc_engine.answer import Answer, AskOptions, Source
from mbc_engine.errors import ConfigError, MBCError
from mbc_engine.sources import matches
from mbc_engine.text.decoding import storable

if TYPE_CHECKING:
    from mbc_engine.datasets.questions import Question
    from mbc_engine.memory import Conversation, Memory

try:
    import readline
except ImportError:  # not every system has it
    readline = None  # type: ignore[assignment]

_STDIN: Final = Path("-")
_BATCH: Final = 16
_QUESTIONS = (
    'Answer the questions in a file: a .jsonl with {"question": ..., "id": ...} per line, or a .txt; - is stdin.'
)
_QUESTION = "What you want to know. All words are one question; quote it if it has ?, * or an apostrophe."
_OPEN = "Afterwards, open the first source at its line, in $VISUAL, $EDITOR or $PAGER."
_PROMPT: Final = "? "
_COMMANDS: Final = {
    "/sources": "show the passages behind the last answer in full",
    "/open": "open the first source of the last answer at its line",
    "/help": "show this list",
    "/quit": "quit; so does Ctrl-D",
}
_ABOUT: Final = (
    "Anything else is a question. A follow-up (“and when?”, “where does she live?”) is completed from the question before "
    "it and its answer, and the completed question is shown; a question that stands on its own is asked as it is. Below an "
    "answer you see how likely it is to be right and which file it was found in. Ctrl-C stops an answer. Documents that "
    "other programs ingest in the meantime are found."
)
_NULL = "With --files, end each name with a NUL byte, as xargs -0 expects."
_COMMAND: Final = re.compile(r"/\w*")  # a question may begin with a path


@memory_command(answers=True)
def ask(
    words: Annotated[list[str] | None, argument("QUESTION", _QUESTION)] = None,
    *,
    memory: "Memory",
    questions: Annotated[Path | None, option(_QUESTIONS, metavar="FILE")] = None,
    opens: Annotated[bool, option(_OPEN, "--open")] = False,
    options: AskOptions,
    json: JsonOption = False,
) -> None:
    """Answer questions from your banks, citing the files that each answer comes from.

    The answer comes first: one line or, if the question asks for several things (who are, what happened, how do I), a
    line for each. It begins with "Perhaps: " if the model is not sure of it, and is "Not in this memory." if there is
    none. Its sources follow. Programs should use --json, which prints a line for each question: "tentative" is true
    instead of "Perhaps: ", and "answer" is null if there is none.

    Without a question, this is `mbc chat`; questions can also be piped in, one per line.

    Examples:
      mbc ask "Who repaired the bridge?"
      mbc ask "When was it built?" --bank work.mbc --sources 5 --json
      mbc ask "Who won?" --bank team.mbc --bank mine.mbc --weight 1 --weight 2
      mbc ask "Who won?" --since 2024 --half-life 30d --only 'sport/**'
      mbc ask "Who won?" --min-confidence 0.9
      mbc ask "Why was the bridge closed?" --llm ollama/qwen3
      mbc ask "Who repaired the bridge?" --open
      mbc ask --questions questions.jsonl --json > answers.jsonl
      mbc ask
    """
    question = None if not words else " ".join(words)
    if opens and (question is None or json or options.sources == 0):
        raise ConfigError("--open needs a question, and sources shown as text.", hint='mbc ask "Who won?" --open')
    if question is not None and questions is not None:
        raise ConfigError("A question and --questions cannot be combined.", hint="Ask one or the other.")
    if question is not None and not question.strip():
        raise ConfigError("The question is empty.", hint='Ask like this: mbc ask "Who won the race?"')
    is_chat = question is None and questions is None and sys.stdin.isatty() and not json
    # Problems with the questions are reported before a model is loaded.
    batches, total = ([], 0) if question is not None or is_chat else _read_batches(questions)
    from mbc_engine.memory import Conversation

    with memory.open(options):
        if is_chat:
            converse(memory, options)
        elif question is None:
            _answer_all(memory, options, batches, total, as_json=json)
        elif json:
            (answer,) = memory.ask([storable(question)], options)
            print_json(render.answer_json(answer, memory.paths, memory.loading))
        else:
            answer = ask_and_show(Conversation(memory), storable(question), options)
            notes.print(render.timing_summary(answer, memory.loading), style="dim")
            if opens and answer.sources:
                render.open_file(Path(answer.sources[0].path), answer.sources[0].line)


def _read_batches(file: Path | None) -> "tuple[Iterable[Sequence[Question]], int | None]":
    """The questions of a file, which is read completely, or of stdin as they arrive, and how many if that is known."""
    from mbc_engine.datasets.questions import load_questions, no_questions, stream_questions

    if file is not None and file != _STDIN:
        questions = load_questions(file)
        return [questions], len(questions)
    if sys.stdin.isatty():
        notes.print("Type one question per line; finish with Ctrl-D.")
    groups = stream_questions(sys.stdin.buffer, "stdin")
    if (first := next(groups, None)) is None:
        raise no_questions("stdin")
    return chain([first], groups), None


def _answer_all(
    memory: "Memory", options: AskOptions, groups: "Iterable[Sequence[Question]]", total: int | None, *, as_json: bool
) -> None:
    began, answered = time.perf_counter(), 0
    with ProgressView(is_shown=total is not None or not sys.stdin.isatty()) as view:
        for batch in (group[start : start + _BATCH] for group in groups for start in range(0, len(group), _BATCH)):
            answers = memory.ask([question.text for question in batch], options)
            for question, answer in zip(batch, answers, strict=True):
                if as_json:
                    print_json_lines([{"id": question.id, **render.answer_json(answer, memory.paths, memory.loading)}])
                else:
                    out.print(Text(f"? {sanitise(answer.question)}", "cyan"))
                    render.show_answer(answer, with_bank=len(memory.paths) > 1)
                    out.print()
            answered += len(batch)
            view.bar("Answering", total, completed=answered)
    spent, loading = format_duration(time.perf_counter() - began), format_duration(memory.loading)
    view.line(f"{pluralise(answered, 'question')} in {spent} · model {loading}", "dim")


@memory_command(answers=True)
def chat(*, memory: "Memory", options: AskOptions) -> None:
    """Ask questions in a conversation. A follow-up (“and when?”) is completed from the question before it; /help lists
    the other commands.

    Examples:
      mbc chat
      mbc chat --bank work.mbc --since 2024
      mbc chat --llm ollama/qwen3
    """
    with memory.open(options):
        converse(memory, options)


def converse(memory: "Memory", options: AskOptions) -> None:
    from mbc_engine.memory import Conversation

    _, totals, _ = memory.info()
    notes.print(f"{' + '.join(map(display_path, memory.paths))}: {content_summary(totals)}.")
    notes.print("Type a question; /help shows the commands, Ctrl-D quits.")
    history = question_history(memory.paths[0])
    start_line_editor(history, tuple(_COMMANDS))
    conversation = Conversation(memory)
    last: Answer | None = None
    was_interrupted = False
    while True:
        try:
            line = storable(read_line().strip())
        except EOFError:
            notes.print()
            return
        except KeyboardInterrupt:
            notes.print()
            if was_interrupted:
                return
            was_interrupted = True
            notes.print("Press Ctrl-C again, or Ctrl-D, to quit.", style="dim")
            continue
        was_interrupted = False
        word = line.partition(" ")[0]
        try:
            if word == "/quit":
                return
            if _COMMAND.fullmatch(word):
                _run_command(word, memory, last)
            elif word:
                add_question(history, line)
                last = None  # an interrupted question has no sources
                last = ask_and_show(conversation, line, options)
                notes.print(render.timing_summary(last), style="dim")
                out.print()
        except MBCError as error:
            errors.print(Text(sanitise(f"{error.message} {error.hint or ''}".rstrip()), "red"))
        except KeyboardInterrupt:
            notes.print("Stopped.", style="dim")


def ask_and_show(conversation: "Conversation", question: str, options: AskOptions) -> Answer:
    """Answer the next question, and print the answer, on a terminal as it comes."""
    is_begun, memory = False, conversation.memory
    if (standalone := conversation.completed(question)) != question:
        out.print(render.asked_line(standalone))

    def show(piece: str) -> None:
        nonlocal is_begun
        is_begun = True
        out.print(Text(sanitise(piece), "bold"), end="")

    try:
        is_streamed = out.is_terminal and memory.can_stream(options)
        answer = conversation.ask(question, options, on_token=show if is_streamed else None)
    except KeyboardInterrupt:
        if not is_begun and out.is_terminal:  # the terminal has echoed ^C
            out.print()
        raise
    finally:
        if is_begun:
            out.print()
    render.show_answer(answer, with_bank=len(memory.paths) > 1, is_streamed=is_begun)
    return answer


def _run_command(command: str, memory: "Memory", last: Answer | None) -> None:
    sources = last.sources if last is not None else ()
    match command:
        case "/sources" if not sources:
            notes.print("There is no answer yet." if last is None else "The last answer has no sources.")
        case "/sources":
            for number, source in enumerate(sources, 1):
                lines = (source.passage or "(the text is not available)").splitlines()
                is_found = last is not None and last.text is not None
                render.show_source(number, source, lines, with_bank=len(memory.paths) > 1, with_share=is_found)
        case "/open" if sources:
            render.open_file(Path(sources[0].path), sources[0].line)
        case "/open":
            notes.print("There is no source to open.")
        case "/help":
            for name, about in _COMMANDS.items():
                out.print(Text.assemble((f"{name:<10}", "cyan"), about))
            out.print(_ABOUT, soft_wrap=False)
        case _:
            notes.print(f"There is no command {sanitise(command)}; /help lists them.", style="yellow")


def start_line_editor(history: Path, words: Sequence[str] = ()) -> None:
    """Enable line editing, history, and completion of `words`, if `readline` is available."""

    def complete(typed: str, number: int) -> str | None:
        fitting = [word for word in words if word.startswith(typed)]
        return fitting[number] if typed and number < len(fitting) else None

    if readline is None:
        return
    readline.set_auto_history(True)
    readline.set_completer_delims("")
    readline.set_completer(complete)
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    for line in read_questions(history):
        readline.add_history(line)


def read_line() -> str:
    """The next line; "" for one abandoned with Ctrl-C. Raises EOFError, or KeyboardInterrupt on an empty line."""
    if not sys.stdout.isatty():  # keep the prompt out of the piped answers
        notes.print(_PROMPT, end="")
        return input()
    try:
        return input(_PROMPT)
    except KeyboardInterrupt:
        if readline is None or not readline.get_line_buffer():
            raise
        notes.print()
        return ""


@memory_command(answers=False)
def search(
    words: Annotated[list[str], argument("QUERY", "Words or a question; quotes are optional.")],
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
    query are highlighted. In a pipe, each is one line, FILE:LINE:SENTENCE, as from grep. LINE is left out where it is
    not known: in PDF, Word, HTML and tables (there FILE ends with the row), and where the file has changed. --json
    prints whole passages.

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
        note = render.language_note(query) if memory.model.is_english_only else None
        note = render.missing_note(missing) if missing else note
    if files:
        _print_files(sources, ends_with_nul=null)
    elif json:
        passages = [render.passage_json(query, source) for source in sources]
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
            lines = [render.highlight_matches(query, source.sentence)] if source.sentence else []
            render.show_source(number, source, lines, with_bank=with_bank)
        else:
            bank = f"{display_path(source.bank)}:" if with_bank else ""
            print(f"{bank}{render.source_location(source)}:{sanitise(source.sentence or '')}")
            if not source.passage and (state := render.file_state_note(source)):
                notes.print(f"{render.source_location(source)}: {state}", style="yellow")
    sys.stdout.flush()
    if note:
        notes.print(note, style="yellow")
        return
    has_words = any(render.shared_words(query, source) or matches(query, source.path) for source in sources)
    if not has_words and any(source.passage for source in sources):
        notes.print("None of these contains a word of the query; they are the closest in meaning.", style="dim")
