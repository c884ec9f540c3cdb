"""Meta-training of CaMeLS' weight model as a generator of events, resumable to the bit.

A step goes through a few inner batches of document-question-answer triples and adds up their outer gradients. As in the
released code the base LM goes on from one inner batch to the next and is itself again for the next step. Two things
differ. Theirs makes a step on each document of an inner batch in turn and ours one on their sum, the same but for terms
of α². And theirs keeps the output in place on web text, as it was before the inner batch; ours on another document of
the training set, as it was before the first inner batch.
"""

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import torch

from mbc_engine.datasets.example import QAExample
from mbc_engine.errors import DataError
from mbc_engine.events import Event, TuningStep
from mbc_engine.methods.answering import MAX_NEW_TOKENS, QUESTION_WINDOW
from mbc_engine.methods.camels.inner_update import InnerBatch, inner_step, parameters_of
from mbc_engine.methods.camels.weight_model import WEIGHTS, origin_of, save_weights, weight_model_for
from mbc_engine.methods.tuning_folder import require_same, tuning_folder
from mbc_engine.methods.tuning_snapshot import Noted, load_tuning, noted_in, save_tuning
from mbc_engine.metrics import shortest
from mbc_engine.model.base import BaseLM
from mbc_engine.model.digest import state_digest

_SNAPSHOT: Final = "snapshot.safetensors"
_ANOTHER: Final = "token weights of another base LM, of other questions or with other settings"


def meta_train(
    base: BaseLM,
    examples: Sequence[QAExample],
    folder: Path,
    *,
    steps: int,
    inner_documents: int = 6,
    inner_batches: int = 4,
    learning_rate: float = 1e-4,
    inner_rate: float = 5e-4,
    locality: float = 0.1,
    window: int = 512,
    seed: int = 0,
    snapshot_seconds: float = 60,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """Train a weight model for a base LM and leave it in a folder for `load_weights`.

    Called again it goes on from the last snapshot, and does nothing where the weight model is there.

    Args:
        base: in float32; stays as it is.
        examples: questions about documents.
        folder: gets the weight model, and a snapshot until then.
        steps: of the weight model's optimiser, Adam.
        inner_documents: document-question-answer triples of an inner batch.
        inner_batches: inner batches whose outer gradients make a step.
        learning_rate: Adam's, 1e-5 in the released code, which takes many more steps.
        inner_rate: of the inner update of the base LM.
        locality: weight of the divergence on other text.
        window: most tokens of a document; of a longer one a piece with the answer is taken.
        seed: of the head's first weights and of the order of the examples.
        snapshot_seconds: how often a snapshot is taken.
        stop: set it to end after the step in progress, with a snapshot.

    Raises:
        ConfigError: the folder is of another training, or cannot be read or written.
        DataError: there are no examples.
    """
    if not examples:
        raise DataError("There are no questions to train token weights on.", hint="Name a dataset that has some.")
    stop = stop or threading.Event()
    origin = json.dumps(
        {
            "steps": steps,
            "inner_documents": inner_documents,
            "inner_batches": inner_batches,
            "learning_rate": learning_rate,
            "inner_rate": inner_rate,
            "locality": locality,
            "window": window,
            "seed": seed,
            "base and examples": _digest(base, examples),
        }
    )
    snapshot = folder / _SNAPSHOT
    with tuning_folder(folder), _plain_attention(base):
        if (folder / WEIGHTS).exists():
            require_same(folder, origin_of(folder), origin, otherwise=_ANOTHER)
            return
        model, done = weight_model_for(base, seed=seed), 0
        learnt = {name: value for name, value in model.named_parameters() if value.requires_grad}
        optimiser = torch.optim.Adam(learnt.values(), lr=learning_rate)
        if snapshot.exists():
            noted = noted_in(snapshot)
            require_same(folder, noted.settings, origin, otherwise=_ANOTHER)
            load_tuning(snapshot, learnt, optimiser)
            done = noted.step
        saved = time.monotonic()
        for step in range(done, steps):
            began, losses, parameters = time.monotonic(), [], parameters_of(base.model)
            for number in range(step * inner_batches, (step + 1) * inner_batches):
                batch = _inner_batch(base, examples, number, count=inner_documents, window=window, seed=seed)
                weights = model(batch.documents)
                outcome = inner_step(base.model, parameters, batch, weights, rate=inner_rate, locality=locality)
                weights.backward(outcome.gradient / inner_batches)
                parameters = outcome.parameters
                losses.append(outcome.loss)
            optimiser.step()
            optimiser.zero_grad()
            is_stopped = stop.is_set() and step + 1 < steps
            if is_stopped or time.monotonic() - saved >= snapshot_seconds:
                save_tuning(snapshot, learnt, optimiser, Noted(step + 1, float("inf"), origin))
                saved = time.monotonic()
            speed = inner_documents * inner_batches / (time.monotonic() - began)
            yield TuningStep(step + 1, steps, round(sum(losses) / len(losses), 5), round(speed, 2))
            if is_stopped:
                return
        save_weights(model, base, folder, origin)
        snapshot.unlink(missing_ok=True)


def _inner_batch(
    base: BaseLM, examples: Sequence[QAExample], number: int, *, count: int, window: int, seed: int
) -> InnerBatch:
    """The inner batch of this number, and a text of none of its documents."""
    window = min(window, base.context - 1)
    chosen = [examples[index] for index in _in_turn(len(examples), number * count, count, seed)]
    texts = [example.text for example in chosen]
    others = [example.text for example in examples if example.text not in texts] or texts
    elsewhere = random.Random(f"{seed} elsewhere {number}").choice(others)
    return InnerBatch(
        documents=base.written(
            [_piece_of(base, example.text, window, shortest(example.answers)) for example in chosen], window=window
        ),
        questions=base.asked(
            [example.question for example in chosen],
            [shortest(example.answers) for example in chosen],
            question_window=QUESTION_WINDOW,
            answer_window=MAX_NEW_TOKENS,
        ),
        elsewhere=base.written([_piece_of(base, elsewhere, window)], window=window),
    )


def _in_turn(total: int, start: int, count: int, seed: int) -> list[int]:
    """`count` places of an endless sequence from `start` on, rounds of all `total` in an order drawn for each."""
    places = []
    for round_number in range(start // total, (start + count - 1) // total + 1):
        order = random.Random(f"{seed} round {round_number}").sample(range(total), total)
        first = round_number * total
        places += order[max(0, start - first) : start + count - first]
    return places


def _piece_of(base: BaseLM, text: str, window: int, answer: str = "") -> str:
    """The first piece of a text with an answer in it, or the first of all."""
    pieces = [piece.text for piece in base.pieces(text, window)]
    return next((piece for piece in pieces if answer in piece), pieces[0])


def _digest(base: BaseLM, examples: Sequence[QAExample]) -> str:
    """What tells base LMs, by their embeddings, and sets of questions apart."""
    told = json.dumps([[example.text, example.question, example.answers] for example in examples])
    return state_digest(dict([next(base.named_parameters())]), told)[:16]


@contextmanager
def _plain_attention(base: BaseLM) -> Iterator[None]:
    """Attention that has a forward mode."""
    usual = base.model.config._attn_implementation
    base.model.set_attn_implementation("eager")
    try:
        yield
    finally:
        base.model.set_attn_implementation(usual)
