"""Answers in words: what was said and read, where that comes from, and how long it took."""

import os
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from mbc_cli.render.answer import Showing, origin, place_read, state_of, times, unread
from mbc_cli.text import counted, near, plain
from mbc_cli.tui.widgets.turn import Cited, Told
from mbc_engine.bank import origin_name

if TYPE_CHECKING:
    from mbc_engine.serving.ask import Reply, Source


def told_of(reply: "Reply", showing: Showing) -> Told:
    """An answer as it is shown."""
    read = 0 if reply.codes is None else int(np.count_nonzero(reply.codes))
    codes = f" · {counted(read, 'code')} read" if read else ""
    whence = origin(reply, showing) if reply.answers.are_recalled else None
    return Told(
        read=_told_read(reply),
        answer=reply.answer,
        origin=whence.plain if whence else "",
        colour="text-success" if reply.judgement and reply.judgement.origin == "memory" else "text-warning",
        cited=tuple(map(_cited, reply.sources)),
        spent=f"{times(reply)}{codes}",
    )


def _told_read(reply: "Reply") -> Text:
    """What was read and where, or why nothing was, as far as something was to be."""
    read = reply.read
    if read is None:
        return Text(unread(reply) or "", "dim")
    sentence = f"\n{plain(read.sentence)}" if read.sentence else ""
    return Text.assemble((plain(read.text), "bold"), "\n", place_read(read), (sentence, "dim"))


def _cited(source: "Source") -> Cited:
    ties = f"tied with {counted(source.ties, 'other')}" if source.ties else ""
    about = "  ".join(filter(None, (source.date, ties)))
    folder, _, name = near(source.path).rpartition(os.sep)
    called = origin_name(name, source.part)
    return Cited(called, folder, source.share, about, state_of(source), source.sentence, source.passage)
