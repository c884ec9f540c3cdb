"""`mbc ask`: questions to a bank or several, one, a file of them, or as a conversation."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mbc_cli.commands.ask.options import (
    AsOfOption,
    BeamsOption,
    ExcludeOption,
    HalfLifeOption,
    MaxTokensOption,
    MinConfidenceOption,
    OnlyOption,
    QuestionArgument,
    QuestionsOption,
    SinceOption,
    SourcesOption,
)
from mbc_cli.options import BanksOption, DeviceOption, JsonOption, ModelOption, ReadOption, WeightsOption
from mbc_engine.serving.ask_options import AskOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from mbc_cli.asking.asker import Asker

_STDIN: Final = Path("-")


def ask(
    question: QuestionArgument = None,
    *,
    bank: BanksOption,
    weight: WeightsOption = None,
    model: ModelOption,
    questions: QuestionsOption = None,
    since: SinceOption = None,
    as_of: AsOfOption = None,
    half_life: HalfLifeOption = None,
    only: OnlyOption = None,
    exclude: ExcludeOption = None,
    read: ReadOption = None,
    sources: SourcesOption = AskOptions.sources,
    min_confidence: MinConfidenceOption = None,
    beams: BeamsOption = AskOptions.beams,
    max_tokens: MaxTokensOption = AskOptions.max_new_tokens,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Answer questions from banks, with the document each answer was read in and the next best sources.

    The first line of stdout is the answer, or "Not in this memory."; with --json,
    "answer" is then null. Without a question this is a conversation; questions may
    also be piped in, one per line. Several with --json give one line of JSON each,
    in their order.

    \b
    Examples:
      mbc ask "Who repaired the bridge?"
      mbc ask "When was it built?" --bank work.mbc --sources 5 --json
      mbc ask "Who leads?" --bank team.mbc --bank mine.mbc --weight 1 --weight 2
      mbc ask "Who leads?" --since 2024 --half-life 30d --only 'sport/**'
      mbc ask "Who leads?" --min-confidence 0.9
      mbc ask --questions questions.jsonl --json > answers.jsonl
      mbc ask
    """
    from mbc_cli.asking.asker import opened
    from mbc_cli.asking.selecting import selection

    options = AskOptions(
        read_mode=read,
        selection=selection(since, as_of, half_life, only or [], exclude or []),
        sources=sources,
        min_confidence=min_confidence,
        max_new_tokens=max_tokens,
        beams=beams,
    )
    work = _work(question, questions, as_json=json)
    with opened(bank, model, options, device, weights=weight) as asker:
        work(asker)


def _work(question: str | None, file: Path | None, *, as_json: bool) -> "Callable[[Asker], None]":
    """What to do. Whatever is wrong with the questions is found here, before a model is loaded.

    Raises:
        ConfigError: there are two kinds of questions, or an empty one.
        DataError: there are none, or a line is not what it should be.
    """
    from mbc_engine.errors import ConfigError

    if question is not None:
        if file is not None:
            raise ConfigError("A question and --questions cannot be combined.", hint="Ask one or the other.")
        question = question.encode(errors="replace").decode()
        if not question.strip():
            raise ConfigError("The question is empty.", hint='Ask like this: mbc ask "Who won the race?"')
        from mbc_cli.commands.ask.one import ask_one

        return partial(ask_one, question=question, as_json=as_json)
    is_typed = sys.stdin is not None and sys.stdin.isatty()
    if file is None and is_typed and not as_json:
        from mbc_cli.commands.ask.chat import chat

        return chat
    from mbc_cli.commands.ask.batch import ask_all, of_file, of_stdin

    questions = of_stdin() if file is None or file == _STDIN else of_file(file)
    return partial(ask_all, questions=questions, as_json=as_json)
