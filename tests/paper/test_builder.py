"""From settings to a model: what is shared and that settings arrive; and to its sizes, without weights: the published
set-ups to the parameter, hub models, and what a real model has."""

import socket

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, BitsAndBytesConfig

from mbc_engine.config import load_preset
from mbc_engine.errors import ModelError
from mbc_engine.evaluation.cells import variant
from mbc_engine.names import preset_names
from mbc_engine.paper.builder import config_of, packable, parameter_table, skeleton, trainable_parameters

FLOAT = ("model.base_weights=float32", "model.documents.weights=float32", "model.questions.weights=float32")
PACKED = tuple(setting.replace("float32", "nf4") for setting in FLOAT)
# Parameters as their owners publish them, of models that the paper does not use; MiniLM's with BERT's pooler.
PUBLISHED = {
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "HuggingFaceTB/SmolLM2-135M-Instruct": 134_515_008,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "google/gemma-3-270m": 268_098_176,
    "sentence-transformers/all-MiniLM-L6-v2": 22_713_216,
}


@pytest.fixture(autouse=True)
def no_hub(monkeypatch, tmp_path):
    """Nothing is asked of any host; the hub's cache is empty."""

    def refuse(*_, **__):
        raise AssertionError("a host was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))


@pytest.mark.parametrize(
    ("preset", "total", "codebook", "lora", "rest"),
    [
        ("distilgpt2", 197_318_656, 393_216, 221_184, 196_704_256),
        pytest.param("gpt2-large", 929_154_560, 655_360, 1_966_080, 926_533_120, marks=pytest.mark.slow),
        pytest.param("gpt2-xl", 1_727_187_200, 819_200, 2_457_600, 1_723_910_400, marks=pytest.mark.slow),
        ("llama2-7b", 3_012_013_312, 2_097_152, 8_388_608, 3_001_527_552),
    ],
)
def test_published_parameters(preset, total, codebook, lora, rest):
    table = parameter_table(load_preset(preset, [*FLOAT]).model)
    assert table["all"].trainable == total
    assert (table["codebook"].trainable, table["KV-LoRA"].trainable) == (codebook, lora)
    assert total - codebook - lora == rest
    mac = parameter_table(variant(load_preset(preset, [*FLOAT]), "mac").model)
    assert mac["all"].trainable == rest
    assert {"KV-LoRA", "codebook"} == table.keys() - mac.keys()
    assert table["base LM"].trainable == table["all"].frozen - table["base LM"].frozen == 0


def test_published_parameters_in_4_bits():
    """The paper prints 2.36B without codebook and KV-LoRA, and that these add 0.445%."""
    table = parameter_table(load_preset("llama2-7b", [*PACKED]).model)
    added = table["codebook"].trainable + table["KV-LoRA"].trainable
    assert table["all"].trainable - added == 2_356_653_312
    assert round(100 * added / 2_356_653_312, 3) == 0.445
    assert table["all"].trainable + table["all"].frozen == 3_012_013_312 + 6_738_415_616


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes_of_hub_models(name):
    config = config_of(name)
    kind = AutoModel if config.model_type in ("t5", "bert") else AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", preset_names())
def test_presets_fit_their_base(name):
    config = load_preset(name)
    model = skeleton(config.model)[0]
    assert all(parameter.is_meta for parameter in model.parameters())
    texts = config.model.prefix.columns + config.training.question_window + config.training.answer_window
    assert texts <= model.base.context
    assert config.model.lora.layers <= model.base.shape.layers


@pytest.mark.parametrize(("base", "encoder", "frozen"), [("gpt2", "bert", "true"), ("llama", "t5", "false")])
def test_skeleton_equals_the_model(tiny, base, encoder, frozen):
    parts = ("model.routing=true", "model.centring=true", "model.aggregator.pass_through=true")
    settings = (base, encoder, *parts, f"model.documents.frozen={frozen}", f"model.questions.frozen={frozen}")
    table, model = parameter_table(tiny.config(*settings).model), tiny.model(*settings)
    assert table["all"].trainable == trainable_parameters(model)
    assert table["all"].trainable + table["all"].frozen == sum(parameter.numel() for parameter in model.parameters())
    assert table["all"].bytes == sum(parameter.nbytes for parameter in model.parameters())
    rows = "base LM, KV-LoRA, amortizer, question encoder, codebook, aggregator, prefix network, router, all"
    assert ", ".join(table) == rows
    assert table["router"].trainable == trainable_parameters(model.router)
    assert table["codebook"].trainable == 8 * 32


@pytest.mark.parametrize(
    ("family", "weights"), [("gpt2", "nf4"), ("llama", "int8"), ("bert", "nf4"), ("t5", "nf4"), ("t5", "int8")]
)
def test_packable_equals_what_loading_packs(tiny, family, weights):
    pytest.importorskip("bitsandbytes")
    kind = AutoModelForCausalLM if family in tiny.bases else AutoModel
    folder = {**tiny.bases, **tiny.encoders}[family]
    packings = {"nf4": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "int8": {"load_in_8bit": True}}
    packing = BitsAndBytesConfig(**packings[weights])
    model = kind.from_pretrained(folder, quantization_config=packing, device_map={"": "cpu"})
    loaded = {name for name, parameter in model.named_parameters() if not parameter.is_floating_point()}
    plain = kind.from_pretrained(folder)
    ours = {id(weight) for weight in packable(plain)}
    assert {name for name, parameter in plain.named_parameters() if id(parameter) in ours} == loaded


@pytest.mark.parametrize("name", ["some/model", "/nowhere/at/all", "a b//c"])
def test_unknown_model(name):
    with pytest.raises(ModelError, match="is unknown") as caught:
        config_of(name)
    assert f"hf download {name} config.json" in (caught.value.hint or "")


def test_only_frozen_encoders_are_shared(tiny):
    for documents, questions in (("false", "false"), ("false", "true"), ("true", "true")):
        frozen = f"model.documents.frozen={documents}", f"model.questions.frozen={questions}"
        model = tiny.model("gpt2", "bert", *frozen)
        one, other = (side.amortizer.pretrained for side in (model.documents, model.questions))
        assert (one is other) == (documents == questions == "true")


def test_settings_reach_the_modules(tiny):
    """Those that change no shape; `test_skeleton_equals_the_model` has the others."""
    model = tiny.model(
        "llama",
        "bert",
        "model.centring=true",
        "model.routing=true",
        "model.routed_documents=5",
        "model.codebook={ codes = 6, commitment = 0.5, decay = 0.9, dead_threshold = 0.01 }",
        "model.aggregator.hidden=9999",
        "model.questions.window=9",
    )
    book = model.codebook
    assert (book.commitment, book.decay, book.dead_threshold) == (0.5, 0.9, 0.01)
    assert model.aggregator.blocks[0].feed_forward[1].weight.shape == (32, 32)  # never wider than the model
    assert model.reader().router is model.router is not None
    assert model.reader().routed_documents == 5
    assert (model.documents.window, model.questions.window) == (32, 9)
    one, other = model.documents.amortizer.centring, model.questions.amortizer.centring
    assert torch.equal(one.positions, other.positions)
    assert one.positions is not other.positions
    assert one.positions.std() > 0.5
    assert not model.aggregator.pass_through
