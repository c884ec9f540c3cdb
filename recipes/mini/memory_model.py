"""What stage 5 of `mini` trains: its parts, how they start, what they make of a batch, and the losses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from memory_data import LATENTS, WORDS, Asked, Batch, Chosen
from torch import Tensor, nn
from torch.nn import functional

from mbc_engine.model.address import Address
from mbc_engine.model.aggregator import Aggregator
from mbc_engine.model.amortizer import EncoderAmortizer
from mbc_engine.model.base import BaseLM
from mbc_engine.model.kmeans import kmeans
from mbc_engine.model.prefix import PrefixNetwork
from mbc_engine.model.salience import Salience
from mbc_engine.model.tensor_file import write_tensors
from mbc_engine.model.word_codebook import Roles, WordCodebook

ROLE_DIM = 64


class WordMemory(nn.Module):
    """What is trained, under the names it has in a model."""

    def __init__(self, base: BaseLM, questions: EncoderAmortizer) -> None:
        super().__init__()
        shape, width = base.shape, questions.encoder.config.hidden_size
        self.base = base
        self.salience = Salience(width, shape.dim)
        self.told = nn.Linear(width, ROLE_DIM)
        self.questions = questions
        # Its address is trained apart, by address.py.
        address = Address(width)
        self.codebook = WordCodebook(base.model.get_input_embeddings(), address, words=WORDS, role_dim=ROLE_DIM)
        self.aggregator = Aggregator(shape.dim, blocks=3, heads=6, head_dim=32, hidden=384)
        self.prefix = PrefixNetwork(
            shape.dim, shape.layers, shape.kv_heads, shape.head_dim, columns=LATENTS, hidden=32, slot_embedding=True
        )
        # In training alone: what a latent has read, as a piece of the vocabulary.
        self.naming = nn.Linear(shape.dim, shape.dim)

    def trained(self) -> dict[str, Tensor]:
        """Everything that training changes, by name."""
        others = ("questions.encoder.", "codebook.address.", "codebook.rarity", "base.model.lm_head.")
        return {name: value for name, value in self.state_dict().items() if not name.startswith(others)}

    def save(self, out: Path) -> None:
        """Write what was trained: the base LM as a folder, the rest under the names it has in a model."""
        self.base.save(out / "base")
        parts = {
            "documents.amortizer.salience": self.salience,
            "documents.amortizer.told": self.told,
            "questions.amortizer": self.questions,
            "codebook": self.codebook,
            "aggregator": self.aggregator,
            "prefix": self.prefix,
        }
        others = ("questions.amortizer.encoder.", "codebook.address.", "codebook.rarity")
        tensors = {f"{part}.{name}": value for part, own in parts.items() for name, value in own.state_dict().items()}
        own = {name: value.cpu().contiguous() for name, value in tensors.items() if not name.startswith(others)}
        write_tensors(out / "memory.safetensors", own, {})


@dataclass(frozen=True)
class Told:
    """What became of a batch.

    Attributes:
        modulation: of its questions, [B, LATENTS, D].
        pointed: where their latents looked, [B, LATENTS, W or 2 W].
        loss: the codebook's.
        roles: of its documents' words, [U, W].
    """

    modulation: Tensor
    pointed: Tensor
    loss: Tensor
    roles: Roles


def read(model: WordMemory, batch: Batch, other: Tensor | None = None, without: Tensor | None = None) -> Told:
    """What questions take from their own documents, and from another one each if there is to be one."""
    quantized = model.codebook.quantize(batch.pieces, model.told(batch.states))
    bank = quantized.rows[batch.own]
    if other is not None:
        bank = torch.cat([bank, quantized.rows[other]], dim=1)
    question = model.questions.readout(batch.questions, batch.mask)
    aggregated = model.aggregator(question, bank)
    modulation = aggregated.modulation
    if without is not None:
        modulation = torch.where(without[:, None, None], question, modulation)
    return Told(modulation, aggregated.pointed, quantized.loss, quantized.roles)


def pointing_loss(pointed: Tensor, asked: Sequence[Asked], skip: Tensor) -> Tensor:
    """How far latent j is from reading piece j of the answer, the mean over the pieces that are among the words."""
    words = torch.from_numpy(np.stack([one.words for one in asked])).to(pointed.device)
    there = (words >= 0) & ~skip[:, None, None]
    mass = (pointed.float().gather(2, words.clamp_min(0)) * there).sum(-1)
    wanted = there.any(-1)
    return -mass[wanted].clamp_min(1e-6).log().mean()


def naming_loss(model: WordMemory, told: Told, batch: Batch, skip: Tensor) -> Tensor:
    """How far latent j is from naming piece j of the answer, the mean over the pieces that are among the words."""
    words = torch.from_numpy(np.stack([one.words[:, 0] for one in batch.asked])).to(batch.own.device)
    wanted = (words >= 0) & ~skip[:, None]
    pieces = batch.pieces[batch.own].gather(1, words.clamp_min(0))[wanted]
    logits = model.naming(told.modulation[wanted]) @ model.codebook.vocabulary.T
    return functional.cross_entropy(logits.float(), pieces)


@torch.no_grad()
def start_roles(model: WordMemory, data: Mapping[str, Chosen], *, seed: int, sample: int = 20_000) -> None:
    """Roles start as clusters of the principal components of words' states, each component as wide as the others."""
    chance = np.random.default_rng(seed)
    states = torch.cat([own.states[own.place >= 0] for own in data.values()])
    states = states[torch.from_numpy(chance.choice(len(states), min(sample, len(states)), replace=False))]
    states = states.to(model.told.weight.device).float()
    mean = states.mean(0)
    values, directions = torch.linalg.eigh((states - mean).T @ (states - mean) / len(states))
    model.told.weight.copy_((directions[:, -ROLE_DIM:] / values[-ROLE_DIM:].sqrt()).T)
    model.told.bias.copy_(-model.told.weight @ mean)
    torch.manual_seed(seed)
    contexts = model.told(states)
    model.codebook.role_book.copy_(kmeans(contexts, model.codebook.roles).centres)
    start_shades(model, contexts)


@torch.no_grad()
def start_shades(model: WordMemory, contexts: Tensor) -> None:
    """Shades start as clusters of what roles leave over of contexts."""
    left = contexts - model.codebook.role_book[model.codebook.nearest(contexts).role]
    model.codebook.shade_book.copy_(kmeans(left, len(model.codebook.shade_book)).centres)


@torch.no_grad()
def start_copying(model: WordMemory) -> None:
    """The last block starts by passing on what its latents read, and naming by taking it as it is."""
    last = model.aggregator.blocks[-1].attention
    for weight in (last.value.weight, last.output.weight, model.naming.weight):
        nn.init.eye_(weight)
    for bias in (last.output.bias, model.naming.bias):
        nn.init.zeros_(bias)
