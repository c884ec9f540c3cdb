"""Base LMs of every kind of family, three layers deep, with prefixes and whole forward passes to compare with."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from mbc_engine.lm.base import BaseLM, KVPrefix, load_base

QUESTIONS = ["Ada?", "Where did the old painter move to in the winter?", "x", "Who moved?"]
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 96,
    "sliding_window": 60,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def base(request: pytest.FixtureRequest, tiny: Any) -> BaseLM:
    return load_base(str(tiny.bases[request.param]))


# Fused projections, grouped queries, sliding windows, capped and scaled logits, a parallel block.
DIFFERENT = ("gpt2", "llama", "mistral", "gemma2", "granite", "phi")


@pytest.fixture(scope="module", params=DIFFERENT)
def every_base(request: pytest.FixtureRequest, tiny: Any) -> BaseLM:
    """A base LM of each kind of family; those that can slide see 60 columns."""
    if request.param in tiny.bases:
        return load_base(str(tiny.bases[request.param]))
    tokenizer = AutoTokenizer.from_pretrained(tiny.bases["llama"])
    config = AutoConfig.for_model(request.param, vocab_size=len(tokenizer), **SIZES)
    torch.manual_seed(0)
    return BaseLM(AutoModelForCausalLM.from_config(config).eval(), tokenizer)


def prefix_for(base: BaseLM, batch: int, *, seed: int = 0, size: float = 2.0) -> KVPrefix:
    shape = base.shape
    torch.manual_seed(seed)
    keys, values = (torch.randn(batch, shape.layers, shape.kv_heads, 3, shape.head_dim) * size for _ in range(2))
    return KVPrefix(keys, values)


def alone(prefix: KVPrefix, index: int) -> KVPrefix:
    return KVPrefix(prefix.keys[index : index + 1], prefix.values[index : index + 1])


def ids_of(base: BaseLM, text: str) -> list[int]:
    return base.tokenizer(text, add_special_tokens=False)["input_ids"]


@torch.no_grad()
def plain_logits(base: BaseLM, prefix: KVPrefix, ids: list[int]) -> Tensor:
    """One unpadded text after one prefix, the whole forward pass: [S, V]."""
    length = prefix.length
    return (
        base.model(
            input_ids=torch.tensor([ids]),
            position_ids=torch.arange(length, length + len(ids)).unsqueeze(0),
            attention_mask=torch.ones(1, length + len(ids), dtype=torch.int64),
            past_key_values=prefix.cache(base.model.dtype),
        )
        .logits[0]
        .float()
    )


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[int]]]:
    """The token ids that `generate` gives the model, padding left out."""

    def prompts(base: BaseLM, prefix: KVPrefix, questions: list[str], **options: Any) -> list[list[int]]:
        seen: list[list[int]] = []
        generate = base.model.generate

        def watched(*, input_ids: Tensor, attention_mask: Tensor, **rest: Any) -> Tensor:
            for ids, mask in zip(input_ids, attention_mask[:, prefix.length :], strict=True):
                seen.append(ids[mask.bool()].tolist())
            return generate(input_ids=input_ids, attention_mask=attention_mask, **rest)

        with monkeypatch.context() as patch:
            patch.setattr(base.model, "generate", watched)
            base.generate(prefix, questions, **options)
        return seen

    return prompts
