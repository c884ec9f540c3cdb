"""Pretrained models from installed packages, whose code never runs: MiniLM's bundle, and mpnet in several parts."""

import hashlib
import io
import shutil
import zipfile
from pathlib import Path

import pytest

from mbc_engine.errors import ModelError
from mbc_engine.lm import packaged
from mbc_engine.lm.encoders import load_encoder
from mbc_engine.lm.packaged import MINILM, MPNET, PACKAGED_MODELS, find_mpnet, is_local, is_mpnet_installed, locate

FILES = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 40, "tokenizer.json": b"[1, 2]"}
NAME = "some-people/some-encoder"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Two installed packages that carry a zip file's halves."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as parts:
        for name, data in {**FILES, "desktop.ini": b"not read"}.items():
            parts.writestr(f"all-mpnet-base-v2/{name}", data)
    site, whole = tmp_path / "site", content.getvalue()
    monkeypatch.setattr(packaged, "_MPNET_PACKAGE", "tiny-part_{:03}")
    for number, part in enumerate((whole[:300], whole[300:]), 1):
        place = site / packaged._MPNET_PACKAGE.format(number) / packaged._MPNET_PART.format(number)
        place.parent.mkdir(parents=True)
        place.write_bytes(part)
        (site / packaged._MPNET_PACKAGE.format(number) / "__init__.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(packaged, "_MPNET_PARTS", range(1, 3))
    monkeypatch.setattr(packaged, "_MPNET_WEIGHTS_BYTES", len(FILES["model.safetensors"]))
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    monkeypatch.setattr(packaged, "_MPNET_DIGESTS", digests)
    return site


def test_mpnet_is_unpacked_once(site):
    assert is_mpnet_installed()
    assert is_local(MPNET)
    folder = find_mpnet()
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert written.pop("SHA256SUMS").count(b"\n") == len(FILES)
    assert written == FILES
    shutil.rmtree(site)
    assert is_mpnet_installed()
    assert find_mpnet() == folder
    assert locate(MPNET) == str(folder)


def test_damage_to_an_unpacked_file_is_found_beside_what_was_made_of_it(site):
    folder = find_mpnet()
    for name in ("made-of-it.safetensors", "made-of-it.lock"):
        (folder / name).write_bytes(b"later")
    assert packaged.damaged_caches() == []
    weights, sums = folder / "model.safetensors", folder / "SHA256SUMS"
    weights.write_bytes(b"damaged")
    assert packaged.damaged_caches() == [folder]
    weights.unlink()
    assert packaged.damaged_caches() == [folder]
    weights.write_bytes(FILES["model.safetensors"])
    assert packaged.damaged_caches() == []
    sums.write_bytes(b"")
    assert packaged.damaged_caches() == [folder]


@pytest.mark.parametrize("ending", ["", ".partial"])
def test_nothing_is_deleted_or_written_through_a_link(site, tmp_path, ending):
    outside, folder = tmp_path / "outside", packaged._mpnet_folder()
    outside.mkdir()
    (outside / "kept").write_text("mine")
    folder.parent.mkdir(parents=True)
    folder.with_name(folder.name + ending).symlink_to(outside)
    with pytest.raises(ModelError, match="could not be unpacked"):
        find_mpnet()
    assert [path.read_text() for path in outside.iterdir()] == ["mine"]


def test_unofficial_damaged_or_incomplete_mpnet_is_refused(site, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr(packaged, "_MPNET_DIGESTS", packaged._MPNET_DIGESTS | {"tokenizer.json": "0" * 64})
        with pytest.raises(ModelError, match=r"do not contain the official tokenizer\.json") as caught:
            find_mpnet()
    assert caught.value.hint == f"Install them again: {packaged.INSTALL_MPNET} --force-reinstall"
    assert not any(packaged._mpnet_folder().parent.glob("*/*"))
    part = site / packaged._MPNET_PACKAGE.format(1) / packaged._MPNET_PART.format(1)
    content = bytearray(part.read_bytes())
    content[30 + len("all-mpnet-base-v2/config.json")] = 0b111  # a kind of block that deflate has not
    part.write_bytes(content)
    with pytest.raises(ModelError, match=r"damaged: .*invalid block type"):
        find_mpnet()
    shutil.rmtree(site / packaged._MPNET_PACKAGE.format(2))
    assert not is_mpnet_installed()
    assert locate(MPNET) == MPNET


@pytest.fixture
def package(tiny, tmp_path, monkeypatch):
    """A package that carries the tiny BERT as the bundle of NAME; its code must never run."""
    package = tmp_path / "tiny_encoder_bundle"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('a bundle was imported')\n")
    for file in tiny.encoders["bert"].iterdir():
        (package / "model" / file.name).write_bytes(file.read_bytes())
    digests = {
        name: hashlib.sha256((package / "model" / name).read_bytes()).hexdigest()
        for name in ("model.safetensors", "tokenizer.json")
    }
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(PACKAGED_MODELS, NAME, PACKAGED_MODELS[MINILM])
    monkeypatch.setattr(packaged, "_MINILM_PACKAGE", "tiny_encoder_bundle")
    monkeypatch.setattr(packaged, "_MINILM_DIGESTS", digests)
    return package


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_unofficial_file_is_refused(package, file):
    path = package / "model" / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not the official file") as caught:
        load_encoder(NAME)
    assert file in caught.value.message


def test_digests_are_remembered_until_their_file_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file, given = tmp_path / "weights", iter("abcd")
    file.write_text("one")

    def digest():
        return next(given) * 64

    assert [
        packaged.remembered(packaged.version_of(file), digest),
        packaged.remembered(packaged.version_of(file), digest),
    ] == ["a" * 64] * 2
    assert packaged.remembered(packaged.version_of(file), digest, "of a model") == "b" * 64
    file.write_text("other")
    assert packaged.remembered(packaged.version_of(file), digest) == "c" * 64
    for known in (tmp_path / "cache" / "mbc" / "digests").iterdir():
        known.write_text("damaged")
    assert packaged.remembered(packaged.version_of(file), digest) == "d" * 64


def test_cache_and_folder_come_before_the_package_and_the_hub_last(package, tmp_path, monkeypatch):
    (package / "model" / "model.safetensors").write_bytes(b"never read")
    with monkeypatch.context() as cached:
        snapshot = tmp_path / "cache" / f"models--{NAME.replace('/', '--')}" / "snapshots" / "1234"
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").touch()
        (snapshot.parents[1] / "refs").mkdir()
        (snapshot.parents[1] / "refs" / "main").write_text("1234")
        cached.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        assert locate(NAME) == NAME
    with monkeypatch.context() as there:
        there.chdir(tmp_path)
        Path(NAME).mkdir(parents=True)
        assert locate(NAME) == NAME
    monkeypatch.setattr(packaged, "_MINILM_PACKAGE", "not_installed_at_all")
    assert (locate(NAME), locate("nobody/nothing")) == (NAME, "nobody/nothing")
