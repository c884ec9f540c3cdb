"""Every supported family: its attention is read right, its prefix is used, its adapter sits on keys and values."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BertConfig

from mbc_engine.errors import ModelError
from mbc_engine.model.base import BaseLM
from mbc_engine.model.families import FAMILIES, attention_shape, family_of
from mbc_engine.model.kv_lora import add_kv_lora, kv_lora_config
from mbc_engine.model.prefix import KVPrefix

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 96,
    "sliding_window": 64,  # wider than any text here, as real ones are wider than any question
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
SEPARATE = sorted(set(FAMILIES) - {"gpt2"})
QUESTIONS = ["Ada?", "Where did the old painter move to in the winter?"]


@pytest.fixture(params=SEPARATE)
def base(request: pytest.FixtureRequest, tiny: Any) -> BaseLM:
    tokenizer = AutoTokenizer.from_pretrained(tiny.bases["llama"])
    config = AutoConfig.for_model(request.param, vocab_size=len(tokenizer), **SIZES)
    torch.manual_seed(0)
    return BaseLM(AutoModelForCausalLM.from_config(config).eval(), tokenizer)


def prefix_for(base: BaseLM, batch: int) -> KVPrefix:
    shape = base.shape
    torch.manual_seed(1)
    keys, values = (torch.randn(batch, shape.layers, shape.kv_heads, 2, shape.head_dim) for _ in range(2))
    return KVPrefix(keys, values)


@torch.no_grad()
def plain_logits(base: BaseLM, prefix: KVPrefix, index: int, ids: list[int]) -> torch.Tensor:
    """Logits of one unpadded text after one prefix, [S, V]; default positions start after the prefix."""
    alone = KVPrefix(prefix.keys[index : index + 1], prefix.values[index : index + 1])
    mask = torch.ones(1, 2 + len(ids), dtype=torch.int64)
    cache = alone.cache(torch.float32)
    return base.model(input_ids=torch.tensor([ids]), attention_mask=mask, past_key_values=cache).logits[0]


def test_the_shape_of_the_attention_is_the_projections(base: BaseLM) -> None:
    assert (base.shape.dim, base.shape.layers) == (32, 3)
    for name, module in base.model.named_modules():
        if name.endswith(("k_proj", "v_proj")):
            assert module.out_features == base.shape.kv_heads * base.shape.head_dim


def test_the_loss_is_the_models_own(base: BaseLM) -> None:
    prefix, losses = prefix_for(base, 2), []
    texts = base.asked(QUESTIONS, ["Bergen", "Cadiz in the spring"], question_window=30, answer_window=9)
    width = texts.target_mask.shape[1]
    for index in range(2):
        given = texts.ids[index, :-width][texts.mask[index, :-width].bool()].tolist()
        wanted = texts.ids[index, -width:][texts.target_mask[index].bool()].tolist()
        chances = plain_logits(base, prefix, index, given + wanted).log_softmax(-1)
        losses += [-chances[len(given) + place - 1, token].item() for place, token in enumerate(wanted)]
    assert base.loss(prefix, texts).item() == pytest.approx(sum(losses) / len(losses), rel=1e-4)


def test_answers_are_the_greedy_ones(base: BaseLM) -> None:
    prefix, expected = prefix_for(base, 2), []
    for index, question in enumerate(QUESTIONS):
        ids, said = base.tokenizer(question, add_special_tokens=False)["input_ids"], []
        while len(said) < 5 and 0 not in said:
            said.append(int(plain_logits(base, prefix, index, ids + said)[-1].argmax()))
        expected.append(base.tokenizer.decode(said, skip_special_tokens=True).strip().split("\n")[0].strip())
    assert base.generate(prefix, QUESTIONS, max_new_tokens=5) == expected


def test_the_prefix_reaches_every_layer(base: BaseLM) -> None:
    prefix = prefix_for(base, 1)
    keys, values = prefix.keys.requires_grad_(), prefix.values.requires_grad_()
    base.loss(KVPrefix(keys, values), base.asked(["Ada?"], ["Bergen"], question_window=9, answer_window=9)).backward()
    for grown in (keys, values):
        assert grown.grad is not None
        assert (grown.grad[0].abs().amax((1, 2, 3)) > 0).all()


def test_the_adapter_sits_on_keys_and_values_of_the_last_layers(base: BaseLM) -> None:
    add_kv_lora(base.model, kv_lora_config(base.model, rank=2, alpha=4, dropout=0.0, layers=2))
    names = {name.split(".layers.")[1] for name, value in base.named_parameters() if value.requires_grad}
    assert names == {
        f"{layer}.self_attn.{part}_proj.lora_{factor}.default.weight"
        for layer in (1, 2)
        for part in "kv"
        for factor in "AB"
    }


def test_an_unknown_family_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match="'bert'") as caught:
        family_of(BertConfig())
    assert caught.value.hint is not None
    assert "gpt2" in caught.value.hint


def test_gpt2s_heads_share_its_width(tiny: Any) -> None:
    config = AutoConfig.from_pretrained(tiny.bases["gpt2"])
    assert family_of(config).fused
    assert (attention_shape(config).kv_heads, attention_shape(config).head_dim) == (4, 8)
