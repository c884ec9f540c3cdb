"""Opening pretrained models: what is missing, damaged or untrusted is refused, with a way out."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import GatedRepoError
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BertModel

from mbc_engine.errors import ModelError
from mbc_engine.lm.base import load_base
from mbc_engine.lm.encoders import load_encoder
from mbc_engine.lm.pretrained import PACKED, unpacked_state
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


def reconfigured(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


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
    reconfigured(copied, **changes)
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


def test_quantised_files_are_refused(copied):
    reconfigured(copied, quantization_config={"quant_method": "gptq", "bits": 4})
    for load in (load_base, load_encoder):
        with pytest.raises(ModelError, match="already quantised") as caught:
            load(str(copied))
        assert caught.value.hint


def test_family_is_checked_first(copied):
    reconfigured(copied, model_type="opt")
    (copied / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="'opt'"):
        load_base(str(copied))


def test_remote_code_is_never_run(copied):
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}}
    (copied / "config.json").write_text(json.dumps(config))
    (copied / "own.py").write_text("raise AssertionError('run')\n")
    with pytest.raises(ModelError, match="could not be opened"):
        load_base(str(copied))


def test_tokenizer_without_end_is_refused(copied):
    config = json.loads((copied / "tokenizer_config.json").read_text())
    (copied / "tokenizer_config.json").write_text(json.dumps({**config, "eos_token": None}))
    with pytest.raises(ModelError, match="no end-of-text token"):
        load_base(str(copied))


def test_tokenizer_without_padding_is_refused(wide):
    with pytest.raises(ModelError, match="no padding token"):
        load_encoder(str(wide.bases["gpt2"]))


def test_out_of_memory(wide, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate ...")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", full)
    with pytest.raises(ModelError, match="does not fit in the device's memory") as caught:
        load_base(str(wide.bases["llama"]))
    assert "nf4" in (caught.value.hint or "")
