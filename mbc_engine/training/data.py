"""A training set: distinct documents, the questions about them, and the order of each epoch.

Token states of a training set's texts: computed in each step, or once and kept on disk for a frozen encoder.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from mbc_engine.atomic_write import make_private_folder
from mbc_engine.datasets.layout import QAExample
from mbc_engine.events import StatesCached
from mbc_engine.lm.pretrained import state_digest
from mbc_engine.metrics import shortest
from mbc_engine.paper.amortizer import TextEncoder


@dataclass(frozen=True)
class Batch:
    """Questions and the documents they are about.

    Attributes:
        examples: numbers of the questions, K of them.
        documents: numbers of the distinct documents, U of them.
        own: for each question, its document's place in `documents`, [K].
    """

    examples: list[int]
    documents: list[int]
    own: list[int]


class TrainingSet:
    """Examples, at least one, with each document kept once."""

    def __init__(self, examples: Sequence[QAExample]) -> None:
        self.questions = [example.question for example in examples]
        self.answers = [shortest(example.answers) for example in examples]
        place: dict[str, int] = {}
        self._document = [place.setdefault(example.text, len(place)) for example in examples]
        self.documents = list(place)

    def __len__(self) -> int:
        return len(self.questions)

    def steps(self, batch_size: int) -> int:
        """Batches in an epoch; a last partial one is left out, unless it is the only one."""
        return max(1, len(self) // batch_size)

    def epoch(self, epoch: int, batch_size: int, *, seed: int, skip: int = 0) -> Iterator[Batch]:
        """The batches of an epoch in their seeded order, after the first `skip`."""
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        order = torch.randperm(len(self), generator=generator).tolist()
        for step in range(skip, self.steps(batch_size)):
            yield self.batch(order[step * batch_size : (step + 1) * batch_size])

    def batch(self, examples: list[int]) -> Batch:
        """A batch of chosen questions."""
        place: dict[int, int] = {}
        own = [place.setdefault(self._document[example], len(place)) for example in examples]
        return Batch(examples, list(place), own)


class TextStates(Protocol):
    """States of texts by their number."""

    def states(self, chosen: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Token states [B, S, E] and mask [B, S] of the chosen texts."""
        ...


class LiveStates:
    """Runs the encoder each time, so that gradients reach it."""

    def __init__(self, encoder: TextEncoder, texts: Sequence[str]) -> None:
        self._encoder, self._texts = encoder, texts

    def states(self, chosen: Sequence[int]) -> tuple[Tensor, Tensor]:
        ids, mask = self._encoder.tokenize([self._texts[index] for index in chosen])
        return self._encoder.amortizer.contextualise(ids, mask), mask


class CachedStates:
    """A frozen encoder's states in one file of half-precision rows, one row a token.

    The file is named by what it holds; `fill` writes what is missing and goes on where an interrupted one ended.

    Args:
        encoder: the frozen encoder.
        texts: the texts, in the order of their numbers.
        folder: where the file lies.
    """

    BATCH = 64

    def __init__(self, encoder: TextEncoder, texts: Sequence[str], folder: Path) -> None:
        self._encoder, self._texts = encoder, texts
        key = hashlib.sha256(state_digest(encoder.amortizer.pretrained.state_dict(), str(encoder.window)).encode())
        for text in texts:
            key.update(hashlib.sha256(text.encode()).digest())
        self._path = folder / f"{key.hexdigest()[:32]}.f16"
        self._width: int = encoder.amortizer.pretrained.config.hidden_size
        special = encoder.tokenizer.num_special_tokens_to_add()
        counts = [min(count + special, encoder.window) for count in encoder.chunker.token_counts(list(texts))]
        # Texts of one length lie together, so that batches need no padding.
        self._order = sorted(range(len(texts)), key=lambda index: (counts[index], index))
        self._counts = np.array(counts)
        starts = np.concatenate([[0], np.cumsum(self._counts[self._order])])
        self._rows = int(starts[-1])
        self._start = np.empty(len(texts), dtype=np.int64)
        self._start[self._order] = starts[:-1]
        self._table: np.ndarray | None = None

    def fill(self) -> Iterator[StatesCached]:
        """Compute the missing states."""
        make_private_folder(self._path.parent)
        row_bytes = 2 * self._width
        # A second training on the same texts waits for the first to have computed them.
        with FileLock(self._path.with_suffix(".lock")), self._path.open("ab") as file:
            done = int(np.searchsorted(self._start[self._order], file.tell() // row_bytes, side="right")) - 1
            if file.tell() == self._rows * row_bytes:
                done = len(self._texts)
            done = max(done, 0)
            if done < len(self._texts):
                file.truncate(int(self._start[self._order[done]]) * row_bytes)
            for begin in range(done, len(self._order), self.BATCH):
                batch = self._order[begin : begin + self.BATCH]
                self._write(file, batch)
                yield StatesCached(begin + len(batch), len(self._texts))
        self._table = np.memmap(self._path, dtype=np.float16, mode="r", shape=(self._rows, self._width))

    def states(self, chosen: Sequence[int]) -> tuple[Tensor, Tensor]:
        assert self._table is not None, "fill() comes first"
        device = next(self._encoder.amortizer.parameters()).device
        width = int(self._counts[list(chosen)].max())
        states = torch.zeros(len(chosen), width, self._width, dtype=torch.float16)
        mask = torch.zeros(len(chosen), width, dtype=torch.int64)
        for row, index in enumerate(chosen):
            start, count = self._start[index], self._counts[index]
            states[row, :count] = torch.from_numpy(self._table[start : start + count].copy())
            mask[row, :count] = 1
        return states.to(device).float(), mask.to(device)

    @torch.no_grad()
    def _write(self, file: BinaryIO, batch: list[int]) -> None:
        ids, mask = self._encoder.tokenize([self._texts[index] for index in batch])
        states = self._encoder.amortizer.contextualise(ids, mask)
        file.write(states[mask.bool()].half().cpu().numpy().tobytes())


def text_states(encoder: TextEncoder, texts: Sequence[str], cache: Path) -> TextStates:
    """Cached in a folder for a frozen encoder, computed in each step for one that trains."""
    return CachedStates(encoder, texts, cache) if encoder.is_frozen else LiveStates(encoder, texts)
