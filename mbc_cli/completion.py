"""What a shell may complete to. Nothing here imports torch. Paths are left to the shell."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import get_args

import typer

from mbc_cli.config import evaluation_names, keys, root_of, runs_folder
from mbc_cli.text import plain
from mbc_engine.config import READ_MODES, preset_names
from mbc_engine.experiments.registry import METHODS, Protocol
from mbc_engine.runs.training_runs import CONFIG

Found = list[tuple[str, str]]


def models(ctx: typer.Context, incomplete: str) -> Found:
    """The models of the package and of the user's data folder by name, and those of runs by their folders."""
    from mbc_cli.models import model_folders

    labels = {"package": "the embedded model", "yours": "", "run": "a training run"}
    found = model_folders(_runs_folder(ctx))
    return _beginning({str(f.parent) if place == "run" else n: labels[place] for n, f, place in found}, incomplete)


def models_and_presets(ctx: typer.Context, incomplete: str) -> Found:
    """Of a model and a preset of one name, the model."""
    return sorted((dict.fromkeys(dict(presets(incomplete)), "a preset") | dict(models(ctx, incomplete))).items())


def runs(ctx: typer.Context, incomplete: str) -> Found:
    return _beginning({path.parent.name: "" for path in _runs_folder(ctx).glob(f"*/{CONFIG}")}, incomplete)


def _listing(names: Callable[[], Iterable[str] | dict[str, str]]) -> Callable[[str], Found]:
    def complete(incomplete: str) -> Found:
        found = names()
        return _beginning(found if isinstance(found, dict) else dict.fromkeys(found, ""), incomplete)

    return complete


def _suites() -> Iterable[str]:
    from mbc_engine.experiments.settings import suite_names

    return suite_names()


presets = _listing(preset_names)
reads = _listing(lambda: READ_MODES)
evaluations = _listing(evaluation_names)
methods = _listing(lambda: {name: kind.description for name, kind in METHODS.items()})
protocols = _listing(lambda: get_args(Protocol))
suites = _listing(_suites)


def config_keys(ctx: typer.Context, incomplete: str) -> Found:
    """Keys of the config file: those for all commands, and, once a command was begun, its own."""
    found = {}
    for name, options in keys(root_of(ctx)).items():
        table, dot, _ = name.rpartition(".")
        if dot and "." not in incomplete:
            found[f"{table}."] = ""
        else:
            found[name] = options[0][1].help or ""
    return _beginning(found, incomplete)


def _beginning(found: dict[str, str], incomplete: str) -> Found:
    """Names that begin so, unless they hide something."""
    fitting = ((name, label) for name, label in sorted(found.items()) if name.startswith(incomplete))
    return [(name, label) for name, label in fitting if name[:1] != "." and plain(name) == name]


def _runs_folder(ctx: typer.Context) -> Path:
    return Path(ctx.params.get("runs") or runs_folder()).expanduser()
