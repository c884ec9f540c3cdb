"""What all commands have in common: shared options, the config file, errors, and Ctrl-C during long work."""

import ast
import errno
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, get_args, get_origin

import typer
from rich.text import Text
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from mbc_cli.config import config_path, default_map, long_name, read_config
from mbc_cli.formatting import format_duration, sanitise
from mbc_cli.paths import default_bank
from mbc_cli.render.terminal import errors, print_verbose, verbosity
from mbc_engine.errors import BankError, ConfigError, MBCError
from mbc_engine.machine import is_launched

if TYPE_CHECKING:
    from mbc_cli.render.terminal import ProgressView

COMMON_PANEL: Final = "Common options"
_UNEXPECTED, _USAGE = 1, 2
# Exit codes a shell reports after SIGINT, and after SIGPIPE: nobody reads the output any more, as after `| head`.
INTERRUPTED, _BROKEN_PIPE = 130, 141
_OUTPUT_ERRORS: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT)
_SHARED: Final = ("quiet", "verbose", "debug")
_WITHOUT_CONFIG: Final = frozenset({"doctor", "config"})
# What --verbose shows about where options come from; of the defaults, only those that differ between users.
_ORIGINS: Final = {"environment": "from the environment", "config": "from the config", "default": "by default"}
_USER_SPECIFIC_OPTIONS: Final = ("--bank", "--model", "--runs")
_CONFIG_ERROR, _RUNNING = "mbc.config_error", "mbc.running"


def record_shared_option(ctx: typer.Context, param: typer.CallbackParam, is_given: bool) -> None:
    if is_given:
        ctx.meta[f"mbc.{param.name}"] = True


def config_error(ctx: typer.Context) -> ConfigError | None:
    error: ConfigError | None = ctx.meta.get(_CONFIG_ERROR)
    return error


def is_from_command_line(ctx: typer.Context, name: str) -> bool:
    return origin_of(ctx, name) == "commandline"


def _at_home(value: Any) -> Any:
    return Path(os.path.expanduser(value)) if isinstance(value, Path) else value  # noqa: PTH111 - "~nobody" stays


def _coerced(value: Any, param: Any, ctx: Any) -> Any:
    """What Typer makes of a parameter's value, without Typer where the value is of its type or only has to be a path.

    Typer imports Pydantic and builds a schema for each parameter, given or not, a fifth of the time of a cold `mbc ask`.
    """
    kind, is_list = param.type_descriptor.annotation, param.multiple or param.nargs == -1
    (kind,) = get_args(kind) if is_list else (kind,)
    if value is None:
        return () if is_list else None

    def is_of_kind(value: Any) -> bool:
        if kind is Path:
            return isinstance(value, str | Path)
        return value in get_args(kind) if get_origin(kind) is Literal else type(value) is kind

    values = value if is_list else [value]
    is_parsed = param.type_descriptor.parameter_info.parser is not None
    if is_parsed or isinstance(values, str) or not all(map(is_of_kind, values)):
        return type(param).get_runtime_param(param).coerce(value, param=param, ctx=ctx)
    if kind is Path and "" in values:  # as of an unset variable; it would mean the working folder
        raise typer.BadParameter("it has to be a path, not an empty string.")
    values = [Path(each) if kind is Path else each for each in values]
    return values if is_list else values[0]


def _adapted(params: list[Any]) -> list[Any]:
    for param in params:
        # Typer would report an unreadable file as a usage error; the code that opens it knows the right exit code.
        param.type_descriptor.parameter_info.readable = False
        param.get_runtime_param = lambda: SimpleNamespace(coerce=_coerced)
        # In place of the Python types that Typer shows: arguments and flags need none, numbers become N or X.
        if isinstance(param, TyperArgument):
            param.display_type_rich = lambda **_: None  # type: ignore[method-assign]
        elif param.is_flag:
            param.metavar = ""
        elif param.metavar is None:
            param.metavar = {int: "N", float: "X"}.get(param.type_descriptor.annotation)
    return params


