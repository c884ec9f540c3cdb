"""What all commands have in common: the options they share, the config file, and how errors are told."""

import errno
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TextIO

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from mbc_cli.config import config_path, defaults, long_name, read_config
from mbc_cli.interrupt import INTERRUPTED
from mbc_cli.render.terminal import Verbosity
from mbc_engine.errors import BankError, ConfigError, MBCError

USAGE, UNEXPECTED = 2, 1
# What a shell says of a program that SIGPIPE ended: nobody reads its output any more, as after `| head`.
UNREAD: Final = 141
_UNWRITTEN: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT)
_SHARED: Final = ("quiet", "verbose", "debug")
# What a command takes by default is worth telling where it is not the same everywhere.
_PLACES: Final = ("--bank", "--model", "--runs")
_CONFIG_ERROR, _RUNNING = "mbc.config_error", "mbc.running"


def note_shared(ctx: typer.Context, param: typer.CallbackParam, is_given: bool) -> None:
    """Callback of the shared options: remember that one was given, before the verb or after it."""
    if is_given:
        ctx.meta[f"mbc.{param.name}"] = True


def is_wanted(ctx: typer.Context, name: str) -> bool:
    """Whether a shared option was given."""
    return f"mbc.{name}" in ctx.meta


def configure(ctx: typer.Context) -> None:
    """Let the config file stand for options that are not given.

    What is wrong with it is told when a command that needs it is run: help is there all the same.
    """
    path = config_path()
    try:
        ctx.default_map = defaults(commands_of(ctx), read_config(path), path)
    except ConfigError as error:
        ctx.meta[_CONFIG_ERROR] = error


def config_error(ctx: typer.Context) -> ConfigError | None:
    """What is wrong with the config file, or None."""
    error: ConfigError | None = ctx.meta.get(_CONFIG_ERROR)
    return error


def commands_of(ctx: typer.Context) -> TyperGroup:
    """The whole program."""
    root = ctx.find_root().command
    assert isinstance(root, TyperGroup)
    return root


class _TakesShared:
    """A command or group that takes the program's own shared options too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for param in self.params:  # type: ignore[attr-defined]
            # Whoever opens a file tells what is wrong with it, with the exit code for documents or for banks.
            param.type_descriptor.parameter_info.readable = False

    def get_params(self, ctx: Any) -> list[Any]:
        own = super().get_params(ctx)  # type: ignore[misc]
        root = ctx.find_root().command
        if root is self:
            return list(own)
        shared = [param for param in root.params if param.name in _SHARED]
        return [*own[:-1], *shared, *own[-1:]]  # --help stays the last


class _Works(_TakesShared):
    """A command, or a group that is one by itself."""

    needs_config = True

    def make_parser(self, ctx: Any) -> Any:
        """Also takes `--no-` in front of a switch, which turns off for once what the config file turns on."""
        parser = super().make_parser(ctx)  # type: ignore[misc]
        for option in self.params:  # type: ignore[attr-defined]
            if isinstance(option, TyperOption) and option.is_flag and option.expose_value:
                name = long_name(option)
                off = name.removeprefix("no-") if name.startswith("no-") else f"no-{name}"
                parser.add_option(obj=option, opts=[f"--{off}"], dest=option.name, action="store_const", const=False)
        return parser

    def invoke(self, ctx: Any) -> Any:
        from mbc_cli.render.terminal import talking

        chosen = Verbosity(**{name: is_wanted(ctx, name) for name in _SHARED})
        if chosen.quiet and chosen.verbose:
            raise ConfigError("--quiet and --verbose contradict each other.", hint="Leave one of them out.")
        if self.needs_config and (error := config_error(ctx)):
            raise error
        ctx.meta[_RUNNING] = ctx
        with talking(chosen), _told(ctx):
            return super().invoke(ctx)  # type: ignore[misc]


class Command(_Works, TyperCommand):
    """A command as all of mbc's are."""


class UnconfiguredCommand(Command):
    """A command that works, and helps, where the config file does not."""

    needs_config = False


class Group(_TakesShared, TyperGroup):
    """Commands under one word."""


class WorkingGroup(_Works, TyperGroup):
    """Commands under one word that is a command itself, where none of them is named."""

    def invoke(self, ctx: Any) -> Any:
        named = ctx._protected_args  # noqa: SLF001  # nothing public tells it before the group itself is invoked
        if not named:
            return super().invoke(ctx)
        for param in self.params if named[0] in self.commands else ():  # what is no command is told as such
            if is_typed(ctx, param.name):
                raise ConfigError(
                    f"{param.opts[0]} is not for {named[0]} here.",
                    hint=f"Options stand behind `{ctx.command_path} {named[0]}`.",
                )
        return TyperGroup.invoke(self, ctx)  # the command that is named does what a command does


