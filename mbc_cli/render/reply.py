"""An answer on the terminal, or as JSON."""

from dataclasses import asdict
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich.text import Text

from mbc_cli.render.consoles import notes, out, print_indented
from mbc_cli.render.text import near, plain, seconds

if TYPE_CHECKING:
    from mbc_engine.serving.ask import Reply, Source

_MINI = "The model mini is small and often wrong: judge by the sentences of the sources."
_STATES = {
    "changed": "the file has changed since it was memorised; `mbc ingest` it again",
    "gone": "the file is no longer there",
    "unreadable": "the file cannot be read now",
}


def show_reply(reply: "Reply", model: str, loading: float) -> None:
    """The answer as the first line of stdout, its sources below; what else there is to say on stderr.

    Args:
        reply: the answer.
        model: the model's name as it was given.
        loading: seconds spent on loading it.
    """
    out.print(plain(reply.answer), style="bold")
    if reply.sources:
        out.print()
    for number, source in enumerate(reply.sources, 1):
        show_source(f"{number}. ", source)
    times = reply.timings
    notes.print(
        f"model {seconds(loading)} · answer {seconds(times.answer)} · sources {seconds(times.sources)}",
        style="dim",
    )
    warn_of_mini(model)


def show_source(label: str, source: "Source") -> None:
    """Where an answer came from, its share of it, and the sentence that fits the question."""
    out.print(
        Text.assemble(label, (named(source), "cyan"), f"  {source.share:.0%}", (f"  {plain(source.date or '')}", "dim"))
    )
    if source.sentence:
        print_indented(source.sentence, by=len(label))
    if source.state in _STATES:
        print_indented(_STATES[source.state], by=len(label), style="yellow")


def named(source: "Source") -> str:
    """A source as `mbc bank` takes it."""
    return near(f"{source.path}#{source.part}" if source.part else source.path)


def warn_of_mini(model: str) -> None:
    """Say on stderr how far to trust the embedded model, if it is that one."""
    if PurePath(model).name.endswith("mini"):
        notes.print(_MINI, style="yellow")


def reply_json(reply: "Reply", bank: str, loading: float) -> dict[str, Any]:
    """Everything about an answer; times in seconds, sizes in bytes."""
    return {
        "question": reply.question,
        "answer": reply.answer,
        "sources": [asdict(source) for source in reply.sources],
        "timings": {"model": round(loading, 4), **{k: round(v, 4) for k, v in asdict(reply.timings).items()}},
        "bank": {
            "path": bank,
            "documents": reply.totals.documents,
            "chunks": reply.totals.chunks,
            "sizes": asdict(reply.sizes),
        },
    }
