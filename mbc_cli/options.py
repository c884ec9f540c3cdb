"""Options that several commands share, and the selection of documents that some of them mean together."""

import os
import re
from calendar import monthrange
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Annotated, Final

import typer

from mbc_cli.completion import banks, models, reads
from mbc_cli.config import DEFAULT_MODEL, default_bank
from mbc_engine.bank import Selection
from mbc_engine.config import LEAST_NUMBERS, READ_MODES, own_runs, parse_read_mode
from mbc_engine.errors import ConfigError

EVERYWHERE: Final = "Common options"

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
        show_default="cuda if available, else cpu",
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


_READS: Final = ", ".join(
    f"{name}{':N' if name in LEAST_NUMBERS else ''} ({words})" for name, words in READ_MODES.items()
)


def _checked_read(typed: str | None) -> str | None:
    try:
        if typed is not None:
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
        help=f"How a model of the paper's method reads its bank: {_READS}. Without N, the model's own number.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.", rich_help_panel=EVERYWHERE)]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=0, show_default="cores - 1, at least 1", help="Processes that read files."),
]


_DATE: Final = re.compile(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?", re.ASCII)
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?) *([dwmy]?)", re.ASCII)
_DAYS: Final = {"": 1, "d": 1, "w": 7, "m": 30, "y": 365}
_PATH: Final = re.compile(r"~|\.{0,2}(/|$)")
_WILD: Final = re.compile(r"[*?\[\\]")
_SPECIAL: Final = re.compile(r"[*?\[\]\\!# ]")


def selection(
    since: str | None, as_of: str | None, half_life: str | None, only: Sequence[str], exclude: Sequence[str]
) -> Selection:
    return Selection(
        since=None if since is None else _day("--since", since, is_last=False),
        as_of=None if as_of is None else _day("--as-of", as_of, is_last=True),
        half_life=None if half_life is None else _days(half_life),
        only=tuple(map(_placed, only)),
        exclude=tuple(map(_placed, exclude)),
    )


def _day(option: str, typed: str, *, is_last: bool) -> date:
    found = _DATE.fullmatch(typed.strip())
    with suppress(ValueError):
        if found:
            year, month = int(found[1]), int(found[2] or (12 if is_last else 1))
            return date(year, month, int(found[3] or (monthrange(year, month)[1] if is_last else 1)))
    raise ConfigError(
        f"{option} {typed!r} is not a date.", hint="Write dates as 2024-05-31; 2024-05 is a month, 2024 a year."
    )


def _days(typed: str) -> float:
    found = _TIME.fullmatch(typed.strip())
    if found is None:
        raise ConfigError(
            f"--half-life {typed!r} is not a period.",
            hint="Write periods as 30d, 4w, 6m or 1y; a number alone means days.",
        )
    return float(found[1]) * _DAYS[found[2]]


def _placed(pattern: str) -> str:
    """A pattern that begins with a path as one from the root: a bank knows files by their real paths.

    An existing path, or else the folders before the first wildcard, is taken literally: characters that are special in
    patterns, as in a file called "[old].txt", are escaped.
    """
    is_path = _PATH.match(pattern) is not None
    literal = _literal(pattern, is_path)
    place = os.path.realpath(os.path.expanduser(literal or "/")).rstrip("/") if is_path else literal  # noqa: PTH111
    return _SPECIAL.sub(r"\\\g<0>", place) + pattern[len(literal) :]


def _literal(pattern: str, is_path: bool) -> str:
    """The beginning of a pattern that is no pattern, without the slash after it."""
    for name in (pattern, pattern.rpartition("#")[0]):
        if name and os.path.lexists(os.path.expanduser(name)):  # noqa: PTH111
            return name.rstrip("/")
    wild = _WILD.search(pattern)
    if not is_path:
        return ""
    return pattern[: wild.start()].rpartition("/")[0] if wild else pattern.rstrip("/")