class Program(Group):
    """All commands. Whatever goes wrong is told in a line or two here, with an exit code that says what kind it was."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _output_checked():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        with _output_checked():
            return self._invoke(ctx)

    def _invoke(self, ctx: typer.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except MBCError as error:
            _trace(ctx)
            _tell(f"Error: {error.message}", *_hints(error, ctx.meta.get(_RUNNING)))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            _tell(" ".join(["Interrupted.", *map(str, error.args)]))
            raise typer.Exit(INTERRUPTED) from error
        except Exception as error:
            if _is_unwritten(error):
                raise
            _trace(ctx)
            hints = [] if is_wanted(ctx, "debug") else ["Run the command again with --debug for a traceback."]
            _tell(f"Unexpected error: {type(error).__name__}: {error}", *hints)
            raise typer.Exit(UNEXPECTED) from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except typer.TyperException as error:
            code = _misused(error)
        except typer.Abort:
            _tell("Stopped: end of input.")
            code = INTERRUPTED
        if not standalone_mode:
            return code
        try:
            sys.stdout.flush()
        except OSError as error:
            code = _unwritten(error)
        sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _output_checked() -> Iterator[None]:
    """End the program, in a line or without a word, where what it writes does not get anywhere."""
    try:
        yield
    except OSError as error:
        if not _is_unwritten(error):
            raise
        raise typer.Exit(_unwritten(error)) from error
    except SystemExit as error:  # what Rich makes of it
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        raise typer.Exit(_unwritten(error.__context__)) from error


def _is_unwritten(error: BaseException) -> bool:
    """Whether nobody reads the output any more, or the disk that it goes to is full."""
    return isinstance(error, OSError) and error.errno in _UNWRITTEN


def _unwritten(error: OSError) -> int:
    """Say that output cannot be written, unless nobody reads it; the exit code."""
    _discard(sys.stdout)
    if error.errno == errno.EPIPE:
        return UNREAD
    _tell(f"Error: The output cannot be written: {(error.strerror or str(error)).lower()}.", "Make room on the disk.")
    return UNEXPECTED


def _discard(stream: TextIO) -> None:
    """Let go of what waits in a stream's buffer, which would fail once more at the very end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _trace(ctx: typer.Context) -> None:
    if is_wanted(ctx, "debug"):
        traceback.print_exc()


def _misused(error: typer.TyperException) -> int:
    """Tell what is wrong with a command line; the exit code. Typer has shown the help of a bare group already."""
    message = error.format_message()
    if not message:
        return 0
    ctx, param = getattr(error, "ctx", None), getattr(error, "param", None)
    if ctx is not None and param is not None and _origin(ctx, param.name) == "config":
        message = f"{config_path()}: {message}"
    _tell(f"Error: {message}", *([] if ctx is None else [_way(ctx)]))
    return USAGE


def _way(ctx: typer.Context) -> str:
    """Where to read how a command goes, and the first of its examples."""
    _, _, examples = (ctx.command.help or "").partition("Examples:\n")
    example = f", for example: {examples.splitlines()[0].strip()}" if examples else ""
    return f"See `{ctx.command_path} --help`{example or '.'}"


def _origin(ctx: typer.Context, name: str) -> str:
    """Where a parameter's value comes from: commandline, environment, config or default."""
    source = ctx.get_parameter_source(name)
    return "default" if source is None else source.name.lower().replace("default_map", "config")


def is_typed(ctx: typer.Context, name: str) -> bool:
    """Whether a parameter was given on the command line, not by the environment or the config file."""
    return _origin(ctx, name) == "commandline"


def _hints(error: MBCError, running: typer.Context | None) -> Iterator[str]:
    """The way out, and what of it was not typed."""
    if running is not None and _is_first_use(error, running):
        yield "Nothing was memorised yet. Begin with `mbc ingest FOLDER`; `mbc demo` shows how it works."
    elif error.hint:
        yield error.hint
    for option, value in _taken(running, "config") if running is not None else ():
        if option in error.message.split():
            yield f"{config_path()} says {option} {value}."


def _is_first_use(error: MBCError, ctx: typer.Context) -> bool:
    """Whether what is missing is the bank that everybody has who has used mbc before."""
    given = ctx.params.get("bank")
    bank = given[0] if isinstance(given, list) and given else given  # by default there is one, also for `mbc ask`
    if _origin(ctx, "bank") != "default" or not isinstance(bank, Path):
        return False
    return isinstance(error, BankError) and str(bank) in error.message and not bank.exists()


def _taken(ctx: typer.Context, *origins: str) -> Iterator[tuple[str, Any]]:
    """Options whose values come from elsewhere than the command line, by their long names, each value by itself."""
    for param in ctx.command.params:
        value = ctx.params.get(param.name)
        if value is not None and _origin(ctx, param.name) in origins:
            name = max(param.opts, key=len)
            yield from ((name, own) for own in (value if isinstance(value, list) else [value]))


@contextmanager
def _told(ctx: typer.Context) -> Iterator[None]:
    """Tell, where much is wanted, what was not typed but taken from elsewhere, and how long all took."""
    from mbc_cli.render.terminal import detail
    from mbc_cli.text import seconds

    began, path = time.perf_counter(), config_path()
    detail(f"config file: {path}{'' if os.path.exists(path) else ' (there is none)'}")  # noqa: PTH110
    for origin in ("environment", "config"):
        for option, value in _taken(ctx, origin):
            detail(f"from the {origin}: {option} {value}")
    for option, value in _taken(ctx, "default"):
        if option in _PLACES:
            detail(f"by default: {option} {value}")
    try:
        yield
    finally:
        detail(f"{ctx.command_path}: {seconds(time.perf_counter() - began)}")


def _tell(what: str, *hints: str) -> None:
    from rich.text import Text

    from mbc_cli.render.terminal import errors
    from mbc_cli.text import plain

    try:
        errors.print(Text(plain(what), "red"))
        for hint in hints:
            errors.print(Text(f"  {plain(hint)}"))
    except (OSError, SystemExit):  # the latter is what Rich makes of a broken pipe
        _discard(sys.stderr)  # nobody can be told; the exit code stays
