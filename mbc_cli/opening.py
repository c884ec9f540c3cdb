"""A file opened at a line, in the user's editor or pager; PDF and Word in the system's program for them."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

from mbc_engine.errors import DataError

_VARIABLES: Final = ("VISUAL", "EDITOR", "PAGER")
_PAGERS: Final = ("less", "more", "vi")
# Editors that do not take a line as `+LINE FILE`.
_WITH_COLON: Final = ("hx", "helix", "subl", "zed")
_WITH_GOTO: Final = ("code", "code-insiders", "codium", "cursor")
_NOT_TEXT: Final = (".pdf", ".docx")


def open_file(path: Path, line: int | None = None) -> None:
    """Show a file at a line until the program ends. Raises DataError if it is gone, or no program can show it."""
    if not path.is_absolute() or not path.is_file():
        raise DataError(f"{path} cannot be opened: it is not a file any more.", hint="`mbc search` shows its text.")
    if path.suffix.lower() in _NOT_TEXT:
        import typer

        typer.launch(str(path))
        return
    try:
        subprocess.run(_command(path, line), check=False)  # noqa: S603  # the user's own choice
    except OSError as error:
        raise DataError(f"{path} cannot be opened: {error}.", hint="Set EDITOR to an editor.") from error


def _command(path: Path, line: int | None) -> list[str]:
    chosen = (os.environ.get(name, "").strip() for name in _VARIABLES)
    there = (name for name in _PAGERS if shutil.which(name))
    program = shlex.split(next(filter(None, chosen), None) or next(there, "vi"))
    if line is None:
        return [*program, str(path)]
    name = Path(program[0]).stem
    if name in _WITH_GOTO:
        return [*program, "--goto", f"{path}:{line}"]
    return [*program, f"{path}:{line}"] if name in _WITH_COLON else [*program, f"+{line}", str(path)]
