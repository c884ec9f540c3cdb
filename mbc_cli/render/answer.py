"""An answer's parts as text, for whoever shows it."""

import math
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from rich.text import Text

from mbc_cli.text import counted, near, plain, seconds
from mbc_engine.bank import origin_name
from mbc_engine.serving.answers import Answers

if TYPE_CHECKING:
    from mbc_engine.serving.ask import ReadAnswer, Reply, Source

_MINI: Final = "mini"
_OF_MINI: Final = "The model mini is small and often wrong from memory: judge by the sentences."
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
# The same beside an answer that was read.
_ORIGINS_ALONE: Final = {
    "memory": ("from memory alone", "green"),
    "model": ("from the model alone", "yellow"),
    "unsure": ("from memory alone, unsure", "yellow"),
}


@dataclass(frozen=True)
class Showing:
    """What is shown of answers.

    Attributes:
        least: the confidence below which those from memory are withheld; None for never.
        tells_confidence: False where the model's confidence is the same for all answers.
        tells_bank: whether sources say which bank they are from, which matters where there are several.
    """

    least: float | None
    tells_confidence: bool
    tells_bank: bool = False


def is_withheld(reply: "Reply", least: float | None) -> bool:
    """Whether an answer from memory is too unsure to be told."""
    return least is not None and reply.judgement is not None and reply.judgement.confidence < least


def first_answer(reply: "Reply", least: float | None) -> str | None:
    """The answer to take if one is wanted: what was read, or else what is remembered; None if neither is to be told."""
    if reply.read is not None:
        return reply.read.text
    return None if is_withheld(reply, least) else reply.answer


def origin(reply: "Reply", showing: Showing) -> Text | None:
    """Where an answer from memory comes from, as far as its model can tell."""
    judgement, is_alone = reply.judgement, reply.answers is Answers.BOTH
    if judgement is None:
        return Text("from memory alone") if is_alone else None
    confidence = f", confidence {percent(judgement.confidence)}" if showing.tells_confidence else ""
    return Text.assemble((_ORIGINS_ALONE if is_alone else _ORIGINS)[judgement.origin], confidence)


def unknown(reply: "Reply", least: float) -> str:
    """What is said in the place of an answer that is withheld."""
    assert reply.judgement is not None
    return f"I do not know (confidence {percent(reply.judgement.confidence)}, below {100 * least:g}%)."


def place_read(read: "ReadAnswer") -> Text:
    """Where an answer was read."""
    if read.path is None:
        return Text("read in the sources")
    return Text.assemble("read in ", (near(origin_name(read.path, read.part)), "cyan"))


def unread(reply: "Reply") -> str | None:
    """Why there is no answer that was read, where there was to be one."""
    if reply.read is not None or not reply.answers.are_read:
        return None
    return "no answer in the files" if reply.passages else "no file is there to be read"


def source_line(label: str, source: "Source", *, with_bank: bool = False) -> Text:
    """A source's name, bank if that is to be told, share, date, and how many others have the same share."""
    bank = f"  in {near(source.bank)}" if with_bank else ""
    date = f"  {plain(source.date)}" if source.date else ""
    ties = f"  tied with {counted(source.ties, 'other')}" if source.ties else ""
    return Text.assemble(label, (named(source), "cyan"), (bank, "dim"), f"  {source.share:.0%}", (date, "dim"), ties)


def state_of(source: "Source") -> str | None:
    """What has become of a source's file, if it is not what was memorised."""
    return _STATES.get(source.state)


def named(source: "Source") -> str:
    """A source as `mbc bank` takes it."""
    return near(origin_name(source.path, source.part))


def times(reply: "Reply", loading: float | None = None) -> str:
    """How long an answer took.

    Args:
        reply: the answer.
        loading: seconds spent on loading the model; None if that is long ago.
    """
    model = "" if loading is None else f"model {seconds(loading)} · "
    spent = reply.timings
    reading = f" · reading {seconds(spent.reading)}" if spent.reading else ""
    return f"{model}answer {seconds(spent.answer)} · sources {seconds(spent.sources)}{reading}"


def caution(model: str) -> str | None:
    """How far to trust the embedded model, if it is that one."""
    return _OF_MINI if PurePath(model).name == _MINI else None


def percent(probability: float) -> str:
    """Rounded down, so that what is below a bound looks so; the smallest part makes up for binary fractions."""
    return f"{math.floor(100 * probability + 1e-9)}%"
