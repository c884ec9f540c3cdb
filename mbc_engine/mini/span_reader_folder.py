"""A span reader as a folder: `reader.toml`, which names its frozen encoder, and `reader.safetensors`, all else."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tomlkit
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from mbc_engine.errors import ModelError
from mbc_engine.mini.span_reader import SpanReader, adapt, trained_parameters
from mbc_engine.model.encoders import load_encoder
from mbc_engine.model.low_rank import LowRankLinear
from mbc_engine.model.tensor_file import shapes_of, write_tensors

SETTINGS: Final = "reader.toml"
WEIGHTS: Final = "reader.safetensors"
_AGAIN: Final = "Get the model again."


def save_span_reader(reader: SpanReader, folder: Path, dtype: torch.dtype = torch.float16) -> None:
    """Write `reader.toml` and `reader.safetensors`: what was trained, and the name of the frozen encoder.

    Args:
        reader: one whose encoder learns by low-rank changes.
        folder: made if it is not there.
        dtype: what the weights are stored in.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "encoder": reader.encoder_name,
        "rank": _rank(reader),
        "window": reader.window,
        "longest": reader.longest,
    }
    tensors = {name: value.detach().to(dtype).cpu().contiguous() for name, value in trained_parameters(reader).items()}
    write_tensors(folder / WEIGHTS, tensors, {"format": "span-reader-1"})
    (folder / SETTINGS).write_text(tomlkit.dumps(settings))


def load_span_reader(
    folder: Path, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> SpanReader:
    """Open a reader, ready to find answers.

    Args:
        folder: what `save_span_reader` wrote.
        device: where it is to run.
        dtype: what its encoder computes in; None for bfloat16 on a CPU that multiplies it, else for single precision.

    Raises:
        ModelError: it is not there or damaged, or its encoder cannot be opened.
    """
    settings = _read_settings(folder / SETTINGS)
    encoder = load_encoder(settings.encoder, device=device)
    adapt(encoder.model, settings.rank)
    reader = SpanReader(
        encoder.model,
        encoder.tokenizer,
        window=settings.window,
        longest=settings.longest,
        encoder_name=settings.encoder,
    )
    load_into(reader, folder)
    reader.compute_in(dtype or _fast_dtype(torch.device(device)))
    return reader.to(device).eval()


def load_into(reader: SpanReader, folder: Path) -> None:
    """Give a reader the weights of the one in `folder`.

    Raises:
        ModelError: they are damaged, or of a reader of another size.
    """
    try:
        state = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"The weights of the reader in {folder} cannot be read: {error}", hint=_AGAIN) from error
    own = trained_parameters(reader)
    if shapes_of(own) != shapes_of(state):
        raise ModelError(f"{folder / WEIGHTS} does not hold the weights that its settings describe.", hint=_AGAIN)
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(state[name])


def _fast_dtype(device: torch.device) -> torch.dtype:
    """Twice as fast as single precision on a CPU made for it: 1 of 120 answers changed, margins moved by 0.03."""
    # torch has no public name for either.
    multiplies = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()  # noqa: SLF001
    return torch.bfloat16 if device.type == "cpu" and multiplies else torch.float32


@dataclass(frozen=True)
class _Settings:
    encoder: str
    rank: int
    window: int
    longest: int


def _read_settings(path: Path) -> _Settings:
    """Raises ModelError unless the file holds just these settings."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        settings = _Settings(
            encoder=str(found["encoder"]),
            rank=int(found["rank"]),
            window=int(found["window"]),
            longest=int(found["longest"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"The settings of the reader in {path.parent} cannot be read: {error}", hint=_AGAIN) from error
    if min(settings.rank, settings.longest) < 1 or settings.window < 8:
        raise ModelError(f"{path} has invalid settings.", hint=_AGAIN)
    return settings


def _rank(reader: SpanReader) -> int:
    return next(layer.down.shape[0] for layer in reader.modules() if isinstance(layer, LowRankLinear))
