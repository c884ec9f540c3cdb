"""A training set: distinct documents, questions about them, the order of each epoch, and the texts' token states."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from mbc_engine.atomic_write import PRIVATE_FILE, make_private_folder
from mbc_engine.datasets.examples import QAExample
from mbc_engine.events import Progressed
from mbc_engine.lm.pretrained import state_digest
from mbc_engine.metrics import shortest
from mbc_engine.paper.amortizer import TextEncoder


@dataclass(frozen=True)
class Batch:
    """Indices of K questions and of their U distinct documents; `positions`: where each question's is in `documents`."""

    examples: list[int]
    documents: list[int]
    positions: list[int]


class TrainingSet:
    """Examples, at least one, with each document kept once."""

    def __init__(self, examples: Sequence[QAExample]) -> None:
        self.questions = [example.question for example in examples]
        self.answers = [shortest(example.answers) for example in examples]
        numbers: dict[str, int] = {}
        self._document = [numbers.setdefault(example.text, len(numbers)) for example in examples]
        self.documents = list(numbers)

    def __len__(self) -> int:
        return len(self.questions)

    def document_of(self, example: int) -> str:
        return self.documents[self._document[example]]

    def steps(self, batch_size: int) -> int:
        """Batches per epoch; a final partial one is dropped unless it is the only one."""
        return max(1, len(self) // batch_size)

    def epoch(self, epoch: int, batch_size: int, *, seed: int, skip: int = 0) -> Iterator[Batch]:
        """The batches of an epoch in their seeded order, after the first `skip`."""
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        order = torch.randperm(len(self), generator=generator).tolist()
        for step in range(skip, self.steps(batch_size)):
            yield self.batch(order[step * batch_size : (step + 1) * batch_size])

    def batch(self, examples: list[int]) -> Batch:
        numbers: dict[int, int] = {}
        positions = [numbers.setdefault(self._document[example], len(numbers)) for example in examples]
        return Batch(examples, list(numbers), positions)


class TextStates:
    """Token states of texts by index: computed each time, so that gradients reach the encoder, or cached.

    The `cache` folder is for a frozen encoder: a file of half-precision rows, one per token, named by a hash of the
    encoder and the texts.
    """

    BATCH = 64

    def __init__(self, encoder: TextEncoder, texts: Sequence[str], cache: Path | None = None) -> None:
        self._encoder, self._texts, self._is_cached = encoder, texts, cache is not None
        self._table: np.ndarray | None = None
        if cache is None:
            return
        key = hashlib.sha256(state_digest(encoder.amortizer.pretrained.state_dict(), str(encoder.window)).encode())
        for text in texts:
            key.update(hashlib.sha256(text.encode()).digest())
        self._path = cache / f"{key.hexdigest()[:32]}.f16"
        self._width: int = encoder.amortizer.pretrained.config.hidden_size
        special = encoder.tokenizer.num_special_tokens_to_add()
        counts = [min(count + special, encoder.window) for count in encoder.chunker.token_counts(list(texts))]
        # Texts of equal length are stored together, so that batches need no padding.
        self._order = sorted(range(len(texts)), key=lambda index: (counts[index], index))
        self._counts = np.array(counts)
        starts = np.concatenate([[0], np.cumsum(self._counts[self._order])])
        self._rows = int(starts[-1])
        self._start = np.empty(len(texts), dtype=np.int64)
        self._start[self._order] = starts[:-1]

    def __len__(self) -> int:
        return len(self._texts)

    def fill(self) -> Iterator[Progressed]:
        """Compute the missing states of a cache, resuming an interrupted run."""
        if not self._is_cached:
            return
        make_private_folder(self._path.parent)
        row_bytes = 2 * self._width
        # A second training on the same texts waits until the first has computed them.
        with FileLock(self._path.with_suffix(".lock"), mode=PRIVATE_FILE), self._path.open("ab") as file:
            done = len(self._texts)
            if file.tell() < self._rows * row_bytes:
                whole = np.searchsorted(self._start[self._order], file.tell() // row_bytes, side="right")
                done = max(int(whole) - 1, 0) // self.BATCH * self.BATCH  # the same batches give the same bits
                file.truncate(int(self._start[self._order[done]]) * row_bytes)
            for begin in range(done, len(self._order), self.BATCH):
                batch = self._order[begin : begin + self.BATCH]
                with torch.no_grad():
                    states, mask = self._computed(batch)
                file.write(states[mask.bool()].half().cpu().numpy().tobytes())
                yield Progressed("read texts", begin + len(batch), len(self._texts))
        self._table = np.memmap(self._path, dtype=np.float16, mode="r", shape=(self._rows, self._width))

    def states(self, chosen: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Token states [B, S, E] and mask [B, S] of the chosen texts."""
        if not self._is_cached:
            return self._computed(chosen)
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

    def _computed(self, chosen: Sequence[int]) -> tuple[Tensor, Tensor]:
        ids, mask = self._encoder.tokenize([self._texts[index] for index in chosen])
        return self._encoder.amortizer.contextualise(ids, mask), mask
