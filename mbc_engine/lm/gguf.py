"""Unpacks SmolLM2-135M-Instruct from GGUF into a folder for transformers.

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
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gguf import GGUFReader

# The model's and tokenizer's configs from the hub; vocabulary and merges come from the GGUF file.
_SETTINGS: Final = Path(__file__).with_name("smollm2")

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


def unpack(file: Path, folder: Path, on_progress: Callable[[int, int], object]) -> str:
    """Write a language model's config, tokenizer and weights in float16 to a folder, the same bytes everywhere.

    Args:
        file: a GGUF file of SmolLM2-135M's shape.
        on_progress: gets bytes written and total bytes.

    Returns:
        The SHA-256 of `model.safetensors`.
    """
    from gguf import GGUFReader

    shutil.copytree(_SETTINGS, folder, dirs_exist_ok=True)
    reader = GGUFReader(file)
    _write_tokenizer(folder / "tokenizer.json", reader)
    return _write_weights(folder / "model.safetensors", reader, on_progress)


def _write_tokenizer(path: Path, reader: "GGUFReader") -> None:
    tokenizer = json.loads((_SETTINGS / path.name).read_text())
    tokens, merges = (reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges"))
    tokenizer["model"]["vocab"] = {token: number for number, token in enumerate(tokens)}
    tokenizer["model"]["merges"] = [merge.split(" ") for merge in merges]
    path.write_text(json.dumps(tokenizer))


def _write_weights(path: Path, reader: "GGUFReader", on_progress: Callable[[int, int], object]) -> str:
    """Write a safetensors file whose bytes do not depend on the library's version; return its SHA-256."""
    from gguf import dequantize

    config = json.loads((_SETTINGS / "config.json").read_text())
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    layout: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in reader.tensors:
        shape = tensor.shape.tolist()[::-1]  # GGUF puts the fastest-varying dimension first
        begin, end = end, end + 2 * math.prod(shape)
        *block, part, suffix = tensor.name.split(".")
        full_name = ".".join(["model", *(["layers", block[1]] if block else []), _NAMES[part], suffix])
        layout[full_name] = {"dtype": "F16", "shape": shape, "data_offsets": [begin, end]}
    header = json.dumps(layout, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    digest = hashlib.sha256(begun := struct.pack("<Q", len(header)) + header)
    with path.open("wb") as file:
        file.write(begun)
        for tensor in reader.tensors:
            weights = dequantize(tensor.data, tensor.tensor_type).astype("<f2")
            if count := heads.get(tensor.name.split(".")[-2]):
                # GGUF stores the two rows that RoPE rotates together adjacently, transformers half a head apart.
                weights = weights.reshape(count, -1, 2, weights.shape[-1]).swapaxes(1, 2)
            file.write(content := weights.tobytes())
            digest.update(content)
            on_progress(file.tell(), len(begun) + end)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()