def _unwrapped(help: str) -> str:
    """A docstring with each paragraph on one line; examples keep theirs."""
    paragraphs = help.split("\n\n")
    whole = "\n\n".join(text if text.startswith("Examples:") else " ".join(text.split()) for text in paragraphs)
    # Typer would dedent examples that come second once more, but for an empty line before them.
    return whole.replace("\n\nExamples:", "\n\n\nExamples:") if len(paragraphs) == 2 else whole


@cache
def _docstrings(file: Path) -> dict[str, str]:
    """Of the functions in a file, which is not imported: the help of `mbc` would take too long."""
    functions = (node for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.FunctionDef))
    return {function.name: ast.get_docstring(function) or "" for function in functions}


class _CommandMixin:
    """A command of a function, or of a stand-in with the function's module and name."""

    callback: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        help, params = self.__dict__.pop("help"), self.__dict__.pop("params")
        if help:
            self.help = _unwrapped(help)
        if params or self.callback is None:
            self.params = _adapted(params)

    @cached_property
    def help(self) -> str:
        module = self.callback.__module__.rpartition(".")[2]
        return _unwrapped(_docstrings(Path(__file__).with_name("commands") / f"{module}.py")[self.callback.__name__])

    @cached_property
    def params(self) -> list[Any]:
        """Arguments and options, of a stand-in those of its function, which is imported with the first look at them."""
        alone = typer.Typer(add_completion=False)
        alone.command()(getattr(import_module(self.callback.__module__), self.callback.__name__))
        command = typer.main.get_command(alone)
        self.callback = command.callback
        return _adapted(command.params)

    def get_params(self, ctx: Any) -> list[Any]:
        params = _adapted(super().get_params(ctx))  # type: ignore[misc]
        root = ctx.find_root().command
        shared = [] if root is self else [param for param in root.params if param.name in _SHARED]
        return [*params[:-1], *shared, *params[-1:]]  # --help stays last

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Also expand "~" in paths, which no shell does after "=" or in the settings of other programs."""
        rest = super().parse_args(ctx, args)  # type: ignore[misc]
        for name, value in ctx.params.items():
            ctx.params[name] = [*map(_at_home, value)] if isinstance(value, list) else _at_home(value)
        return rest

    def make_parser(self, ctx: Any) -> Any:
        """Also accept `--no-` before a flag, to turn off what the config file turns on."""
        parser = super().make_parser(ctx)  # type: ignore[misc]
        for option in self.params:
            if isinstance(option, TyperOption) and option.is_flag and option.expose_value and not option.is_eager:
                name = long_name(option)
                off = name.removeprefix("no-") if name.startswith("no-") else f"no-{name}"
                parser.add_option(obj=option, opts=[f"--{off}"], dest=option.name, action="store_const", const=False)
        return parser


class Command(_CommandMixin, TyperCommand):  # type: ignore[misc, override]
    def invoke(self, ctx: Any) -> Any:
        with _running(ctx):
            return super().invoke(ctx)


# What people type for commands that have another name.
_FOR_BANKS: Final = {"ls": "bank list", **dict.fromkeys(("rm", "delete", "forget"), "bank remove")}
_OTHER_NAMES: Final = {
    "mbc": {"add": "ingest", "index": "ingest", "find": "search", "help": "--help", "version": "--version"}
    | {name: f"bank {name}" for name in ("remove", "list", "info", "show", "export", "undo")}
    | _FOR_BANKS,
    "mbc bank": {"add": "ingest", "search": "search", "ask": "ask", "help": "bank --help", **_FOR_BANKS},
}


class Group(_CommandMixin, TyperGroup):  # type: ignore[misc, override]
    """Commands under one word, which may itself be a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        other = _OTHER_NAMES.get(ctx.command_path, {}).get(args[0])
        if other is not None and args[0] not in self.commands:
            raise ConfigError(f"There is no command {args[0]!r}.", hint=f"Use `mbc {other}`.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        named = ctx._protected_args  # noqa: SLF001  # no public API has it before the group is invoked
        if not named:
            with _running(ctx):
                return super().invoke(ctx)
        for param in self.params if named[0] in self.commands else ():
            if param.expose_value and is_from_command_line(ctx, param.name):
                hint = f"Options go after `{ctx.command_path} {named[0]}`."
                raise ConfigError(f"{param.opts[0]} does not apply to {named[0]}.", hint=hint)
        return super().invoke(ctx)


class Program(Group):
    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _errors_reported(None):
            ctx = super().make_context(*args, **kwargs)
        try:
            path = config_path()
            ctx.default_map = default_map(self, read_config(path), path)
        except ConfigError as error:  # raised by commands that need the config; --help still works
            ctx.meta[_CONFIG_ERROR] = error
        return ctx

    def invoke(self, ctx: Any) -> Any:
        with _errors_reported(ctx):
            return super().invoke(ctx)


@contextmanager
def _running(ctx: typer.Context) -> Iterator[None]:
    """Apply --quiet and --verbose while a command runs; --verbose also prints where options came from."""
    wanted = {name for name in _SHARED if f"mbc.{name}" in ctx.meta}
    if {"quiet", "verbose"} <= wanted:
        raise ConfigError("--quiet and --verbose contradict each other.", hint="Leave one of them out.")
    if (error := config_error(ctx)) and not _WITHOUT_CONFIG.issuperset(ctx.command_path.split()[1:2]):
        raise error
    ctx.meta[_RUNNING] = ctx
    began = time.perf_counter()
    with verbosity(wanted):
        if "verbose" in wanted:
            _print_origins(ctx)
        try:
            yield
        finally:
            print_verbose(f"{ctx.command_path}: {format_duration(time.perf_counter() - began)}")


def _print_origins(ctx: typer.Context) -> None:
    path = config_path()
    print_verbose(f"config file: {path}{'' if os.path.exists(path) else ' (does not exist)'}")
    for origin, how in _ORIGINS.items():
        for option, value in _options_from(ctx, origin):
            if origin != "default" or option in _USER_SPECIFIC_OPTIONS:
                print_verbose(f"{how}: {option} {value}")


@contextmanager
def _errors_reported(ctx: typer.Context | None) -> Iterator[None]:
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except typer.Exit:
        raise
    except SystemExit as error:
        if not isinstance(error.__context__, BrokenPipeError):  # Rich raises SystemExit on a broken pipe
            raise
        raise typer.Exit(_report_output_error(error.__context__)) from error
    except (KeyboardInterrupt, Exception) as error:
        raise typer.Exit(_report_error(error, ctx)) from error


def _report_error(error: BaseException, ctx: typer.Context | None) -> int:
    match error:
        case typer.TyperException():
            return _report_usage_error(error)
        case typer.Abort() | EOFError():
            _report("Stopped: end of input.")
            return INTERRUPTED
        case KeyboardInterrupt():
            _report(" ".join(["Interrupted.", *map(str, error.args)]))
            return INTERRUPTED
        case OSError() if error.errno in _OUTPUT_ERRORS:
            return _report_output_error(error)
    if is_debugged := ctx is not None and "mbc.debug" in ctx.meta:
        traceback.print_exc()
    if isinstance(error, MBCError):
        _report(f"Error: {error.message}", *_hints(error, ctx))
        return error.exit_code
    hints = [] if is_debugged else ["Run the command again with --debug for a traceback."]
    _report(f"Unexpected error: {type(error).__name__}: {error}", *hints)
    return _UNEXPECTED


def _report_output_error(error: OSError) -> int:
    _discard(sys.stdout)
    if error.errno == errno.EPIPE:
        return _BROKEN_PIPE
    _report(f"Error: The output cannot be written: {(error.strerror or str(error)).lower()}.", "Free some disk space.")
    return _UNEXPECTED


_NO_NUMBER: Final = re.compile(r"Input should be a valid (integer|number), .*")
_BOUND: Final = re.compile(r"Input should be (greater|less) than or equal to (.+)")
_NUMBERS: Final = {"integer": "a whole number, such as 5", "number": "a number, such as 0.5"}
_BOUNDS: Final = {"greater": "least", "less": "most"}


def _report_usage_error(error: typer.TyperException) -> int:
    """Report a usage error; returns the exit code. Typer has already shown the help of a bare group."""
    message = error.format_message().replace(": Value error, ", ": ")  # Typer adds this for a Literal
    message = _NO_NUMBER.sub(lambda match: f"it has to be {_NUMBERS[match[1]]}.", message)
    message = _BOUND.sub(lambda match: f"it has to be at {_BOUNDS[match[1]]} {match[2]}.", message)
    if not message:
        return 0
    ctx, param = getattr(error, "ctx", None), getattr(error, "param", None)
    if ctx is not None and param is not None and origin_of(ctx, param.name) == "config":
        message = f"{config_path()}: {message}"
    if ctx is None:
        _report(f"Error: {message}")
    else:
        _, _, examples = (ctx.command.help or "").partition("Examples:\n")
        example = f", for example: {examples.splitlines()[0].strip()}" if examples else "."
        _report(f"Error: {message}", f"See `{ctx.command_path} --help`{example}")
    return _USAGE


def _hints(error: MBCError, root: typer.Context | None) -> Iterator[str]:
    running: typer.Context | None = root and root.meta.get(_RUNNING)
    if isinstance(error, BankError) and error.message == f"No bank at {default_bank()}.":
        yield "Nothing has been memorised yet. Start with `mbc ingest FOLDER`; `mbc demo` shows how it works."
    elif error.hint:
        yield error.hint
    for option, value in _options_from(running, "config") if running is not None else ():
        if option in error.message.split():
            yield f"{config_path()} sets {option} {value}."


def origin_of(ctx: typer.Context, name: str) -> str:
    source = ctx.get_parameter_source(name)
    return "default" if source is None else source.name.lower().replace("default_map", "config")


def _options_from(ctx: typer.Context, origin: str) -> Iterator[tuple[str, Any]]:
    """Options whose values come from `origin`, as (long name, value), one pair per value."""
    for param in ctx.command.params:
        value = ctx.params.get(param.name)
        if value is not None and origin_of(ctx, param.name) == origin:
            name = max(param.opts, key=len)
            yield from ((name, each) for each in (value if isinstance(value, list) else [value]))


def _report(message: str, *hints: str) -> None:
    try:
        errors.print(Text(sanitise(message), "red"))
        for hint in hints:
            errors.print(Text(f"  {sanitise(hint)}"))
    except (OSError, SystemExit):  # Rich turns a broken pipe into SystemExit
        _discard(sys.stderr)  # nobody reads it; keep the exit code


def _discard(stream: TextIO) -> None:
    """Discard what is in a stream's buffer, which would fail again when flushed at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def interrupt_message(text: str) -> Iterator[None]:
    """Within the block, SIGINT ends the command at once; `text` tells the user what is kept and how to continue."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(*error.args or (text,)) from error


@contextmanager
def stop_on_interrupt(view: "ProgressView | None" = None, text: str = "") -> Iterator[threading.Event]:
    """Within the block, the first SIGINT sets the yielded event and announces `text`; a second raises KeyboardInterrupt.

    It is announced by another thread: a signal handler must not print, as it may have interrupted a print.
    """
    stop, awake = threading.Event(), threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if not stop.is_set():
            stop.set()
            awake.set()
        elif not is_launched():  # a launcher forwards a SIGINT the terminal already sent, and kills slow processes
            raise KeyboardInterrupt

    def watch() -> None:
        awake.wait()
        if stop.is_set() and view is not None:
            view.announce(text)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
        awake.set()
        watcher.join(timeout=1)


def stopped(view: "ProgressView", hint: str) -> typer.Exit:
    """What ends a command whose work was stopped; announces it with a hint how to continue."""
    view.announce(f"Stopped. {hint}")
    return typer.Exit(INTERRUPTED)
