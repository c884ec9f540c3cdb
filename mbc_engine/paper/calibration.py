"""Calibrate a model's confidence by asking questions of banks that hold their document and of banks that do not."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import tomlkit
from numpy.typing import NDArray

from mbc_engine.atomic_write import atomic_write
from mbc_engine.config import ConfidenceSettings
from mbc_engine.datasets.examples import QAExample, evenly_spaced
from mbc_engine.errors import DataError, ModelError
from mbc_engine.events import Calibrated, Event, Progressed
from mbc_engine.names import CONFIG
from mbc_engine.paper.confidence import ORIGINS, fit, judge
from mbc_engine.paper.model import MBC
from mbc_engine.paper.scoring import memorise_documents

Gains = NDArray[np.float64]

# The thresholds are 5% and 95% quantiles, which need at least 20 answers.
_FEWEST: Final = 20
_BATCH: Final = 32


def calibrate(
    model: MBC, examples: Sequence[QAExample], *, bank_documents: int = 64, questions: int | None = None
) -> Iterator[Event]:
    """Fit `ConfidenceSettings` by asking every question with and without its document; the last event is `Calibrated`.

    Documents are assigned round-robin to banks of `bank_documents`, since neighbours often share a topic; those left
    over are dropped. A question is asked of the bank with its document (informed) and of the next one (uninformed), in
    the model's own read mode, the only one the settings hold for. They are fitted to about half the questions, those on
    the first documents; the rates are measured on the others. `examples` are questions the model was not trained on, of
    which at most `questions` are asked. Raises DataError if there are too few documents or questions, MBCError if the
    read does not fit the model or gains are not finite.
    """
    texts, asked, document_of = deal(examples, bank_documents, questions)
    reader, count, banks = model.reader(), len(asked), len(texts) // bank_documents
    gains_of, done = {"informed": np.zeros(count), "uninformed": np.zeros(count)}, 0
    for bank in range(banks):
        memory, _ = memorise_documents(model, texts[bank::banks])
        for gains, asking in zip(gains_of.values(), (bank, (bank - 1) % banks), strict=True):
            indices = np.flatnonzero(document_of % banks == asking)
            for start in range(0, len(indices), _BATCH):
                batch = indices[start : start + _BATCH]
                questions_of = [asked[index].question for index in batch]
                reading = model.read(questions_of, memory, top=1, reader=reader)
                gains[batch] = model.memory_gains(reading, questions_of, model.generate_answers(reading, questions_of))
                done += len(batch)
                yield Progressed("answer questions", done, 2 * count)
    fitted, rates = _is_fitted(document_of), dict[str, float]()
    settings = fit(*(gains[fitted].tolist() for gains in gains_of.values()))
    held_out = {name: gains[~fitted] for name, gains in gains_of.items()}
    for name, gains in held_out.items():
        labels = [judge(settings, gain)[1] for gain in gains]
        rates |= {f"{name}_{origin}": round(100 * labels.count(origin) / len(labels), 2) for origin in ORIGINS}
    auc, fields = round(roc_auc(**held_out), 4), settings.model_dump()
    yield Calibrated(count, int((~fitted).sum()), bank_documents, **fields, auc=auc, **rates)


def deal(
    examples: Sequence[QAExample], bank_documents: int = 64, questions: int | None = None
) -> tuple[list[str], list[QAExample], NDArray[np.int64]]:
    """The documents that fill banks, the questions to ask, and the document of each, as an index.

    Raises DataError if there are too few documents or questions to calibrate with.
    """
    examples = [example for example in examples if example.text.strip()]
    texts = list(dict.fromkeys(example.text for example in examples))
    banks = len(texts) // bank_documents
    if banks < 2:
        raise DataError(
            f"{len(texts):,} documents do not fill the two banks of {bank_documents:,} that calibration needs.",
            hint="Give --data more documents, or make the banks smaller with --bank-size.",
        )
    index_of = {text: index for index, text in enumerate(texts[: banks * bank_documents])}
    askable = [example for example in examples if example.text in index_of]
    asked = evenly_spaced(askable, questions)
    document_of = np.array([index_of[example.text] for example in asked], np.int64)
    fitted = _is_fitted(document_of)
    if min(fitted.sum(), (~fitted).sum()) < _FEWEST:
        raise DataError(
            f"{len(asked):,} questions are too few: calibration needs {_FEWEST}, and {_FEWEST} on other documents.",
            hint="Ask more of them with --questions." if len(asked) < len(askable) else "Give --data more questions.",
        )
    return [*index_of], asked, document_of


def _is_fitted(document_of: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray(document_of < np.median(document_of))


def roc_auc(informed: Gains, uninformed: Gains) -> float:
    """The area under the ROC curve: how often an informed gain exceeds an uninformed one, ties counting half."""
    below, up_to = (np.searchsorted(np.sort(uninformed), informed, side) for side in ("left", "right"))
    return float((below + up_to).mean() / (2 * len(uninformed)))


def require_writable(folder: Path) -> None:
    """Raise ModelError if `store` could not write to the folder."""
    if not os.access(_config_of(folder).parent, os.W_OK):
        raise _not_writable(folder, "permission denied")


def store(found: Calibrated, folder: Path) -> None:
    """Write the settings found into a model folder's config, keeping everything else, including comments."""
    path = _config_of(folder)
    try:
        table: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
        table["model"]["confidence"] = {name: getattr(found, name) for name in ConfidenceSettings.model_fields}
        with atomic_write(path) as file:
            file.write(tomlkit.dumps(table).encode())
    except OSError as error:
        raise _not_writable(folder, (error.strerror or str(error)).lower()) from error


def _config_of(folder: Path) -> Path:
    return Path(os.path.realpath(folder / CONFIG))  # an atomic write would replace a symlink


def _not_writable(folder: Path, reason: str) -> ModelError:
    return ModelError(
        f"The config of the model in {folder} cannot be written: {reason}.",
        hint="Copy the folder to a writable place and give the copy as --model, or see the rates with --dry-run.",
    )
