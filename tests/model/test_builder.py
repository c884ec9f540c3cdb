"""From settings to a model: the published sizes to the parameter, and what is shared."""

from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PretrainedConfig, T5Config, T5Model

from mbc_engine.config import load_preset, parse_config
from mbc_engine.model.base import BaseLM
from mbc_engine.model.builder import Pretrained, build, load_pretrained, trainable_parameters
from mbc_engine.model.encoders import Encoder

T5 = {
    "small": {"d_model": 512, "d_ff": 2048, "num_layers": 6, "num_heads": 8},
    "base": {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12},
    "large": {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16},
}
DISTIL = {"n_layer": 6}
LARGE = {"n_embd": 1280, "n_layer": 36, "n_head": 20}
XL = {"n_embd": 1600, "n_layer": 48, "n_head": 25}


def t5(size: str) -> Encoder:
    config = T5Config(vocab_size=32128, d_kv=64, **T5[size])
    return Encoder(T5Model(config), None, True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "documents", "questions", "preset", "total", "codebook", "lora"),
    [
        (GPT2Config(**DISTIL), "small", "small", "distilgpt2", 197_318_656, 393_216, 221_184),
        (GPT2Config(**LARGE), "base", "base", "gpt2-large", 929_154_560, 655_360, 1_966_080),
        (GPT2Config(**XL), "large", "base", "gpt2-xl", 1_727_187_200, 819_200, 2_457_600),
        (LlamaConfig(), "large", "base", "llama2-7b", 3_012_013_312, 2_097_152, 8_388_608),
    ],
    ids=["DistilGPT2", "GPT2-Large", "GPT2-XL", "LLaMA-2-7B"],
)
def test_published_setups_have_the_published_parameters(
    config: PretrainedConfig, documents: str, questions: str, preset: str, total: int, codebook: int, lora: int
) -> None:
    kind = LlamaForCausalLM if config.model_type == "llama" else GPT2LMHeadModel
    with torch.device("meta"):
        base = BaseLM(kind(config), None)  # type: ignore[arg-type]
        model = build(load_preset(preset).model, Pretrained(base, t5(documents), t5(questions)))
    assert trainable_parameters(model) == total
    assert model.codebook.books.numel() == codebook
    assert trainable_parameters(model.base) == lora


def sides(tiny: Any, documents: bool, questions: bool) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Both pretrained encoders of a model that freezes them or not."""
    model = tiny.model(
        "gpt2",
        "bert",
        f"model.documents.frozen={str(documents).lower()}",
        f"model.questions.frozen={str(questions).lower()}",
    )
    return model.documents.amortizer.pretrained, model.questions.amortizer.pretrained


@pytest.mark.parametrize("documents", [False, True])
@pytest.mark.parametrize("questions", [False, True])
def test_each_side_trains_unless_it_is_frozen(tiny: Any, documents: bool, questions: bool) -> None:
    for side, frozen in zip(sides(tiny, documents, questions), (documents, questions), strict=True):
        assert {parameter.requires_grad for parameter in side.parameters()} == {not frozen}


def test_only_frozen_encoders_are_shared(tiny: Any) -> None:
    for documents, questions in ((False, False), (False, True), (True, False), (True, True)):
        one, other = sides(tiny, documents, questions)
        assert (one is other) == (documents and questions)


def test_encoders_of_different_names_are_not_shared(tiny: Any) -> None:
    config = tiny.config("gpt2", "bert", "model.documents.frozen=true", "model.questions.frozen=true")
    text = config.to_toml().replace(str(tiny.encoders["bert"]), str(tiny.encoders["t5"]), 1)
    pretrained = load_pretrained(parse_config(text, "mixed").model)
    assert {pretrained.documents.is_encoder_decoder, pretrained.questions.is_encoder_decoder} == {False, True}


def test_settings_reach_the_modules(tiny: Any) -> None:
    model = tiny.model(
        "llama",
        "bert",
        "model.tokens=3",
        "model.centring=true",
        "model.routing=true",
        "model.read=routed",
        "model.routed_documents=5",
        "model.codebook={ codes = 6, levels = 2, per_position = true, commitment = 0.5 }",
        "model.codebook.decay=0.9",
        "model.codebook.dead_threshold=0.01",
        "model.aggregator={ blocks = 3, heads = 2, head_dim = 5, hidden = 9999 }",
        "model.prefix={ columns = 3, hidden = 7, slot_embedding = true }",
        "model.questions.window=9",
    )
    book = model.codebook
    assert book.books.shape == (2, 3, 6, 32)
    assert (book.commitment, book.decay, book.dead_threshold) == (0.5, 0.9, 0.01)
    assert len(model.aggregator.blocks) == 3
    assert model.aggregator.blocks[0].attention.query.weight.shape == (10, 32)
    assert model.aggregator.blocks[0].feed_forward[1].weight.shape == (32, 32)  # never wider than the model
    assert model.prefix.up.shape == (12, 32, 7)
    assert model.prefix.slot_embedding is not None
    assert model.reader().router is model.router is not None
    assert model.reader().routed_documents == 5
    assert (model.documents.window, model.questions.window) == (32, 9)
    assert model.documents.amortizer.centring is not model.questions.amortizer.centring


def test_without_routing_or_centring_there_is_neither(tiny: Any) -> None:
    model = tiny.model()
    assert model.router is None
    assert model.documents.amortizer.centring is None
