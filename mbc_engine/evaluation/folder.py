"""What ran an evaluation: versions, machine, seed, date. Figures without it are hard to come by again.

An experiment's folder: where everything lies, what is there, and results as they were when they were put there.
"""

import platform
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from filelock import Timeout
from pydantic import TypeAdapter

import mbc_engine
from mbc_engine.atomic_write import atomic_write
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.evaluation.protocols import Outcome
from mbc_engine.evaluation.results import (
    CodeUsage,
    Online,
    Prediction,
    RateSweep,
    Record,
    Retention,
    Scaling,
    again,
    read_predictions,
    write_predictions,
)
from mbc_engine.machine import memory, processor, usable_cores
from mbc_engine.runs.event_log import is_held, work_lock
from mbc_engine.runs.training_runs import LOCK
from mbc_engine.text.decoding import storable

_PACKAGES: Final = ("torch", "transformers", "peft", "tokenizers", "accelerate", "bitsandbytes", "numpy", "spacy")
_ROOT: Final = Path(mbc_engine.__file__).parents[1]


@dataclass(frozen=True)
class Environment:
    """What ran an evaluation.

    Attributes:
        mbc: this program's version.
        commit: the commit checked out where the program lies in a git work tree; it does not tell of changes since.
        python: the interpreter's version.
        packages: versions of those installed that have a say in figures and times.
        platform: operating system and architecture.
        cpu: the processor's name.
        cores: how many this process may use.
        memory: bytes of the machine's memory; None if unknown.
        threads: how many torch computes with; None where it is not in use.
        device: where models run, as torch calls it.
        gpu: the name of the GPU there, None without one.
        seed: of everything random.
        date: when it began, ISO 8601, UTC.
        command: the command line; "" if unknown.
    """

    mbc: str
    commit: str | None
    python: str
    packages: dict[str, str]
    platform: str
    cpu: str
    cores: int
    memory: int | None
    threads: int | None
    device: str
    gpu: str | None
    seed: int
    date: str
    command: str = ""


