"""`mbc ask`: put a question, a file of questions or a conversation to one or several banks."""

import sys
import time
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from mbc_cli.commands.chat import ask_and_show, converse
from mbc_cli.engine import open_memory
from mbc_cli.options import (
    AsOfOption,
    BanksOption,
    BeamsOption,
    ConfidenceOption,
    DeviceOption,
    ExcludeOption,
    HalfLifeOption,
    JsonOption,
    LanguageModelOption,
    MaxTokensOption,
    ModelOption,
    OnlyOption,
    ReadOption,
    SinceOption,
    SourcesOption,
    WeightsOption,
    WriteOption,
    option,
)
from mbc_cli.render.answer import answer_json, open_file, show_answer, timing_summary
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import notes, out, print_json, print_json_lines
from mbc_cli.text import format_duration, pluralise, sanitise
from mbc_engine.answer import AskOptions
from mbc_engine.datasets.questions import Question, load_questions, no_questions, stream_questions
from mbc_engine.errors import ConfigError
from mbc_engine.text.decoding import storable

if TYPE_CHECKING:
    from mbc_engine.memory import Memory

_STDIN: Final = Path("-")
_BATCH: Final = 16

_QUESTIONS = (
    'Answer the questions in a file: a .jsonl with {"question": ..., "id": ...} per line, or a .txt; - is stdin.'
)
_OPEN = "Afterwards, open the first source at its line, in $VISUAL, $EDITOR or $PAGER."


def ask(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="QUESTION", help="What you want to know; quotes are optional.")
    ] = None,
    *,
    bank: BanksOption,
    weight: WeightsOption = None,
    model: ModelOption,
    questions: Annotated[Path | None, option(_QUESTIONS, metavar="FILE")] = None,
    since: SinceOption = None,
    as_of: AsOfOption = None,
    half_life: HalfLifeOption = None,
    only: OnlyOption = None,
    exclude: ExcludeOption = None,
    read: ReadOption = None,
    sources: SourcesOption = AskOptions.sources,
    opens: Annotated[bool, option(_OPEN, "--open")] = False,
    min_confidence: ConfidenceOption = None,
    write: WriteOption = False,
    llm: LanguageModelOption = None,
    beams: BeamsOption = AskOptions.beams,
    max_tokens: MaxTokensOption = None,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Answer questions from your banks, citing the files that each answer comes from.

    The first line of stdout is the answer, "Perhaps: " and the answer if the model is not sure of it, or "Not in this
    memory."; with --json, "tentative" is then true, or "answer" null. A question for several things (who are, what
    happened, how do I) gets all of them, a line each. Without a question, this is `mbc chat`; questions can also
    be piped in, one per line. With --json, each of several questions gets one line of JSON, in order.

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
    question = None if not words else " ".join(words)
    if opens and (question is None or json or sources == 0):
        raise ConfigError("--open needs a question, and sources shown as text.", hint='mbc ask "Who won?" --open')
    if question is not None and questions is not None:
        raise ConfigError("A question and --questions cannot be combined.", hint="Ask one or the other.")
    if question is not None and not question.strip():
        raise ConfigError("The question is empty.", hint='Ask like this: mbc ask "Who won the race?"')
    is_chat = question is None and questions is None and sys.stdin.isatty() and not json
    # Problems with the questions are reported before a model is loaded.
    batches, total = ([], 0) if question is not None or is_chat else _read_batches(questions)
    with open_memory(bank, model, device, weights=weight, llm=llm).open(options) as memory:
        if is_chat:
            converse(memory, options)
        elif question is None:
            _answer_all(memory, options, batches, total, as_json=json)
        elif json:
            (answer,) = memory.ask([storable(question)], options)
            print_json(answer_json(answer, memory.paths, memory.loading))
        else:
            answer = ask_and_show(memory, options, storable(question))
            notes.print(timing_summary(answer, memory.loading), style="dim")
            if opens and answer.sources:
                open_file(Path(answer.sources[0].path), answer.sources[0].line)


def _read_batches(file: Path | None) -> tuple[Iterable[Sequence[Question]], int | None]:
    """The questions of a file, which is read completely, or of stdin as they arrive, and how many if that is known."""
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
    memory: "Memory", options: AskOptions, groups: Iterable[Sequence[Question]], total: int | None, *, as_json: bool
) -> None:
    began, answered = time.perf_counter(), 0
    with ProgressView(is_shown=total is not None or not sys.stdin.isatty()) as view:
        for batch in (group[start : start + _BATCH] for group in groups for start in range(0, len(group), _BATCH)):
            answers = memory.ask([question.text for question in batch], options)
            for question, answer in zip(batch, answers, strict=True):
                if as_json:
                    row = answer_json(answer, memory.paths, memory.loading)
                    print_json_lines([{"id": question.id, **row}])
                else:
                    out.print(Text(f"? {sanitise(answer.question)}", "cyan"))
                    show_answer(answer, with_bank=len(memory.paths) > 1)
                    out.print()
            answered += len(batch)
            view.bar("Answering", total, completed=answered)
    spent, loading = format_duration(time.perf_counter() - began), format_duration(memory.loading)
    view.line(f"{pluralise(answered, 'question')} in {spent} · model {loading}", "dim")
