"""How much is said beside data and errors: less with --quiet, more with --verbose, tracebacks with --debug."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Verbosity:
    """What was asked for.

    Attributes:
        quiet: nothing but data and errors.
        verbose: also what was taken from where, how long things took, and what the libraries warn of.
        debug: the traceback of an error.
    """

    quiet: bool = False
    verbose: bool = False
    debug: bool = False


_current = Verbosity()


def verbosity() -> Verbosity:
    """What holds now."""
    return _current


@contextmanager
def held(chosen: Verbosity) -> Iterator[None]:
    """Inside, this holds, also in other threads."""
    global _current  # noqa: PLW0603  # a process does one command
    before, _current = _current, chosen
    try:
        yield
    finally:
        _current = before
