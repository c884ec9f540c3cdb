"""The options of `mbc ask` that no other command has.

`mbc ask`: questions to a bank or several, one, a file of them, or as a conversation.

The answers to many questions on the terminal, or as JSON Lines.

Many questions, of a file or as they arrive, in batches.
"""

import io
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from mbc_cli.options import BanksOption, DeviceOption, JsonOption, ModelOption, ReadOption, WeightsOption
from mbc_cli.render.answer import reply_json, show_reply
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import notes, out, print_json_lines
from mbc_cli.text import counted, plain, seconds
from mbc_engine.datasets.questions import Question, arriving_questions, load_questions, no_questions
from mbc_engine.question import AskOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from mbc_cli.asking import Asker
    from mbc_engine.question import Answer


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
    from mbc_cli.asking import opened
    from mbc_cli.options import selection

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
        from mbc_cli.commands.chat import ask_one

        return partial(ask_one, question=question, as_json=as_json)
    is_typed = sys.stdin is not None and sys.stdin.isatty()
    if file is None and is_typed and not as_json:
        from mbc_cli.commands.chat import chat

        return chat

    questions = of_stdin() if file is None or file == _STDIN else of_file(file)
    return partial(ask_all, questions=questions, as_json=as_json)


class BatchView(ProgressView):
    """Shows answers as they come.

    Args:
        banks: the files that are asked.
        loading: seconds spent on loading the model.
        total: how many questions there are, None if nobody knows.
        as_json: a line of JSON for each.
        is_shown: False where questions are typed on the terminal.
    """

    def __init__(
        self,
        banks: Sequence[Path],
        loading: float,
        *,
        total: int | None,
        as_json: bool,
        is_shown: bool,
    ) -> None:
        super().__init__(is_shown=is_shown)
        self._banks, self._loading = banks, loading
        self._total, self._as_json = total, as_json
        self.answered = 0

    def show(self, questions: "Sequence[Question]", replies: "Sequence[Answer]") -> None:
        """A batch."""
        if self._as_json:
            print_json_lines(
                {"id": question.id, **reply_json(reply, self._banks, self._loading)}
                for question, reply in zip(questions, replies, strict=True)
            )
        else:
            for reply in replies:
                self._show(reply)
        self.answered += len(replies)
        self.bar("Answering", self._total, completed=self.answered)

    def _show(self, reply: "Answer") -> None:
        out.print(Text(f"? {plain(reply.question)}", "cyan"))
        show_reply(reply, with_bank=len(self._banks) > 1)
        out.print()

    def finish(self, spent: float) -> None:
        """How long it took, apart from loading the model."""
        self.line(f"{counted(self.answered, 'question')} in {seconds(spent)} · model {seconds(self._loading)}", "dim")


BATCH: Final = 16


@dataclass(frozen=True)
class Questions:
    """What is asked.

    Attributes:
        groups: questions that are there together.
        total: how many there are, None if nobody knows.
        is_typed: whether they come from a terminal.
    """

    groups: Iterable[Sequence[Question]]
    total: int | None
    is_typed: bool = False


def of_file(path: Path) -> Questions:
    """The questions of a file.

    Raises:
        DataError: there are none, or a line is not what it should be.
    """
    questions = load_questions(path)
    return Questions([questions], len(questions))


def of_stdin() -> Questions:
    """Questions as they arrive; waits for the first.

    Raises:
        DataError: there are none, or the first is not what it should be; for a later one, when it is its turn.
    """
    is_typed = sys.stdin is not None and sys.stdin.isatty()
    if is_typed:
        notes.print("Type one question per line; finish with Ctrl-D.")
    groups = arriving_questions(sys.stdin.buffer if sys.stdin is not None else io.BytesIO(), "stdin")
    first = next(groups, None)
    if first is None:
        raise no_questions("stdin")
    return Questions(chain([first], groups), None, is_typed)


def ask_all(asker: "Asker", *, questions: Questions, as_json: bool) -> None:
    """Answer questions in their order."""
    began = time.perf_counter()
    view = BatchView(
        asker.paths,
        asker.loading,
        total=questions.total,
        as_json=as_json,
        is_shown=not questions.is_typed,
    )
    with view:
        for batch in _batches(questions.groups):
            view.show(batch, asker.ask([question.text for question in batch]))
    view.finish(time.perf_counter() - began)


def _batches(groups: Iterable[Sequence[Question]]) -> Iterator[list[Question]]:
    for group in groups:
        rest = iter(group)
        while batch := list(islice(rest, BATCH)):
            yield batch
