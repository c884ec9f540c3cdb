"""An answer's parts as text, for whoever shows it."""

import math
from typing import TYPE_CHECKING, Final

from rich.text import Text

from mbc_cli.text import counted, near, plain, seconds
from mbc_engine.bank import origin_name

if TYPE_CHECKING:
    from mbc_engine.serving.ask import Confidence, Reply, Source

# Said in the place of an answer.
NOT_IN_MEMORY: Final = "Not in this memory."
FILE_STATES: Final = {
    "changed": "the file has changed since",
    "gone": "the file no longer exists",
    "unreadable": "the file cannot be read",
}
_COLOURS: Final = {"high": "green", "medium": "yellow", "low": "yellow"}
# Where an answer of a model of the paper's method comes from.
_ORIGINS: Final = {
    "memory": ("from memory", "green"),
    "model": ("from the model alone", "yellow"),
    "unsure": ("from memory or from the model alone", "yellow"),
}


def is_read(reply: "Reply") -> bool:
    """Whether there is an answer, and it was read in a text rather than generated."""
    return reply.answer is not None and reply.gain is None


def confidence_line(reply: "Reply") -> Text | None:
    """How far to trust an answer and where it was read; None if nothing is known of that, or there is no answer."""
    if reply.answer is None or reply.confidence is None:
        return None
    told = confidence_words(reply.confidence)
    return Text.assemble(told, ", ", place_read(reply.sources[0])) if is_read(reply) and reply.sources else told


def confidence_words(confidence: "Confidence") -> Text:
    """How likely it is that an answer is right; of a generated one, where it comes from."""
    likely = percent(confidence.probability)
    if confidence.label in _ORIGINS:
        return Text.assemble(_ORIGINS[confidence.label], f" ({likely} likely that the bank holds the answer)")
    return Text(f"{likely} confident ({confidence.label})", _COLOURS[confidence.label])


def place_read(source: "Source") -> Text:
    """Where an answer was read: the file, or the bank's copy of it and what has become of the file."""
    if source.text_from != "bank":
        return Text.assemble("read in ", (named(source), "cyan"))
    state = f"; {FILE_STATES[source.state]}" if source.state in FILE_STATES else ""
    return Text.assemble("read in the bank's copy of ", (named(source), "cyan"), state)


def sources_heading(reply: "Reply") -> str:
    """What the sources below an answer are, but for the one that `confidence_line` names already."""
    if reply.answer is None:
        return "Closest passages:"
    return "Other sources:" if is_read(reply) else "Sources:"


def source_line(label: str, source: "Source", *, with_bank: bool = False) -> Text:
    """A source's name, bank if that is to be told, share, date, and how many others have the same share."""
    bank = f"  in {near(source.bank)}" if with_bank else ""
    date = f"  {plain(source.date)}" if source.date else ""
    ties = f"  tied with {counted(source.ties, 'other')}" if source.ties else ""
    return Text.assemble(label, (named(source), "cyan"), (bank, "dim"), f"  {share_of(source)}", (date, "dim"), ties)


def share_of(source: "Source") -> str:
    """A source's share of the search; of one that is named, it is more than nothing."""
    return f"{source.share:.0%}" if source.share >= 0.005 else "<1%"


def state_of(source: "Source") -> str | None:
    """What has become of a source's file, if it is no longer what was ingested."""
    if source.state not in FILE_STATES:
        return None
    copy = "; this is the bank's copy" if source.text_from == "bank" else ""
    return f"{FILE_STATES[source.state]}{copy}"


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
    return f"{model}search {seconds(spent.search)} · answer {seconds(spent.answer)} · sources {seconds(spent.sources)}"


def percent(probability: float) -> str:
    """Rounded down, so that what is below a bound looks so; the smallest part makes up for binary fractions."""
    return f"{math.floor(100 * probability + 1e-9)}%"
