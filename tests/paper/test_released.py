"""A checkpoint of the released code answers here as there: its arithmetic, restated with einsum and loops.

The checkpoint is drawn, by the names and shapes of its tensors.
"""

import runpy
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.lm.base import KVPrefix

load_released = runpy.run_path(str(Path(__file__).parents[2] / "recipes" / "released" / "convert.py"))["load_released"]
T, D, HEADS, BASE_HEADS, SLOTS = 4, 32, 2, 4, 8
RELEASED = ("model.as_released=true", "model.documents.window=24", "model.questions.window=16")


@pytest.fixture
def checkpoint(tiny):
    """Tensors by the released names; T5's are the tiny one's own, slightly changed."""
    generator = torch.Generator().manual_seed(7)

    def drawn(*shape):
        return 0.3 * torch.randn(*shape, generator=generator)

    def linear(name, inputs, outputs, *, bias=True):
        return {f"{name}.weight": drawn(outputs, inputs)} | ({f"{name}.bias": drawn(outputs)} if bias else {})

    def norm(name, width):
        return {f"{name}.weight": 1 + drawn(width), f"{name}.bias": drawn(width)}

    state = {}
    for side, heads in (("enc_decoder", "mlps"), ("aggregator.question_encoder", "aggregator.mlps")):
        t5 = tiny.model("gpt2", "t5").documents.amortizer.t5.state_dict()
        state |= {f"{side}.{name}": value + 0.1 * drawn(*value.shape) for name, value in t5.items()}
        for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
            state[f"{side}.{name}"] = state[f"{side}.shared.weight"]
        state[f"{side}.learnable_prompts"] = drawn(1, T, 16)
        for head in (f"{heads}.{number}" for number in range(T)):
            state |= linear(f"{head}.skip", 16, D) | norm(f"{head}.mlp.0", 16)
            state |= linear(f"{head}.mlp.1", 16, D) | linear(f"{head}.mlp.3", D, D)
    for block in (f"aggregator.cross_attention_list.{number}" for number in range(2)):
        state |= norm(f"{block}.norm1", D) | norm(f"{block}.norm_context", D) | norm(f"{block}.norm2", D)
        for name in ("to_q", "to_k", "to_v"):
            state |= linear(f"{block}.attn.{name}", D, 16, bias=False)
        state |= linear(f"{block}.attn.to_out.0", 16, D)
        state |= linear(f"{block}.mlp.net.0", D, 24) | linear(f"{block}.mlp.net.3", 24, D)
    for slot in (f"token_SA.mlp_layers.{number}.net" for number in range(SLOTS)):
        state |= norm(f"{slot}.0", D) | linear(f"{slot}.1", D, 16) | linear(f"{slot}.4", 16, D)
    state |= {"vq.embedding.weight": drawn(8, D), "vq.ema_cluster_size": drawn(8).abs()}
    attention = "base_lm.transformer.h.1.attn.c_attn"
    lora = {f"{attention}.lora_A.weight": drawn(2, D), f"{attention}.lora_B.weight": drawn(2 * D, 2)}
    return state, lora


@pytest.fixture
def model(tiny, checkpoint):
    made = tiny.model("gpt2", "t5", *RELEASED)
    load_released(made, *checkpoint, "state.pt")
    return made


