"""`mbc ask`: questions to a bank or several, one, a file of them, or as a conversation."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mbc_cli.options import BanksOption, DeviceOption, JsonOption, ModelOption, ReadOption, WeightsOption
from mbc_engine.answers import Answers

if TYPE_CHECKING:
    from mbc_cli.asker import Asker

_STDIN: Final = Path("-")
_WHICH, _HOW = "Which documents count", "How to answer"


def ask(
    question: Annotated[str | None, typer.Argument(metavar="QUESTION", help="What you want to know.")] = None,
    *,
    bank: BanksOption,
    weight: WeightsOption = None,
    model: ModelOption,
    questions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='Answer the questions of a file: a .jsonl with {"question": ..., "id": ...} a line, or a .txt; '
            "- is stdin.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Only documents from this day on: 2024-05-31, 2024-05 or 2024.",
            rich_help_panel=_WHICH,
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Only documents up to this day, and ages counted back from it.",
            rich_help_panel=_WHICH,
        ),
    ] = None,
    half_life: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Let documents count half as much when they are this much older: days, or 30d, 4w, 6m, 1y "
            "(a month is 30 days, a year 365).",
            rich_help_panel=_WHICH,
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Only documents whose path fits, as in .gitignore: at any depth, unless it begins with / (from the "
            "root), ./ or ~; may be given again.",
            rich_help_panel=_WHICH,
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="No documents whose path fits; may be given again.", rich_help_panel=_WHICH
        ),
    ] = None,
    read: ReadOption = None,
    sources: Annotated[int, typer.Option(min=0, help="How many documents to name.")] = 3,
    answer: Annotated[
        Answers | None,
        typer.Option(
            metavar="both|memory|read",
            show_default="both if the model has a reader, else memory",
            help="Which answer: from memory, which is the bank's codes alone; read in the files they lead to, where "
            "these are still there; or both. A model without a reader of its own reads with its base LM.",
        ),
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Say that the answer from memory is not known where the confidence is below this, 0 to 1: the "
            "probability that the bank holds what was asked.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    beams: Annotated[
        int,
        typer.Option(min=1, help="Width of the beam search; 1 takes the likeliest word.", rich_help_panel=_HOW),
    ] = 1,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.", rich_help_panel=_HOW)] = 16,
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
      mbc ask "Who leads?" --answer memory --min-confidence 0.5
      mbc ask --questions questions.jsonl --json > answers.jsonl
      mbc ask
    """
    from mbc_cli.asker import Manner, opened
    from mbc_cli.selecting import selection

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
            raise ConfigError("There is a question, and a file of questions.", hint="Ask one or the other.")
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
