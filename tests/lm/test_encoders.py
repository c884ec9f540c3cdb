"""Where encoders come from: the cache, then a verified bundle, then the hub."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from mbc_engine.errors import ModelError
from mbc_engine.lm import packaged
from mbc_engine.lm.encoders import load_encoder
from mbc_engine.lm.packaged import MINILM, PACKAGED_MODELS, locate

NAME = "some-people/some-encoder"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def package(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that carries the tiny BERT as the bundle of NAME; its code must never run."""
    package = tmp_path / "tiny_encoder_bundle"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('a bundle was imported')\n")
    for file in tiny.encoders["bert"].iterdir():
        (package / "model" / file.name).write_bytes(file.read_bytes())
    digests = {name: sha256(package / "model" / name) for name in ("model.safetensors", "tokenizer.json")}
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(PACKAGED_MODELS, NAME, PACKAGED_MODELS[MINILM])
    monkeypatch.setattr(packaged, "_MINILM_PACKAGE", "tiny_encoder_bundle")
    monkeypatch.setattr(packaged, "_MINILM_DIGESTS", digests)
    return package


def test_a_bundle_with_the_right_files_is_found_and_loads(package: Path) -> None:
    assert locate(NAME) == str(package / "model")
    encoder = load_encoder(NAME)
    assert encoder.model.config.hidden_size == 24
    assert not encoder.model.config.is_encoder_decoder


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_a_bundle_with_one_wrong_byte_is_refused(package: Path, file: str) -> None:
    path = package / "model" / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not the official file") as caught:
        load_encoder(NAME)
    assert file in caught.value.message


def test_a_bundle_without_its_weights_is_refused(package: Path) -> None:
    (package / "model" / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="not the official file"):
        locate(NAME)


def test_the_cache_comes_before_a_bundle(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "model" / "model.safetensors").write_bytes(b"never read")
    snapshot = tmp_path / "cache" / f"models--{NAME.replace('/', '--')}" / "snapshots" / "1234"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").touch()
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("1234")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    assert locate(NAME) == NAME


def test_a_folder_comes_first(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "model" / "model.safetensors").write_bytes(b"never read")
    monkeypatch.chdir(tmp_path)
    Path(NAME).mkdir(parents=True)
    assert locate(NAME) == NAME


def test_without_cache_or_bundle_the_hub_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGED_MODELS, NAME, PACKAGED_MODELS[MINILM])
    monkeypatch.setattr(packaged, "_MINILM_PACKAGE", "not_installed_at_all")
    assert locate(NAME) == NAME
    assert locate("nobody/nothing") == "nobody/nothing"


def test_an_encoder_that_is_nowhere_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGED_MODELS, NAME, PACKAGED_MODELS[MINILM])
    monkeypatch.setattr(packaged, "_MINILM_PACKAGE", "not_installed_at_all")
    with pytest.raises(ModelError) as bundled:
        load_encoder(NAME)
    assert bundled.value.hint is not None
    assert "[embedded]" in bundled.value.hint
    with pytest.raises(ModelError, match="nobody/nothing"):
        load_encoder("nobody/nothing")


def test_the_official_bundle_is_pinned() -> None:
    assert MINILM == "sentence-transformers/all-MiniLM-L6-v2"
    digests = packaged._MINILM_DIGESTS
    assert digests["model.safetensors"].startswith("53aa51172d142c89")
    assert digests["tokenizer.json"].startswith("be50c3628f2bf5bb")
