"""How pretrained weights are held: float32, bf16, or packed by bitsandbytes in 4 bits (nf4, as in QLoRA) or 8.

Only the linear layers of a transformer's blocks are packed; embeddings, norms and heads stay numbers. Packed weights
have no gradient, so they are frozen whatever trains around them, and they are never stored: they are made again from
the pretrained model's own.

Opening pretrained models by hub id or path: nothing of them made up, their weights held as they are to be.

Tensors in a file that is complete or not there, with notes beside them, and whether they fit; no pickle is written.

A digest of weights: the same for the same values, wherever they were stored and in whatever order.

Tensors that several processes hold in parts (torch's FSDP2), and the whole ones that files hold.
"""

import hashlib
import importlib.util
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

import torch
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, StrictDataclassError
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import (
    AutoConfig,
    AutoTokenizer,
    BitsAndBytesConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from mbc_engine.config import BaseWeights
from mbc_engine.errors import ModelError
from mbc_engine.machine import installing

PACKED = ("nf4", "int8")


def loading_options(weights: BaseWeights, device: torch.device, *, rest: torch.dtype) -> dict[str, Any]:
    """What `from_pretrained` needs to load weights as they are to be held, straight to where they are used.

    Args:
        weights: how linear weights are held.
        device: where.
        rest: what everything that is not packed is held in; layers with packed weights compute in it.

    Raises:
        ModelError: bitsandbytes is needed and not installed.
    """
    given: dict[str, Any] = {"dtype": rest, "use_safetensors": True}
    if device.type != "cpu" or weights in PACKED:
        given["device_map"] = {"": device}
    if weights in PACKED:
        if importlib.util.find_spec("bitsandbytes") is None:
            raise ModelError(f"Weights as {weights} need bitsandbytes.", hint=f"Install it: {installing('hub')}")
        # It tells of each product of matrices that its inputs are rounded.
        logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
        given["quantization_config"] = (
            BitsAndBytesConfig(
                load_in_4bit=True,
                bnb_4bit_quant_type="nf4",
                bnb_4bit_use_double_quant=True,
                bnb_4bit_compute_dtype=rest,
            )
            if weights == "nf4"
            else BitsAndBytesConfig(load_in_8bit=True)
        )
    return given


def base_dtype(weights: BaseWeights, device: torch.device) -> torch.dtype:
    """What a base LM computes in; beside packed weights bf16, but on a CPU, where that is slow."""
    if weights == "bf16" or (weights in PACKED and device.type != "cpu"):
        return torch.bfloat16
    return torch.float32


def settle(model: PreTrainedModel, rest: torch.dtype, name: str) -> None:
    """Keep the packed layers of a loaded model from changing themselves while they are used.

    On some processors bitsandbytes packs 4-bit weights anew in inference, in a way that fits only some shapes and lets
    no gradient through. And layers turn their bias into whatever precision they compute in.

    Raises:
        ModelError: bitsandbytes cannot compute with these layers here.
    """
    for module in model.modules():
        if is_packed(module):
            _require_whole_blocks(module, name)
            module.support_avx512bf16_for_cpu = False  # type: ignore[assignment]
            module.register_forward_pre_hook(partial(_in_precision, rest))


def _require_whole_blocks(layer: nn.Module, name: str) -> None:
    """Raises ModelError for what comes out wrong: on a CPU, 4-bit blocks that reach from one row into the next."""
    state = getattr(layer.weight, "quant_state", None)
    if state is not None and layer.weight.device.type == "cpu" and state.shape[1] % state.blocksize:
        raise ModelError(
            f"The weights of {name} cannot be held as nf4 on a CPU: a layer's {state.shape[1]} inputs are no multiple "
            f"of {state.blocksize}.",
            hint="Hold them as int8 or float32, or take a GPU.",
        )


def _in_precision(rest: torch.dtype, layer: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
    """A packed layer's input in the precision to compute in: autocast's where no bias would suffer, else `rest`."""
    (x,) = given
    is_lowered = layer.bias is None and torch.is_autocast_enabled(x.device.type)
    dtype = torch.get_autocast_dtype(x.device.type) if is_lowered else rest
    layer.compute_dtype = dtype  # type: ignore[assignment]
    return (x.to(dtype),)


def is_packed(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a module is a linear layer with packed weights."""
    return type(module).__module__.startswith("bitsandbytes.") and isinstance(module, nn.Linear)


def unpacked_state(module: nn.Module) -> dict[str, Tensor]:
    """The state of a module, but for its packed weights and what belongs to them."""
    names = {name for name, value in module.named_parameters(remove_duplicate=False) if value.is_floating_point()}
    names |= {name for name, _ in module.named_buffers()}
    return {name: value for name, value in module.state_dict().items() if name in names}


# What the libraries below raise for files that are missing, damaged or do not fit each other.
_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    ImportError,
    RuntimeError,
    SafetensorError,
    StrictDataclassError,
)


@dataclass(frozen=True)
class Opened:
    """A pretrained model and its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def open_pretrained(
    kind: Any,
    place: str,
    *,
    name: str,
    weights: BaseWeights,
    rest: torch.dtype,
    device: str | torch.device,
    check: Callable[[PretrainedConfig], object] | None = None,
) -> Opened:
    """Open a pretrained model; no code that comes with it is run.

    Args:
        kind: `AutoModel` or `AutoModelForCausalLM`.
        place: a folder or a hub id.
        name: the model's, in messages.
        weights: how linear weights are held.
        rest: what everything that is not packed is held in; layers with packed weights compute in it.
        device: where.
        check: raises ModelError for a config that is of no use, before gigabytes are read.

    Raises:
        ModelError: it is not sound or not whole, or bitsandbytes is missing; other errors see `told_of`.
    """
    held = loading_options(weights, torch.device(device), rest=rest)
    config = AutoConfig.from_pretrained(place, trust_remote_code=False)
    if check is not None:
        check(config)
    _require_numbers(config, name)
    model = _load_weights(kind, place, config, held, name=name)
    tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=False)
    settle(model, rest, name)
    return Opened(model, tokenizer)


def local_place(name: str) -> Path | None:
    """The folder of a pretrained model's files, its own or in the hub cache; no hub is asked for anything."""
    if Path(name).is_dir():
        return Path(name)
    try:
        # Not transformers' `cached_file`: even of the cache alone, it asks the hub who may be asking.
        cached = try_to_load_from_cache(name, "config.json")
    except ValueError:  # no name that a hub could know
        return None
    return Path(cached).parent if isinstance(cached, str) else None


@contextmanager
def told_of(what: str, hint: str) -> Iterator[None]:
    """Loading a pretrained model, `what` in the user's words.

    Raises:
        ModelError: it cannot be opened, or there is no room for it.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise ModelError(
            f"{what} does not fit into the memory of the device.",
            hint="Hold its weights as nf4 (model.base_weights, model.documents.weights), or take another --device.",
        ) from error
    except _UNREADABLE as error:
        if isinstance(error.__cause__, GatedRepoError):
            hint = "Ask for access on its page, then log in with `hf auth login`."
        raise ModelError(f"{what} could not be opened: {_first_line(error)}", hint=hint) from error


def _first_line(error: Exception) -> str:
    """What an error says in a line, or in two where the first only announces the second."""
    lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
    return " ".join(lines[: 2 if lines[0].endswith(":") else 1])


def _require_numbers(config: PretrainedConfig, name: str) -> None:
    """Make sure that a pretrained model's stored weights are not packed already.

    Raises:
        ModelError: they are.
    """
    if getattr(config, "quantization_config", None) is not None:
        raise ModelError(
            f"The weights of {name} are stored packed.",
            hint="Name the model they were made from, and say nf4 or int8 in the settings: it is packed when loaded.",
        )


def _load_weights(
    kind: Any, place: str, config: PretrainedConfig, held: dict[str, Any], *, name: str
) -> PreTrainedModel:
    """Load a pretrained model whose files hold all the weights that its config describes.

    What is missing there `from_pretrained` makes up at random, and tells only a log. A pooler alone may be missing, as
    it is beside encoders that were trained without one; nothing here reads it, and as zeros it is always the same.

    Args:
        kind: `AutoModel` or `AutoModelForCausalLM`.
        place: a folder or a hub id.
        config: the model's.
        held: what `loading_options` gave.
        name: the model's, in messages.

    Raises:
        ModelError: weights are missing, or have other shapes.
    """
    model: PreTrainedModel
    model, found = kind.from_pretrained(
        place, config=config, output_loading_info=True, ignore_mismatched_sizes=True, **held
    )
    poolers = {missing for missing in found["missing_keys"] if missing.startswith("pooler.")}
    for pooler in poolers & {own for own, value in model.named_parameters() if value.is_floating_point()}:
        nn.init.zeros_(model.get_parameter(pooler))
    wrong = {*(found["missing_keys"] - poolers), *(mismatched[0] for mismatched in found["mismatched_keys"])}
    # Loading compares no shapes of packed layers, and before transformers 5.23 none of the others beside them.
    wrong |= {
        own
        for own, module in model.named_modules()
        if isinstance(module, (nn.Embedding, nn.Linear)) and not _is_whole(module)
    }
    if wrong:
        raise ModelError(
            f"The weights of {name} are not those that its config describes: see {min(wrong)}.", hint="Get it again."
        )
    return model


def _is_whole(layer: nn.Embedding | nn.Linear) -> bool:
    """Whether a layer's weights, packed or not, are as many as its inputs and outputs say."""
    if isinstance(layer, nn.Embedding):
        return layer.weight.shape == (layer.num_embeddings, layer.embedding_dim)
    state = getattr(layer.weight, "quant_state", None)
    packed: torch.Size = layer.weight.shape if state is None else state.shape
    return packed == (layer.out_features, layer.in_features)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """Replace a safetensors file at once; killed in the middle, what was there before is there still.

    Raises:
        OSError, SafetensorError: it cannot be written.
    """
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)  # it may be a link, which would be written through
    try:
        save_file(dict(tensors), partial, dict(notes))
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)  # of a full disk, what was written takes up the rest


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """What must be the same of a file's tensors and of those they are put in place of."""
    return {name: value.shape for name, value in tensors.items()}


def state_digest(state: Mapping[str, Tensor], *details: str) -> str:
    """SHA-256 of named tensors as float32 and of further details, hexadecimal."""
    digest = hashlib.sha256(" ".join(details).encode())
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].detach().float().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def whole_state(state: Mapping[str, Tensor], *, keeps: bool = True) -> dict[str, Tensor]:
    """Tensors as a file holds them: whole, on the CPU, without gradient.

    Of tensors in parts each process gives its own, so all of them have to call this, for the same names.

    Args:
        state: tensors by name.
        keeps: False gives away this process's parts and keeps nothing.
    """
    whole = {}
    for name, value in state.items():
        full = value.full_tensor() if isinstance(value, DTensor) else value
        if keeps:
            whole[name] = full.detach().cpu().contiguous()
    return whole


def laid_out_like(whole: Tensor, other: Tensor) -> Tensor:
    """A whole tensor in parts as `other` is, if that is in parts; every process has the same whole one."""
    if not isinstance(other, DTensor):
        return whole
    return distribute_tensor(whole.to(other.device), other.device_mesh, other.placements)
