"""Meta-training of CaMeLS' weight model as a generator of events, resumable to the bit.

A step goes through a few inner batches of document-question-answer triples and adds up their outer gradients. As in the
released code the base LM goes on from one inner batch to the next and is itself again for the next step. Two things
differ. Theirs makes a step on each document of an inner batch in turn and ours one on their sum, the same but for terms
of α². And theirs keeps the output in place on web text, as it was before the inner batch; ours on another document of
the training set, as it was before the first inner batch.
"""

import json
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from mbc_engine.datasets.layout import QAExample
from mbc_engine.errors import DataError
from mbc_engine.events import Event, TuningStep
from mbc_engine.lm.base import BaseLM
from mbc_engine.lm.pretrained import state_digest
from mbc_engine.methods.camels import (
    WEIGHTS,
    InnerBatches,
    inner_step,
    origin_of,
    parameters_of,
    save_weights,
    weight_model_for,
)
from mbc_engine.methods.tuning import Noted, load_tuning, noted_in, require_same, save_tuning, tuning_folder

_SNAPSHOT: Final = "snapshot.safetensors"
_ANOTHER: Final = "token weights of another base LM, of other questions or with other settings"


@dataclass(frozen=True)
class MetaSettings:
    """What a meta-training is asked for.

    Attributes:
        steps: of the weight model's optimiser, Adam.
        inner_documents: document-question-answer triples of an inner batch.
        inner_batches: inner batches whose outer gradients make a step.
        learning_rate: Adam's, 1e-5 in the released code, which takes many more steps.
        inner_rate: of the inner update of the base LM.
        locality: weight of the divergence on other text.
        window: most tokens of a document; of a longer one a piece with the answer is taken.
        seed: of the head's first weights and of the order of the examples.
    """

    steps: int
    inner_documents: int = 6
    inner_batches: int = 4
    learning_rate: float = 1e-4
    inner_rate: float = 5e-4
    locality: float = 0.1
    window: int = 512
    seed: int = 0


def meta_train(
    base: BaseLM,
    examples: Sequence[QAExample],
    folder: Path,
    settings: MetaSettings,
    *,
    snapshot_seconds: float = 60,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """Train a weight model for a base LM and leave it in a folder for `load_weights`.

    Called again it goes on from the last snapshot, and does nothing where the weight model is there.

    Args:
        base: in float32; stays as it is.
        examples: questions about documents.
        folder: gets the weight model, and a snapshot until then.
        settings: another training's folder is refused by them.
        snapshot_seconds: how often a snapshot is taken.
        stop: set it to end after the step in progress, with a snapshot.

    Raises:
        ConfigError: the folder is of another training, or cannot be read or written.
        DataError: there are no examples.
    """
    if not examples:
        raise DataError("There are no questions to train token weights on.", hint="Name a dataset that has some.")
    origin = json.dumps({**vars(settings), "base and examples": _digest(base, examples)})
    with tuning_folder(folder), _plain_attention(base):
        if (folder / WEIGHTS).exists():
            require_same(folder, origin_of(folder), origin, otherwise=_ANOTHER)
            return
        training = _MetaTraining(base, examples, folder, settings, origin)
        yield from training.events(snapshot_seconds, stop or threading.Event())


class _MetaTraining:
    """One training: the weight model, its optimiser and where it stands, which may be where a snapshot was taken."""

    def __init__(
        self, base: BaseLM, examples: Sequence[QAExample], folder: Path, settings: MetaSettings, origin: str
    ) -> None:
        self.base, self.folder, self.settings, self.origin = base, folder, settings, origin
        self.batches = InnerBatches(base, examples, settings.inner_documents, settings.window, settings.seed)
        self.model, self.step = weight_model_for(base, seed=settings.seed), 0
        self.learnt = {name: value for name, value in self.model.named_parameters() if value.requires_grad}
        self.optimiser = torch.optim.Adam(self.learnt.values(), lr=settings.learning_rate)
        self.snapshot = folder / _SNAPSHOT
        if self.snapshot.exists():
            noted = noted_in(self.snapshot)
            require_same(folder, noted.settings, origin, otherwise=_ANOTHER)
            load_tuning(self.snapshot, self.learnt, self.optimiser)
            self.step = noted.step

    def events(self, snapshot_seconds: float, stop: threading.Event) -> Iterator[Event]:
        """Everything that happens, until the weight model stands in the folder or a stop is asked for."""
        saved = time.monotonic()
        while self.step < self.settings.steps:
            event = self._step()
            is_stopped = stop.is_set() and self.step < self.settings.steps
            if is_stopped or time.monotonic() - saved >= snapshot_seconds:
                save_tuning(self.snapshot, self.learnt, self.optimiser, Noted(self.step, math.inf, self.origin))
                saved = time.monotonic()
            yield event
            if is_stopped:
                return
        save_weights(self.model, self.base, self.folder, self.origin)
        self.snapshot.unlink(missing_ok=True)

    def _step(self) -> TuningStep:
        settings, began, losses = self.settings, time.monotonic(), []
        parameters, first = parameters_of(self.base.model), self.step * settings.inner_batches
        for number in range(first, first + settings.inner_batches):
            batch = self.batches.batch(number)
            weights = self.model(batch.documents)
            outcome = inner_step(
                self.base.model, parameters, batch, weights, rate=settings.inner_rate, locality=settings.locality
            )
            weights.backward(outcome.gradient / settings.inner_batches)
            parameters = outcome.parameters
            losses.append(outcome.loss)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.step += 1
        speed = settings.inner_documents * settings.inner_batches / (time.monotonic() - began)
        return TuningStep(self.step, settings.steps, round(sum(losses) / len(losses), 5), round(speed, 2))


def _digest(base: BaseLM, examples: Sequence[QAExample]) -> str:
    """What tells base LMs, by their embeddings, and sets of questions apart."""
    told = json.dumps([[example.text, example.question, example.answers] for example in examples])
    return state_digest(dict([next(base.named_parameters())]), told)[:16]


@contextmanager
def _plain_attention(base: BaseLM) -> Iterator[None]:
    """Attention that has a forward mode."""
    usual = base.model.config._attn_implementation  # noqa: SLF001 - transformers has no public name for it
    base.model.set_attn_implementation("eager")
    try:
        yield
    finally:
        base.model.set_attn_implementation(usual)
