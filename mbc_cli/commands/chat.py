"""`mbc chat`: a conversation in which follow-up questions are completed."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.text import Text

from mbc_cli.config import add_question, question_history, read_questions
from mbc_cli.engine import open_memory
from mbc_cli.options import (
    AsOfOption,
    BanksOption,
    BeamsOption,
    ConfidenceOption,
    DeviceOption,
    ExcludeOption,
    HalfLifeOption,
    LanguageModelOption,
    MaxTokensOption,
    ModelOption,
    OnlyOption,
    ReadOption,
    SinceOption,
    SourcesOption,
    WeightsOption,
    WriteOption,
)
from mbc_cli.render.answer import asked_line, open_file, show_answer, show_source, timing_summary
from mbc_cli.render.bank import content_summary
from mbc_cli.render.terminal import errors, notes, out
from mbc_cli.text import display_path, sanitise
from mbc_engine.answer import Answer, AskOptions
from mbc_engine.conversation import completed, turn_of
from mbc_engine.errors import MBCError
from mbc_engine.text.decoding import storable

if TYPE_CHECKING:
    from mbc_engine.memory import Memory

try:
    import readline
except ImportError:  # not every system has it
    readline = None  # type: ignore[assignment]

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
_COMMAND: Final = re.compile(r"/\w*")  # a question may begin with a path


def chat(
    *,
    bank: BanksOption,
    weight: WeightsOption = None,
    model: ModelOption,
    since: SinceOption = None,
    as_of: AsOfOption = None,
    half_life: HalfLifeOption = None,
    only: OnlyOption = None,
    exclude: ExcludeOption = None,
    read: ReadOption = None,
    sources: SourcesOption = AskOptions.sources,
    min_confidence: ConfidenceOption = None,
    write: WriteOption = False,
    llm: LanguageModelOption = None,
    beams: BeamsOption = AskOptions.beams,
    max_tokens: MaxTokensOption = None,
    device: DeviceOption = None,
) -> None:
    """Ask one question after the other. Follow-ups are completed from the question before; /help lists what else to type.

    Examples:
      mbc chat
      mbc chat --bank work.mbc --since 2024
      mbc chat --llm ollama/qwen3
    """
    from mbc_cli.question_options import ask_options

    options = ask_options(
        since=since,
        as_of=as_of,
        half_life=half_life,
        only=only,
        exclude=exclude,
        read_mode=read,
        sources=sources,
        min_confidence=min_confidence,
        write=write or None,
        beams=beams,
        max_new_tokens=max_tokens,
    )
    with open_memory(bank, model, device, weights=weight, llm=llm).open(options) as memory:
        converse(memory, options)


def converse(memory: "Memory", options: AskOptions) -> None:
    _, totals, _ = memory.info()
    notes.print(f"{' + '.join(map(display_path, memory.paths))}: {content_summary(totals)}.")
    notes.print("Type a question; /help shows the commands, Ctrl-D quits.")
    start_line_editor(question_history(), tuple(_COMMANDS))
    last: Answer | None = None
    previous: Answer | None = None
    was_interrupted = False
    while True:
        try:
            line = storable(read_line(question_history()).strip())
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
                last = None  # an interrupted question has no sources
                last = previous = ask_and_show(memory, options, line, previous)
                notes.print(timing_summary(last), style="dim")
                out.print()
        except MBCError as error:
            errors.print(Text(sanitise(f"{error.message} {error.hint or ''}".rstrip()), "red"))
        except KeyboardInterrupt:
            notes.print("Stopped.", style="dim")


def ask_and_show(memory: "Memory", options: AskOptions, question: str, previous: Answer | None = None) -> Answer:
    """Answer one question, perhaps a follow-up to the previous one, and print the answer, on a terminal as it comes."""
    is_begun = False
    standalone = completed(question, previous)
    if standalone != question:
        out.print(asked_line(standalone))

    def show(piece: str) -> None:
        nonlocal is_begun
        is_begun = True
        out.print(Text(sanitise(piece), "bold"), end="")

    try:
        is_streamed = out.is_terminal and memory.can_stream(options)
        (answer,) = memory.ask([standalone], options, on_token=show if is_streamed else None, earlier=turn_of(previous))
    except KeyboardInterrupt:
        if not is_begun and out.is_terminal:  # the terminal has echoed ^C
            out.print()
        raise
    finally:
        if is_begun:
            out.print()
    answer = answer.with_question(question)
    show_answer(answer, with_bank=len(memory.paths) > 1, is_streamed=is_begun)
    return answer


def _run_command(command: str, memory: "Memory", last: Answer | None) -> None:
    sources = last.sources if last is not None else ()
    match command:
        case "/sources" if last is None:
            notes.print("There is no answer yet.")
        case "/sources" if not sources:
            notes.print("The last answer has no sources.")
        case "/sources":
            for number, source in enumerate(sources, 1):
                lines = (source.passage or "(the text is not available)").splitlines()
                show_source(number, source, lines, with_bank=len(memory.paths) > 1)
        case "/open" if sources:
            open_file(Path(sources[0].path), sources[0].line)
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


def read_line(history: Path) -> str:
    """The next line; "" for one abandoned with Ctrl-C. Raises EOFError, or KeyboardInterrupt on an empty line."""
    if not sys.stdout.isatty():  # keep the prompt out of the piped answers
        notes.print(_PROMPT, end="")
        return input()
    if readline is None:
        return input(_PROMPT)
    before = readline.get_current_history_length()
    try:
        line = input(_PROMPT)
    except KeyboardInterrupt:
        if not readline.get_line_buffer():
            raise
        notes.print()
        return ""
    if readline.get_current_history_length() > before:  # not for an empty or repeated line
        add_question(history, line)
    return line
