"""What methods need before they can be evaluated: models trained on a cell's questions, each in a folder of its own.

Every preparation goes on where it was interrupted.
"""

import threading
from collections.abc import Callable, Iterator, Mapping

from mbc_engine.config import Config
from mbc_engine.events import Event
from mbc_engine.experiments.materials import Materials
from mbc_engine.experiments.variants import mac_of
from mbc_engine.methods.camels.meta_training import MetaSettings, meta_train
from mbc_engine.methods.question_training import train_on_questions
from mbc_engine.training.trainer import train
from mbc_engine.work.run_folder import EVENTS, SNAPSHOT

Preparation = Callable[[Materials, threading.Event], Iterator[Event]]


def prepare(name: str, materials: Materials, *, stop: threading.Event) -> Iterator[Event]:
    """Train something; see `PREPARATIONS`.

    Args:
        name: what.
        materials: of the cell.
        stop: set it to end soon, with what is needed to go on.

    Raises:
        MBCError: it cannot be trained here.
    """
    yield from PREPARATIONS[name](materials, stop)


def _memory(name: str, config_of: Callable[[Materials], Config]) -> Preparation:
    """A training of MBC, or of what settings make of it."""

    def work(materials: Materials, stop: threading.Event) -> Iterator[Event]:
        run, data = materials.prepared(name), materials.data
        yield from train(
            config_of(materials),
            data.train,
            data.validation,
            run,
            cache=materials.cache,
            resume=(run / EVENTS).exists() or (run / SNAPSHOT).exists(),
            device=materials.device,
            stop=stop,
        )

    return work


def _questions(materials: Materials, stop: threading.Event) -> Iterator[Event]:
    return _trained_base(materials, "questions", stop, reads=False)


def _reader(materials: Materials, stop: threading.Event) -> Iterator[Event]:
    return _trained_base(materials, "reader", stop, reads=True)


def _trained_base(materials: Materials, name: str, stop: threading.Event, *, reads: bool) -> Iterator[Event]:
    settings, data = materials.settings, materials.data
    own = settings.reading_training if reads else settings.question_training
    yield from train_on_questions(
        materials.plain_base(),
        data.train if reads else data.question_train,
        data.validation,
        materials.prepared(name),
        reads=reads,
        epochs=own.epochs,
        batch_size=own.batch_size,
        learning_rate=own.learning_rate,
        optimiser=materials.optimiser,
        seed=settings.seed,
        stop=stop,
    )


def _camels(materials: Materials, stop: threading.Event) -> Iterator[Event]:
    settings = materials.settings
    own = settings.camels
    asked = MetaSettings(
        steps=own.steps,
        inner_documents=own.inner_documents,
        inner_batches=own.inner_batches,
        learning_rate=own.learning_rate,
        inner_rate=own.inner_rate,
        locality=own.locality,
        window=settings.document_window,
        seed=settings.seed,
    )
    base, folder = materials.base("questions"), materials.prepared("camels")
    yield from meta_train(base, materials.data.train, folder, asked, stop=stop)


PREPARATIONS: Mapping[str, Preparation] = {
    "mbc": _memory("mbc", lambda materials: materials.config),
    "mac": _memory("mac", lambda materials: mac_of(materials.config)),
    "reset": _memory("reset", lambda materials: materials.usage_config(resets=True)),
    "no-reset": _memory("no-reset", lambda materials: materials.usage_config(resets=False)),
    "questions": _questions,
    "reader": _reader,
    "camels": _camels,
}
