"""Every supported family, in every weight format: a prefix against a plain pass."""

from itertools import product
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, DynamicCache

from mbc_engine.lm.base import KVPrefix, load_base
from mbc_engine.lm.pretrained import FAMILIES
from tests.conftest import save_random
from tests.lm.test_base import SIZES, plain_logits

# A CPU computes with 4 bits where layers have a multiple of 64 inputs. No text here is as wide as the sliding window.
SIZES_OF_64 = SIZES | {"hidden_size": 64, "intermediate_size": 128, "head_dim": 32, "sliding_window": 64}
COMMON = ("initializer_range", "bos_token_id", "eos_token_id", "pad_token_id")
GPT2 = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 96, **{name: SIZES[name] for name in COMMON}}
OWN: dict[str, dict[str, Any]] = {
    "gemma3_text": {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "granite": {"logits_scaling": 2.0, "embedding_multiplier": 3.0},
}
WEIGHTS = ("float32", "bf16", "nf4", "int8")
# How far log-probabilities may differ if computed in another order; int8 rounds inputs row by row.
NATS = {"float32": 1e-3, "bf16": 0.3, "nf4": 1e-3, "int8": 0.05}


@pytest.fixture(scope="module")
def saved(tiny, tmp_path_factory):
    """Where a tiny model of each family lies."""
    tokenizer = AutoTokenizer.from_pretrained(tiny.bases["llama"])
    folders = {}

    def saved(family):
        if family not in folders:
            sizes = GPT2 if family == "gpt2" else {**SIZES_OF_64, **OWN.get(family, {})}
            folders[family] = save_random(tmp_path_factory.mktemp(family), family, tokenizer, 0, **sizes)
        return folders[family]

    return saved


# Projections are fused, separate, or have sliding layers between; the other families differ from these in less.
DIFFERENT = ("gemma3_text", "gpt2", "llama")
HELD = [
    *product(DIFFERENT, WEIGHTS),
    *(
        pytest.param(family, "float32", marks=pytest.mark.slow)
        for family in sorted(FAMILIES)
        if family not in DIFFERENT
    ),
]


@pytest.mark.parametrize(("family", "weights"), HELD)
def test_prefix_stands_for_its_tokens(saved, family, weights):
    """The dense reference: what a text's first tokens leave in the cache, put back as a prefix, is the whole text."""
    base, ids = load_base(str(saved(family)), weights=weights), [7, 11, 5, 9, 14, 3]
    with torch.no_grad():
        whole = base.model(input_ids=torch.tensor([ids])).logits[0, 2:].float()
        seen = base.model(input_ids=torch.tensor([ids[:2]]), past_key_values=DynamicCache()).past_key_values
    keys, values = (torch.stack([getattr(layer, name) for layer in seen.layers], 1) for name in ("keys", "values"))
    logits = plain_logits(base, KVPrefix(keys.float(), values.float()), ids[2:])
    assert (logits.log_softmax(-1) - whole.log_softmax(-1)).abs().max() < 10 * NATS[weights]
