"""Options that several commands share, and shell completion (paths are left to the shell). Imports no torch."""

import os
from collections.abc import Callable, Iterable
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mbc_cli.command_line import COMMON_PANEL, is_from_command_line
from mbc_cli.config import options_by_key
from mbc_cli.formatting import sanitise
from mbc_cli.paths import DEFAULT_MODEL, default_bank, evaluation_names, runs_folder
from mbc_cli.render.terminal import notes
from mbc_engine.answer import AskOptions
from mbc_engine.errors import ConfigError
from mbc_engine.machine import usable_cores
from mbc_engine.names import CONFIG, MINIMUM_NUMBERS, READ_MODES, own_runs, parse_read_mode, preset_names

Completions = list[tuple[str, str]]


def complete_models(ctx: typer.Context) -> Completions:
    from mbc_cli.local_models import model_folders

    labels = {"package": "the built-in model", "yours": "", "run": "a training run"}
    models = model_folders(_runs_folder(ctx))
    return _completions({str(path.parent) if place == "run" else name: labels[place] for name, path, place in models})


def complete_models_and_presets(ctx: typer.Context) -> Completions:
    """If a model and a preset share a name, the model wins."""
    return sorted((dict.fromkeys(preset_names(), "a preset") | dict(complete_models(ctx))).items())


def complete_runs(ctx: typer.Context) -> Completions:
    return _completions(path.parent.name for path in _runs_folder(ctx).glob(f"*/{CONFIG}"))


def completer(names: Callable[[], Iterable[str] | dict[str, str]]) -> Callable[[], Completions]:
    return lambda: _completions(names())


complete_presets = completer(preset_names)
complete_reads = completer(lambda: READ_MODES)
complete_evaluations = completer(evaluation_names)


def complete_config_keys(ctx: typer.Context, incomplete: str) -> Completions:
    """Keys of the config file: shared ones and, once a command and a dot are typed, its own."""
    offered = {}
    for name, options in options_by_key(ctx.find_root().command).items():
        table, dot, _ = name.rpartition(".")
        if dot and "." not in incomplete:
            offered[f"{table}."] = ""
        else:
            offered[name] = options[0][1].help or ""
    return _completions(offered)


def _completions(names: Iterable[str] | dict[str, str]) -> Completions:
    """Names with their labels, of which Typer offers those that fit; without hidden and unprintable ones."""
    labels = names if isinstance(names, dict) else dict.fromkeys(names, "")
    return [(name, labels[name]) for name in sorted(labels) if name[:1] != "." and sanitise(name) == name]


def _runs_folder(ctx: typer.Context) -> Path:
    return Path(os.path.expanduser(ctx.params.get("runs") or runs_folder()))  # noqa: PTH111


def option(text: str, *names: str, panel: str | None = None, completion: Any = None, **how: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, autocompletion=completion, **how)


def argument(metavar: str, text: str, completion: Any = None) -> Any:
    return typer.Argument(metavar=metavar, help=text, autocompletion=completion)


_bank = partial(option, envvar="MBC_BANK", show_default="memory.mbc in your data folder", metavar="FILE")
_SEVERAL = "The bank file, or MACHINE:/FILE on a Ray cluster; repeat it to read several banks as one."
_WEIGHT = "Relative weight of a bank's documents; give one for each --bank, in the same order."
_MODEL = "Name or folder of a model or training run."
_DEVICE = "Where the model runs: a torch device, such as cpu or cuda:1."
_READS = ", ".join(f"{name}{':N' if name in MINIMUM_NUMBERS else ''} ({what})" for name, what in READ_MODES.items())
_READ = f"How a model that you train reads its bank: {_READS}. Without N, the model's default."


def _validate_read_mode(typed: str | None) -> str | None:
    try:
        if typed is not None:
            parse_read_mode(typed)
    except ConfigError as error:
        raise typer.BadParameter(f"{error.message} {error.hint}") from error
    return typed


def _one_bank(ctx: typer.Context, bank: Path) -> Path:
    if os.pathsep in str(bank) and str(bank) == os.environ.get("MBC_BANK") and not ctx.resilient_parsing:
        raise typer.BadParameter("MBC_BANK names several banks, and this command takes one.")
    return bank


def _explain_half_life(ctx: typer.Context, typed: str | None) -> str | None:
    if typed is not None and typed.strip().isdecimal() and is_from_command_line(ctx, "half_life"):
        notes.print(
            f"--half-life {typed} means {typed} days; {typed}w, {typed}m and {typed}y are weeks, months and years."
        )
    return typed


_LEAST_PERCENT: Final = 10  # that a whole number without a sign may mean


def _parse_confidence(typed: str) -> float:
    number = typed.strip().removesuffix("%")
    try:
        value = float(number)
    except ValueError as error:
        raise typer.BadParameter("it has to be a probability, such as 0.9 or 90%.") from error
    is_percent = number != typed.strip() or (number.isdecimal() and _LEAST_PERCENT <= value <= 100)
    return value / 100 if is_percent else value


