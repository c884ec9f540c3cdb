"""Which experiment the options of `mbc eval` mean: one on a data set, a suite's, or one that was begun."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import typer

from mbc_cli.commands.evaluate.one import One, settings_of
from mbc_cli.evaluations import existing_evaluation, find_evaluation, new_evaluation
from mbc_cli.program import is_typed
from mbc_engine.errors import ConfigError
from mbc_engine.experiments.settings import ExperimentSettings
from mbc_engine.experiments.suites import load_suite, settings_in

# Options that say what is evaluated, and how: a suite says all of it itself.
_OF_ONE: Final = (
    *("model", "method", "protocol", "documents", "bank_size", "limit", "golds", "read"),
    *("train", "validation", "preset", "settings"),
)


@dataclass(frozen=True)
class Chosen:
    """An experiment, and the folder that keeps it."""

    settings: ExperimentSettings
    folder: Path

    @property
    def is_grid(self) -> bool:
        """Whether it has more cells than one."""
        return len(self.settings.bases) * len(self.settings.datasets) > 1


def choose(
    ctx: typer.Context, data: str | None, suite: str | None, one: One, data_folder: Path | None, run: str | None
) -> Chosen:
    """What the options mean.

    Args:
        ctx: of the command.
        data, suite, data_folder, run: see the options.
        one: how `data` is evaluated.

    Raises:
        DataError: a dataset cannot be read, or there is no experiment to go on with.
        ModelError: there is no such model.
        ConfigError: options contradict each other, or name something that there is not.
    """
    _require_sense(ctx, data, suite, run)
    folder = find_evaluation(run) if run else None
    if suite is not None:
        return Chosen(load_suite(suite, data_folder), folder or new_evaluation(Path(suite).stem))
    if data is not None:
        if one.learning.preset is not None and not is_typed(ctx, "model"):
            one = replace(one, model=None)
        settings = settings_of(data, one)
        return Chosen(settings, folder or new_evaluation(settings.datasets[0].name))
    assert run is not None
    kept = existing_evaluation(run).path
    return Chosen(settings_in(kept), kept)


def _require_sense(ctx: typer.Context, data: str | None, suite: str | None, run: str | None) -> None:
    """Make sure that it is said once what to evaluate, and nothing that is not for it.

    Raises:
        ConfigError: it is not.
    """
    if data is not None and suite is not None:
        raise ConfigError("--data and --suite contradict each other.", hint="A suite names its own data.")
    if data is None and suite is None and run is None:
        raise ConfigError(
            "Evaluate on what?",
            hint="Give --data SPEC, for example: mbc eval --data newswire:test:64; or --suite small.",
        )
    if suite is None and is_typed(ctx, "data_folder"):
        raise ConfigError("--data-folder is for --suite.", hint="It says where the files lie that a suite names.")
    typed = [name for name in _OF_ONE if is_typed(ctx, name)]
    if data is None and typed:
        told = typed[0].replace("_", "-").replace("settings", "set")
        raise ConfigError(f"--{told} is for --data.", hint="A suite is settled: copy its TOML file to change it.")
