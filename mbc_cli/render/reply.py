"""An answer on the terminal, or as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from rich.text import Text

from mbc_cli.render.answer import (
    Showing,
    caution,
    first_answer,
    is_withheld,
    origin,
    place_read,
    source_line,
    state_of,
    times,
    unknown,
    unread,
)
from mbc_cli.render.consoles import notes, out, print_indented
from mbc_cli.text import plain

if TYPE_CHECKING:
    from mbc_engine.serving.ask import ReadAnswer, Reply, Source

_INDENT: Final = 3


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
    """The answer as one line of stdout, what is to be thought of it, a second one, and the sources below.

    What was read comes first; where nothing was, what is remembered does.

    Args:
        reply: the answers.
        showing: what of them.
        is_said: the answer from memory stands there already.
    """
    if reply.read is not None:
        _show_read(reply.read)
    if reply.answers.are_recalled:
        _show_recalled(reply, showing, is_said)
    if (reason := unread(reply)) is not None:
        if reply.answers.are_recalled:
            out.print(reason, style="yellow")
        else:
            _show_nothing(reason)
    if reply.sources:
        out.print()
    for number, source in enumerate(reply.sources, 1):
        show_source(f"{number}. ", source, with_bank=showing.tells_bank)


def _show_read(read: "ReadAnswer") -> None:
    out.print(Text(plain(read.text), "bold"))
    out.print(place_read(read))
    if read.sentence:
        print_indented(read.sentence, by=_INDENT)


def _show_recalled(reply: "Reply", showing: Showing, is_said: bool) -> None:
    if showing.least is not None and is_withheld(reply, showing.least):
        reason = unknown(reply, showing.least)
        if reply.read is None:
            _show_nothing(reason)
        else:
            out.print(f"from memory alone: {reason}", style="yellow")
        return
    if not is_said:
        # In a pipe, nothing is what it is.
        nothing = Text("(no answer)", "dim") if out.is_terminal else Text()
        out.print(Text(plain(reply.answer), "bold") if reply.answer else nothing)
    if (whence := origin(reply, showing)) is not None:
        out.print(whence)


def _show_nothing(reason: str) -> None:
    """Say why there is no answer. What reads its line in a pipe must not take the reason for one."""
    if not out.is_terminal:
        out.print()
    (out if out.is_terminal else notes).print(reason, style="yellow")


def show_source(label: str, source: "Source", *, with_bank: bool = False) -> None:
    """Where an answer came from, its share of it, and the sentence that fits the question."""
    out.print(source_line(label, source, with_bank=with_bank))
    if source.sentence:
        print_indented(source.sentence, by=len(label))
    show_state(source, by=len(label))


def show_state(source: "Source", *, by: int) -> None:
    """What has become of a source's file, if it is not what was memorised."""
    if state := state_of(source):
        print_indented(state, by=by, style="yellow")


def show_times(reply: "Reply", loading: float | None = None) -> None:
    """How long an answer took, on stderr; see `times`."""
    notes.print(times(reply, loading), style="dim")


def warn_of_mini(model: str) -> None:
    """Say on stderr how far to trust the embedded model, if it is that one."""
    if warning := caution(model):
        notes.print(warning, style="yellow")


def reply_json(reply: "Reply", banks: Sequence[Path], loading: float, least: float | None = None) -> dict[str, Any]:
    """Everything about an answer; times in seconds, sizes in bytes, the gain in nats per token.

    What the banks hold and weigh are their sums.
    `answer` is the first of `answers` that there is: the one that was read, or the one from memory unless it is
    withheld. `passages` is how many there were to be read.
    """
    judgement = reply.judgement
    return {
        "question": reply.question,
        "answer": first_answer(reply, least),
        "abstained": is_withheld(reply, least),
        "answers": {"read": reply.read and asdict(reply.read), "memory": reply.answer},
        "passages": reply.passages,
        "confidence": judgement and round(judgement.confidence, 4),
        "origin": judgement and judgement.origin,
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
