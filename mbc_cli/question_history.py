"""The questions asked so far, one a line, in a file that only its owner can read."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from mbc_engine.atomic_write import PRIVATE_FILE, atomic_write, make_private_folder

LONGEST: Final = 1000


class QuestionHistory:
    """What was typed, the last `most` lines; nothing is kept where `path` cannot be written."""

    def __init__(self, path: Path, most: int = LONGEST) -> None:
        self._path, self._most = path, most

    def read(self) -> list[str]:
        try:
            lines = self._path.read_bytes().split(b"\n")
        except OSError:
            return []
        return [line.decode(errors="surrogateescape") for line in lines if line][-self._most :]

    def add(self, line: str) -> None:
        """Write one down at once: a terminal that is closed leaves no time for it."""
        with suppress(OSError):
            make_private_folder(self._path.parent)
            self._path.touch(PRIVATE_FILE)
            self._path.chmod(PRIVATE_FILE)
            with self._path.open("ab") as file:
                file.write(_bytes([line]))
            lines = self.read()
            if self._path.stat().st_size > len(_bytes(lines)):
                with atomic_write(self._path) as file:
                    file.write(_bytes(lines))


def _bytes(lines: Iterable[str]) -> bytes:
    """Lines as the file has them; a line end inside one would make two of it."""
    return b"".join(line.replace("\n", " ").encode(errors="surrogateescape") + b"\n" for line in lines)
