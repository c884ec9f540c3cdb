"""An experiment's report, with the roster's titles, the controls that methods have to beat, and the paper's figures."""

from pathlib import Path

from mbc_engine.errors import ConfigError
from mbc_engine.evaluation.folder import ExperimentFolder
from mbc_engine.evaluation.report.known import Known, KnownMethod
from mbc_engine.evaluation.report.report import Report
from mbc_engine.evaluation.report.writing import read_report, write_report
from mbc_engine.experiments import published
from mbc_engine.experiments.cells import cells
from mbc_engine.experiments.roster import METHODS, MethodKind, controls_of
from mbc_engine.experiments.stages import stages
from mbc_engine.experiments.suites import settings_in


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
        published.scores(),
        published.retention(),
        published.code_usage(),
        published.ADAPTED_DOCUMENTS,
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
