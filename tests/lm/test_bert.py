"""Encoders in numpy: the same states, vectors and fingerprints as transformers' in torch."""

import json
import os
import shutil
from itertools import islice
from threading import Barrier

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_info

from mbc_engine.errors import ModelError
from mbc_engine.lm.bert import Bert, batches
from mbc_engine.lm.encoders import load_encoder, mean_pooled, token_states
from mbc_engine.lm.packaged import MINILM
from tests.lm.random_bert import low_rank_changes, random_bert
from tests.needs import embedded_encoder
from tests.newswire import stories

TEXTS = ["Ada moved to Aalen.", "", "Who moved? [SEP] Hugo.", "The river rose, the bridge held, " * 20, "Gdańsk"]
SIZES = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40}


@pytest.mark.parametrize("library", ["numpy", "torch", "torch from now on"])
@pytest.mark.parametrize("kind", ["bert", "mpnet"])
@pytest.mark.parametrize("threads", [1, 5, 100])
def test_states(tiny, kind, library, threads, monkeypatch):
    monkeypatch.setattr("mbc_engine.lm.bert.usable_threads", lambda: threads)
    theirs, ours = random_bert(kind, tiny, device="cpu:0" if library == "torch" else "cpu", **SIZES)
    if kind == "mpnet":
        torch.nn.init.normal_(theirs.encoder.relative_attention_bias.weight)  # of both
    if library == "torch from now on":
        ours.use_torch()
    rows = [torch.randint(3, 50, (length,)) for length in (300, 1, 40)]
    states = ours.states([row.tolist() for row in rows], [7, 1, 13], calls=1)
    for row, second, own in zip(rows, (7, 1, 13), states, strict=True):
        types = {"token_type_ids": (torch.arange(len(row)) >= second).long()[None]} if kind == "bert" else {}
        with torch.no_grad():
            (expected,) = theirs(input_ids=row[None], **types).last_hidden_state
        assert own.dtype == np.float32
        assert_allclose(own, expected, atol=2e-6)


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_low_rank_changes_are_as_if_added_to_the_weights(tiny, device):
    plain = Bert.open(str(tiny.encoders["bert"]), device=device)
    changes, merged = low_rank_changes(plain, 0.3), dict(plain.weights)
    for name in plain.linear_layers():
        merged[f"{name}.weight"] = merged[f"{name}.weight"] + changes[f"{name}.up"] @ changes[f"{name}.down"]
        merged[f"{name}.bias"] = changes[f"{name}.bias"]
    rows = [[2, 5, 9, 3]]
    before = plain.states(rows)[0]
    assert_allclose(
        plain.with_lora(changes).states(rows)[0],
        Bert(plain.config, merged, plain.tokenizer, device=device).states(rows)[0],
        atol=1e-5,
    )
    assert np.array_equal(plain.states(rows)[0], before)
    changed = plain.with_lora(changes)
    expected = changed.states(rows)[0]
    changed.use_torch()
    assert_allclose(changed.states(rows)[0], expected, atol=1e-5)


def test_open(tiny):
    name = str(tiny.encoders["bert"])
    ours, theirs = Bert.open(name), load_encoder(name)
    same(ours, theirs, window=12)
    assert ours.chunker(12).capacity == theirs.chunker(12).capacity == 10


def pooled(theirs, texts, window):
    """Sentence vectors of one padded batch."""
    ids, mask = theirs.tokenize(texts, window)
    with torch.no_grad():
        return mean_pooled(token_states(theirs.model, ids, mask), mask)


def same(ours, theirs, *, window):
    assert_allclose(ours.vectors(TEXTS, window), pooled(theirs, TEXTS, window), atol=1e-6)
    alone = np.concatenate([ours.vectors([text], window) for text in TEXTS])
    assert_allclose(alone, ours.vectors(TEXTS, window), atol=1e-6)


