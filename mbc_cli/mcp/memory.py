"""The memory that the tools share: a model, loaded when it is first needed, and its banks. It belongs to one thread."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mbc_cli.asking.asker import Asker
from mbc_engine.bank import Banks, BankSizes, BankTotals
from mbc_engine.errors import BankError
from mbc_engine.serving.ask_options import AskOptions

if TYPE_CHECKING:
    from mbc_engine.documents import Found
    from mbc_engine.events import Event
    from mbc_engine.serving.ask import Reply, Source


@dataclass(frozen=True)
class Held:
    """What the banks hold together, their sizes, and the model that wrote them."""

    model: str
    totals: BankTotals
    sizes: BankSizes


class Memory:
    """Banks that are read as one, of which the first is written.

    Args:
        banks: their files, which need not be there yet.
        model: the name or folder of their model.
        device: where it runs; None for the default.
        weights: how much the documents of each bank count; None for all alike.
    """

    def __init__(
        self, banks: Sequence[Path], model: str, device: str | None, weights: Sequence[float] | None = None
    ) -> None:
        self.banks, self.model, self._device, self._weights = tuple(banks), model, device, weights
        self._asker: Asker | None = None

    @property
    def has_begun(self) -> bool:
        """Whether all banks are there."""
        return all(bank.exists() for bank in self.banks)

    def load(self) -> Asker:
        """What asks with the model; a model that cannot be loaded is tried again the next time.

        Raises:
            ModelError: the model cannot be loaded.
            ConfigError: the device is not there.
        """
        if self._asker is None:
            self._asker = Asker.load(self.banks, self.model, AskOptions(), self._device, weights=self._weights)
        return self._asker

    def ask(self, question: str, options: AskOptions) -> "Reply":
        """Answer a question; see `Asker.ask`."""
        (reply,) = self._ready(options).ask([question])
        return reply

    def search(self, query: str, top: int) -> "Sequence[Source]":
        """The passages that a query leads to; see `Asker.search`."""
        (passages,) = self._ready(AskOptions()).search([query], top)
        return passages

    def ingest(self, found: "Found", stop: threading.Event) -> "Iterator[Event]":
        """Memorise files in the first bank, which is made if need be; see `ingest_found`."""
        model, path = self.load().model, self.banks[0]  # first, since it loads the libraries quietly
        from mbc_cli.memorising import noted, opened
        from mbc_engine.serving.ingest import ingest_found

        with opened(model, path) as bank:
            yield from noted(ingest_found(model, bank, found, stop=stop), bank, path)

    def held(self) -> Held:
        """What there is, without a model.

        Raises:
            BankError: a bank is not there or cannot be opened.
            MBCError: the banks do not go together.
        """
        self._require_banks()
        with Banks.open(self.banks, self._weights) as banks:
            return Held(banks.headers[0].signature.name, banks.totals(), banks.sizes())

    def close(self) -> None:
        """Let go of the banks."""
        if self._asker is not None:
            self._asker.close()

    def _ready(self, options: AskOptions) -> Asker:
        self._require_banks()
        asker = self.load()
        asker.options = options
        return asker

    def _require_banks(self) -> None:
        """Tell the beginning of all use apart from a bank that was lost, and before a model is loaded for it."""
        for bank in self.banks:
            if not bank.exists():
                raise BankError(
                    f"Nothing has been memorised yet: there is no bank at {bank}.",
                    hint="Memorise files with the `ingest` tool or with `mbc ingest FOLDER`.",
                )
