"""An answer on the terminal, or as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from rich.text import Text

from mbc_cli.render.answer import (
    NOT_IN_MEMORY,
    confidence_line,
    is_read,
    source_line,
    sources_heading,
    state_of,
    times,
)
from mbc_cli.render.consoles import notes, out, print_indented
from mbc_cli.text import plain

if TYPE_CHECKING:
    from mbc_engine.serving.ask import Reply, Source

_INDENT: Final = 3


class AnswerStream:
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


def show_reply(reply: "Reply", *, with_bank: bool = False, is_streamed: bool = False) -> None:
    """The answer as the first line of stdout, or that there is none; how sure it is, where it was read, and sources.

    Args:
        reply: the answer.
        with_bank: sources say which bank they are from, which matters where there are several.
        is_streamed: the answer stands there already.
    """
    if not is_streamed:
        out.print(_first_line(reply))
    if (line := confidence_line(reply)) is not None:
        out.print(line)
    sources = list(reply.sources)
    if is_read(reply) and sources and (sentence := sources.pop(0).sentence):
        print_indented(sentence, by=_INDENT)
    if sources:
        out.print()
        out.print(sources_heading(reply))
    for number, source in enumerate(sources, 1):
        show_source(f"{number}. ", source, with_bank=with_bank)


def _first_line(reply: "Reply") -> Text:
    if reply.answer is None:
        return Text(NOT_IN_MEMORY, "yellow")
    if not reply.answer:  # a base LM may generate nothing; in a pipe that is what it is
        return Text("(no answer)", "dim") if out.is_terminal else Text()
    return Text(plain(reply.answer), "bold")


def show_source(label: str, source: "Source", *, with_bank: bool = False) -> None:
    """A document, its share of the search, and the sentence that fits the question best."""
    out.print(source_line(label, source, with_bank=with_bank))
    if source.sentence:
        print_indented(source.sentence, by=len(label))
    show_state(source, by=len(label))


def show_state(source: "Source", *, by: int) -> None:
    """What has become of a source's file, if it is no longer what was ingested."""
    if state := state_of(source):
        print_indented(state, by=by, style="yellow")


def show_times(reply: "Reply", loading: float | None = None) -> None:
    """How long an answer took, on stderr; see `times`."""
    notes.print(times(reply, loading), style="dim")


def reply_json(reply: "Reply", banks: Sequence[Path], loading: float) -> dict[str, Any]:
    """Everything about an answer; times in seconds, sizes in bytes, the gain in nats per token.

    What the banks hold and weigh are their sums. `answer` is null where it is not in this memory; `confidence` is then
    that of the answer that was withheld.
    """
    confidence = reply.confidence
    return {
        "question": reply.question,
        "answer": reply.answer,
        "confidence": confidence and round(confidence.probability, 4),
        "label": confidence and confidence.label,
        "gain": reply.gain and round(reply.gain, 4),
        "sources": [source_json(source) for source in reply.sources],
        "timings": {"model": round(loading, 4), **{k: round(v, 4) for k, v in asdict(reply.timings).items()}},
        "bank": {
            "paths": [str(path) for path in banks],
            "documents": reply.totals.documents,
            "chunks": reply.totals.chunks,
            "sizes": asdict(reply.sizes),
        },
    }


def source_json(source: "Source") -> dict[str, Any]:
    """A source without its passage, which is as long as it likes."""
    return {name: value for name, value in asdict(source).items() if name != "passage"}
