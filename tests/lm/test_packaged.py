"""The encoder of the large reader: put together from packages whose code never runs, and checked."""

import hashlib
import io
import shutil
import zipfile
from pathlib import Path

import pytest

from mbc_engine.errors import ModelError
from mbc_engine.lm import packaged
from mbc_engine.lm.packaged import MPNET, find_mpnet, is_local, is_mpnet_installed, locate

FILES = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 40, "tokenizer.json": b"[1, 2]"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


def test_it_is_unpacked_once_into_the_cache(site: Path) -> None:
    assert is_mpnet_installed()
    assert is_local(MPNET)
    folder = find_mpnet()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    shutil.rmtree(site)
    assert is_mpnet_installed()
    assert find_mpnet() == folder
    assert locate(MPNET) == str(folder)


def test_it_is_not_installed_while_a_part_is_missing(site: Path) -> None:
    shutil.rmtree(site / packaged._MPNET_PACKAGE.format(2))
    assert not is_mpnet_installed()
    assert locate(MPNET) == MPNET


def test_a_file_that_is_not_the_official_one_is_refused(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "_MPNET_DIGESTS", packaged._MPNET_DIGESTS | {"tokenizer.json": "0" * 64})
    with pytest.raises(ModelError, match=r"do not contain the official tokenizer\.json") as caught:
        find_mpnet()
    assert caught.value.hint == f"Install them again: {packaged.INSTALL_MPNET} --force-reinstall"
    assert not any(packaged._mpnet_folder().parent.glob("*/*"))


def test_damaged_parts_are_refused(site: Path) -> None:
    part = site / packaged._MPNET_PACKAGE.format(2) / packaged._MPNET_PART.format(2)
    part.write_bytes(part.read_bytes()[:-30])
    with pytest.raises(ModelError, match="damaged"):
        find_mpnet()


def test_parts_with_a_damaged_byte_are_refused(site: Path) -> None:
    part = site / packaged._MPNET_PACKAGE.format(1) / packaged._MPNET_PART.format(1)
    content = bytearray(part.read_bytes())
    content[30 + len("all-mpnet-base-v2/config.json")] = 0b111  # a kind of block that deflate has not
    part.write_bytes(content)
    with pytest.raises(ModelError, match=r"damaged: .*invalid block type"):
        find_mpnet()
