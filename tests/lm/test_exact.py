"""The exact LM: the same integers under every setting, and close to the LM that it was made from."""

from contextlib import contextmanager
from itertools import product
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from mbc_engine.lm import exact
from mbc_engine.lm.exact import ExactLM, ExactShape, quantise

VOCABULARY = 320
# 1,200 is more than single precision can sum at once.
CONFIG = LlamaConfig(
    hidden_size=64, intermediate_size=1200, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=VOCABULARY, rope_theta=10_000.0, rms_norm_eps=1e-5, tie_word_embeddings=True,
    max_position_embeddings=512, initializer_range=0.12,
)  # fmt: skip
INT8 = pytest.param(
    "int8", marks=pytest.mark.skipif(exact._fastest_sums() != "int8", reason="8-bit products are slow or saturate here")
)
SHAPE = ExactShape(layers=3, heads=4, kv_heads=2, head_dim=16, theta=10_000.0, epsilon=1e-5)


@pytest.fixture(scope="module")
def llama():
    torch.manual_seed(0)
    return LlamaForCausalLM(CONFIG).eval()


@pytest.fixture(scope="module")
def tensors(llama):
    return quantise(SHAPE, llama.state_dict())


@pytest.fixture(scope="module")
def lm(tensors):
    return ExactLM(SHAPE, tensors)


def text(length, seed=0):
    return torch.randint(VOCABULARY, (1, length), generator=torch.Generator().manual_seed(seed))


def whole(lm, tokens):
    """Frequencies of all tokens, [B, S, V], in one pass."""
    states = lm.forward(tokens, lm.empty_cache(*tokens.shape))
    return lm.frequencies(states.flatten(0, 1)).view(*tokens.shape, -1)


@contextmanager
def setting(threads, mkldnn):
    before = torch.get_num_threads(), torch._C._get_mkldnn_enabled()
    torch.set_num_threads(threads)
    torch._C._set_mkldnn_enabled(mkldnn)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch._C._set_mkldnn_enabled(before[1])


@pytest.mark.parametrize("sums", [INT8, "float32"])
@pytest.mark.parametrize(("threads", "mkldnn"), list(product([1, 8], [True, False])))
def test_sums_and_threads_do_not_matter(tensors, lm, sums, threads, mkldnn):
    tokens = torch.cat([text(40, seed) for seed in range(3)])
    with setting(threads, mkldnn):
        assert torch.equal(whole(ExactLM(SHAPE, tensors, sums=sums), tokens), whole(lm, tokens))


@settings(max_examples=8)
@given(batch=st.integers(1, 64), length=st.integers(1, 30), padding=st.integers(0, 9), seed=st.integers(0, 99))
def test_batch_and_padding_do_not_matter(lm, batch, length, padding, seed):
    own = text(length, seed)
    several = torch.cat([text(length + padding, seed + place) for place in range(batch)])
    several[batch // 2, :length] = own
    assert torch.equal(whole(lm, several)[batch // 2, :length], whole(lm, own)[0])


@settings(max_examples=8)
@given(cuts=st.lists(st.integers(1, 9), min_size=1, max_size=12), batch=st.integers(1, 5))
def test_steps_equal_one_pass(lm, cuts, batch):
    tokens = torch.cat([text(sum(cuts), seed) for seed in range(batch)])
    cache, start, found = lm.empty_cache(batch, sum(cuts) + 3), 0, []
    for length in cuts:
        states = lm.forward(tokens[:, start : start + length], cache, start)
        found.append(lm.frequencies(states.flatten(0, 1)).view(batch, length, -1))
        start += length
    assert torch.equal(torch.cat(found, dim=1), whole(lm, tokens))


def test_precision_settings_do_not_matter(tensors, lm, monkeypatch):
    expected = whole(lm, text(50))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert torch.equal(whole(ExactLM(SHAPE, tensors, sums="float32"), text(50)), expected)
        assert torch.equal(whole(ExactLM(SHAPE, tensors), text(50)), expected)
        assert torch.equal(whole(lm, text(50)), expected)
    finally:
        torch.set_float32_matmul_precision(before)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(whole(lm, text(50)), expected)
    asked = Mock(side_effect=RuntimeError("mix of the legacy and new APIs"))
    monkeypatch.setattr(torch, "get_float32_matmul_precision", asked)
    assert torch.equal(whole(lm, text(50)), expected)
    asked.assert_called()


def test_exact_roots(lm):
    x = torch.randn(4096, SHAPE.width, generator=torch.Generator().manual_seed(0))
    _, scales = lm._normed(x.clone(), torch.ones(SHAPE.width))
    squares = (x * 1024).round().long().square().sum(1).float() * (1 / (SHAPE.width * 1024**2))
    roots = np.sqrt((squares + torch.tensor(SHAPE.epsilon)).numpy())
    assert (scales.squeeze(1).numpy() == x.abs().amax(1).numpy() / roots).all()


def test_close_to_the_float_model(llama, lm):
    tokens = text(60)
    frequencies = whole(lm, tokens)[0].double()
    with torch.no_grad():
        expected = (exact._SHARPNESS * llama(tokens).logits[0].double()).softmax(1)
    found = frequencies / frequencies.sum(1, keepdim=True)
    divergence = (expected * (expected / found).log()).sum(1)
    surprise = (expected * (expected * VOCABULARY).log()).sum(1).mean()
    assert surprise > 0.1  # the LM does better than guessing
    assert divergence.mean() < 0.02 * surprise


def test_frequencies(lm):
    frequencies = whole(lm, text(60))
    assert frequencies.dtype == torch.int32
    assert frequencies.min() >= 1
    assert frequencies.max() <= (1 << 24) + 1
    assert (frequencies.max(2).values == (1 << 24) + 1).all()


def test_choice_of_sums(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    assert exact._fastest_sums() == "float32"
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: True)
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: a.int() @ b.int())
    assert exact._fastest_sums() == "int8"
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: (a.int() @ b.int()).clamp(-(1 << 24), 1 << 24))
    assert exact._fastest_sums() == "float32"


@given(rows=st.integers(1, 40), terms=st.integers(1, 4000), columns=st.integers(1, 9), seed=st.integers(0, 9))
def test_float32_products_are_exact(rows, terms, columns, seed):
    random = np.random.default_rng(seed)
    values = random.choice([-127, -126, 126, 127], (rows, terms), p=[0.01, 0.01, 0.48, 0.5])  # sums beyond 2^24
    weights = random.choice([126, 127], (terms, columns))
    lm = ExactLM.__new__(ExactLM)
    lm._sums = "float32"
    found = lm._integers(torch.from_numpy(values).to(torch.int8), torch.from_numpy(weights).float())
    assert np.array_equal(found.numpy(), values @ weights)


def test_quantise_by_hand():
    shape = ExactShape(layers=0, heads=1, kv_heads=1, head_dim=2, theta=10_000.0, epsilon=1e-5)
    made = quantise(shape, {"model.embed_tokens.weight": torch.tensor([[1.0, -0.5], [0.0, 2.54]]),
                            "model.norm.weight": torch.tensor([1.0, 0.5])})  # fmt: skip
    assert made["tokens.weight"].tolist() == [[127, -64], [0, 127]]  # 63.5 is rounded to even
    assert made["tokens.scale"].tolist() == pytest.approx([1 / 127**2, 2.54 / 127**2], rel=1e-7)
    assert made["gain"].tolist() == [1.0, 0.5]