class Released:
    """The released arithmetic over a checkpoint."""

    def __init__(self, state, model):
        self.state, self.model = state, model

    def linear(self, name, x):
        return functional.linear(x, self.state[f"{name}.weight"], self.state.get(f"{name}.bias"))

    def norm(self, name, x):
        return functional.layer_norm(x, x.shape[-1:], self.state[f"{name}.weight"], self.state[f"{name}.bias"])

    def encode(self, t5, heads, queries, ids, mask):
        """The encoder masks padding; the decoder is causal, as T5's is unless told otherwise, and sees the padding."""
        states = t5.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        decoded = t5.decoder(inputs_embeds=queries.expand(len(ids), -1, -1), encoder_hidden_states=states)[0]
        return torch.stack([self.head(f"{heads}.{number}", decoded[:, number]) for number in range(T)], dim=1)

    def head(self, name, x):
        hidden = torch.tanh(self.linear(f"{name}.mlp.1", self.norm(f"{name}.mlp.0", x)))
        return self.linear(f"{name}.skip", x) + self.linear(f"{name}.mlp.3", hidden)

    def quantize(self, vectors):
        book = self.state["vq.embedding.weight"]
        return book[torch.cdist(vectors, book[None]).argmin(-1)]

    def aggregate(self, question, bank):
        rows = bank.flatten(0, 1).expand(len(question), -1, -1)
        x = question
        for name in (f"aggregator.cross_attention_list.{number}" for number in range(2)):
            normed, context = self.norm(f"{name}.norm1", x), self.norm(f"{name}.norm_context", rows)
            q, k, v = (
                self.linear(f"{name}.attn.to_{letter}", given).unflatten(-1, (HEADS, -1))
                for letter, given in (("q", normed), ("k", context), ("v", context))
            )
            weights = (torch.einsum("bthd,bnhd->bhtn", q, k) / q.shape[-1] ** 0.5).softmax(-1)
            x = x + self.linear(f"{name}.attn.to_out.0", torch.einsum("bhtn,bnhd->bthd", weights, v).flatten(2))
            hidden = functional.gelu(self.linear(f"{name}.mlp.net.0", self.norm(f"{name}.norm2", x)))
            x = x + self.linear(f"{name}.mlp.net.3", hidden)
        return x

    def prefix(self, latents):
        """Of 8 slots each of 4 latents fills two neighbours; slots go by column, then layer, then key or value."""
        slots = []
        for number in range(SLOTS):
            name, x = f"token_SA.mlp_layers.{number}.net", latents[:, number // 2]
            hidden = functional.gelu(self.linear(f"{name}.1", self.norm(f"{name}.0", x)))
            slots.append((self.linear(f"{name}.4", hidden) + x).view(-1, BASE_HEADS, D // BASE_HEADS))
        of = [
            [[slots[column * 4 + layer * 2 + kind] for column in range(2)] for layer in range(2)] for kind in range(2)
        ]
        keys, values = (torch.stack([torch.stack(one, dim=2) for one in layers], dim=1) for layers in of)
        return KVPrefix(keys, values)


TEXTS = ["Ada moved to Rome.", "Bru moved to the old port of Bergen in the spring."]
QUESTIONS = ["Where did Ada move?", "Where?"]


@pytest.mark.parametrize("side", ["documents", "questions"])
@torch.no_grad()
def test_texts_are_encoded_as_there(model, checkpoint, side):
    encoder, there = getattr(model, side), Released(checkpoint[0], model)
    ids, mask = encoder.tokenize(TEXTS)
    assert ids.shape == (2, 24 if side == "documents" else 16)
    assert mask[0, 0] == (side == "documents") and mask[0, -1] == (side == "questions")  # padded right, and left
    amortizer = encoder.amortizer
    heads = "mlps" if side == "documents" else "aggregator.mlps"
    expected = there.encode(amortizer.t5, heads, amortizer.queries, ids, mask)
    torch.testing.assert_close(encoder(TEXTS), expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_prefix_is_as_there(model, checkpoint):
    there = Released(checkpoint[0], model)
    bank = there.quantize(model.documents(TEXTS))
    torch.testing.assert_close(model.require_codebook().quantize(model.documents(TEXTS)).vectors, bank)
    question = model.questions(QUESTIONS)
    expected = there.aggregate(question, bank)
    found = model.aggregator(question, bank.flatten(0, 1)[None]).modulation
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    ours, theirs = model.prefix(found), there.prefix(expected)
    torch.testing.assert_close(ours.keys, theirs.keys, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.values, theirs.values, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_kv_lora_is_as_there(model, checkpoint):
    """A and B change keys and values of the tokens, by α/r = 2; queries, and the prefix, stay."""
    layer, x = model.base.model.transformer.h[1].attn.c_attn, torch.linspace(-1, 1, 3 * D).view(1, 3, D)
    a, b = checkpoint[1].values()
    change = layer(x) - layer.base_layer(x)
    torch.testing.assert_close(change, functional.pad(2 * x @ a.T @ b.T, (D, 0)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["vq.embedding.weight", "token_SA.mlp_layers.3.net.1.weight", "mlps.0.skip.bias"])
def test_an_incomplete_checkpoint_is_refused(tiny, checkpoint, name):
    del checkpoint[0][name]
    with pytest.raises(ModelError, match=r"state\.pt do not fit"):
        load_released(tiny.model("gpt2", "t5", *RELEASED), *checkpoint, "state.pt")


def test_frozen_encoders_have_no_padding_to_read(tiny):
    with pytest.raises(ConfigError, match="as_released needs encoders that train"):
        tiny.config("gpt2", "t5", *RELEASED, "model.documents.frozen=true")
