"""The built-in language model: unpacked once from a package's file, to the same bytes everywhere."""

import hashlib
import json
import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFWriter, quantize
from safetensors.torch import load_file
from tokenizers import pre_tokenizers

from mbc_engine.errors import ModelError
from mbc_engine.lm import gguf, packaged
from mbc_engine.lm.base import load_base
from mbc_engine.lm.packaged import find_language_model

WIDTH, HEADS, INNER = 32, 2, 64
TOKENS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    *sorted(pre_tokenizers.ByteLevel.alphabet()),
    "Ġt",
    "he",
    "Ġthe",
]
# Of the weights unpacked from the package below, the same on every machine.
WEIGHTS_DIGEST = "32222d0fc1b2a1707c1ef1df4251b68f05de6b65ba36bd9b22c38ae385b825a6"
WEIGHTS_BYTES = 36504
TINY = {
    "vocab_size": len(TOKENS),
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 1,
}
SHAPES = {
    "token_embd": (len(TOKENS), WIDTH),
    "blk.0.attn_norm": (WIDTH,),
    "blk.0.attn_q": (WIDTH, WIDTH),
    "blk.0.attn_k": (WIDTH // HEADS, WIDTH),
    "blk.0.attn_v": (WIDTH // HEADS, WIDTH),
    "blk.0.attn_output": (WIDTH, WIDTH),
    "blk.0.ffn_norm": (WIDTH,),
    "blk.0.ffn_gate": (INNER, WIDTH),
    "blk.0.ffn_up": (INNER, WIDTH),
    "blk.0.ffn_down": (WIDTH, INNER),
    "output_norm": (WIDTH,),
}


def write_gguf(path):
    """A language model of one layer, in the kinds of weights that the real file has: row r is r - 1, r - 0.5, ..."""
    writer = GGUFWriter(path, "llama")
    writer.add_token_list(TOKENS)
    writer.add_token_merges(["Ġ t", "h e", "Ġt he"])
    for name, shape in SHAPES.items():
        kind = Kind.F32 if len(shape) == 1 else Kind.Q8_0 if name == "token_embd" else Kind.Q4_1
        rows, columns = np.ogrid[-1 : math.prod(shape[:-1]) - 1, : shape[-1]]
        weights = (rows + columns % 16 / 2).reshape(shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", quantize(weights, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package that carries a tiny language model; its code must never run."""
    package = tmp_path / "site" / "tiny_lm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('the package was imported')\n")
    write_gguf(package / packaged._LM_FILE)
    content = (package / packaged._LM_FILE).read_bytes()
    shutil.copytree(gguf._SETTINGS, tmp_path / "settings")
    config = json.loads((tmp_path / "settings" / "config.json").read_text())
    (tmp_path / "settings" / "config.json").write_text(json.dumps(config | TINY))
    tokenizer = json.loads((tmp_path / "settings" / "tokenizer.json").read_text())
    tokenizer["added_tokens"] = tokenizer["added_tokens"][:3]
    (tmp_path / "settings" / "tokenizer.json").write_text(json.dumps(tokenizer))
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(packaged, "_LM_PACKAGE", "tiny_lm")
    monkeypatch.setattr(gguf, "_SETTINGS", tmp_path / "settings")
    monkeypatch.setattr(packaged, "_LM_FILE_DIGEST", hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(packaged, "_LM_WEIGHTS_DIGEST", WEIGHTS_DIGEST)
    monkeypatch.setattr(packaged, "_LM_WEIGHTS_BYTES", WEIGHTS_BYTES)
    return package


def nothing_is_unpacked(tmp_path):
    return all(path.suffix == ".lock" for path in (tmp_path / "cache" / "mbc" / "models").iterdir())


def test_weights_are_those_of_the_file_with_rotary_rows_reordered(package):
    weights = load_file(find_language_model() / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert weights["model.norm.weight"].tolist() == [column % 16 / 2 - 1 for column in range(WIDTH)]
    values = weights["model.layers.0.self_attn.v_proj.weight"]
    assert values[5].tolist() == [column % 16 / 2 + 4 for column in range(WIDTH)]
    rows = {
        name: [round(row) for row in (weights[f"model.layers.0.self_attn.{name}.weight"][:, 0] + 1).tolist()]
        for name in ("q_proj", "k_proj", "v_proj")
    }
    head = [*range(0, 16, 2), *range(1, 16, 2)]
    assert rows == {"q_proj": [*head, *(row + 16 for row in head)], "k_proj": head, "v_proj": list(range(16))}


def test_load_base_by_hub_id(package, monkeypatch):
    assert load_base(packaged.LANGUAGE_MODEL).model.config.hidden_size == WIDTH
    monkeypatch.setattr(packaged, "_LM_WEIGHTS_BYTES", 1)
    monkeypatch.setattr(packaged, "_LM_PACKAGE", "not_installed_at_all")
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    with pytest.raises(ModelError, match="could not be opened") as caught:
        load_base(packaged.LANGUAGE_MODEL)
    assert "requirements-lm.txt" in str(caught.value.hint)


def test_concurrent_unpacking(package):
    calls: list[tuple[int, int]] = []
    begin = Barrier(4)

    def find(_):
        begin.wait()
        return find_language_model(lambda *progress: calls.append(progress))

    with ThreadPoolExecutor(4) as pool:
        (folder,) = set(pool.map(find, range(4)))
    assert [written for written, _ in calls] == sorted({written for written, _ in calls})
    assert calls[-1] == (WEIGHTS_BYTES, WEIGHTS_BYTES)
    assert not [*folder.parent.glob("*.partial")]
    shutil.rmtree(package)
    assert find_language_model() == folder


def test_leftovers_of_a_killed_process(package):
    folder = find_language_model()
    partial = folder.with_name(f"{folder.name}.partial")
    folder.rename(partial)
    (partial / "model.safetensors").write_bytes(b"half")
    assert find_language_model() == folder
    assert not partial.exists()


def test_weights_of_wrong_size_are_replaced(package):
    weights = find_language_model() / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert hashlib.sha256((find_language_model() / "model.safetensors").read_bytes()).hexdigest() == WEIGHTS_DIGEST


@pytest.mark.parametrize("cut", [0, 1, 1000])
def test_unofficial_file_is_refused(package, cut, tmp_path):
    file = package / packaged._LM_FILE
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2] + content[len(content) // 2 + cut :] + b"x" * (1 - min(cut, 1)))
    with pytest.raises(ModelError, match="is not the official file") as caught:
        find_language_model()
    assert "--force-reinstall" in str(caught.value.hint)
    assert nothing_is_unpacked(tmp_path)


def test_unexpected_weights_are_refused(package, tmp_path, monkeypatch):
    monkeypatch.setattr(packaged, "_LM_WEIGHTS_DIGEST", "0" * 64)
    with pytest.raises(ModelError, match="weights of the language model are corrupt"):
        find_language_model()
    assert nothing_is_unpacked(tmp_path)


def test_missing_file_and_unusable_cache(package, tmp_path):
    (package / packaged._LM_FILE).rename(package / "elsewhere")
    with pytest.raises(ModelError, match="could not be unpacked"):
        find_language_model()
    (package / "elsewhere").rename(package / packaged._LM_FILE)
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").touch()
    with pytest.raises(ModelError, match="could not be unpacked"):
        find_language_model()
