"""From settings to a model: the one place where a config meets the modules."""

from dataclasses import dataclass

import torch
from torch import nn

from mbc_engine.config import CodebookSettings, EncoderSettings, ModelSettings
from mbc_engine.model.aggregator import Aggregator
from mbc_engine.model.amortizer import Amortizer, EncoderAmortizer, T5Amortizer
from mbc_engine.model.base import BaseLM, load_base
from mbc_engine.model.centring import Centring
from mbc_engine.model.codebook import Codebook
from mbc_engine.model.encoders import Encoder, load_encoder
from mbc_engine.model.mbc import MBC
from mbc_engine.model.prefix import PrefixNetwork
from mbc_engine.model.router import Router
from mbc_engine.model.text_encoder import TextEncoder


@dataclass(frozen=True)
class Pretrained:
    """The pretrained parts of a model, loaded."""

    base: BaseLM
    documents: Encoder
    questions: Encoder


def load_pretrained(settings: ModelSettings, *, device: str | torch.device = "cpu") -> Pretrained:
    """Load the base LM and the encoders, straight to a device and as their weights are to be held.

    Raises:
        ModelError: a pretrained part is not there or not supported, or what packs weights is not installed.
    """
    base = load_base(settings.base, weights=settings.base_weights, device=device)
    documents = _load_encoder(settings.documents, device)
    questions = documents if shares_encoder(settings) else _load_encoder(settings.questions, device)
    return Pretrained(base, documents, questions)


def _load_encoder(own: EncoderSettings, device: str | torch.device) -> Encoder:
    return load_encoder(own.name, weights=own.weights, device=device)


def shares_encoder(settings: ModelSettings) -> bool:
    """Whether one frozen encoder serves both sides: it is loaded once and its states are cached once."""
    one, other = settings.documents, settings.questions
    return one.frozen and other.frozen and (one.name, one.weights) == (other.name, other.weights)


def build(settings: ModelSettings, pretrained: Pretrained) -> MBC:
    """An untrained model around pretrained parts, with a fresh KV-LoRA if it is to have one."""
    lora, base = settings.lora, pretrained.base.model
    if lora.layers:
        from mbc_engine.model.kv_lora import add_kv_lora, kv_lora_config

        adapter = kv_lora_config(base, rank=lora.rank, alpha=lora.alpha, dropout=lora.dropout, layers=lora.layers)
        add_kv_lora(base, adapter)
    return assemble(settings, pretrained)


def assemble(settings: ModelSettings, pretrained: Pretrained) -> MBC:
    """Put loaded parts together with initialised ones, KV-LoRA left out."""
    shape = pretrained.base.shape
    # In this order: the parts draw their first weights from one source of chance, and a seed means the same model.
    documents = _text_encoder(pretrained.documents, settings.documents, settings, shape.dim)
    questions = _text_encoder(pretrained.questions, settings.questions, settings, shape.dim)
    return MBC(
        settings,
        base=pretrained.base,
        documents=documents,
        questions=questions,
        codebook=_codebook(settings.codebook, shape.dim, settings.tokens) if settings.quantised else None,
        aggregator=Aggregator(
            shape.dim,
            blocks=settings.aggregator.blocks,
            heads=settings.aggregator.heads,
            head_dim=settings.aggregator.head_dim,
            hidden=min(shape.dim, settings.aggregator.hidden),  # the published one is as wide as the model
        ),
        prefix=PrefixNetwork(
            shape.dim,
            shape.layers,
            shape.kv_heads,
            shape.head_dim,
            columns=settings.prefix.columns,
            hidden=settings.prefix.hidden,
            slot_embedding=settings.prefix.slot_embedding,
        ),
        router=Router(shape.dim) if settings.routing else None,
    )


def _text_encoder(encoder: Encoder, own: EncoderSettings, settings: ModelSettings, dim: int) -> TextEncoder:
    for parameter in encoder.model.parameters():
        parameter.requires_grad_(not own.frozen and parameter.is_floating_point())  # packed weights cannot train
    centring = Centring(settings.tokens, dim) if settings.centring else None
    amortizer: Amortizer = (
        T5Amortizer(encoder.model, settings.tokens, dim, centring)
        if encoder.is_encoder_decoder
        else EncoderAmortizer(encoder.model, settings.tokens, dim, centring)
    )
    return TextEncoder(amortizer, encoder.tokenizer, own.window, encoder.packed_from)


def _codebook(own: CodebookSettings, dim: int, tokens: int) -> Codebook:
    return Codebook(
        own.codes,
        dim,
        tokens,
        levels=own.levels,
        per_position=own.per_position,
        commitment=own.commitment,
        decay=own.decay,
        dead_threshold=own.dead_threshold,
    )


def trainable_parameters(model: nn.Module) -> int:
    """How many parameters require gradients."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
