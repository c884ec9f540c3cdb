"""Layers in 8 bits: states near those of float32, made once and kept."""

from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel

from mbc_engine.lm.bert import Bert
from mbc_engine.lm.quantized import kept_layers

pytest.importorskip("onnxruntime", reason="it is for x86")

SIZES = {
    "vocab_size": 50,
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own, on a processor that sums products of integers."""
    monkeypatch.setattr("mbc_engine.lm.quantized.has_integer_products", lambda: True)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda _: tmp_path)
    return tmp_path / "layers"


@pytest.fixture(params=["bert", "mpnet"])
def encoder(request, tiny):
    torch.manual_seed(3)
    sizes = {**SIZES, "initializer_range": 0.1}
    made: Any = BertModel(BertConfig(**sizes)) if request.param == "bert" else MPNetModel(MPNetConfig(**sizes))
    weights = {name: value.numpy() for name, value in made.state_dict().items()}
    plain = Bert(made.config.to_dict(), weights, Tokenizer.from_file(str(tiny.encoders["bert"] / "tokenizer.json")))
    rng, changes = np.random.default_rng(5), {}
    for name, (outputs, inputs) in plain.linear_layers().items():
        for part, size in {"down": (2, inputs), "up": (outputs, 2), "bias": (outputs,)}.items():
            changes[f"{name}.{part}"] = rng.normal(0, 0.1, size).astype(np.float32)
    return plain.with_lora(changes)


ROWS, STARTS = [[2, *range(5, 45), 3], [2, 7, 3]], [20, 1]


def test_states_are_near(encoder):
    expected = encoder.states(ROWS, STARTS)
    encoder.layers = kept_layers(encoder, "large")
    for exact, rounded in zip(expected, encoder.states(ROWS, STARTS), strict=True):
        assert rounded.shape == exact.shape
        assert rounded.dtype == np.float32
        error = np.linalg.norm(rounded - exact) / np.linalg.norm(exact)
        assert 0 < error < 0.02


def test_made_once(encoder, cache, monkeypatch):
    def states():
        encoder.layers = None
        encoder.layers = kept_layers(encoder, "large", "of one version")
        return encoder.states(ROWS, STARTS)[0]

    first, (kept,) = states(), cache.iterdir()
    content = kept.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("mbc_engine.lm.quantized._keep", None)
        assert np.array_equal(states(), first)
    kept.write_bytes(content[: len(content) // 2])
    assert np.array_equal(states(), first)
    assert kept.read_bytes() == content
    kept_layers(encoder, "small", "of one version")
    kept_layers(encoder, "large", "of another version")
    others = sorted(path.name.partition("-")[0] for path in cache.iterdir())
    assert others == ["large", "small"]
    assert not kept.exists()


def test_not_made(encoder, cache, monkeypatch):
    cache.write_text("no folder")
    assert kept_layers(encoder, "large") is None
    cache.unlink()
    with monkeypatch.context() as patch:
        patch.setattr("mbc_engine.lm.quantized.has_integer_products", lambda: False)
        assert kept_layers(encoder, "large") is None
    encoder.config["intermediate_size"] = 40  # no multiple of the smallest block
    assert kept_layers(encoder, "large") is None
    assert not cache.exists()
