"""`mbc ask`: questions to a bank or several, one, a file of them, or as a conversation."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mbc_cli.asking.manner import Manner
from mbc_cli.commands.ask.options import (
    AnswerOption,
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
    sources: SourcesOption = Manner.sources,
    answer: AnswerOption = None,
    min_confidence: MinConfidenceOption = None,
    beams: BeamsOption = Manner.beams,
    max_tokens: MaxTokensOption = Manner.max_tokens,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Answer questions from banks and name the documents the answers came from.

    The answer read in a file comes first, with its place, then the one from
    memory alone. The first line of stdout is an answer, empty where none can be
    told. Without a question this is a conversation; what is piped in is taken as
    questions, one a line. Several with --json give a line of JSON each, in order.

    \b
    Examples:
      mbc ask "Who repaired the bridge?"
      mbc ask "When was it built?" --bank work.mbc --sources 5 --json
      mbc ask "Who leads?" --bank team.mbc --bank mine.mbc --weight 1 --weight 2
      mbc ask "Who leads?" --since 2024 --half-life 30d --only 'sport/**'
      mbc ask "Who leads?" --answer memory
      mbc ask --questions questions.jsonl --json > answers.jsonl
      mbc ask
    """
    from mbc_cli.asking.asker import opened
    from mbc_cli.asking.selecting import selection

    manner = Manner(
        answers=answer,
        read=read,
        selection=selection(since, as_of, half_life, only or [], exclude or []),
        sources=sources,
        max_tokens=max_tokens,
        beams=beams,
        least=min_confidence,
    )
    work = _work(question, questions, as_json=json)
    with opened(bank, model, manner, device, weights=weight) as asker:
        work(asker)


def _work(question: str | None, file: Path | None, *, as_json: bool) -> "Callable[[Asker], None]":
    """What is to be done. Whatever is wrong with the questions is found here, before a model is loaded.

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
