"""A bank to memorise into, and what is kept of the work for whoever watches it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mbc_engine.bank import MemoryBank
    from mbc_engine.events import Event
    from mbc_engine.load import Model


@contextmanager
def opened(
    model: "Model", path: Path, *, keeps_origins: bool = True, keeps_text: bool | None = None
) -> Iterator["MemoryBank"]:
    """`open_bank` for a while. A bank made for it goes again if it is left empty, whatever happened."""
    from mbc_engine.bank import delete
    from mbc_engine.bank.database import bytes_at, wal_of
    from mbc_engine.lm.coding import open_bank

    is_new, is_empty = not bytes_at(path), False
    try:
        with open_bank(model, path, keeps_origins=keeps_origins, keeps_text=keeps_text) as memory:
            try:
                yield memory
            finally:
                is_empty = memory.totals().documents == 0
    finally:
        # While another process has the bank open, which may be filling it, its log is still there.
        if is_new and is_empty and not wal_of(path).exists():
            delete(path)


def noted(events: Iterator["Event"], bank: "MemoryBank", path: Path) -> Iterator["Event"]:
    """Events on their way, kept for whoever watches the bank; of one that is to know no names, nothing is kept."""
    from mbc_cli.paths import activity_log
    from mbc_engine.runs.ingests import recorded

    return recorded(events, activity_log(path)) if bank.header.keeps_origins else events
