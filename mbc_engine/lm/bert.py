"""BERT (Devlin et al., 2019) and MPNet (Song et al., 2020) inference without transformers, whose import takes seconds.

Sentence vectors match transformers' `BertModel` bit for bit: the codes in a bank depend on them. In bfloat16, used only
by readers, padding is removed and attention computed explicitly, which takes a quarter less time.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from mbc_engine.lm.encoders import Encoder, load_encoder
from mbc_engine.lm.packaged import local_folder, locate
from mbc_engine.lm.pretrained import shapes_of

# Parameter names of an attention's query, key, value and output projections, and of the LayerNorm after it.
_ATTENTION: Final = {
    "bert": ("self.query", "self.key", "self.value", "output.dense", "output.LayerNorm"),
    "mpnet": ("attn.q", "attn.k", "attn.v", "attn.o", "LayerNorm"),
}
# Relative positions beyond this distance share a bias; near ones, up to half the buckets, have their own.
_FARTHEST: Final = 128


class Bert(nn.Module):
    """A drop-in replacement for transformers' model of the same type: same parameter names, call and result."""

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.config = SimpleNamespace(**{"is_encoder_decoder": False, **config})
        for name, value in weights.items():
            module: nn.Module = self
            *path, leaf = name.split(".")
            for part in path:
                if part not in dict(module.named_children()):
                    module.add_module(part, nn.Module())
                module = module.get_submodule(part)
            module.register_parameter(leaf, nn.Parameter(value, requires_grad=False))

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> SimpleNamespace:
        """Token states: ids, mask and types [B, S] -> `last_hidden_state` [B, S, E]."""
        config, weights = self.config, dict(self.named_parameters())

        def embedded(kind: str, ids: Tensor) -> Tensor:
            return functional.embedding(ids, weights[f"embeddings.{kind}_embeddings.weight"])

        def linear(name: str, x: Tensor) -> Tensor:
            return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

        def normalised(name: str, x: Tensor) -> Tensor:
            scale, shift = weights[f"{name}.weight"], weights[f"{name}.bias"]
            return functional.layer_norm(x, x.shape[-1:], scale, shift, config.layer_norm_eps)

        x = embedded("word", input_ids)
        is_token = attention_mask.bool()
        is_packed = x.dtype == torch.bfloat16
        mask = None if is_packed or is_token.all() else is_token[:, None, None]
        if config.model_type == "bert":
            types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
            x = x + embedded("token_type", types)
            positions = torch.arange(input_ids.shape[1], device=x.device)[None]
        else:
            not_pad = (input_ids != config.pad_token_id).long()
            positions = not_pad.cumsum(1) * not_pad + config.pad_token_id
            bias = _position_bias(weights["encoder.relative_attention_bias.weight"], input_ids.shape[1])
            mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        x = normalised("embeddings.LayerNorm", x + embedded("position", positions))
        if is_packed:
            x, lengths = x[is_token], is_token.sum(1).tolist()

        def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)

        def packed_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            several = zip(query.split(lengths, 1), key.split(lengths, 1), value.split(lengths, 1), strict=True)
            bias = None if mask is None else mask[0]
            return torch.cat([_attention(queries, keys, values, bias) for queries, keys, values in several], dim=1)

        *projections, out, norm = _ATTENTION[config.model_type]
        for number in range(config.num_hidden_layers):
            layer = f"encoder.layer.{number}"
            query, key, value = (
                linear(f"{layer}.attention.{name}", x).unflatten(-1, (config.num_attention_heads, -1)).transpose(-3, -2)
                for name in projections
            )
            read = (packed_attention if is_packed else attention)(query, key, value)
            x = normalised(
                f"{layer}.attention.{norm}", linear(f"{layer}.attention.{out}", read.transpose(-3, -2).flatten(-2)) + x
            )
            inner = functional.gelu(linear(f"{layer}.intermediate.dense", x))
            x = normalised(f"{layer}.output.LayerNorm", linear(f"{layer}.output.dense", inner) + x)
        if is_packed:
            x = x.new_zeros(*input_ids.shape, x.shape[-1]).masked_scatter(is_token[..., None], x)
        return SimpleNamespace(last_hidden_state=x)


def _attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """Attention of one text, [heads, S, D], with a bias [heads, longest, longest]; on a CPU faster than fused."""
    scores = query * query.shape[-1] ** -0.5 @ key.transpose(1, 2)
    if bias is not None:
        scores = scores + bias[:, : scores.shape[1], : scores.shape[2]]
    shares: Tensor = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
    return shares @ value


