"""Models of published sizes around real tokenizers, with random weights, which are as fast as trained ones.

Texts and tokenizers come from a data folder: `qa/squad_train_part.jsonl.xz`, `tokenizers/gpt2` and `tokenizers/t5`.

Weights are created on their device and in their precision, packed ones layer by layer: a 7B model in 4 bits never
exists in any other precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    GPT2Tokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from mbc_engine import load_examples, load_preset
from mbc_engine.config import Config
from mbc_engine.datasets.examples import QAExample
from mbc_engine.lm.base import BaseLM
from mbc_engine.lm.encoders import Encoder
from mbc_engine.lm.pretrained import base_dtype, disable_weight_repacking
from mbc_engine.paper.builder import build, config_of
from mbc_engine.paper.model import MBC

SQUAD: Final = "qa/squad_train_part.jsonl.xz"


@dataclass(frozen=True)
class Shape:
    """A model's size.

    Attributes:
        title: in words.
        preset: the source of its settings.
        tokenizer: of its base LM, `gpt2` or `t5`.
        overrides: of the preset's settings, `section.key=value`.
        base, encoder: overrides of its pretrained parts' configs.
    """

    title: str
    preset: str
    tokenizer: str
    overrides: tuple[str, ...] = ()
    base: tuple[tuple[str, Any], ...] = ()
    encoder: tuple[tuple[str, Any], ...] = ()

    @property
    def config(self) -> Config:
        return load_preset(self.preset, list(self.overrides))


_NF4: Final = ("model.base_weights=nf4",)
# T5's tokenizer has as many tokens as LLaMA's and splits a text into as many.
SHAPES: Final = {
    "distilgpt2": Shape("DistilGPT2's shape", "distilgpt2", "gpt2"),
    "llama2-7b": Shape("LLaMA-2-7B's shape, NF4", "llama2-7b", "t5", _NF4),
    # Tiny versions of these two, to try things out.
    "tiny-gpt2": Shape(
        "tiny, like DistilGPT2",
        "distilgpt2",
        "gpt2",
        ("model.aggregator.head_dim=8", "training.batch_size=8"),
        (("n_layer", 2), ("n_embd", 32), ("n_head", 2)),
        (("d_model", 32), ("d_ff", 64), ("num_layers", 2), ("num_decoder_layers", 2), ("num_heads", 2), ("d_kv", 16)),
    ),
    "tiny-llama": Shape(
        "tiny, like LLaMA-2-7B, NF4",
        "llama2-7b",
        "t5",
        (*_NF4, "model.aggregator.head_dim=8", "training.batch_size=16"),
        (
            ("hidden_size", 64),
            ("intermediate_size", 128),
            ("num_hidden_layers", 2),
            ("num_attention_heads", 2),
            ("num_key_value_heads", 2),
            ("head_dim", 32),
        ),
        (("d_model", 32), ("d_ff", 64), ("num_layers", 2), ("num_decoder_layers", 2), ("num_heads", 2), ("d_kv", 16)),
    ),
}


def tokenizer_of(name: str, data: Path) -> PreTrainedTokenizerBase:
    """GPT-2's or T5's tokenizer, from a data folder."""
    folder = data / "tokenizers" / name
    if name == "gpt2":
        return GPT2Tokenizer(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"))
    special = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    found: PreTrainedTokenizerBase = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **special)
    return found


def random_model(shape: Shape, device: str, data: Path) -> MBC:
    """A model of a shape, created entirely on the device, with tokenizers from a data folder."""
    torch.manual_seed(0)
    settings = shape.config.model
    dtype = base_dtype(settings.base_weights, torch.device(device))
    with torch.device(device):
        config = _config(settings.base, shape.base)
        base = _packed_lm(config, dtype) if settings.base_weights == "nf4" else _lm(config, dtype)
        sides = [
            Encoder(AutoModel.from_config(_config(encoder.name, shape.encoder)), tokenizer_of("t5", data))
            for encoder in (settings.documents, settings.questions)
        ]
        model = build(settings, (BaseLM(base, tokenizer_of(shape.tokenizer, data)), *sides))
    return model.to(device).eval()


def _config(name: str, other: Sequence[tuple[str, Any]]) -> PretrainedConfig:
    config = config_of(name)
    config.update(dict(other))
    return config


def _lm(config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model


def _packed_lm(config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """A base LM with its blocks' linear layers in 4 bits, as in `mbc_engine.lm.pretrained`."""
    device = torch.get_default_device()
    with torch.device("meta"):
        model = _lm(config, dtype)
    head = model.get_output_embeddings()
    for name, layer in list(model.named_modules()):
        if isinstance(layer, nn.Linear) and layer is not head:
            model.set_submodule(name, _packed(layer, dtype, device))
    for module in model.modules():
        for key, value in list(module.named_parameters(recurse=False)):
            if value.is_meta:
                made = torch.empty(value.shape, dtype=dtype, device=device).normal_(std=config.initializer_range)
                setattr(module, key, nn.Parameter(made if value.dim() > 1 else made.fill_(1)))
    # RoPE's frequencies are not weights: they follow from the config.
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    model.is_loaded_in_4bit = True  # type: ignore[assignment]
    disable_weight_repacking(model, dtype, str(config.model_type))
    return model


def _packed(layer: nn.Linear, dtype: torch.dtype, device: torch.device) -> nn.Module:
    import bitsandbytes

    packing: Any = bitsandbytes.nn
    packed: nn.Module = packing.Linear4bit(
        layer.in_features, layer.out_features, bias=False, compute_dtype=dtype, quant_type="nf4", device="meta"
    )
    weight = torch.empty(layer.weight.shape, dtype=dtype, device=device).normal_(std=0.02)
    packed.weight = packing.Params4bit(weight, requires_grad=False, quant_type="nf4", module=packed).to(device)
    return packed


def examples(data: Path, window: int, tokenizer: PreTrainedTokenizerBase) -> list[QAExample]:
    """One question about each distinct SQuAD text that fits a window in tokens, in the file's order."""
    by_text = {example.text: example for example in reversed(load_examples(str(data / SQUAD)))}
    found = list(reversed(by_text.values()))
    counts = [len(ids) for ids in tokenizer([example.text for example in found], verbose=False)["input_ids"]]
    return [example for example, count in zip(found, counts, strict=True) if count <= window]
