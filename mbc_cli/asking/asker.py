"""A model that answers from banks as they are at each question, whatever other processes do to them meanwhile."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mbc_cli.asking.manner import Manner
from mbc_cli.render.answer import Showing
from mbc_engine.bank import Banks
from mbc_engine.errors import ConfigError, MBCError
from mbc_engine.serving.answers import Answers

if TYPE_CHECKING:
    from mbc_engine.load import Model
    from mbc_engine.serving.ask import Recall, Reply, Source
    from mbc_engine.serving.read_answer import SpanFinder


class Asker:
    """Asks the banks at some paths, as one.

    Args:
        model: the banks' own.
        paths: the banks', one or more.
        manner: how to ask.
        name: the model's, as it was given.
        loading: seconds spent on loading it.
        weights: how much the documents of each bank count; None for all alike.

    Attributes:
        manner: may be changed between questions.
    """

    @classmethod
    def load(
        cls,
        banks: Sequence[Path],
        model: str,
        manner: Manner,
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
        return cls(loaded, banks, manner, model, time.perf_counter() - began, weights=weights)

    def __init__(
        self,
        model: "Model",
        paths: Sequence[Path],
        manner: Manner,
        name: str,
        loading: float,
        *,
        weights: Sequence[float] | None = None,
    ) -> None:
        from mbc_engine.serving.read_answer import own_reader

        self.model, self.manner, self.name, self.loading = model, manner, name, loading
        self.paths, self._weights = tuple(paths), weights
        self._banks: Banks | None = None
        self._recall: Recall | None = None
        self._reader: SpanFinder | None = own_reader(model)

    @property
    def showing(self) -> Showing:
        """What is shown of its answers."""
        confidence = self.model.settings.confidence
        tells_confidence = confidence is None or confidence.slope > 0
        return Showing(self.manner.least, tells_confidence, tells_bank=len(self.paths) > 1)

    @property
    def can_be_said(self) -> bool:
        """Whether an answer can be shown while it is being generated: where nothing comes before it."""
        from mbc_engine.serving.read_answer import usual_answers

        manner = self.manner
        answers = manner.answers or usual_answers(self._reader)
        return answers is Answers.MEMORY and manner.beams == 1 and manner.least is None

    def ask(
        self, questions: Sequence[str], said: Callable[[str], None] | None = None, *, with_codes: bool = False
    ) -> "list[Reply]":
        """Answer questions in one batch; `said` gets a single one's answer piece by piece.

        Raises:
            BankError: a bank cannot be opened, or there is nothing to read.
            ConfigError: answers are to be withheld, and the model knows no confidence.
            MBCError: the banks or the read do not fit the model.
        """
        manner = self.manner
        self.require_confidence()
        with self._reading() as recall:
            return recall.ask(
                questions,
                answers=manner.answers,
                read_mode=manner.read,
                selection=manner.selection,
                sources=manner.sources,
                with_codes=with_codes,
                max_new_tokens=manner.max_tokens,
                beams=manner.beams,
                said=said,
            )

    def search(self, queries: Sequence[str], top: int) -> "list[tuple[Source, ...]]":
        """The passages that queries lead to, `top` for each at most; see `Recall.search`.

        Raises:
            BankError, MBCError: as `ask`.
        """
        with self._reading() as recall:
            return recall.search(queries, top=top, read_mode=self.manner.read, selection=self.manner.selection)

    def close(self) -> None:
        """Let go of the banks, until the next question."""
        if self._banks is not None:
            self._banks.close()
        self._banks = self._recall = None

    def require_confidence(self) -> None:
        """Make sure, where answers are to be withheld, that the model's confidence can tell them apart.

        Raises:
            ConfigError: it cannot.
        """
        if self.manner.least is None:
            return
        settings, read = self.model.settings, self.manner.read
        if settings.confidence is None:
            raise ConfigError(
                f"The model {self.name} is not calibrated: it does not know how sure its answers are.",
                hint="Run `mbc calibrate`, or leave out --min-confidence.",
            )
        if not settings.confidence.slope:
            raise ConfigError(
                f"Calibration found that the model {self.name} cannot tell whether its bank holds what was asked.",
                hint="Leave out --min-confidence, or calibrate another model.",
            )
        if read not in (None, settings.read):
            raise ConfigError(
                f"The model {self.name} is calibrated for its own read, {settings.read}, not for {read}.",
                hint="Leave out --read or --min-confidence.",
            )

    def recall(self) -> "Recall":
        """The banks, opened anew if another file stands at a path or another model has encoded one.

        Looking takes no time, but a new `Recall` reads all weights of the model to see whether it wrote the bank.

        Raises:
            BankError: a bank cannot be opened.
            ModelMismatch: another model wrote it.
            ConfigError: two paths have come to lead to one bank.
        """
        from mbc_engine.serving.ask import Recall

        with ExitStack() as stack:
            now, held = stack.enter_context(Banks.open(self.paths, self._weights)), self._banks
            is_same = held is not None and not held.is_replaced() and now.headers == held.headers
            if self._recall is None or not is_same:
                recall = Recall(self.model, now, self._reader)
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
    manner: Manner,
    device: str | None = None,
    *,
    weights: Sequence[float] | None = None,
) -> Iterator[Asker]:
    """Load a model to ask one or more banks as one, on the default device if none is named.

    What is wrong with the banks is told at once, not after the model was loaded.

    Args:
        banks: their files.
        model: its name or folder.
        manner: how to ask.
        device: where the model runs.
        weights: how much the documents of each bank count; None for all alike.

    Raises:
        BankError: there is no bank.
        ModelMismatch: the banks are not of one model.
        ModelError: the model cannot be loaded.
        ConfigError: a bank is named twice, weights do not fit, answers are to be withheld and the model knows no
            confidence, or the device is not there.
    """
    Banks.open(banks, weights).close()
    asker = Asker.load(banks, model, manner, device, weights=weights)
    asker.require_confidence()
    try:
        yield asker
    finally:
        asker.close()
