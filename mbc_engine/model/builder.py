"""From settings to a model: the one place where a config meets the modules."""

from dataclasses import dataclass

import torch
from torch import nn

from mbc_engine.config import CodebookSettings, EncoderSettings, ModelSettings, WordSettings
from mbc_engine.errors import ModelError
from mbc_engine.model.address import Address
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
from mbc_engine.model.word_codebook import WordCodebook
from mbc_engine.model.word_encoder import WordAmortizer, WordEncoder
from mbc_engine.model.word_mbc import WordMBC


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
    shape, words = pretrained.base.shape, settings.words
    # In this order: the parts draw their first weights from one source of chance, and a seed means the same model.
    documents = (
        _text_encoder(pretrained.documents, settings.documents, settings, shape.dim)
        if words is None
        else _word_encoder(pretrained.documents, settings.documents, words, shape.dim)
    )
    questions = _text_encoder(pretrained.questions, settings.questions, settings, shape.dim)
    codebook: Codebook | WordCodebook | None = None
    if words is not None:
        codebook = _word_codebook(pretrained, words, settings.codebook)
    elif settings.quantised:
        codebook = _codebook(settings.codebook, shape.dim, settings.tokens)
    return (MBC if words is None else WordMBC)(
        settings,
        base=pretrained.base,
        documents=documents,
        questions=questions,
        codebook=codebook,
        aggregator=Aggregator(
            shape.dim,
            blocks=settings.aggregator.blocks,
            heads=settings.aggregator.heads,
            head_dim=settings.aggregator.head_dim,
            hidden=_hidden(settings, shape.dim),
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
        router=Router(shape.dim) if settings.routing and words is None else None,
    )


def _hidden(settings: ModelSettings, dim: int) -> int:
    """The published feed-forward is as wide as the model, never wider than the setting; one over words is as set."""
    return settings.aggregator.hidden if settings.words else min(dim, settings.aggregator.hidden)


def _text_encoder(encoder: Encoder, own: EncoderSettings, settings: ModelSettings, dim: int) -> TextEncoder:
    _let_train(encoder, own)
    centring = Centring(settings.tokens, dim) if settings.centring else None
    amortizer: Amortizer = (
        T5Amortizer(encoder.model, settings.tokens, dim, centring)
        if encoder.is_encoder_decoder
        else EncoderAmortizer(encoder.model, settings.tokens, dim, centring)
    )
    return TextEncoder(amortizer, encoder.tokenizer, own.window, encoder.packed_from)


def _let_train(encoder: Encoder, own: EncoderSettings) -> None:
    for parameter in encoder.model.parameters():
        parameter.requires_grad_(not own.frozen and parameter.is_floating_point())  # packed weights cannot train


def _word_encoder(encoder: Encoder, own: EncoderSettings, words: WordSettings, dim: int) -> WordEncoder:
    if encoder.is_encoder_decoder:
        raise ModelError(
            f"Words are told by the states of an encoder-only model, and {own.name} is none.",
            hint="Set model.documents.name to a model like BERT.",
        )
    _let_train(encoder, own)
    amortizer = WordAmortizer(encoder.model, dim, words=words.words, role_dim=words.role_dim)
    return WordEncoder(amortizer, encoder.tokenizer, own.window, encoder.packed_from)


def _word_codebook(pretrained: Pretrained, words: WordSettings, own: CodebookSettings) -> WordCodebook:
    vocabulary = pretrained.base.model.get_input_embeddings()
    assert isinstance(vocabulary, nn.Embedding)
    if vocabulary.num_embeddings > own.codes**2:
        raise ModelError(
            f"Two codes of {own.codes} do not tell the {vocabulary.num_embeddings:,} word pieces of the base LM apart.",
            hint="Set model.codebook.codes higher, or take a base LM of fewer pieces.",
        )
    return WordCodebook(
        vocabulary,
        Address(
            pretrained.documents.model.config.hidden_size,
            tokens=words.address,
            dim=words.address_dim,
            num_codes=own.codes,
        ),
        words=words.words,
        role_dim=words.role_dim,
        heads=words.heads,
        num_codes=own.codes,
        commitment=own.commitment,
    )


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
