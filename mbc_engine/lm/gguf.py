"""Unpacks SmolLM2-135M-Instruct from GGUF (github.com/ggml-org/ggml, docs/gguf.md) into a folder for transformers.

Its weights are in 4- and 8-bit blocks, so they differ from the hub's.
"""

import hashlib
import json
import math
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

# The model's and tokenizer's configs from the hub; vocabulary and merges come from the GGUF file.
_SETTINGS: Final = Path(__file__).with_name("smollm2")

# `struct` formats by GGUF value type.
_SCALARS: Final = dict(enumerate(("B", "b", "H", "h", "I", "i", "f", "?", "", "", "Q", "q", "d")))
_STRING, _ARRAY = 8, 9
_F32, _Q4_1, _Q8_0 = 0, 3, 8
# Bytes and weights per block of each type.
_BLOCKS: Final = {_F32: (4, 1), _Q4_1: (20, 32), _Q8_0: (34, 32)}
_ALIGNMENT: Final = 32
# A tensor's name, shape, quantisation type and offset.
_Tensor: TypeAlias = tuple[str, list[int], int, int]
_NAMES: Final = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def unpack(content: bytes, folder: Path, on_progress: Callable[[int, int], object]) -> str:
    """Write a language model's config, tokenizer and weights in float16 to a folder, the same bytes everywhere.

    Args:
        content: of a GGUF file of SmolLM2-135M's shape.
        on_progress: gets bytes written and total bytes.

    Returns:
        The SHA-256 of `model.safetensors`.
    """
    shutil.copytree(_SETTINGS, folder, dirs_exist_ok=True)
    metadata, tensors, stored = _read_gguf(content)
    _write_tokenizer(folder / "tokenizer.json", metadata)
    return _write_weights(folder / "model.safetensors", tensors, stored, on_progress)


def _read_gguf(content: bytes) -> tuple[dict[str, Any], list[_Tensor], memoryview]:
    """The metadata of a GGUF file, its tensors, and the bytes that their offsets count from."""
    at = 0

    def read(layout: str) -> Any:
        nonlocal at
        (value,) = struct.unpack_from(f"<{layout}", content, at)
        at += struct.calcsize(f"<{layout}")
        return value

    def read_value(kind: int) -> Any:
        if kind == _STRING:
            return read(f"{read('Q')}s").decode()
        if kind == _ARRAY:
            inner, count = read("I"), read("Q")
            return [read_value(inner) for _ in range(count)]
        return read(_SCALARS[kind])

    _magic, _version, tensor_count, value_count = read("I"), read("I"), read("Q"), read("Q")
    metadata = {read_value(_STRING): read_value(read("I")) for _ in range(value_count)}
    tensors = []
    for _ in range(tensor_count):
        name, shape = read_value(_STRING), [read("Q") for _ in range(read("I"))]
        tensors.append((name, shape[::-1], read("I"), read("Q")))  # GGUF puts the fastest-varying dimension first
    return metadata, tensors, memoryview(content)[-(-at // _ALIGNMENT) * _ALIGNMENT :]


def _dequantised(stored: memoryview, kind: int, count: int) -> NDArray[np.float32]:
    block_bytes, block_weights = _BLOCKS[kind]
    blocks = np.frombuffer(stored, np.uint8, count // block_weights * block_bytes).reshape(-1, block_bytes)
    if kind == _F32:
        return blocks.view("<f4")
    if kind == _Q8_0:  # a scale, and 32 bytes
        return blocks[:, :2].view("<f2").astype(np.float32) * blocks[:, 2:].view(np.int8)
    # Q4_1: a scale, a minimum, and 16 bytes with the first 16 weights in their low nibbles
    weights = np.hstack([blocks[:, 4:] & 15, blocks[:, 4:] >> 4])
    return blocks[:, :2].view("<f2").astype(np.float32) * weights + blocks[:, 2:4].view("<f2").astype(np.float32)


def _write_tokenizer(path: Path, metadata: dict[str, Any]) -> None:
    tokenizer = json.loads((_SETTINGS / path.name).read_text())
    tokenizer["model"]["vocab"] = {token: number for number, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    tokenizer["model"]["merges"] = [merge.split(" ") for merge in metadata["tokenizer.ggml.merges"]]
    path.write_text(json.dumps(tokenizer))


def _write_weights(
    path: Path, tensors: list[_Tensor], stored: memoryview, on_progress: Callable[[int, int], object]
) -> str:
    """Write a safetensors file whose bytes do not depend on the library's version; return its SHA-256."""
    config = json.loads((_SETTINGS / "config.json").read_text())
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    layout: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape, _, _ in tensors:
        begin, end = end, end + 2 * math.prod(shape)
        *block, part, suffix = name.split(".")
        full_name = ".".join(["model", *(["layers", block[1]] if block else []), _NAMES[part], suffix])
        layout[full_name] = {"dtype": "F16", "shape": shape, "data_offsets": [begin, end]}
    header = json.dumps(layout, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    digest = hashlib.sha256(begun := struct.pack("<Q", len(header)) + header)
    with path.open("wb") as file:
        file.write(begun)
        for name, shape, kind, offset in tensors:
            weights = _dequantised(stored[offset:], kind, math.prod(shape)).astype("<f2").reshape(shape)
            if count := heads.get(name.split(".")[-2]):
                # GGUF stores the two rows that RoPE rotates together adjacently, transformers half a head apart.
                weights = weights.reshape(count, -1, 2, shape[-1]).swapaxes(1, 2)
            file.write(content := weights.tobytes())
            digest.update(content)
            on_progress(file.tell(), len(begun) + end)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()
