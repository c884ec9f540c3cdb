"""Layers in 8 bits: states near those of float32, made once and kept."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mbc_engine.errors import ModelError
from mbc_engine.lm.packaged import damaged_caches, version_of
from mbc_engine.lm.quantized import kept_layers
from mbc_engine.machine import _has_integer_products
from tests.lm.random_bert import low_rank_changes, random_bert

pytest.importorskip("onnxruntime", reason="it is for x86")
onnx = pytest.importorskip("onnx", reason="it is for x86")

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
    return tmp_path / "models"


@pytest.fixture(params=["bert", "mpnet"])
def encoder(request, tiny):
    _, plain = random_bert(request.param, tiny, initializer_range=0.1, **SIZES)
    plain._opened_as = version_of(Path(__file__))
    for value in plain.weights.values():
        value.flags.writeable = False  # as if mapped
    return plain.with_lora(low_rank_changes(plain, 0.1))


@pytest.fixture
def changes(tmp_path):
    path = tmp_path / "large.safetensors"
    path.write_text("of one version")
    return path


ROWS, STARTS = [[2, *range(5, 45), 3], [2, 7, 3]], [20, 1]


of_this_processor = pytest.mark.skipif(
    not _has_integer_products(), reason="on other processors, sums of 8-bit products may overflow"
)


def states_by(encoder, changes):
    encoder.layers = None
    encoder.layers = kept_layers(encoder, version_of(changes))
    return encoder.states(ROWS, STARTS)[0]


@of_this_processor
@pytest.mark.parametrize("with_torch", [False, True])
def test_states_are_near(encoder, changes, with_torch):
    expected = encoder.states(ROWS, STARTS)
    if with_torch:  # as after a long ingest
        encoder.use_torch()
    encoder.layers = kept_layers(encoder, version_of(changes))
    for exact, rounded in zip(expected, encoder.states(ROWS, STARTS), strict=True):
        assert rounded.shape == exact.shape
        assert rounded.dtype == np.float32
        error = np.linalg.norm(rounded - exact) / np.linalg.norm(exact)
        assert 0 < error < 0.02


def test_made_once(encoder, changes, cache, monkeypatch):
    first, (kept,), (weights,) = states_by(encoder, changes), cache.rglob("*.onnx"), cache.rglob("*.weights")
    content = kept.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("mbc_engine.lm.quantized._keep", None)
        assert np.array_equal(states_by(encoder, changes), first)
    assert damaged_caches() == []
    for damaged in (kept, weights):
        damaged.write_bytes(damaged.read_bytes()[:2000])
        assert damaged_caches() == [kept.parent]
        assert np.array_equal(states_by(encoder, changes), first)
        assert kept.read_bytes() == content
    other = changes.with_name("small.safetensors")
    other.touch()
    kept_layers(encoder, version_of(other))
    changes.write_text("of another version")
    states_by(encoder, changes)
    encoder.config["layer_norm_eps"] = 0.01
    assert not np.array_equal(states_by(encoder, changes), first)
    assert len({*cache.rglob("*.onnx")} - {kept}) == 2
    assert not kept.exists()
    other.unlink()
    changes.write_text("of a third version")
    states_by(encoder, changes)
    assert len([*cache.rglob("*.onnx")]) == 1  # those of the other are gone with its weights


@of_this_processor
def test_made_by_another_processor(encoder, changes, cache):
    first = states_by(encoder, changes)
    (kept,), (weights,) = cache.rglob("*.onnx"), cache.rglob("*.weights")
    in_order = next(
        int(entry.value.partition("|")[2].partition(";")[0])
        for constant in onnx.load(kept, load_external_data=False).graph.initializer
        for entry in constant.external_data
        if entry.key == "prepacked_0"
    )
    with weights.open("r+b") as file:
        file.seek(in_order)
        file.write(bytes(64))  # as of a processor with another order
    assert np.array_equal(states_by(encoder, changes), first)
    assert damaged_caches() == []


def test_not_made(encoder, changes, cache, monkeypatch):
    version = version_of(changes)
    cache.write_text("no folder")
    assert kept_layers(encoder, version) is None
    cache.unlink()
    for name, value in {"has_integer_products": lambda: False, "_OLDEST": (99, 0)}.items():
        with monkeypatch.context() as patch:
            patch.setattr(f"mbc_engine.lm.quantized.{name}", value)
            assert kept_layers(encoder, version) is None
    for package in ("onnx", "onnxruntime"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            assert kept_layers(encoder, version) is None
    encoder.config["intermediate_size"] = 40  # no multiple of the smallest block
    assert kept_layers(encoder, version) is None
    assert not cache.exists() or not any(cache.iterdir())


@pytest.mark.parametrize("name", ["attention.{}.weight", "intermediate.dense.bias", "output.LayerNorm.weight"])
def test_weights_that_are_no_numbers(encoder, changes, name):
    value = {"bert": "self.value", "mpnet": "attn.v"}[encoder.config["model_type"]]
    arrays, changed = encoder._computing[1], f"encoder.layer.1.{name.format(value)}"
    arrays[changed] = arrays[changed].copy()
    arrays[changed].flat[0] = np.nan
    assert kept_layers(encoder, version_of(changes)) is None
    with pytest.raises(ModelError, match="not all numbers"):
        encoder.states(ROWS, STARTS)


def test_nothing_is_told_to_others(tmp_path):
    """onnxruntime would note in the home folder what it tells Microsoft."""
    code = (
        "import numpy, onnx, sys; from onnx import helper; from pathlib import Path; from mbc_engine.lm import quantized;"
        "described = [helper.make_tensor_value_info(name, 1, [1, 2]) for name in ('x', 'y')];"
        "graph = helper.make_graph([helper.make_node('Abs', ['x'], ['y'])], 'g', described[:1], described[1:]);"
        "onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid('', 17)]), sys.argv[1]);"
        "print(quantized._opened(Path(sys.argv[1]))(numpy.float32([-1, 2]), None))"
    )
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    given = {"env": kept | {"HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}, "text": True, "check": True}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "abs.onnx")], stdout=subprocess.PIPE, **given)
    assert done.stdout.strip() == "[1. 2.]"
    assert list(home.rglob("*")) == []
