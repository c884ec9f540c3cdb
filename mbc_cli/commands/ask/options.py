"""The options of `mbc ask` that no other command has."""

from pathlib import Path
from typing import Annotated

import typer
from mbc_engine.serving.answers import Answers

_WHICH, _HOW = "Which documents count", "How to answer"

QuestionArgument = Annotated[str | None, typer.Argument(metavar="QUESTION", help="What you want to know.")]
QuestionsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help='Answer the questions of a file: a .jsonl with {"question": ..., "id": ...} a line, or a .txt; '
        "- is stdin.",
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        metavar="DATE", help="Only documents from this day on: 2024-05-31, 2024-05 or 2024.", rich_help_panel=_WHICH
    ),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        metavar="DATE", help="Only documents up to this day, and ages counted back from it.", rich_help_panel=_WHICH
    ),
]
HalfLifeOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Let documents count half as much when they are this much older: days, or 30d, 4w, 6m, 1y "
        "(a month is 30 days, a year 365).",
        rich_help_panel=_WHICH,
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Only documents whose path fits, as in .gitignore: at any depth, unless it begins with / (from the "
        "root), ./ or ~; can be repeated.",
        rich_help_panel=_WHICH,
    ),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="No documents whose path fits; can be repeated.", rich_help_panel=_WHICH),
]
SourcesOption = Annotated[int, typer.Option(min=0, help="How many documents to name.")]
AnswerOption = Annotated[
    Answers | None,
    typer.Option(
        metavar="both|memory|read",
        show_default="both if the model has a reader, else memory",
        help="Which answer: from memory, which is the bank's codes alone; read in the files they lead to, where "
        "these are still there; or both. A model without a reader of its own reads with its base LM.",
    ),
]
MinConfidenceOption = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="Say that the answer from memory is not known where the confidence is below this, 0 to 1: the "
        "probability that the bank holds what was asked.",
        rich_help_panel=_HOW,
    ),
]
BeamsOption = Annotated[
    int, typer.Option(min=1, help="Width of the beam search; 1 takes the likeliest word.", rich_help_panel=_HOW)
]
MaxTokensOption = Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.", rich_help_panel=_HOW)]