def _position_bias(table: Tensor, length: int) -> Tensor:
    """T5's relative position bias, [1, heads, S, S], from a table [buckets, heads]."""
    positions = torch.arange(length, device=table.device)
    distances = positions[None] - positions[:, None]
    half = len(table) // 2
    near = half // 2
    far = near + (torch.log(distances.abs().float() / near) / math.log(_FARTHEST / near) * (half - near)).long()
    buckets = torch.where(distances.abs() < near, distances.abs(), far.clamp_max(half - 1)) + half * (distances > 0)
    return functional.embedding(buckets, table).permute(2, 0, 1)[None]


class EncoderTokenizer:
    """The subset of transformers' tokenizer interface that encoders and readers use."""

    def __init__(self, backend: Tokenizer, pad: int) -> None:
        self.backend_tokenizer, self.pad_token_id = backend, pad
        self.cls_token_id, self.sep_token_id = backend.encode("").ids

    def num_special_tokens_to_add(self) -> int:
        return 2

    def __call__(
        self,
        texts: str | Sequence[str],
        *,
        add_special_tokens: bool = True,
        max_length: int | None = None,
        return_tensors: str | None = None,
        **_: object,
    ) -> dict[str, Any]:
        """Ids and offsets, unnested for a single text; with `return_tensors` "pt", padded ids and a mask."""
        several = [texts] if isinstance(texts, str) else list(texts)
        encodings = self.backend_tokenizer.encode_batch(several, add_special_tokens=add_special_tokens)
        ids = [encoding.ids for encoding in encodings]
        if max_length is not None:
            ids = [row if len(row) <= max_length else [*row[: max_length - 1], row[-1]] for row in ids]
        if return_tensors is None:
            offsets = [encoding.offsets for encoding in encodings]
            is_one = isinstance(texts, str)
            return {"input_ids": ids[0] if is_one else ids, "offset_mapping": offsets[0] if is_one else offsets}
        longest = max(map(len, ids), default=0)
        padded = torch.tensor([row + [self.pad_token_id] * (longest - len(row)) for row in ids])
        mask = torch.arange(longest) < torch.tensor([len(row) for row in ids])[:, None]
        return {"input_ids": padded, "attention_mask": mask.long()}


def open_encoder(name: str, *, device: str | torch.device = "cpu") -> Encoder:
    """Open an encoder in float32 by hub id or path, with this module, or with transformers for other architectures.

    Raises ModelError as `load_encoder` does.
    """
    with suppress(OSError, ValueError, KeyError, SafetensorError):  # fall back to transformers, which reports errors
        folder = local_folder(locate(name))
        config = json.loads((folder / "config.json").read_text()) if folder else {}
        if folder and config.get("model_type") in _ATTENTION and config["hidden_act"] == "gelu":
            stored = load_file(folder / "model.safetensors")
            expected = dict(_shapes(config))
            if expected == {key: size for key, size in shapes_of(stored).items() if key in expected}:
                model = Bert(config, {key: stored[key].float() for key in expected}).to(device).eval()
                backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
                backend.no_truncation()
                backend.no_padding()
                return Encoder(cast("Any", model), cast("Any", EncoderTokenizer(backend, config["pad_token_id"])))
    return load_encoder(name, device=device)


def _shapes(config: Mapping[str, Any]) -> Iterator[tuple[str, torch.Size]]:
    """A model's parameter names and shapes, in order of use."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    is_bert = config["model_type"] == "bert"
    rows = {"word": config["vocab_size"], "position": config["max_position_embeddings"]}
    rows |= {"token_type": config["type_vocab_size"]} if is_bert else {}
    for kind, count in rows.items():
        yield f"embeddings.{kind}_embeddings.weight", torch.Size((count, width))
    if not is_bert:
        table = (config["relative_attention_num_buckets"], config["num_attention_heads"])
        yield "encoder.relative_attention_bias.weight", torch.Size(table)
    *projections, norm = (f"attention.{name}" for name in _ATTENTION[config["model_type"]])
    layers = dict.fromkeys(projections, (width, width)) | {norm: (width,)}
    layers |= {"intermediate.dense": (inner, width), "output.dense": (width, inner), "output.LayerNorm": (width,)}
    named = {f"encoder.layer.{number}.{name}": size for number in range(config["num_hidden_layers"])
             for name, size in layers.items()}  # fmt: skip
    for name, size in ({"embeddings.LayerNorm": (width,), "pooler.dense": (width, width)} | named).items():
        yield f"{name}.weight", torch.Size(size)
        yield f"{name}.bias", torch.Size(size[:1])
