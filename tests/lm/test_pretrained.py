"""Opening pretrained models, also with weights packed into 8 or 4 bits; what cannot be used is refused with a way out."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import GatedRepoError
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer, BertModel

from mbc_engine.errors import ModelError
from mbc_engine.lm.base import load_base
from mbc_engine.lm.encoders import load_encoder
from mbc_engine.lm.pretrained import PACKED, is_packed, unpacked_state
from tests.sharing.fake_hub import http_library


@pytest.mark.parametrize("weights", PACKED)
def test_missing_bitsandbytes(wide, weights, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if "bits" in name else find(name, *rest))
    for load in (
        lambda: load_base(str(wide.bases["gpt2"]), weights=weights),
        lambda: load_encoder("x", weights=weights),
    ):
        with pytest.raises(ModelError, match="bitsandbytes") as caught:
            load()
        assert "-e '.[hub]'" in (caught.value.hint or "")


@pytest.fixture
def copied(wide, tmp_path):
    """A base LM's folder to spoil."""
    return Path(shutil.copytree(wide.bases["llama"], tmp_path / "base"))


@pytest.mark.parametrize("weights", ["float32", "bf16", *PACKED])
@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"num_hidden_layers": 3}, "model.layers.2"),
        ({"head_dim": 8, "num_attention_heads": 8}, "model.layers.0.self_attn.k_proj"),
        ({"vocab_size": 99}, "lm_head"),
    ],
    ids=["layers", "heads", "vocabulary"],
)
def test_missing_weights_are_refused(copied, weights, changes, missing):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(ModelError, match=f"do not match its config: see {missing}"):
        load_base(str(copied), weights=weights)


def test_weights_named_as_on_the_hub(wide, tmp_path):
    """Like GPT-2 on the hub: the head is the embeddings, and buffers of old versions are stored with the weights."""
    shutil.copytree(wide.bases["gpt2"], tmp_path / "base")
    file = tmp_path / "base" / "model.safetensors"
    state = {name.removeprefix("transformer."): value for name, value in load_file(file).items()}
    save_file({**state, "h.0.attn.bias": torch.ones(1, 1, 160, 160)}, file, {"format": "pt"})
    ids = torch.tensor([[5, 9, 14, 3]])
    one, other = (load_base(str(place)).model(ids).logits for place in (wide.bases["gpt2"], tmp_path / "base"))
    assert torch.equal(one, other)


@pytest.mark.parametrize("weights", ["float32", *PACKED])
def test_missing_pooler_is_zero(wide, tmp_path, weights):
    folder = wide.encoders["bert"]
    BertModel.from_pretrained(folder, add_pooling_layer=False).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    one, other = (unpacked_state(load_encoder(str(tmp_path), weights=weights).model) for _ in range(2))
    assert not one["pooler.dense.bias"].any()
    assert one.keys() == other.keys()
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", "x" * 999),
        ("tokenizer.json", "{}"),
        ("config.json", "{"),
        ("config.json", '{"model_type": "llama", "hidden_size": "wide"}'),
        ("config.json", '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 5}'),
        ("config.json", '{"model_type": "llama", "vocab_size": -1}'),
    ],
)
def test_damaged_files(copied, file, content):
    (copied / file).write_text(content)
    with pytest.raises(ModelError, match=r"could not be opened: .*[^:]$") as caught:
        load_base(str(copied))
    assert len(str(caught.value.message).splitlines()) == 1


def test_a_path_that_leads_nowhere():
    with pytest.raises(ModelError, match="could not be opened: there is no such folder"):
        load_base("./nowhere")


def test_gated_model(monkeypatch):
    def gated(*_, **__):
        response = http_library.Response(403, request=http_library.Request("GET", "https://hub/config.json"))
        raise OSError("You are trying to access a gated repo.\nMake sure to ...") from GatedRepoError(
            "403", response=response
        )

    monkeypatch.setattr(AutoConfig, "from_pretrained", gated)
    for load in (load_base, load_encoder):
        with pytest.raises(ModelError, match="a gated repo") as caught:
            load("ada/notes")
        assert "hf auth login" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("changes", "load", "message"),
    [
        ({"config.json": {"quantization_config": {"quant_method": "gptq", "bits": 4}}}, load_base, "already quantised"),
        ({"config.json": {"quantization_config": {"quant_method": "gptq", "bits": 4}}}, load_encoder, "quantised"),
        ({"config.json": {"model_type": "opt"}, "model.safetensors": None}, load_base, "'opt'"),  # looked at first
        ({"config.json": {"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}}}, load_base, "not be opened"),
        ({"tokenizer_config.json": {"eos_token": None}}, load_base, "no end-of-text token"),
        ({"tokenizer_config.json": {"pad_token": None}}, load_encoder, "no padding token"),
    ],
)
def test_what_cannot_be_used_is_refused(copied, changes, load, message):
    (copied / "own.py").write_text("raise AssertionError('remote code was run')\n")
    for file, change in changes.items():
        if change is None:
            (copied / file).unlink()
        else:
            (copied / file).write_text(json.dumps(json.loads((copied / file).read_text()) | change))
    with pytest.raises(ModelError, match=message) as caught:
        load(str(copied))
    assert caught.value.hint


def test_out_of_memory(wide, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate ...")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", full)
    with pytest.raises(ModelError, match="does not fit in the device's memory") as caught:
        load_base(str(wide.bases["llama"]))
    assert "nf4" in (caught.value.hint or "")


@pytest.mark.parametrize("weights", PACKED)
def test_what_is_packed(wide, weights):
    base = load_base(str(wide.bases["gpt2"]), weights=weights).model
    packed = {name.rpartition(".")[2] for name, layer in base.named_modules() if is_packed(layer)}
    assert packed == {"c_attn", "c_proj", "c_fc"}
    assert {value.dtype for name, value in base.named_parameters() if not name.endswith(".weight")} == {torch.float32}
    assert base.get_output_embeddings().weight.dtype == torch.float32


def test_packed_from(wide, tmp_path):
    one = load_encoder(str(wide.encoders["t5"]), weights="nf4").packed_from
    model = AutoModel.from_pretrained(wide.encoders["t5"])
    tokenizer = AutoTokenizer.from_pretrained(wide.encoders["t5"])
    for name in ("same", "shards", "other"):
        tokenizer.save_pretrained(tmp_path / name)
    model.save_pretrained(tmp_path / "same")
    model.save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    assert not (tmp_path / "shards" / "model.safetensors").exists()
    with torch.no_grad():
        model.encoder.final_layer_norm.weight[3] += 1e-6
    model.save_pretrained(tmp_path / "other")
    assert load_encoder(str(tmp_path / "same"), weights="nf4").packed_from == one
    assert load_encoder(str(tmp_path / "shards"), weights="nf4").packed_from == one
    assert load_encoder(str(tmp_path / "other"), weights="nf4").packed_from != one
    assert load_encoder(str(tmp_path / "other"), weights="int8").packed_from != one
    assert load_encoder(str(wide.encoders["t5"])).packed_from is None


def test_nf4_needs_multiples_of_64_on_a_cpu(tiny):
    for load in (
        lambda: load_base(str(tiny.bases["gpt2"]), weights="nf4"),
        lambda: load_encoder(str(tiny.encoders["t5"]), weights="nf4"),
    ):
        with pytest.raises(ModelError, match="not a multiple of 64") as caught:
            load()
        assert "int8" in (caught.value.hint or "")
