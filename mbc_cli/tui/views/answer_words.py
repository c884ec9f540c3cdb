"""Answers in words: how sure an answer is, where it was read, and how long it took."""

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from mbc_cli.render.answer import NOT_IN_MEMORY, confidence_line, share_of, state_of, times
from mbc_cli.text import counted, near
from mbc_cli.tui.widgets.turn import Cited, Told
from mbc_engine.bank import origin_name

if TYPE_CHECKING:
    from mbc_engine.serving.ask import Reply, Source

_SURE: Final = ("high", "memory")


def told_of(reply: "Reply") -> Told:
    """An answer as it is shown."""
    read = 0 if reply.codes is None else int(np.count_nonzero(reply.codes))
    codes = f" · {counted(read, 'code')} read" if read else ""
    confidence = confidence_line(reply)
    is_sure = reply.confidence is not None and reply.confidence.label in _SURE
    count = len(reply.sources)
    return Told(
        answer=NOT_IN_MEMORY if reply.answer is None else reply.answer,
        is_found=reply.answer is not None,
        confidence=confidence.plain if confidence else "",
        colour="text-success" if is_sure else "text-warning",
        cited=tuple(map(_cited, reply.sources)),
        heading=counted(count, "source" if reply.answer is not None else "closest passage"),
        spent=f"{times(reply)}{codes}",
    )


def _cited(source: "Source") -> Cited:
    ties = f"tied with {counted(source.ties, 'other')}" if source.ties else ""
    about = "  ".join(filter(None, (source.date, ties)))
    folder, _, name = near(source.path).rpartition(os.sep)
    called = origin_name(name, source.part)
    return Cited(
        name=called,
        folder=folder,
        share=source.share,
        share_text=share_of(source),
        about=about,
        state=state_of(source),
        text_from=_text_from(source),
        sentence=source.sentence,
        passage=source.passage,
    )


def _text_from(source: "Source") -> str:
    """Where the passage that is shown is from."""
    match source.text_from:
        case "file":
            return "from the file"
        case "bank":
            return state_of(source) or "the bank's copy"
    state = f"{own}; " if (own := state_of(source)) else ""
    return f"{state}the bank keeps no copy"
