"""The straightforward way to train and to memorise, with the redundant work of the released code and no more.

Like the released code:
- All texts are padded to a fixed width. Documents have 1,022 tokens (GPT-2's 1,024 minus the prefix's two), for both
  the amortizer's T5 and the base LM; questions have 104 for their T5; a question and its answer together 128 for the
  base LM.
- The base LM's head computes logits at every position, padding included; the loss then picks the answer's.
- Each pass runs the base LM three more times, only for logged figures: on documents without a prefix, on questions and
  answers without one, and on documents with it.

Everything else is ours: the same weights, codebook, losses, padding masks and attention kernels; a document with two
questions in a batch is encoded once; the logits of documents are computed a few rows at a time, as a whole batch's
would not fit into most machines' memory. So the naive way has the same loss up to rounding, as the benchmarks check,
and is somewhat faster here than in the released code.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mbc_engine.lm.base import BaseLM, KVPrefix, PromptTokenizer, Targets
from mbc_engine.paper.amortizer import TextEncoder
from mbc_engine.paper.model import MBC
from mbc_engine.training.data import Batch
from mbc_engine.training.objective import Losses, Objective

DOCUMENT: Final = 1022
QUESTION: Final = 104
QUESTION_AND_ANSWER: Final = 128
# Documents whose logits are computed at once.
ROWS: Final = 2
# Documents that the released code encodes at once for its bank.
BATCH: Final = 16


class PaddedStates:
    """Token states of texts padded to a fixed width."""

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


class WidePromptTokenizer(PromptTokenizer):
    """Questions and their answers padded to a fixed width."""

    def question_answer_targets(self, *texts: Any, **windows: Any) -> Targets:
        asked = super().question_answer_targets(*texts, **windows)
        missing = (QUESTION_AND_ANSWER - asked.ids.shape[1], 0)
        return Targets(functional.pad(asked.ids, missing), functional.pad(asked.mask, missing), asked.target_mask)


class NaiveLM(BaseLM):
    """A base LM that computes the loss, and three figures for the log, as the released code does.

    Attributes:
        documents: the texts that the figures are computed from.
        figures: the latest ones, in nats.
    """

    documents: Sequence[str] = ()
    figures: tuple[float, ...] = ()

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(model, tokenizer)
        self.prompt_tokenizer = WidePromptTokenizer(model, tokenizer, self.context)

    def loss(self, prefix: KVPrefix, texts: Targets) -> Tensor:
        """The mean loss of the targets, from the logits of every position."""
        answers = functional.pad(texts.target_mask, (QUESTION_AND_ANSWER - texts.target_mask.shape[1], 0))
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
        rows = self.prompt_tokenizer.tokens(self.documents, DOCUMENT)
        ids = torch.tensor(
            [row + [self.prompt_tokenizer.end] * (DOCUMENT - len(row)) for row in rows], device=self.model.device
        )
        mask = torch.tensor([[1] * len(row) + [0] * (DOCUMENT - len(row)) for row in rows], device=self.model.device)
        return ids, mask

    def _by_rows(self, prefix: KVPrefix | None, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        """The mean loss, computed a few rows at a time and averaged evenly, as it is only a figure for the log."""
        losses = []
        for start in range(0, len(ids), ROWS):
            part = slice(start, start + ROWS)
            prefix_of_part = None if prefix is None else KVPrefix(prefix.keys[part], prefix.values[part])
            losses.append(self._loss(prefix_of_part, ids[part], mask[part], labels[part]))
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
    """The objective, for a `NaiveLM`, which needs the batch's documents."""

    def forward(self, batch: Batch, generator: torch.Generator) -> Losses:
        base: Any = self.model.base
        indices = (batch.documents[position] for position in batch.positions)
        base.documents = [self.data.documents[index] for index in indices]
        return super().forward(batch, generator)


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
