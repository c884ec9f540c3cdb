"""Shared models are checked: damage, unusable settings, attempts to reach into this machine."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mbc_engine.errors import ModelError
from mbc_engine.model import load_model
from mbc_engine.names import packaged_model
from mbc_engine.paper.checkpoint import save_model
from mbc_engine.sharing import check, is_hub_id

WAY_OUT = "Ask."
WEIGHTS, ADAPTER = "model.safetensors", "adapter/adapter_model.safetensors"


def refused(folder):
    """Why the model in a folder is refused."""
    with pytest.raises(ModelError) as caught:
        check(folder, "It", WAY_OUT)
    assert caught.value.hint == WAY_OUT
    assert "\n" not in caught.value.message
    return caught.value.message


def reworded(folder, before, after):
    path = folder / "config.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_a_retriever_reader_is_not_shared():
    with pytest.raises(ModelError, match=r"^Retriever-readers such as mini cannot be shared yet\.$"):
        check(packaged_model("mini"), "It", WAY_OUT)


@pytest.mark.parametrize("file", [WEIGHTS, ADAPTER, "config.toml", "adapter/adapter_config.json"])
def test_a_missing_file_is_named(saved, file):
    (saved / file).unlink()
    assert file in refused(saved)


@pytest.mark.parametrize("file", [WEIGHTS, ADAPTER])
@pytest.mark.parametrize("damage", ["cut", "longer", "header", "pickle", "empty"])
def test_damaged_weights_are_refused(saved, file, damage):
    content = (saved / file).read_bytes()
    (saved / file).write_bytes(
        {
            "cut": content[:-1],
            "longer": content + b"x",
            "header": b"\xff" * 64 + content[64:],
            "pickle": pickle.dumps({"codebook.books": np.zeros(3)}),
            "empty": b"",
        }[damage]
    )
    assert "damaged" in refused(saved)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[model", b"x = " + b"[" * 100_000])
def test_a_broken_config_is_refused(saved, content):
    (saved / "config.toml").write_bytes(content)
    assert refused(saved).startswith("It cannot be used: config.toml")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"[model]\n": "[model]\ntrust_remote_code = true\n"}, "trust_remote_code"),
        (
            {
                "tokens = 4": "tokens = 60000",
                "per_position = false": "per_position = true",
                "\ncodes = ": "\ncodes = 100 #",
            },
            "more than 4,194,304 vectors",
        ),
        *(({f"\n{name} = ": f"\n{name} = 1000000 #"}, f"{name}: input should be less") for name in ("columns", "rank")),
    ],
)
def test_unknown_and_too_large_settings_are_refused(saved, changes, reason):
    for before, after in changes.items():
        reworded(saved, before, after)
    assert reason in refused(saved)


@pytest.mark.parametrize(
    "name",
    ["/etc", "../tiny/gpt2", "./x", "~/x", "C:\\\\x", "\\\\\\\\host\\\\share", "https://a/b", "a/b/c", "", "file:x"],
)
def test_local_paths_are_refused(saved, name):
    config = saved / "config.toml"
    text = config.read_text()
    for part in ('"tiny/gpt2"', '"tiny/bert"'):
        config.write_text(text.replace(part, f'"{name}"'))
        assert "not a hub id" in refused(saved)


def test_settings_that_describe_more_than_is_there_take_no_memory(saved, monkeypatch):
    reworded(saved, "columns = 2", "columns = 60000")
    monkeypatch.setattr("mbc_engine.paper.checkpoint.load_into", None)  # it would be called with a model in memory
    with pytest.raises(ModelError, match="do not fit the model's settings"):
        load_model(saved)


def test_settings_of_peft_are_never_read(saved):
    path = saved / "adapter" / "adapter_config.json"
    path.write_text(json.dumps({"peft_type": "PREFIX_TUNING", "megatron_core": "antigravity", "r": 1 << 20}))
    check(saved, "It", WAY_OUT)
    assert load_model(saved).base.model.peft_config["default"].r == 2


@pytest.mark.parametrize(
    ("setting", "reason"),
    [("model.quantised=false", "it makes no codes"), ("model.lora.layers=0", "it has no KV-LoRA")],
)
def test_models_without_codes_or_adapter_are_refused(tiny, tmp_path, setting, reason):
    names = ("model.base=b/c", "model.documents.name=d", "model.questions.name=d")
    save_model(tiny.model("gpt2", "bert", setting), tiny.config("gpt2", "bert", setting, *names), tmp_path / "m")
    assert reason in refused(tmp_path / "m")


@given(st.text(alphabet="aZ0./\\-_~: \n\0", max_size=12))
@example("..")
@example("a/..")
@example("a/.b")
@example("a\n")
def test_hub_ids_stay_in_their_folder(text):
    if is_hub_id(text):
        folder = Path("/models")
        place = (folder / text).resolve()
        assert place.relative_to(folder).parts == tuple(text.split("/"))
        assert not any(part.startswith(".") for part in text.split("/"))


@pytest.mark.parametrize(
    ("is_one", "texts"),
    [
        (True, ["gpt2", "openai-community/gpt2-large", "meta-llama/Llama-3.2-1B", "a/b_c.d"]),
        (False, ["", "/etc", "a/b/c", "a//b", "../x", "a--b/c", "C:\\x", "a/b.", "é/b", "a" * 97]),
    ],
)
def test_hub_ids(is_one, texts):
    assert [is_hub_id(text) for text in texts] == [is_one] * len(texts)
