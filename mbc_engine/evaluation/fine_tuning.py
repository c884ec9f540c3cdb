"""Fine-tuning the base LM on questions beforehand, and on every document of the stream (paper, section 4.3.2)."""

import random
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import torch
from torch import nn

from mbc_engine.config import LoraSettings
from mbc_engine.datasets.examples import QAExample, evenly_spaced
from mbc_engine.errors import DataError
from mbc_engine.evaluation.language_models import MAX_NEW_TOKENS, QUESTION_WINDOW, ClosedBook, passage_chunker
from mbc_engine.evaluation.methods import Footprint
from mbc_engine.evaluation.suite import Tuning
from mbc_engine.evaluation.token_weights import TokenWeights
from mbc_engine.events import RateTried, TuningStep
from mbc_engine.lm.base import BaseLM, Targets
from mbc_engine.metrics import shortest
from mbc_engine.paper.kv_lora import adapter_state, add_kv_lora, save_adapter
from mbc_engine.paper.scoring import score, within_window
from mbc_engine.runs.training_runs import SNAPSHOT
from mbc_engine.training.run_files import read_snapshot, write_snapshot

Optimiser = Literal["adam", "adafactor"]
# Batches are cut from runs of this many batches' examples, sorted by length: little of a batch is padding, and no two
# epochs have the same batches.
_SORTED_BATCHES: Final = 16
# Tokens whose gradients are computed at once: 16 long passages of SQuAD together took 16 GB with SmolLM2-135M.
_TOKENS: Final = 2048


def make_optimiser(name: Optimiser, parameters: Iterable[nn.Parameter], rate: float) -> torch.optim.Optimizer:
    """An optimiser with a constant learning rate.

    Adafactor keeps its second moment factored into rows and columns. It uses the rate unscaled, as in the released code
    of CaMeLS, so that one sweep of rates fits both optimisers; torch's own would scale it by each weight's size.
    """
    if name == "adafactor":
        from transformers.optimization import Adafactor  # a slow import

        return Adafactor(parameters, lr=rate, scale_parameter=False, relative_step=False)
    # A fused step on 82 million weights takes 0.12 s on one core, an unfused one 0.39 s.
    return torch.optim.Adam(parameters, lr=rate, fused=True)


class FineTuned(ClosedBook):
    """A method that keeps documents in the float32 weights of a base LM, which stay changed until the next `reset`.

    `window` is the most tokens of a piece; one whose tokens all have weight 0 makes no step. Raises ModelError if the
    base LM cannot be tuned.
    """

    def __init__(self, base: BaseLM, weights: TokenWeights, *, rate: float, optimiser: Optimiser, window: int) -> None:
        base.tune()
        base.eval()
        super().__init__(base)
        self._weights, self._window, self._rate, self._kind = weights, window, rate, optimiser
        # On the host: GPU memory is scarcer, and these are rarely needed.
        self._initial = [value.detach().to("cpu", copy=True) for value in base.parameters()]
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        for value, initial in zip(self._base.parameters(), self._initial, strict=True):
            value.copy_(initial)
            value.grad = None  # left by an interrupted step
        self._optimiser = make_optimiser(self._kind, self._base.parameters(), self._rate)

    def adapt(self, documents: Sequence[str]) -> None:
        for document in documents:
            for piece in self._base.prompt_tokenizer.pieces(document, self._window):
                with torch.no_grad():  # the weights may come from a model
                    weights = self._weights(piece)
                if weights.any():
                    self._base.piece_loss(piece, weights).backward()
                    self._optimiser.step()
                    self._optimiser.zero_grad()

    def footprint(self) -> Footprint:
        """All weights that differ from the base LM's, as stored; the paper counts no memory for fine-tuning."""
        pairs = zip(self._base.parameters(), self._initial, strict=True)
        changed = [initial for value, initial in pairs if not torch.equal(value.detach().cpu(), initial)]
        return Footprint(on_disk=sum(value.numel() * value.element_size() for value in changed))