def environment(seed: int, device: str = "cpu", command: str = "") -> Environment:
    """This process's.

    Args:
        seed: of everything random.
        device: where models run. Only for another than the CPU is torch imported, if it is not yet.
        command: the command line.
    """
    torch = sys.modules.get("torch")
    return Environment(
        mbc=mbc_engine.__version__,
        commit=commit_of(_ROOT),
        python=platform.python_version(),
        packages=_versions(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=processor(),
        cores=usable_cores(),
        memory=memory(),
        threads=torch.get_num_threads() if torch else None,
        device=device,
        gpu=_gpu(device),
        seed=seed,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=storable(command),
    )


def commit_of(folder: Path) -> str | None:
    """The commit that is checked out in a git work tree; None where the folder is the top of none."""
    try:
        git = folder / ".git"
        if git.is_file():  # of a further work tree, or a submodule: a line says where it is
            git = folder / git.read_text().removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head
        name = head.removeprefix("ref:").strip()
        shared = git / "commondir"
        common = git / shared.read_text().strip() if shared.is_file() else git
        loose = common / name
        if loose.is_file():
            return loose.read_text().strip()
        packed = (common / "packed-refs").read_text().splitlines()
        return next((line.split()[0] for line in packed if line.endswith(f" {name}")), None)
    except (OSError, ValueError):
        return None


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _gpu(device: str) -> str | None:
    if not device.startswith("cuda"):
        return None if device == "cpu" else device
    import torch

    return torch.cuda.get_device_name(device)


_CODE_USAGE: Final = "code-usage"
_RESULTS: Final = "results"
_PREPARED: Final = "prepared"

_RATE: Final = TypeAdapter(RateSweep)
_ONLINE: Final = TypeAdapter(Online)
_RETENTION: Final = TypeAdapter(Retention)
_SCALING: Final = TypeAdapter(Scaling)
_CODES: Final = TypeAdapter(CodeUsage)
_DIGEST: Final = TypeAdapter(str)
_ENVIRONMENTS: Final = TypeAdapter(tuple[Environment, ...])


class MethodFolder:
    """What a method did in a cell."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rate = Record(path / "rate.json", _RATE)
        self.online = Record(path / "online.json", _ONLINE)
        self.retention = Record(path / "retention.json", _RETENTION)
        self.scaling = Record(path / "scaling.json", _SCALING)
        self._predictions = path / "online.predictions.jsonl"

    @property
    def kinds(self) -> dict[str, Record[Any]]:
        """What there can be, by the name of its stage."""
        return {"rate": self.rate, "online": self.online, "retention": self.retention, "scaling": self.scaling}

    def keep_online(self, outcome: Outcome) -> None:
        """Keep figures and predictions of online adaptation."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_predictions(outcome.predictions, self._predictions)
        self.online.write(outcome.online)

    def predictions(self) -> list[Prediction]:
        """The predictions of online adaptation; none before it is done.

        Raises:
            DataError: they are missing or damaged.
        """
        online = self.online.read()
        if online is None:
            return []
        try:
            predictions = read_predictions(self._predictions)
            if len(predictions) != online.scores.questions:
                raise DataError(f"{self._predictions} has {len(predictions):,} of {online.scores.questions:,} answers.")
            return predictions
        except DataError as error:
            raise DataError(error.message, hint=again(self.online.path)) from error


class CellFolder:
    """A base LM on a dataset."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        self.prepared_folder = path / _PREPARED
        self.questions = Record(path / "questions.json", _DIGEST)
        self.code_usage = Record(path / _RESULTS / f"{_CODE_USAGE}.json", _CODES)

    def require_same_questions(self, digest: str) -> None:
        """Note by which questions everything in the cell is made, or make sure that they are still the same.

        Args:
            digest: what tells them from others.

        Raises:
            DataError: they are others, or the note is damaged.
        """
        before = self.questions.read()
        if before is None:
            self.questions.write(digest)
        elif before != digest:
            raise DataError(
                f"The questions of {self.name} are others than when it was begun: a file has changed.",
                hint="Put it back, or evaluate into another folder.",
            )

    def method(self, name: str) -> MethodFolder:
        """What a method did, be it nothing yet."""
        return MethodFolder(self.path / _RESULTS / _checked(name))

    def methods(self) -> list[str]:
        """Those that have a result, by name."""
        named = sorted(path.name for path in _folders(self.path / _RESULTS))
        return [name for name in named if any(record.is_there for record in self.method(name).kinds.values())]

    def has(self, method: str, kind: str) -> bool:
        """Whether a stage is done: `rate` or a protocol, of a method; `code-usage` is of none."""
        return self.code_usage.is_there if kind == _CODE_USAGE else self.method(method).kinds[kind].is_there

    def is_prepared(self, name: str) -> bool:
        """Whether something is prepared completely."""
        return (self.prepared_folder / _checked(name) / _PREPARED).is_file()

    def keep_prepared(self, name: str) -> None:
        """Say that it is."""
        (self.prepared_folder / _checked(name) / _PREPARED).touch()


class ExperimentFolder:
    """An experiment's folder, whether it is there yet or not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = path / "events.jsonl"
        self.report_html, self.report_markdown, self.report_json = (
            path / f"report.{suffix}" for suffix in ("html", "md", "json")
        )
        self._settings = path / "experiment.toml"
        self._environments = Record(path / "environment.json", _ENVIRONMENTS)

    @property
    def is_there(self) -> bool:
        """Whether an experiment was begun in it."""
        return self._settings.is_file()

    @property
    def is_at_work(self) -> bool:
        """Whether an evaluation is at work in it, in whatever process."""
        return is_held(self.path / LOCK)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Inside, the folder is this process's alone.

        Raises:
            ConfigError: another is at work there, or files cannot be read or written, be it for want of room.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with work_lock(self.path / LOCK):
                yield
        except Timeout as error:
            raise ConfigError(
                f"Another evaluation is at work in {self.path}.", hint="Wait for it, or use another folder."
            ) from error
        except OSError as error:
            raise ConfigError(
                f"The evaluation in {self.path} cannot read or write its files: {error}.",
                hint="Check the path and the room on the disk; run again, it goes on from the last finished stage.",
            ) from error

    def begin(
        self,
        settings: Mapping[str, Any],
        environment: Environment,
        command: str = "",
        *,
        completed: Callable[[dict[str, Any]], Mapping[str, Any]] = dict,
    ) -> None:
        """Say what is done here, or make sure that what was begun is the same, and by what.

        Args:
            settings: of the experiment, of what TOML can hold.
            environment: what runs it. Beside those of before, it is kept if more than the date is another.
            command: the command line.
            completed: what settings that were written down before mean with today's defaults, as `settings` has them.

        Raises:
            ConfigError: a stage of another experiment was begun here.
            DataError: a file is damaged.
        """
        import tomlkit

        given = tomlkit.dumps(settings)
        if given != storable(given):
            raise ConfigError(
                "The settings hold what no text file can: the name of a file that is not UTF-8, perhaps.",
                hint="Give the file another name.",
            )
        if self.is_there:
            before, now = completed(self.settings()), tomllib.loads(given)
            others = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
            if others and _folders(self.path):
                raise ConfigError(
                    f"{self.path} holds an experiment with other settings: {', '.join(others)}.",
                    hint="Use another folder, or the settings it was begun with.",
                )
            if others:  # it failed before its first stage: there is nothing that could be mixed up
                for path in (self.events, self._environments.path, self._settings):
                    path.unlink(missing_ok=True)
        if not self.is_there:
            with atomic_write(self._settings) as file:
                file.write(given.encode())
        environment = replace(environment, command=storable(command))
        known = self.environments()
        if not any(replace(environment, date=other.date, command=other.command) == other for other in known):
            self._environments.write((*known, environment))

    def settings(self) -> dict[str, Any]:
        """The settings of the experiment.

        Raises:
            DataError: there are none, or they cannot be read.
        """
        try:
            return tomllib.loads(self._settings.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise DataError(
                f"There is no experiment in {self.path}.", hint="`mbc eval` makes one; name its folder."
            ) from error
        except (OSError, ValueError) as error:
            raise DataError(
                f"{self._settings} cannot be read: {error}.", hint="Mend it, or evaluate into another folder."
            ) from error

    def environments(self) -> tuple[Environment, ...]:
        """What ran the experiment, in order: more than one where it was continued elsewhere."""
        return self._environments.read() or ()

    def cell(self, name: str) -> CellFolder:
        """A cell's folder.

        Raises:
            ConfigError: it cannot have this name.
        """
        return CellFolder(self.path / _checked(name))

    def cells(self) -> list[str]:
        """The cells that have results, by name."""
        return sorted(path.name for path in _folders(self.path) if (path / _RESULTS).is_dir())


def _folders(path: Path) -> list[Path]:
    return [inner for inner in path.iterdir() if inner.is_dir()] if path.is_dir() else []


def _checked(name: str) -> str:
    """A name that stays within its folder."""
    if name in ("", ".", "..") or any(letter in name for letter in "/\\\0"):
        raise ConfigError(f"{name!r} cannot be the name of a folder.", hint="Use letters, digits and hyphens.")
    return name
