"""The questions asked so far, one a line, in a file that only its owner can read."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from mbc_engine.atomic_write import PRIVATE_FILE, atomic_write, make_private_folder

LONGEST: Final = 1000


def read_questions(path: Path, most: int = LONGEST) -> list[str]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return []
    return [line.decode(errors="surrogateescape") for line in lines if line][-most:]


def add_question(path: Path, line: str, most: int = LONGEST) -> None:
    """Save a question at once: a terminal that is closed leaves no time for it. Nothing is kept if that is impossible."""
    with suppress(OSError):
        make_private_folder(path.parent)
        path.touch(PRIVATE_FILE)
        path.chmod(PRIVATE_FILE)
        with path.open("ab") as file:
            file.write(_bytes([line]))
        lines = read_questions(path, most)
        if path.stat().st_size > len(_bytes(lines)):
            with atomic_write(path) as file:
                file.write(_bytes(lines))


def _bytes(lines: Iterable[str]) -> bytes:
    """Lines as the file has them; a line end inside one would make two of it."""
    return b"".join(line.replace("\n", " ").encode(errors="surrogateescape") + b"\n" for line in lines)
