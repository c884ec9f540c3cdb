"""The stages of a cell: what has to be done for it, in order, and what is done already."""

from collections.abc import Iterator
from dataclasses import dataclass

from mbc_engine.evaluation.folder import CODE_USAGE, CellFolder
from mbc_engine.experiments.cells import Cell
from mbc_engine.experiments.roster import METHODS
from mbc_engine.experiments.settings import ExperimentSettings

RATE = "rate"
PREPARE = "prepare"


@dataclass(frozen=True)
class Stage:
    """A piece of work whose result is kept as a whole.

    Attributes:
        kind: `prepare`, `rate`, or a protocol.
        subject: what is prepared, or the method that goes through a protocol.
        needs: names of earlier stages without which it cannot be done.
    """

    kind: str
    subject: str
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As events tell it."""
        if self.kind == PREPARE:
            return f"{PREPARE} {self.subject}"
        return f"{self.subject} {self.kind}".strip()

    def is_done(self, folder: CellFolder) -> bool:
        """Whether its result is kept."""
        if self.kind == PREPARE:
            return folder.is_prepared(self.subject)
        return folder.has(self.subject, self.kind)


def stages(cell: Cell, settings: ExperimentSettings) -> Iterator[Stage]:
    """Everything that is to be done for a cell; what a stage needs comes before it."""
    trains = bool(cell.dataset.train)
    kinds = [METHODS[name] for name in settings.methods]
    wanted = dict.fromkeys(need for kind in kinds for need in kind.needs)
    prepared = [need for need in wanted if trains and not (need == "mbc" and cell.base.model)]
    for need in prepared:
        yield Stage(PREPARE, need, _prepares("questions") if need == "camels" else ())
    for kind in kinds:
        needs = tuple(f"{PREPARE} {need}" for need in kind.needs if need in prepared)
        if kind.weights is not None:
            rate = Stage(RATE, kind.name, needs)
            yield rate
            needs = (*needs, rate.name)
        for protocol in settings.protocols:
            if protocol == "online" or (kind.goes_through_more and protocol != CODE_USAGE):
                yield Stage(protocol, kind.name, needs)
    if CODE_USAGE in settings.protocols:
        yield Stage(PREPARE, "reset")
        yield Stage(PREPARE, "no-reset")
        yield Stage(CODE_USAGE, "", (*_prepares("reset"), *_prepares("no-reset")))


def _prepares(name: str) -> tuple[str, ...]:
    return (f"{PREPARE} {name}",)
