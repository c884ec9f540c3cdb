"""How a question reads a memory: `flat` over everything, `routed` over the documents its vectors pick."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mbc_engine.errors import ModelError
from mbc_engine.model.aggregator import Aggregator
from mbc_engine.model.memory import Memory
from mbc_engine.model.router import Router


@dataclass(frozen=True)
class Reading:
    """What questions took from a memory.

    Attributes:
        modulation: phi*, [B, T, D].
        documents: the best documents of each question, best first, [B, top].
        shares: their shares of the answer, in [0, 1], over all documents summing to 1, [B, top].
    """

    modulation: Tensor
    documents: Tensor
    shares: Tensor


@dataclass(frozen=True)
class Reader:
    """What a read needs of a model.

    Attributes:
        aggregator: h_psi.
        router: None in a model trained without one.
        routed_documents: how many documents a routed read aggregates.
    """

    aggregator: Aggregator
    router: Router | None
    routed_documents: int


def read_flat(reader: Reader, question: Tensor, memory: Memory, top: int) -> Reading:
    """The paper's read: attention over the whole memory. Question vectors are [B, T, D]."""
    rows, log_weights = memory.rows()
    read = reader.aggregator(question, rows.unsqueeze(0), None if log_weights is None else log_weights.unsqueeze(0))
    best = memory.shares(read.attention).topk(min(top, len(memory)), dim=-1)
    return Reading(read.modulation, best.indices, best.values)


def read_routed(reader: Reader, question: Tensor, memory: Memory, top: int) -> Reading:
    """Score every document by its own codes, aggregate the best few. Question vectors are [B, T, D].

    Raises:
        ModelError: the model has no router.
    """
    if reader.router is None:
        raise ModelError("This model was trained without a router.", hint="Ask with --read flat.")
    scores = memory.scores(reader.router, question)
    best = scores.softmax(-1).topk(min(max(top, reader.routed_documents), len(memory)), dim=-1)
    chosen = memory.vectors(best.indices[:, : reader.routed_documents]).flatten(1, 2)
    read = reader.aggregator(question, chosen)
    return Reading(read.modulation, best.indices[:, :top], best.values[:, :top])


READS: dict[str, Callable[[Reader, Tensor, Memory, int], Reading]] = {"flat": read_flat, "routed": read_routed}


def read(name: str, reader: Reader, question: Tensor, memory: Memory, *, top: int = 5) -> Reading:
    """Read by the mode's name. An empty memory leaves the question as its own modulation, with no documents."""
    if len(memory) == 0:
        nothing = torch.zeros(len(question), 0, device=question.device)
        return Reading(question, nothing.long(), nothing)
    return READS[name](reader, question, memory, top)