BankOption = Annotated[Path, _bank("The bank file.", "--bank", default_factory=default_bank, callback=_one_bank)]
BanksOption = Annotated[list[Path], _bank(_SEVERAL, "--bank", default_factory=lambda: [default_bank()])]
WeightsOption = Annotated[list[float] | None, option(_WEIGHT, "--weight", metavar="NUMBER", show_default="1 each")]
_model = partial(option, envvar="MBC_MODEL", show_default=DEFAULT_MODEL, metavar="NAME", completion=complete_models)
ModelOption = Annotated[str, _model(_MODEL, "--model", default_factory=lambda: DEFAULT_MODEL)]
_device = partial(option, envvar="MBC_DEVICE", show_default="cpu for mini, else cuda if available", metavar="NAME")
DeviceOption = Annotated[str | None, _device(_DEVICE, "--device")]
ThreadsOption = Annotated[int | None, option("CPU threads to use.", "--threads", min=1)]
_runs = partial(option, envvar="MBC_RUNS", show_default="runs in your data folder", metavar="FOLDER")
RunsOption = Annotated[Path, _runs("The folder of training runs.", "--runs", default_factory=own_runs)]
_read = partial(option, show_default="the model's default", metavar="NAME[:N]", completion=complete_reads)
ReadOption = Annotated[str | None, _read(_READ, "--read", callback=_validate_read_mode)]
_LLM = (
    "The language model that writes answers from the passages found, and cites them: ollama/MODEL, URL#MODEL of a server "
    "that speaks OpenAI's protocol, or an id on the Hugging Face hub or folder."
)
LanguageModelOption = Annotated[
    str | None, option(_LLM, "--llm", envvar="MBC_LLM", metavar="NAME", show_default="none: answers are quoted")
]
JsonOption = Annotated[bool, option("Print JSON on stdout.", "--json", panel=COMMON_PANEL)]
_WORKERS = "Number of processes that read files; 0 reads them in the main process."
_workers = partial(option, show_default="cores - 1, at least 1", min=0)
WorkersOption = Annotated[int, _workers(_WORKERS, "--workers", default_factory=lambda: max(1, usable_cores() - 1))]

_select = partial(option, panel="Select and weight documents")
_SINCE = "Only documents from this date on: 2024-05-31, 2024-05 or 2024. A document's date is the one it states, or its file's."
_AS_OF = "Only documents up to this date; ages are counted back from it."
_HALF_LIFE = (
    "Half-life of a document's weight as it ages: a number of days, or 30d, 4w, 6m, 1y (a month is 30 "
    "days, a year 365)."
)
_ONLY = (
    "Only documents whose path matches this pattern, or one of several, as in .gitignore: at any depth, unless it begins "
    "with / (the root of the file system), ./ or ~."
)
_EXCLUDE = "Leave out documents whose path matches this pattern, or one of several, even if --only has them."
_CONFIDENCE = (
    "Give no answer below this confidence, such as 0.9 or 90%; 0 always answers. For mini, it is the probability that "
    "the answer is right; for a model that you train and calibrate, the probability that the bank holds an answer."
)
_BEAMS = "Beam search width; 1 always takes the likeliest token. No effect with mini."
_WRITE = (
    "Have a language model write the answer. --llm implies it; without --llm, the built-in one puts the quoted answer into "
    "a sentence (it is small, and makes mistakes)."
)
_MAX_TOKENS = "Maximum length of an answer that a language model writes, in tokens."
_MEMORY_OPTIONS: Final[dict[str, Any]] = {"bank": BanksOption, "weight": WeightsOption, "model": ModelOption}
_SEARCH_OPTIONS: Final[dict[str, Any]] = {
    "since": Annotated[str | None, _select(_SINCE, metavar="DATE")],
    "as_of": Annotated[str | None, _select(_AS_OF, metavar="DATE")],
    "half_life": Annotated[str | None, _select(_HALF_LIFE, metavar="TIME", callback=_explain_half_life)],
    "only": Annotated[list[str] | None, _select(_ONLY, metavar="PATTERN")],
    "exclude": Annotated[list[str] | None, _select(_EXCLUDE, metavar="PATTERN")],
    "read": ReadOption,
    "device": DeviceOption,
}
_ANSWER_OPTIONS: Final[dict[str, Any]] = {
    "sources": Annotated[int, option("How many source documents to list.", min=0)],
    "min_confidence": Annotated[
        float | None, option(_CONFIDENCE, parser=_parse_confidence, metavar="P", show_default="the model's default")
    ],
    "write": Annotated[bool, option(_WRITE, "--write")],
    "llm": LanguageModelOption,
    "beams": Annotated[int, option(_BEAMS, panel="Models you train", min=1)],
    "max_tokens": Annotated[
        int | None, option(_MAX_TOKENS, min=1, show_default="48 with --write, 256 with --llm, 16 for models you train")
    ],
}
_DEFAULTS: Final = {
    **dict.fromkeys(("bank", "model"), Parameter.empty),  # these have factories
    "sources": AskOptions.sources,
    "write": False,
    "beams": AskOptions.beams,
}


def memory_command(*, answers: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator for commands that ask or search a memory, which get it, not open yet, as `memory`, and `options`.

    Users give what these are made of: --bank, --since and so on, and with `answers` also what is about answers.
    """
    expanded = {"memory": _MEMORY_OPTIONS, "options": _SEARCH_OPTIONS | (_ANSWER_OPTIONS if answers else {})}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            from mbc_cli.loading import open_memory
            from mbc_cli.question_options import ask_options

            typed = {name: given.pop(name) for names in expanded.values() for name in names}
            typed["read_mode"] = typed.pop("read")
            if answers:
                typed |= {"write": typed["write"] or None, "max_new_tokens": typed.pop("max_tokens")}
            banks, model, device = (typed.pop(name) for name in ("bank", "model", "device"))
            memory = open_memory(banks, model, device, weights=typed.pop("weight"), llm=typed.pop("llm", None))
            command(memory=memory, options=ask_options(**typed), **given)

        parameters: list[Parameter] = []
        for parameter in signature(command).parameters.values():
            kinds = expanded.get(parameter.name, {})
            parameters += [
                Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=_DEFAULTS.get(name))
                for name, kind in kinds.items()
            ] or [parameter]
        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return decorate
