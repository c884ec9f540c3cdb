"""Speed of complete answers, with and without a key/value cache.

    python benchmarks/performance.py --data ../shared/data --only answer

A complete answer goes from question text to answer text: encoding, the read, the prefix, and 16 tokens. Without a
cache, as in the released code, the whole sequence goes through the base LM for each token, but here only the last
position's logits are computed. Both ways read the same memory and must give the same texts. The tokens that end an
answer are forbidden, so that every answer has exactly 16.

Models have the presets' shapes and random float32 weights, which are as fast as trained ones.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from shapes import SHAPES, Shape, random_model
from torch import Tensor, nn

from mbc_engine.datasets.examples import made_up_stories
from mbc_engine.lm.base import DECODING, BaseLM, KVPrefix, first_line
from mbc_engine.paper.memories import CodeMemory
from mbc_engine.paper.model import MBC

Result = dict[str, Any]

TOKENS = 16
DOCUMENTS = 1000
BATCHES = 1, 16
# Large enough that a random model answers each question differently.
_SPREAD = (("initializer_range", 0.1),)
MODELS = (
    Shape("SmolLM2-135M's shape", "smollm2-135m", "t5", base=_SPREAD, encoder=(("vocab_size", 32128),)),
    replace(SHAPES["distilgpt2"], base=_SPREAD),
)
LLAMA = Shape(
    "LLaMA-2-7B's shape",
    "llama2-7b",
    "t5",
    ("model.base_weights=float32", "model.documents.weights=float32", "model.questions.weights=float32"),
    base=_SPREAD,
)


class UncachedLM(BaseLM):
    """A base LM that generates as the released code does."""

    @torch.no_grad()
    def generate(
        self, prefix: KVPrefix, questions: Sequence[str], *, max_new_tokens: int = TOKENS, **options: Any
    ) -> list[str]:
        """Greedy answers, with a forward pass over the whole sequence for each token."""
        given = self.tokenizer(
            list(questions), add_special_tokens=False, padding=True, padding_side="left", return_tensors="pt"
        ).to(self.model.device)
        ids, mask = given["input_ids"], given["attention_mask"]
        mask = torch.cat([mask.new_ones(len(ids), prefix.length), mask], dim=1)
        for _ in range(max_new_tokens):
            logits = self.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=(mask.cumsum(1) - 1).clamp_min(0)[:, prefix.length :],
                past_key_values=prefix.cache(self.model.dtype),
                logits_to_keep=1,
            ).logits
            ids = torch.cat([ids, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
            mask = torch.cat([mask, mask.new_ones(len(ids), 1)], dim=1)
        texts = self.tokenizer.batch_decode(ids[:, -max_new_tokens:], **DECODING)
        return [first_line(text) for text in texts]


class EndlessHead(nn.Module):
    """An output head that never emits the forbidden tokens."""

    def __init__(self, head: nn.Module, forbidden: list[int]) -> None:
        super().__init__()
        self.head, self.forbidden = head, forbidden

    def forward(self, states: Tensor) -> Tensor:
        logits: Tensor = self.head(states)
        logits[..., self.forbidden] = -torch.inf
        return logits


def make_endless(base: BaseLM) -> None:
    """Forbid the tokens that end an answer."""
    tokenizer, size = base.tokenizer, base.model.config.vocab_size
    texts = tokenizer.batch_decode([[token] for token in range(size)])
    ends = [token for token, text in enumerate(texts) if "\n" in text or token == tokenizer.eos_token_id]
    base.model.set_output_embeddings(EndlessHead(base.model.get_output_embeddings(), ends))


def time_batch(model: MBC, base: BaseLM, questions: list[str], memory: CodeMemory) -> tuple[float, list[str]]:
    """Seconds to answer a batch with a base LM, and the answers."""
    model.base = base
    began = time.perf_counter()
    answers = model.answer_from(questions, memory, max_new_tokens=TOKENS)
    return time.perf_counter() - began, [text for text, _ in answers]


def measure_model(shape: Shape, device: str, data: Path, repeats: int = 3) -> list[Result]:
    """Alternate both ways on one model; the fastest run of each counts, since other programs only slow runs down."""
    model = random_model(shape, device, data)
    base = model.base
    words = base.model.config.vocab_size - len(base.tokenizer)
    base.tokenizer.add_tokens([f" word{number}" for number in range(words)])
    make_endless(base)
    base.tokenizer.pad_token = base.tokenizer.eos_token
    uncached = UncachedLM(base.model, base.tokenizer)
    size = (DOCUMENTS, model.codebook.tokens, model.codebook.levels)
    codes = np.random.default_rng(0).integers(0, model.codebook.num_codes, size, dtype=np.uint16)
    memory = CodeMemory(codes, model.codebook)
    questions = [example.question for example in made_up_stories()]
    found = []
    for batch in BATCHES:
        turns = []
        for _ in range(1 + repeats):  # the first warms up
            ours = time_batch(model, base, questions[:batch], memory)
            theirs = time_batch(model, uncached, questions[:batch], memory)
            assert ours[1] == theirs[1], (ours[1], theirs[1])
            assert len(set(ours[1])) > batch // 2, "The answers are too similar to compare."
            turns.append((ours[0] / batch, theirs[0] / batch))
        cached, plain = (min(times) for times in zip(*turns[1:], strict=True))
        about = {"model": shape.title, "device": device, "batch": batch, "tokens": TOKENS, "documents": DOCUMENTS}
        found.append(about | {"cached": cached, "uncached": plain})
    return found


def measure(data: str, llama: bool = False) -> list[Result]:
    """Seconds per answer of each model and batch size; with `llama` only of LLaMA-2-7B's shape, on a GPU.

    Tokenizers are from a data folder, see `shapes.py`.
    """
    torch.set_num_threads(1)
    shapes = [(LLAMA, "cuda")] if llama else [(shape, "cpu") for shape in MODELS]
    return [row for shape, device in shapes for row in measure_model(shape, device, Path(data))]
