"""The stages of a cell: what has to be done for it, in order, and what is done already."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from mbc_engine.evaluation.folder import CellFolder
from mbc_engine.experiments.cells import Cell
from mbc_engine.experiments.roster import METHODS
from mbc_engine.experiments.settings import ExperimentSettings, Protocol

StageKind = Literal["prepare", "rate"] | Protocol


@dataclass(frozen=True)
class Stage:
    """A piece of work whose result is kept as a whole.

    Attributes:
        kind: what is done: to prepare something, to choose a learning rate, or a protocol.
        subject: what is prepared, or the method that goes through a protocol.
        needs: names of earlier stages without which it cannot be done.
    """

    kind: StageKind
    subject: str
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As events tell it."""
        if self.kind == "prepare":
            return _preparing(self.subject)
        return f"{self.subject} {self.kind}".strip()

    def is_done(self, folder: CellFolder) -> bool:
        """Whether its result is kept."""
        if self.kind == "prepare":
            return folder.is_prepared(self.subject)
        return folder.has(self.subject, self.kind)


def stages(cell: Cell, settings: ExperimentSettings) -> Iterator[Stage]:
    """Everything that is to be done for a cell; what a stage needs comes before it."""
    trains = bool(cell.dataset.train)
    kinds = [METHODS[name] for name in settings.methods]
    wanted = dict.fromkeys(need for kind in kinds for need in kind.needs)
    prepared = [need for need in wanted if trains and not (need == "mbc" and cell.base.model)]
    for need in prepared:
        yield Stage("prepare", need, (_preparing("questions"),) if need == "camels" else ())
    for kind in kinds:
        needs = tuple(_preparing(need) for need in kind.needs if need in prepared)
        if kind.weights is not None:
            rate = Stage("rate", kind.name, needs)
            yield rate
            needs = (*needs, rate.name)
        for protocol in settings.protocols:
            if protocol == "online" or (kind.goes_through_more and protocol != "code-usage"):
                yield Stage(protocol, kind.name, needs)
    if "code-usage" in settings.protocols:
        yield Stage("prepare", "reset")
        yield Stage("prepare", "no-reset")
        yield Stage("code-usage", "", (_preparing("reset"), _preparing("no-reset")))


def _preparing(name: str) -> str:
    return f"prepare {name}"