@pytest.mark.parametrize(
    ("part", "step"),
    [
        ("normalizer", {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1_000_000}),
        ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}),
    ],
)
def test_tokenizers_that_are_no_ordinary_ones(tiny, tmp_path, part, step):
    folder = tmp_path / "own"
    shutil.copytree(tiny.encoders["bert"], folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    steps = "normalizers" if part == "normalizer" else "pretokenizers"
    for changed in (step, {"type": "Sequence", steps: [{"type": "Sequence", steps: [step]}]}):
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer | {part: changed}))
        with pytest.raises(ModelError, match="more than divide texts"):
            Bert.open(str(folder))


def test_states_that_cannot_be_computed(tiny, monkeypatch):
    monkeypatch.setattr("mbc_engine.lm.bert.usable_threads", lambda: 3)
    bert = Bert.open(str(tiny.encoders["bert"]))
    for row, message in (([10**6], "its own tokenizer's tokens"), ([2] * 10**4, "as long as the model's settings say")):
        with pytest.raises(ModelError, match=message):
            bert.states([row])
    assert list(batches([5, 1, 2, 9, 2], 6)) == [[1, 2, 4], [0], [3]]
    for name, value in (("embeddings.LayerNorm", np.inf), ("encoder.layer.0.attention.self.query", 3e38)):
        weights = {**bert.weights, f"{name}.weight": np.full_like(bert.weights[f"{name}.weight"], value)}
        with pytest.raises(ModelError, match="not all numbers"):
            Bert(bert.config, weights, bert.tokenizer).states([[2, 5, 3] * 16], calls=1)


def test_encoders_that_cannot_be_opened(tiny, tmp_path):
    folder = tmp_path / "own"
    shutil.copytree(tiny.encoders["bert"], folder)
    config = json.loads((folder / "config.json").read_text())
    for change, reason in (
        ({"hidden_act": "relu"}, "neither a BERT nor an MPNet"),
        ({"vocab_size": 7}, "do not match its config: see embeddings.word_embeddings.weight"),
        ({"num_hidden_layers": 10**12}, r"do not match its config: see encoder\.layer"),  # and is not listed first
        ({"num_attention_heads": 0}, "sizes that are not numbers above 0"),
        ({"num_attention_heads": 7}, "sizes that do not fit each other"),
        ({"type_vocab_size": 2.5}, "sizes that are not numbers above 0"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps is not between"),
    ):
        (folder / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ModelError, match=reason):
            Bert.open(str(folder))
    for damaged in (b"", b"short", b"\xff" * 100):
        (folder / "model.safetensors").write_bytes(damaged)
        with pytest.raises(ModelError, match="could not be opened"):
            Bert.open(str(folder))
    shutil.copy(tiny.encoders["bert"] / "model.safetensors", folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match=r"could not be opened: tokenizer\.json"):
        Bert.open(str(folder))
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    with pytest.raises(ModelError, match=r"config\.json is not a file"):
        Bert.open(str(folder))
    with pytest.raises(ModelError, match="nobody/nothing could not be opened"):
        Bert.open("nobody/nothing")


def test_threads_compute_at_once_on_one_blas_thread_each(tiny, monkeypatch):
    encoder = Bert.open(str(tiny.encoders["bert"]))
    monkeypatch.setattr("mbc_engine.lm.bert.usable_threads", lambda: 3)
    np.ones((2, 2)) @ np.ones((2, 2))
    before, together = blas_threads(), Barrier(3)

    def work(number):
        together.wait(60)  # all three work at the same time
        return number, blas_threads()

    assert list(encoder.in_threads(work, range(3))) == [(number, [1] * len(before)) for number in range(3)]
    assert blas_threads() == before


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.slow
@embedded_encoder
def test_packaged_encoder():
    ours, theirs = Bert.open(MINILM), load_encoder(MINILM)
    same(ours, theirs, window=64)
    texts = [story.text for story in islice(stories("test", 4, seed=1), 4)]
    assert_allclose(ours.vectors(texts, 256), pooled(theirs, texts, 256), atol=1e-6)
