"""Questions to banks, for all who ask them: the terminal, the dashboard, the server and assistants.

A model that answers from banks as they are at each question, whatever other processes do to them meanwhile.

The questions asked so far, one a line, in a file that only its owner can read.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from mbc_engine.atomic_write import PRIVATE_FILE, atomic_write, make_private_folder
from mbc_engine.bank import Banks
from mbc_engine.errors import MBCError
from mbc_engine.question import AskOptions

if TYPE_CHECKING:
    from mbc_engine.answering import Recall, Reply, Source
    from mbc_engine.load import Model


class Asker:
    """Asks the banks at some paths, as one.

    Args:
        model: the banks' own.
        paths: the banks', one or more.
        options: how to ask.
        name: the model's, as it was given.
        loading: seconds spent on loading it.
        weights: how much the documents of each bank count; None for all alike.

    Attributes:
        options: may be changed between questions.
    """

    @classmethod
    def load(
        cls,
        banks: Sequence[Path],
        model: str,
        options: AskOptions,
        device: str | None = None,
        *,
        weights: Sequence[float] | None = None,
    ) -> Self:
        """Load a model, on the default device if none is named, to ask banks with it that need not be there yet.

        Raises:
            ModelError: the model cannot be loaded.
            ConfigError: the device is not there.
        """
        from mbc_cli.engine import load_model

        began = time.perf_counter()
        loaded = load_model(model, device)
        return cls(loaded, banks, options, model, time.perf_counter() - began, weights=weights)

    def __init__(
        self,
        model: "Model",
        paths: Sequence[Path],
        options: AskOptions,
        name: str,
        loading: float,
        *,
        weights: Sequence[float] | None = None,
    ) -> None:
        self.model, self.options, self.name, self.loading = model, options, name, loading
        self.paths, self._weights = tuple(paths), weights
        self._banks: Banks | None = None
        self._recall: Recall | None = None

    @property
    def can_be_streamed(self) -> bool:
        """Whether an answer can be shown while it is being generated: where it is, and cannot be withheld any more."""
        from mbc_engine.paper.mbc import MBC

        return isinstance(self.model, MBC) and self.options.beams == 1 and self.options.min_confidence is None

    def ask(
        self, questions: Sequence[str], on_token: Callable[[str], None] | None = None, *, with_codes: bool = False
    ) -> "list[Reply]":
        """Answer questions in one batch; `on_token` gets a single one's answer piece by piece, where it is generated.

        Raises:
            BankError: a bank cannot be opened, or there is nothing to read.
            ConfigError: the model cannot be asked with these options.
            MBCError: the banks or the read do not fit the model.
        """
        options = replace(self.options, on_token=on_token, with_codes=with_codes)
        with self._reading() as recall:
            return recall.ask(questions, **vars(options))

    def search(self, queries: Sequence[str], top: int) -> "list[tuple[Source, ...]]":
        """The passages that queries lead to, `top` for each at most; see `Recall.search`.

        Raises:
            BankError, ConfigError, MBCError: as `ask`.
        """
        options = self.options
        with self._reading() as recall:
            return recall.search(queries, top=top, read_mode=options.read_mode, selection=options.selection)

    def close(self) -> None:
        """Let go of the banks, until the next question."""
        if self._banks is not None:
            self._banks.close()
        self._banks = self._recall = None

    def recall(self) -> "Recall":
        """The banks, opened anew if another file stands at a path or another model has encoded one.

        Looking takes no time, but a new `Recall` reads all weights of the model to see whether it wrote the bank.

        Raises:
            BankError: a bank cannot be opened.
            ModelMismatch: another model wrote it.
            ConfigError: two paths have come to lead to one bank.
        """
        from mbc_engine.answering import Recall

        with ExitStack() as stack:
            now, held = stack.enter_context(Banks.open(self.paths, self._weights)), self._banks
            is_same = held is not None and not held.is_replaced() and now.headers == held.headers
            if self._recall is None or not is_same:
                recall = Recall(self.model, now)
                self.close()
                self._banks, self._recall = now, recall
                stack.pop_all()  # it stays open
            return self._recall

    @contextmanager
    def _reading(self) -> "Iterator[Recall]":
        """The banks, let go of if anything but an error of theirs ends it: Ctrl-C may come between any two lines."""
        try:
            yield self.recall()
        except MBCError:
            raise
        except BaseException:
            self.close()
            raise


@contextmanager
def opened(
    banks: Sequence[Path],
    model: str,
    options: AskOptions,
    device: str | None = None,
    *,
    weights: Sequence[float] | None = None,
) -> Iterator[Asker]:
    """Load a model to ask one or more banks as one, on the default device if none is named.

    What is wrong with the banks is told at once, not after the model was loaded.

    Args:
        banks: their files.
        model: its name or folder.
        options: how to ask.
        device: where the model runs.
        weights: how much the documents of each bank count; None for all alike.

    Raises:
        BankError: there is no bank.
        ModelMismatch: the banks are not of one model.
        ModelError: the model cannot be loaded.
        ConfigError: a bank is named twice, weights do not fit, the model cannot be asked with these options, or the
            device is not there.
    """
    Banks.open(banks, weights).close()
    asker = Asker.load(banks, model, options, device, weights=weights)
    from mbc_engine.answering import require_askable

    require_askable(asker.model, options)
    try:
        yield asker
    finally:
        asker.close()


LONGEST: Final = 1000


class QuestionHistory:
    """What was typed, kept for the next session, whichever command it was typed into.

    Args:
        path: the file; nothing is kept where it cannot be written.
        most: how many lines are kept.
    """

    def __init__(self, path: Path, most: int = LONGEST) -> None:
        self._path, self._most = path, most

    def read(self) -> list[str]:
        """The lines, the first one typed first. Bytes that are no text come as in `os.fsdecode`."""
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
