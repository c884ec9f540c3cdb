"""A file that keeps one value, as it was when it was put there."""

from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from mbc_engine.errors import DataError
from mbc_engine.evaluation.predictions import fault
from mbc_engine.whole_file import whole_file

T = TypeVar("T")


class Record(Generic[T]):
    """A file that holds one value, or is not there.

    Args:
        path: the file.
        kind: what it holds.
    """

    def __init__(self, path: Path, kind: TypeAdapter[T]) -> None:
        self.path, self._kind = path, kind

    @property
    def is_there(self) -> bool:
        """Whether there is a value."""
        return self.path.is_file()

    def write(self, value: T) -> None:
        """Keep a value, in place of what was kept before."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self.path) as file:
            file.write(self._kind.dump_json(value, indent=2) + b"\n")

    def read(self) -> T | None:
        """What was written; None if nothing was.

        Raises:
            DataError: the file cannot be read or is damaged.
        """
        try:
            return self._kind.validate_json(self.path.read_bytes(), strict=True)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(
                f"{self.path} cannot be read: {error.strerror or error}.", hint="Check its permissions."
            ) from error
        except ValidationError as error:
            raise DataError(f"{self.path} is damaged: {fault(error)}.", hint=again(self.path)) from error


def again(path: Path) -> str:
    """How to come by what a damaged file held."""
    return f"Delete {path}; the evaluation then finds it anew."
