"""An answer on the terminal, or as JSON."""

import math
from dataclasses import asdict, dataclass
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from rich.text import Text

from mbc_cli.render.consoles import notes, out, print_indented
from mbc_cli.render.text import counted, near, plain, seconds

if TYPE_CHECKING:
    from mbc_engine.model.confidence import Judgement
    from mbc_engine.serving.ask import Reply, Source

_MINI: Final = "mini"
_OF_MINI: Final = "The model mini is small and often wrong: judge by the sentences of the sources."
_STATES: Final = {
    "changed": "the file has changed since it was memorised; `mbc ingest` it again",
    "gone": "the file is no longer there",
    "unreadable": "the file cannot be read now",
}
_ORIGINS: Final = {
    "memory": ("from memory", "green"),
    "model": ("from the model alone", "yellow"),
    "unsure": ("unsure", "yellow"),
}


@dataclass(frozen=True)
class Showing:
    """What is shown of answers.

    Attributes:
        least: the confidence below which they are withheld; None for never.
        reads_sources: whether there should be a second answer, from the passages.
        tells_confidence: False where the model's confidence is the same for all answers.
    """

    least: float | None
    reads_sources: bool
    tells_confidence: bool


class Saying:
    """An answer while it is generated: call it with the pieces. The line ends with the `with` block."""

    def __init__(self) -> None:
        self.has_begun = False

    def __call__(self, piece: str) -> None:
        self.has_begun = True
        out.print(Text(plain(piece), "bold"), end="")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        is_behind_ctrl_c = kind is KeyboardInterrupt and out.is_terminal  # which shows as ^C
        if self.has_begun or is_behind_ctrl_c:
            out.print()


def show_reply(reply: "Reply", showing: Showing, *, is_said: bool = False) -> None:
    """The answer as one line of stdout, what is to be thought of it and its sources below.

    Args:
        reply: the answer.
        showing: what of it.
        is_said: the answer itself stands there already.
    """
    if is_withheld(reply, showing.least):
        assert reply.judgement is not None and showing.least is not None
        confidence = _percent(reply.judgement.confidence)
        if not out.is_terminal:
            out.print()  # the answer's line: what reads it must not take the sentence for an answer
        told = out if out.is_terminal else notes
        told.print(f"I do not know (confidence {confidence}, below {100 * showing.least:g}%).", style="yellow")
    else:
        _show_answer(reply, showing, is_said)
    if reply.sources:
        out.print()
    for number, source in enumerate(reply.sources, 1):
        show_source(f"{number}. ", source)


def _show_answer(reply: "Reply", showing: Showing, is_said: bool) -> None:
    if not is_said:
        # In a pipe, nothing is what it is.
        nothing = Text("(no answer)", "dim") if out.is_terminal else Text()
        out.print(Text(plain(reply.answer), "bold") if reply.answer else nothing)
    if reply.judgement is not None:
        out.print(_origin(reply.judgement, showing))
    if reply.read_answer is not None:
        out.print(Text.assemble("after reading the sources: ", (plain(reply.read_answer), "bold")))
    elif showing.reads_sources:
        out.print("The sources cannot be read: there is no second answer.", style="yellow")


def _origin(judgement: "Judgement", showing: Showing) -> Text:
    confidence = f", confidence {_percent(judgement.confidence)}" if showing.tells_confidence else ""
    return Text.assemble(_ORIGINS[judgement.origin], confidence)


def is_withheld(reply: "Reply", least: float | None) -> bool:
    """Whether an answer is too unsure to be told."""
    return least is not None and reply.judgement is not None and reply.judgement.confidence < least


def show_source(label: str, source: "Source") -> None:
    """Where an answer came from, its share of it, and the sentence that fits the question."""
    out.print(source_line(label, source))
    if source.sentence:
        print_indented(source.sentence, by=len(label))
    show_state(source, by=len(label))


def source_line(label: str, source: "Source") -> Text:
    """A source's name, share, date, and how many others have the same share."""
    date = f"  {plain(source.date)}" if source.date else ""
    ties = f"  tied with {counted(source.ties, 'other')}" if source.ties else ""
    return Text.assemble(label, (named(source), "cyan"), f"  {source.share:.0%}", (date, "dim"), ties)


def show_state(source: "Source", *, by: int) -> None:
    """What has become of a source's file, if it is not what was memorised."""
    if source.state in _STATES:
        print_indented(_STATES[source.state], by=by, style="yellow")


def named(source: "Source") -> str:
    """A source as `mbc bank` takes it."""
    return near(f"{source.path}#{source.part}" if source.part else source.path)


def show_times(reply: "Reply", loading: float | None = None) -> None:
    """How long an answer took, on stderr.

    Args:
        reply: the answer.
        loading: seconds spent on loading the model; None if that is long ago.
    """
    model = "" if loading is None else f"model {seconds(loading)} · "
    times = reply.timings
    reading = f" · reading {seconds(times.reading)}" if times.reading else ""
    notes.print(f"{model}answer {seconds(times.answer)} · sources {seconds(times.sources)}{reading}", style="dim")


def warn_of_mini(model: str) -> None:
    """Say on stderr how far to trust the embedded model, if it is that one."""
    if PurePath(model).name == _MINI:
        notes.print(_OF_MINI, style="yellow")


def reply_json(reply: "Reply", bank: str, loading: float, least: float | None = None) -> dict[str, Any]:
    """Everything about an answer; times in seconds, sizes in bytes, the gain in nats per token.

    `answer` is null where it is withheld; `answers` has what the model said from the codes alone, and from the
    passages of the sources too if it was to read them and could.
    """
    judgement, abstained = reply.judgement, is_withheld(reply, least)
    return {
        "question": reply.question,
        "answer": None if abstained else reply.answer,
        "abstained": abstained,
        "answers": {"codes": reply.answer, "sources": reply.read_answer},
        "confidence": judgement and round(judgement.confidence, 4),
        "origin": judgement and judgement.origin,
        "gain": round(reply.gain, 4),
        "sources": [source_json(source) for source in reply.sources],
        "timings": {"model": round(loading, 4), **{k: round(v, 4) for k, v in asdict(reply.timings).items()}},
        "bank": {
            "path": bank,
            "documents": reply.totals.documents,
            "chunks": reply.totals.chunks,
            "sizes": asdict(reply.sizes),
        },
    }


def source_json(source: "Source") -> dict[str, Any]:
    """A source without its passage, which is as long as it likes."""
    return {name: value for name, value in asdict(source).items() if name != "passage"}


def _percent(probability: float) -> str:
    """Rounded down, so that what is below a bound looks so; the smallest part makes up for binary fractions."""
    return f"{math.floor(100 * probability + 1e-9)}%"
