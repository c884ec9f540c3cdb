"""Learn what the gains of a model's answers say, from questions whose document is, and is not, in the bank."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import tomlkit
from numpy.typing import NDArray

from mbc_engine.atomic_write import atomic_write
from mbc_engine.config import ConfidenceSettings
from mbc_engine.datasets.layout import QAExample, evenly_spaced
from mbc_engine.errors import DataError, ModelError
from mbc_engine.events import Calibrated, Event, Progressed
from mbc_engine.model_folder import CONFIG
from mbc_engine.paper.confidence import ORIGINS, fit, judge
from mbc_engine.paper.mbc import MBC
from mbc_engine.paper.memories import ReadableMemory
from mbc_engine.paper.reads import Reader
from mbc_engine.paper.scoring import memorise_documents

Gains = NDArray[np.float64]

# The thresholds pass over one answer in twenty; of fewer they could pass over none.
_FEWEST: Final = 20
_BATCH: Final = 32


def calibrate(
    model: MBC,
    examples: Sequence[QAExample],
    *,
    bank_documents: int = 64,
    questions: int | None = None,
) -> Iterator[Event]:
    """Ask every question twice, informed and uninformed, and fit `ConfidenceSettings`; last comes `Calibrated`.

    They are asked by the model's own read, the only one that the settings hold for. The documents are dealt out to
    banks in turn, so that neighbours, which often are about one thing, come into different ones; those that fill no
    bank are left out. A question is asked of the bank with its document, and of the next. The settings are fitted to
    the questions on the first documents, about half of them; the rates are of the others.

    Args:
        model: what is calibrated; it is not changed.
        examples: questions that it was not trained on; those about nothing but white space are left out.
        bank_documents: how many documents a bank holds.
        questions: most questions to ask, evenly spaced; None asks all.

    Raises:
        DataError: there are too few documents or questions.
        MBCError: the model's read does not fit it, or gains are no numbers.
    """
    deal = _dealt(examples, bank_documents, questions)
    reader, count = model.reader(), len(deal.asked)
    informed, uninformed = np.zeros(count), np.zeros(count)
    done = 0
    for bank in range(deal.banks):
        memory, _ = memorise_documents(model, deal.texts[bank :: deal.banks])
        for gains, asking in ((informed, bank), (uninformed, (bank - 1) % deal.banks)):
            indices = np.flatnonzero(deal.places % deal.banks == asking)
            for start in range(0, len(indices), _BATCH):
                batch = indices[start : start + _BATCH]
                gains[batch] = _gains(model, reader, memory, [deal.asked[index].question for index in batch])
                done += len(batch)
                yield Progressed("answer questions", done, 2 * count)
    is_fitted = deal.is_fitted
    settings = fit(informed[is_fitted].tolist(), uninformed[is_fitted].tolist())
    yield _calibrated(settings, informed[~is_fitted], uninformed[~is_fitted], count, bank_documents)


def require_enough(examples: Sequence[QAExample], *, bank_documents: int = 64, questions: int | None = None) -> None:
    """Make sure, before a model is loaded, that `calibrate` has enough to go by; arguments as there.

    Raises:
        DataError: there are too few documents or questions.
    """
    _dealt(examples, bank_documents, questions)


def settings_of(event: Calibrated) -> ConfidenceSettings:
    """What a calibration found."""
    return ConfidenceSettings(
        slope=event.slope, intercept=event.intercept, from_memory=event.from_memory, from_model=event.from_model
    )


def separation(informed: Gains, uninformed: Gains) -> float:
    """The area under the ROC curve: how often one of the first exceeds one of the second, a tie being half."""
    below, up_to = (np.searchsorted(np.sort(uninformed), informed, side) for side in ("left", "right"))
    return float((below + up_to).mean() / (2 * len(uninformed)))


def require_writable(folder: Path) -> None:
    """Make sure, before the work, that `store` can write.

    Raises:
        ModelError: it cannot.
    """
    if not os.access(_config_of(folder).parent, os.W_OK):
        raise _not_writable(folder, "permission denied")


def store(settings: ConfidenceSettings, folder: Path) -> None:
    """Put settings into the config of a model folder, which is never there in part.

    All else in it stays, comments included.

    Raises:
        ModelError: it cannot be written.
    """
    path = _config_of(folder)
    try:
        table: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
        table["model"]["confidence"] = settings.model_dump()
        with atomic_write(path) as file:
            file.write(tomlkit.dumps(table).encode())
    except OSError as error:
        raise _not_writable(folder, (error.strerror or str(error)).lower()) from error


@dataclass(frozen=True)
class _Deal:
    """Who is asked, and of which bank.

    Attributes:
        texts: the documents; one after the other comes into the next bank.
        banks: how many banks there are.
        asked: the questions.
        places: the document of each among the texts, [questions].
    """

    texts: list[str]
    banks: int
    asked: list[QAExample]
    places: NDArray[np.int64]

    @property
    def is_fitted(self) -> NDArray[np.bool_]:
        """The questions that are fitted to, all those about the first documents; the others are held out."""
        halves: NDArray[np.bool_] = self.places < np.median(self.places)
        return halves


def _dealt(examples: Sequence[QAExample], bank_documents: int, questions: int | None) -> _Deal:
    examples = [example for example in examples if example.text.strip()]
    texts = list(dict.fromkeys(example.text for example in examples))
    banks = len(texts) // bank_documents
    if banks < 2:
        raise DataError(
            f"{len(texts):,} documents do not fill two banks of {bank_documents:,}, one with a question's document and "
            "one without.",
            hint="Give --data more documents, or make the banks smaller with --bank-size.",
        )
    del texts[banks * bank_documents :]
    place = {text: index for index, text in enumerate(texts)}
    askable = [example for example in examples if example.text in place]
    asked = evenly_spaced(askable, questions)
    deal = _Deal(texts, banks, asked, np.array([place[example.text] for example in asked]))
    if min(deal.is_fitted.sum(), (~deal.is_fitted).sum()) < _FEWEST:
        raise DataError(
            f"{len(asked):,} questions are too few: it takes {_FEWEST} to fit to, and {_FEWEST} on other documents.",
            hint="Ask more of them with --questions." if len(asked) < len(askable) else "Give --data more questions.",
        )
    return deal


def _gains(model: MBC, reader: Reader, memory: ReadableMemory, questions: Sequence[str]) -> list[float]:
    """What the memory adds to the answers that the model gives from it."""
    reading = model.read(questions, memory, top=1, reader=reader)
    return model.memory_gains(reading, questions, model.say(reading, questions))


def _calibrated(
    settings: ConfidenceSettings, informed: Gains, uninformed: Gains, questions: int, bank_documents: int
) -> Calibrated:
    """The event, with figures of held-out gains."""

    def percents(gains: Gains) -> list[float]:
        found = [judge(settings, gain)[1] for gain in gains]
        return [round(100 * found.count(origin) / len(found), 2) for origin in ORIGINS]

    return Calibrated(
        questions,
        len(informed),
        bank_documents,
        **settings.model_dump(),
        auc=round(separation(informed, uninformed), 4),
        **dict(zip([f"informed_{origin}" for origin in ORIGINS], percents(informed), strict=True)),
        **dict(zip([f"uninformed_{origin}" for origin in ORIGINS], percents(uninformed), strict=True)),
    )


def _config_of(folder: Path) -> Path:
    """The config itself, where the folder has a link to it."""
    return Path(os.path.realpath(folder / CONFIG))


def _not_writable(folder: Path, reason: str) -> ModelError:
    return ModelError(
        f"The config of the model in {folder} cannot be written: {reason}.",
        hint="Copy the folder to where you may write and name the copy with --model, or see the rates with --dry-run.",
    )
