"""Pretrained encoders and sentence vectors."""

import hashlib
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import torch
from safetensors import safe_open
from torch import Tensor, distributed
from torch.nn import functional

from mbc_engine.config import EncoderWeights
from mbc_engine.errors import ModelError
from mbc_engine.lm.packaged import locate
from mbc_engine.lm.pretrained import PACKED, open_pretrained, state_digest
from mbc_engine.text.chunks import Chunker

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

PaddingSide = Literal["left", "right"]
_BATCH: Final = 32
# About a thousand tokens: larger batches outgrow a CPU's caches and need more padding.
_CPU_CHARACTERS: Final = 4096


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder with its tokenizer: encoder-only, or encoder-decoder without an LM head.

    `packed_from` names the format of packed weights and their original's digest; None if none are packed.
    """

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    packed_from: str | None = None

    def tokenize(self, texts: Sequence[str], window: int, pads: PaddingSide | None = None) -> tuple[Tensor, Tensor]:
        """Ids and mask [B, S], padded to the longest text, or on one side to the window; longer texts are truncated."""
        padding: dict[str, Any] = {"padding": "max_length", "padding_side": pads} if pads else {"padding": True}
        batch = self.tokenizer(list(texts), truncation=True, max_length=window, return_tensors="pt", **padding)
        return batch["input_ids"].to(self.model.device), batch["attention_mask"].to(self.model.device)

    def chunker(self, window: int) -> Chunker:
        capacity = window - self.tokenizer.num_special_tokens_to_add()
        return Chunker(self.tokenizer.backend_tokenizer, capacity)

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Indices of texts to encode together; on a CPU, fewer if they are long."""
        longest = _CPU_CHARACTERS if self.model.device.type == "cpu" else math.inf
        return padded_batches(list(map(len, texts)), size=_BATCH, longest=longest)


def token_states(model: "PreTrainedModel", ids: Tensor, mask: Tensor) -> Tensor:
    """The last hidden states of an encoder, or of an encoder-decoder's encoder: ids and mask [B, S] -> [B, S, E]."""
    stack = model.get_encoder() if model.config.is_encoder_decoder else model
    states: Tensor = stack(input_ids=ids, attention_mask=mask).last_hidden_state
    return states


def mean_pooled(states: Tensor, mask: Tensor) -> Tensor:
    """Unit sentence vectors, the mean of the token states: [B, S, E], [B, S] -> [B, E]."""
    weights = mask.unsqueeze(-1).to(states.dtype)
    return functional.normalize((states * weights).sum(1) / weights.sum(1).clamp_min(1), dim=-1)


def padded_batches(lengths: Sequence[int], *, size: int, longest: float) -> Iterator[list[int]]:
    """Batches of indices of similarly long texts, shortest first, at most `size` to a batch.

    A batch totals at most `longest` in the unit of `lengths`, padding included; a longer text gets its own batch.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == size or (len(batch) + 1) * lengths[index] > longest):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def load_encoder(name: str, *, weights: EncoderWeights = "float32", device: str | torch.device = "cpu") -> Encoder:
    """Load an encoder by hub id or path. Raises ModelError if it cannot be opened, or is not the official one."""
    from transformers import AutoModel

    model, tokenizer = open_pretrained(
        AutoModel, name, what="The encoder", weights=weights, device=device, compute_dtype=torch.float32
    )
    packed_from = f"{weights} {_stored_digest(locate(name))}" if weights in PACKED else None
    if tokenizer.pad_token_id is None:
        raise ModelError(f"The tokenizer of {name} has no padding token.", hint="Use another encoder.")
    return Encoder(model, tokenizer, packed_from)


def _stored_digest(source: str) -> str:
    """Digest of the weights as stored: CPUs and GPUs pack some of them differently, and banks move between the two."""
    from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
    from transformers.utils.hub import cached_file, get_checkpoint_shard_files

    file = cached_file(source, SAFE_WEIGHTS_NAME, _raise_exceptions_for_missing_entries=False)
    files = [file] if file else get_checkpoint_shard_files(source, cached_file(source, SAFE_WEIGHTS_INDEX_NAME))[0]
    digests = []
    for path in files:
        with safe_open(path, framework="pt") as stored:
            digests += [state_digest({name: stored.get_tensor(name)}) for name in stored.keys()]  # noqa: SIM118
    return hashlib.sha256(" ".join(sorted(digests)).encode()).hexdigest()


def one_by_one(work: Callable[[Sequence[_Given]], _Made], texts: Sequence[_Given]) -> Generator[_Made, None, None]:
    """Apply `work` to each text alone, without gradients, in as many threads as torch has; yields results in order.

    Processes with sharded parameters must gather them in the same order, so they take one text after the other.
    """
    is_cast, kind = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def alone(text: _Given) -> _Made:
        with torch.no_grad(), torch.autocast("cpu", dtype=kind, enabled=is_cast):  # a new thread inherits neither
            return work([text])

    is_shared = distributed.is_available() and distributed.is_initialized()
    with single_threaded() as threads:
        # The first text goes alone: it initialises tokenizers and caches, which two threads must not do at once.
        yield from map(alone, texts[:1])
        if threads == 1 or is_shared:
            yield from map(alone, texts[1:])
            return
        # A new thread gets the count set last anywhere, perhaps by another thread that is encoding too.
        pool = ThreadPoolExecutor(threads, "text", initializer=torch.set_num_threads, initargs=(1,))
        try:
            yield from pool.map(alone, texts[1:])
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def single_threaded() -> Iterator[int]:
    """Limit torch to one thread in the calling thread; yields how many it had."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)
