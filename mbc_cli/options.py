"""Options that several commands share.

Which documents a question is about, as it is typed: days, a half-life, patterns.
"""

import os
import re
from calendar import monthrange
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Final

import typer

from mbc_cli.completion import banks, models, reads
from mbc_cli.paths import DEFAULT_MODEL, default_bank
from mbc_engine.bank import Selection
from mbc_engine.config import READ_MODES, parse_read_mode
from mbc_engine.errors import ConfigError
from mbc_engine.model_folder import own_runs

EVERYWHERE: Final = "In every command"

BankOption = Annotated[
    Path,
    typer.Option(
        "--bank",
        envvar="MBC_BANK",
        default_factory=default_bank,
        show_default="memory.mbc in your data folder",
        metavar="FILE",
        help="The bank file.",
        autocompletion=banks,
    ),
]
BanksOption = Annotated[
    list[Path],
    typer.Option(
        "--bank",
        envvar="MBC_BANK",
        default_factory=lambda: [default_bank()],
        show_default="memory.mbc in your data folder",
        metavar="FILE",
        help="The bank file; repeat it to read several banks as one.",
        autocompletion=banks,
    ),
]
WeightsOption = Annotated[
    list[float] | None,
    typer.Option(
        "--weight",
        metavar="NUMBER",
        help="How much a bank's documents count relative to the others'; one for each --bank, in the same order.",
        show_default="1 each",
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        envvar="MBC_MODEL",
        default_factory=lambda: DEFAULT_MODEL,
        show_default=DEFAULT_MODEL,
        metavar="NAME",
        help="A model's name or folder, or a training run's.",
        autocompletion=models,
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        envvar="MBC_DEVICE",
        metavar="NAME",
        show_default="cuda if there is one, else cpu",
        help="Where the model runs: a torch device, such as cpu or cuda:1.",
    ),
]
ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads to use.")]
RunsOption = Annotated[
    Path,
    typer.Option(
        "--runs",
        envvar="MBC_RUNS",
        default_factory=own_runs,
        show_default="runs in your data folder",
        metavar="FOLDER",
        help="The folder of training runs.",
    ),
]


def _told_reads() -> str:
    told = (f"{name}{'' if kind.least is None else ':N'} ({kind.words})" for name, kind in READ_MODES.items())
    return f"How a model of the paper's method reads: {', '.join(told)}. Without N, the model's own number."


def _checked_read(typed: str | None) -> str | None:
    """Make sure, before any model is loaded, that there is such a read; whether it fits the model, the model says."""
    if typed is not None:
        try:
            parse_read_mode(typed)
        except ConfigError as error:
            raise typer.BadParameter(f"{error.message} {error.hint}") from error
    return typed


ReadOption = Annotated[
    str | None,
    typer.Option(
        "--read",
        metavar="NAME[:N]",
        show_default="the model's own",
        autocompletion=reads,
        callback=_checked_read,
        help=_told_reads(),
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.", rich_help_panel=EVERYWHERE)]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=0, show_default="cores - 1, at least 1", help="Processes that read files."),
]


_DATE: Final = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d\d?)(?:-(?P<day>\d\d?))?)?", re.ASCII)
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?) *([dwmy]?)", re.ASCII)
_DAYS: Final = {"": 1, "d": 1, "w": 7, "m": 30, "y": 365}
_PLACE: Final = re.compile(r"~|\.{0,2}(/|$)")
_WILD: Final = re.compile(r"[*?\[\\]")
_SPECIAL: Final = re.compile(r"[*?\[\]\\!# ]")


def selection(
    since: str | None, as_of: str | None, half_life: str | None, only: Sequence[str], exclude: Sequence[str]
) -> Selection:
    """What the options of these names mean together.

    Raises:
        ConfigError: one of them means nothing, or they contradict each other.
    """
    return Selection(
        since=None if since is None else _day("--since", since, is_last=False),
        as_of=None if as_of is None else _day("--as-of", as_of, is_last=True),
        half_life=None if half_life is None else _days(half_life),
        only=tuple(map(_placed, only)),
        exclude=tuple(map(_placed, exclude)),
    )


def _day(option: str, typed: str, *, is_last: bool) -> date:
    """A day, or the first or last of a month or year."""
    found = _DATE.fullmatch(typed.strip())
    try:
        if found is None:
            raise ValueError(typed)
        year = int(found["year"])
        month = int(found["month"] or (12 if is_last else 1))
        return date(year, month, int(found["day"] or (monthrange(year, month)[1] if is_last else 1)))
    except ValueError as error:
        raise ConfigError(
            f"{option} {typed!r} is not a date.", hint="Write dates as 2024-05-31; 2024-05 is a month, 2024 a year."
        ) from error


def _days(typed: str) -> float:
    found = _TIME.fullmatch(typed.strip())
    if found is None:
        raise ConfigError(
            f"--half-life {typed!r} is not a period.",
            hint="Write periods as 30d, 4w, 6m or 1y; a number alone means days.",
        )
    return float(found[1]) * _DAYS[found[2]]


def _placed(pattern: str) -> str:
    """A pattern that begins with a place as one from the root: a bank knows files by their real paths.

    What there is of that name, or else the folders before the first wildcard, is named as it is: signs that are special
    to patterns only by chance, as in a file called "[old].txt", are escaped.
    """
    is_place = _PLACE.match(pattern) is not None
    literal = _literal(pattern, is_place)
    place = os.path.realpath(_home(literal or "/")).rstrip("/") if is_place else literal
    return _SPECIAL.sub(r"\\\g<0>", place) + pattern[len(literal) :]


def _literal(pattern: str, is_place: bool) -> str:
    """The beginning of a pattern that is no pattern, without the slash after it."""
    for name in (pattern, pattern.rpartition("#")[0]):
        if name and os.path.lexists(_home(name)):
            return name.rstrip("/")
    if not is_place:
        return ""
    wild = _WILD.search(pattern)
    return pattern[: wild.start()].rpartition("/")[0] if wild else pattern.rstrip("/")


def _home(place: str) -> Path:
    """A place whose `~` is replaced, if it is anybody's."""
    try:
        return Path(place).expanduser()
    except RuntimeError:
        return Path(place)
