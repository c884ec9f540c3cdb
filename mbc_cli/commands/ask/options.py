"""The options of `mbc ask` that no other command has."""

from pathlib import Path
from typing import Annotated

import typer

_WHICH, _HOW = "Which documents count", "Models of the paper's method"

QuestionArgument = Annotated[str | None, typer.Argument(metavar="QUESTION", help="What you want to know.")]
QuestionsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help='Answer the questions in a file: a .jsonl with {"question": ..., "id": ...} per line, or a .txt; '
        "- is stdin.",
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        metavar="DATE", help="Only documents from this date on: 2024-05-31, 2024-05 or 2024.", rich_help_panel=_WHICH
    ),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        metavar="DATE", help="Only documents up to this date; ages are counted back from it.", rich_help_panel=_WHICH
    ),
]
HalfLifeOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Halve a document's weight for each such period of age: days, or 30d, 4w, 6m, 1y "
        "(a month is 30 days, a year 365).",
        rich_help_panel=_WHICH,
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Only documents whose path matches, as in .gitignore: at any depth, unless it begins with / (from the "
        "root), ./ or ~; may be repeated.",
        rich_help_panel=_WHICH,
    ),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="No documents whose path matches; may be repeated.", rich_help_panel=_WHICH),
]
SourcesOption = Annotated[int, typer.Option(min=0, help="How many documents to name.")]
MinConfidenceOption = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        show_default="the model's own",
        help="Give no answer below this confidence, from 0 to 1; 0 always answers. For mini, confidence is the "
        "probability that the answer is right; for a calibrated model of the paper's method, that the bank holds it.",
    ),
]
BeamsOption = Annotated[
    int,
    typer.Option(
        min=1, help="Width of the beam search; 1 takes the likeliest word. No effect with mini.", rich_help_panel=_HOW
    ),
]
MaxTokensOption = Annotated[
    int, typer.Option(min=1, help="Longest answer, in tokens. No effect with mini.", rich_help_panel=_HOW)
]