def sweep(
    base: BaseLM,
    weights: TokenWeights,
    rates: Sequence[float],
    validation: Sequence[QAExample],
    *,
    optimiser: Optimiser,
    window: int,
) -> Generator[RateTried, None, float]:
    """Adapt to the validation documents at each rate, always from the same weights, and ask the validation questions.

    Returns the rate with the best F1 against the shortest answers; ties go to the better EM, then to the smaller rate.
    """
    documents = list(dict.fromkeys(example.text for example in validation))
    questions = [example.question for example in validation]
    tried = []
    for rate in rates:
        method = FineTuned(base, weights, rate=rate, optimiser=optimiser, window=window)
        try:
            method.adapt(documents)
            answered = zip(validation, method.answer(questions), strict=True)
        finally:
            method.reset()
        scores = score([(example, answer.text, None) for example, answer in answered])
        tried.append(RateTried(rate, scores.exact_match, scores.f1))
        yield tried[-1]
    return max(tried, key=lambda one: (one.f1, one.exact_match, -one.rate)).rate


def train_on_questions(
    base: BaseLM,
    examples: Sequence[QAExample],
    validation: Sequence[QAExample],
    folder: Path,
    settings: Tuning,
    *,
    reads: bool = False,
    lora: LoraSettings | None = None,
    optimiser: Optimiser = "adam",
    seed: int = 0,
    snapshot_seconds: float = 600,
    stop: threading.Event | None = None,
) -> Iterator[TuningStep]:
    """Tune a base LM on questions and save the weights with the lowest validation loss of all epochs in a folder.

    If it `reads`, each question follows its document, or the chunk with the answer of one too long for the context.
    With `lora`, only a KV-LoRA is trained and saved. `load_base(str(folder))`, or `load_adapter`, loads the result;
    `base` itself holds the last epoch's weights, which are saved without `validation`. Setting `stop` ends it after the
    current step with a snapshot; called again with the same arguments, it ends with the same weights as an
    uninterrupted run. Raises DataError without examples, ModelError if the base LM cannot be tuned.
    """
    if not examples:
        raise DataError("There are no questions to train on.", hint="Name a dataset that has some.")
    examples = evenly_spaced(examples, settings.most_train)
    if reads:  # as when answering, where the best chunk is read
        chunker = passage_chunker(base)
        examples, validation = within_window(examples, chunker), within_window(validation, chunker)
    if lora is None:
        base.tune()
    else:
        add_kv_lora(base.model, **lora.model_dump())
    trained = {name: value for name, value in base.named_parameters() if value.requires_grad}
    batch_size, first_seed = settings.batch_size, seed * 1_000_003
    steps_per_epoch = -(-len(examples) // batch_size)

    @lru_cache(1)
    def batches(epoch: int) -> list[list[QAExample]]:
        return batches_by_length(examples, batch_size, seed=first_seed + epoch, reads=reads)

    def add_step(step: int) -> float:
        epoch, number = divmod(step, steps_per_epoch)
        torch.manual_seed(first_seed + step)  # the same dropout whenever this step is run
        return add_gradients(base.train(), _targets(base, batches(epoch)[number], reads), settings.precision)

    yield from fit(
        add_step,
        trained,
        make_optimiser(optimiser, trained.values(), settings.learning_rate),
        folder,
        steps=settings.epochs * steps_per_epoch,
        batch_size=batch_size,
        save=lambda: base.save(folder) if lora is None else save_adapter(base.model, adapter_state(base.model), folder),
        validated_every=steps_per_epoch if validation else 0,
        validate=lambda: _loss(base, validation, batch_size, reads),
        snapshot_seconds=snapshot_seconds,
        stop=stop,
    )


def fit(
    add_gradients: Callable[[int], float],
    parameters: Mapping[str, nn.Parameter],
    optimiser: torch.optim.Optimizer,
    folder: Path,
    *,
    steps: int,
    batch_size: int,
    save: Callable[[], None],
    validated_every: int = 0,
    validate: Callable[[], float] = lambda: 0.0,
    snapshot_seconds: float = 600,
    stop: threading.Event | None = None,
) -> Iterator[TuningStep]:
    """Take optimiser steps, going on from the folder's snapshot if there is one; `stop` ends it with a snapshot.

    `add_gradients` gets a step's number, from 0, and returns its loss. What has the lowest loss in `validate`, called
    every so many steps, is saved; if it never is, what comes last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    snapshot, progress = folder / SNAPSHOT, dict[str, Any]()
    tensors = {f"model.{name}": value for name, value in parameters.items()}
    if snapshot.exists():
        progress = read_snapshot(snapshot, tensors, parameters, optimiser)
    step, best_loss = progress.get("step", 0), progress.get("best_loss")
    stop, saved = stop or threading.Event(), time.monotonic()
    while step < steps:
        began = time.monotonic()
        loss = add_gradients(step)
        optimiser.step()
        optimiser.zero_grad()
        step += 1
        yield TuningStep(step, steps, round(loss, 5), round(batch_size / (time.monotonic() - began), 2))
        is_due = stop.is_set() or time.monotonic() - saved > snapshot_seconds
        if validated_every and step % validated_every == 0:  # before its snapshot, or a resumed training would skip it
            validated, is_due = validate(), True
            if best_loss is None or validated < best_loss:
                best_loss = validated
                save()
        if is_due:
            write_snapshot(snapshot, tensors, parameters, optimiser, {"step": step, "best_loss": best_loss})
            saved = time.monotonic()
        if stop.is_set() and step < steps:
            return
    if not validated_every:
        save()
    snapshot.unlink(missing_ok=True)


def add_gradients(base: BaseLM, targets: Targets, precision: str) -> float:
    """Add the gradients of the mean loss of a batch, part by part, and return the loss."""
    total, count = 0.0, len(targets.targets)
    for rows, part in targets.by_length(len(targets.ids), _TOKENS):
        with torch.autocast(base.model.device.type, torch.bfloat16, enabled=precision == "bf16"):
            loss = base.loss(base.no_prefix(len(rows)), part) * (len(part.targets) / count)
        loss.backward()
        total += loss.item()
    return total


@torch.no_grad()
def _loss(base: BaseLM, examples: Sequence[QAExample], batch_size: int, reads: bool) -> float:
    base.eval()
    total, tokens = 0.0, 0
    for batch in batches_by_length(examples, batch_size, seed=0, reads=reads):
        targets = _targets(base, batch, reads)
        total += base.loss(base.no_prefix(len(batch)), targets).item() * len(targets.targets)
        tokens += len(targets.targets)
    return total / tokens


def _targets(base: BaseLM, batch: Sequence[QAExample], reads: bool) -> Targets:
    return base.prompt_tokenizer.question_answer_targets(
        [example.question for example in batch],
        [shortest(example.answers) for example in batch],
        passages=[example.text for example in batch] if reads else None,
        question_window=QUESTION_WINDOW,
        answer_window=MAX_NEW_TOKENS,
    )


def batches_by_length(examples: Sequence[QAExample], size: int, *, seed: int, reads: bool) -> list[list[QAExample]]:
    """Shuffled batches of examples of similar length, all but one of them full."""
    rng, order, batches = random.Random(seed), [*examples], []
    rng.shuffle(order)
    for start in range(0, len(order), size * _SORTED_BATCHES):
        alike = order[start : start + size * _SORTED_BATCHES]
        # Counting documents that are not read would batch questions on the same one.
        alike.sort(key=lambda example: len(example.question) + (len(example.text) if reads else 0))
        batches += [alike[first : first + size] for first in range(0, len(alike), size)]
    rng.shuffle(batches)
    return batches
