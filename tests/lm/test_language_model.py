"""The built-in language model: unpacked once from a package's file, to the same bytes everywhere."""

import hashlib
import json
import math
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import pre_tokenizers

from mbc_engine.errors import ModelError
from mbc_engine.lm import gguf, packaged
from mbc_engine.lm.base import load_base
from mbc_engine.lm.packaged import find_language_model

F32, Q4_1, Q8_0 = 0, 3, 8
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
WEIGHTS_DIGEST = "0979b0ee6cd48a74dfbc67da18c59c87ff473e06414a45129be51a9e431c7f6a"
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
    "token_embd.weight": (Q8_0, (len(TOKENS), WIDTH)),
    "blk.0.attn_norm.weight": (F32, (WIDTH,)),
    "blk.0.attn_q.weight": (Q4_1, (WIDTH, WIDTH)),
    "blk.0.attn_k.weight": (Q4_1, (WIDTH // HEADS, WIDTH)),
    "blk.0.attn_v.weight": (Q4_1, (WIDTH // HEADS, WIDTH)),
    "blk.0.attn_output.weight": (Q4_1, (WIDTH, WIDTH)),
    "blk.0.ffn_norm.weight": (F32, (WIDTH,)),
    "blk.0.ffn_gate.weight": (Q4_1, (INNER, WIDTH)),
    "blk.0.ffn_up.weight": (Q4_1, (INNER, WIDTH)),
    "blk.0.ffn_down.weight": (Q4_1, (WIDTH, INNER)),
    "output_norm.weight": (F32, (WIDTH,)),
}


def string(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def array(kind, contents):
    return struct.pack("<IQ", kind, len(contents)) + b"".join(contents)


def stored(kind, rows):
    """Rows of weights; each row is one block, but for those of ffn_down, two."""
    if kind == F32:
        return struct.pack(f"<{WIDTH}f", *(1 + column / 64 for column in range(WIDTH)))
    if kind == Q8_0:
        return b"".join(struct.pack("<e32b", 0.25, *(column - row % 32 for column in range(32))) for row in range(rows))
    packed = bytes((15 - column) << 4 | column for column in range(16))
    return b"".join(struct.pack("<ee", 0.5, row - 1) + packed for row in range(rows))


def gguf_file():
    """A language model of one layer, in the kinds of weights that the real file has."""
    metadata = {  # the first ones are only there to be got past
        "general.architecture": (8, string("llama")),
        "llama.rope.freq_base": (6, struct.pack("<f", 1e5)),
        "tokenizer.ggml.add_bos_token": (7, b"\0"),
        "tokenizer.ggml.token_type": (9, array(5, [struct.pack("<i", 1)] * len(TOKENS))),
        "tokenizer.ggml.tokens": (9, array(8, list(map(string, TOKENS)))),
        "tokenizer.ggml.merges": (9, array(8, list(map(string, ("Ġ t", "h e", "Ġt he"))))),
    }
    tensors, weights = b"", b""
    for name, (kind, shape) in SHAPES.items():
        weights += bytes(-len(weights) % 32)
        tensors += string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
        tensors += struct.pack("<IQ", kind, len(weights))
        weights += stored(kind, math.prod(shape) // 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(SHAPES), len(metadata))
    head += b"".join(string(key) + struct.pack("<I", kind) + data for key, (kind, data) in metadata.items()) + tensors
    return head + bytes(-len(head) % 32) + weights


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package that carries a tiny language model; its code must never run."""
    package = tmp_path / "site" / "tiny_lm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('the package was imported')\n")
    (package / packaged._LM_FILE).write_bytes(content := gguf_file())
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


def entries(folder):
    return {path.name for path in folder.iterdir()}


def test_dequantisation(package):
    weights = load_file(find_language_model() / "model.safetensors")
    layer = "model.layers.0.self_attn"
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert weights["model.norm.weight"].tolist() == [1 + column / 64 for column in range(WIDTH)]
    assert weights["model.embed_tokens.weight"][3].tolist() == [0.25 * (column - 3) for column in range(32)]
    quantised = [*range(16), *range(15, -1, -1)]  # the lower halves of 16 bytes, then the upper ones
    assert weights[f"{layer}.v_proj.weight"][5].tolist() == [0.5 * number + 4 for number in quantised]


def test_rotary_row_order(package):
    weights = load_file(find_language_model() / "model.safetensors")
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
    assert not any(name.endswith(".partial") for name in entries(folder.parent))
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
    assert not [name for name in entries(tmp_path / "cache" / "mbc" / "models") if not name.endswith(".lock")]


def test_unexpected_weights_are_refused(package, tmp_path, monkeypatch):
    monkeypatch.setattr(packaged, "_LM_WEIGHTS_DIGEST", "0" * 64)
    with pytest.raises(ModelError, match="weights of the language model are corrupt"):
        find_language_model()
    assert not [name for name in entries(tmp_path / "cache" / "mbc" / "models") if not name.endswith(".lock")]


def test_missing_file_and_unusable_cache(package, tmp_path):
    (package / packaged._LM_FILE).rename(package / "elsewhere")
    with pytest.raises(ModelError, match="could not be unpacked"):
        find_language_model()
    (package / "elsewhere").rename(package / packaged._LM_FILE)
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").touch()
    with pytest.raises(ModelError, match="could not be unpacked"):
        find_language_model()
