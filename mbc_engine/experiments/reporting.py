"""What the paper reports, to stand beside what is measured here; the figures lie in `published.toml`.

A figure is found by the names of base, dataset and method. What the paper does not report is not there.

The stages of a cell: what has to be done for it, in order, and what is done already.

An experiment's report, with the roster's titles, the controls that methods have to beat, and the paper's figures.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from mbc_engine.errors import ConfigError
from mbc_engine.evaluation.folder import CellFolder, ExperimentFolder
from mbc_engine.evaluation.report.page import read_report, write_report
from mbc_engine.evaluation.report.report import (
    Known,
    KnownMethod,
    PublishedScores,
    PublishedStep,
    PublishedUsage,
    Report,
)
from mbc_engine.experiments.cells import Cell, ExperimentSettings, Protocol, cells
from mbc_engine.experiments.registry import METHODS, MethodKind, controls_of
from mbc_engine.experiments.suites import settings_in

MEGABYTE = 1024**2
# Section 4.2: documents that a model is adapted to before it is asked.
ADAPTED_DOCUMENTS = 1665


@dataclass(frozen=True)
class PublishedQuestions:
    """The paper's counts of a dataset's questions (section 4.1); `base_train` trains the base LMs of fine-tuning."""

    train: int
    validation: int
    test: int
    base_train: int


@cache
def scores() -> Mapping[tuple[str, str, str], PublishedScores]:
    """Table 1, by base, dataset and method."""
    return {
        (base, dataset, method): PublishedScores(*pair)
        for base, datasets in _figures()["answers"].items()
        for dataset, methods in datasets.items()
        for method, pair in methods.items()
    }


@cache
def retention() -> Mapping[tuple[str, str, str], tuple[PublishedStep, ...]]:
    """Table 3, by base, dataset and method."""
    table = dict(_figures()["retention"])
    documents = table.pop("documents")
    return {
        (base, dataset, method): tuple(
            PublishedStep(count, round(size * MEGABYTE), kept)
            for count, (size, kept) in zip(documents, steps, strict=True)
        )
        for base, datasets in table.items()
        for dataset, methods in datasets.items()
        for method, steps in methods.items()
    }


@cache
def parameters() -> Mapping[tuple[str, str], int]:
    """Table 2: trainable parameters, by base and method."""
    return {
        (base, method): round(millions * 1_000_000)
        for base, methods in _figures()["parameters"].items()
        for method, millions in methods.items()
    }


@cache
def code_usage() -> Mapping[tuple[str, str], PublishedUsage]:
    """Perplexity of code usage, by base and dataset: it is told of StreamingQA alone."""
    return {
        (base, "streamingqa"): PublishedUsage(tuple(told["with-reset"]), *told["without-reset"])
        for base, told in _figures()["perplexity"].items()
    }


@cache
def questions() -> Mapping[str, PublishedQuestions]:
    """How many questions each dataset has, by its name."""
    return {
        name: PublishedQuestions(own["train"], own["validation"], own["test"], own["base-train"])
        for name, own in _figures()["questions"].items()
    }


@cache
def _figures() -> dict[str, Any]:
    return tomllib.loads((files("mbc_engine.experiments") / "published.toml").read_text(encoding="utf-8"))


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


def report_of(folder: ExperimentFolder) -> Report:
    """What an experiment found out so far.

    Raises:
        DataError: there is none in the folder, or something in it is damaged.
    """
    return read_report(folder, _known(folder), planned=_planned(folder))


def write_report_of(folder: ExperimentFolder) -> Path:
    """Write the report into the folder in all its forms; returns the page's path.

    Raises:
        DataError: as for `report_of`.
        OSError: a file cannot be written.
    """
    return write_report(folder, _known(folder), planned=_planned(folder))


def _known(folder: ExperimentFolder) -> Known:
    asked = folder.settings().get("methods")
    methods = asked if isinstance(asked, list) else []
    return Known(
        {kind.name: _known_method(kind, methods) for kind in METHODS.values()},
        scores(),
        retention(),
        code_usage(),
        ADAPTED_DOCUMENTS,
    )


def _known_method(kind: MethodKind, asked: list[str]) -> KnownMethod:
    """A method and those of its controls that were asked for; all of them where none was, so that this is told."""
    controls = controls_of(kind.name) if kind.name in asked else ()
    held = tuple(control for control in controls if control in asked)
    return KnownMethod(kind.title, held or controls, kind.spoilt_bank, kind.is_told)


def _planned(folder: ExperimentFolder) -> list[tuple[str, str]]:
    """Cells and stages that have no result; none where another version of this program wrote the settings."""
    try:
        settings = settings_in(folder.path)
    except ConfigError:
        return []
    return [
        (cell.name, stage.name)
        for cell in cells(settings)
        for stage in stages(cell, settings)
        if stage.kind != "prepare" and not stage.is_done(folder.cell(cell.name))
    ]
