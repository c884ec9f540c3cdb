"""The straightforward way to train and to memorise, with what the released code does of needless work, and no more.

What it does, and so do these classes:
- Every text has one width. A document has 1,022 tokens (GPT-2's 1,024 less the prefix's two), for the amortizer's T5
  and for the base LM alike; a question has 104 for its T5; a question and its answer together 128 for the base LM.
  Shorter ones are padded, and no two batches differ.
- The base LM's head makes logits of every position, padding included; the loss then picks the answer's.
- In each pass the base LM reads three times more, for nothing but figures in a log: documents without a prefix,
  questions and answers without, and documents under it.

Everything else is ours: the same weights, codebook, losses, padding masks and attention kernels, a document with two
questions in a batch encoded once, the logits of documents a few rows at a time, since those of a batch would not fit
into most machines. So the naive way has the same loss but for rounding, as the benchmarks check, and is rather faster
here than it was published.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mbc_engine.lm.base import BaseLM, BaseTexts, KVPrefix, Targets
from mbc_engine.paper.amortizer import TextEncoder
from mbc_engine.paper.mbc import MBC
from mbc_engine.training.data import Batch
from mbc_engine.training.objective import Losses, Objective

DOCUMENT: Final = 1022
QUESTION: Final = 104
ASKED: Final = 128
# Documents whose logits are made at once.
ROWS: Final = 2
# What the released code encodes at once for its bank.
BATCH: Final = 16


class PaddedStates:
    """Token states of texts that are all padded to one width."""

    def __init__(self, encoder: TextEncoder, texts: Sequence[str], width: int) -> None:
        self._encoder, self._texts, self._width = encoder, texts, width

    def states(self, chosen: Sequence[int]) -> tuple[Tensor, Tensor]:
        ids, mask = padded(self._encoder, [self._texts[index] for index in chosen], self._width)
        return self._encoder.amortizer.contextualise(ids, mask), mask


def padded(encoder: TextEncoder, texts: Sequence[str], width: int) -> tuple[Tensor, Tensor]:
    """Ids and mask of texts, [B, width]."""
    ids, mask = encoder.tokenize(texts)
    missing = (0, width - ids.shape[1])
    return functional.pad(ids, missing, value=encoder.tokenizer.pad_token_id), functional.pad(mask, missing)


class WideTexts(BaseTexts):
    """Questions and their answers padded to one width."""

    def asked(self, *texts: Any, **windows: Any) -> Targets:
        asked = super().asked(*texts, **windows)
        missing = (ASKED - asked.ids.shape[1], 0)
        return Targets(functional.pad(asked.ids, missing), functional.pad(asked.mask, missing), asked.target_mask)


class NaiveLM(BaseLM):
    """A base LM that computes the loss as the released code does, and its three figures.

    Attributes:
        documents: what is read for the figures.
        figures: the last ones, in nats.
    """

    documents: Sequence[str] = ()
    figures: tuple[float, ...] = ()

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(model, tokenizer)
        self.texts = WideTexts(model, tokenizer)

    def loss(self, prefix: KVPrefix, texts: Targets) -> Tensor:
        """The mean loss of the targets, from logits of everything."""
        answers = functional.pad(texts.target_mask, (ASKED - texts.target_mask.shape[1], 0))
        labels = texts.ids.masked_fill(answers == 0, -100)
        loss = self._loss(prefix, texts.ids, texts.mask, labels)
        with torch.no_grad():
            read, mask = self._documents()
            known = read.masked_fill(mask == 0, -100)
            passes = (
                self._by_rows(None, read, mask, known),
                self._loss(None, texts.ids, texts.mask, labels),
                self._by_rows(prefix, read, mask, known),
            )
            self.figures = tuple(one.item() for one in passes)
        return loss

    def _documents(self) -> tuple[Tensor, Tensor]:
        """Ids and mask of the documents."""
        rows = self.texts.tokens(self.documents, DOCUMENT)
        ids = torch.tensor([row + [self.texts.end] * (DOCUMENT - len(row)) for row in rows], device=self.model.device)
        mask = torch.tensor([[1] * len(row) + [0] * (DOCUMENT - len(row)) for row in rows], device=self.model.device)
        return ids, mask

    def _by_rows(self, prefix: KVPrefix | None, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of a few rows at a time; rows weigh alike, for it is a figure alone."""
        losses = []
        for start in range(0, len(ids), ROWS):
            part = slice(start, start + ROWS)
            own = None if prefix is None else KVPrefix(prefix.keys[part], prefix.values[part])
            losses.append(self._loss(own, ids[part], mask[part], labels[part]))
        return torch.stack(losses).mean()

    def _loss(self, prefix: KVPrefix | None, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        length = 0 if prefix is None else prefix.length
        seen = torch.cat([mask.new_ones(len(ids), length), mask], dim=1)
        logits = self.model(
            input_ids=ids,
            attention_mask=seen,
            position_ids=(seen.cumsum(1) - 1).clamp_min(0)[:, length:],
            past_key_values=None if prefix is None else prefix.cache(self.model.dtype),
            use_cache=prefix is not None,
        ).logits
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())


class NaiveObjective(Objective):
    """The objective, read by a base LM that has to know the documents."""

    def forward(self, batch: Batch, chance: torch.Generator) -> Losses:
        """As ever; the model's base LM is a `NaiveLM`."""
        base: Any = self.model.base
        own = (batch.documents[place] for place in batch.own)
        base.documents = [self.data.documents[index] for index in own]
        return super().forward(batch, chance)


@torch.no_grad()
def memorise(model: MBC, texts: Sequence[str]) -> np.ndarray:
    """Codes of texts in the order given, each padded to 1,022 tokens: [N, T, levels] uint16."""
    codes = [
        model.codebook.encode(model.documents.amortizer(*padded(model.documents, part, DOCUMENT)))
        for part in _batches(texts, BATCH)
    ]
    return torch.cat(codes).cpu().numpy().astype(np.uint16)


def _batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (texts[start : start + size] for start in range(0, len(texts), size))
