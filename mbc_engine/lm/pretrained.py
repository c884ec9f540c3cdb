"""Pretrained hub models: base LM families, weight formats, loading, digests and files.

Weights are float32 or bf16; those of linear layers in transformer blocks can be packed by bitsandbytes into 4 bits
(nf4, as in QLoRA) or 8. Packed weights are frozen, and packed anew from the pretrained model's when loaded.
"""

import importlib.util
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from mbc_engine.bank import digest_arrays
from mbc_engine.config import BaseWeights
from mbc_engine.errors import ModelError
from mbc_engine.lm.packaged import install_hint, locate
from mbc_engine.machine import installing

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

PACKED = ("nf4", "int8")

# The attention modules that compute keys and values; a single one computes queries, keys and values, in this order.
# Everything else that families differ in is read from their configs: to add a family, add an entry here.
_SEPARATE = ("cohere", "cohere2", "gemma", "gemma2", "gemma3_text", "glm4", "granite", "llama", "ministral", "mistral",
             "olmo2", "olmo3", "phi", "qwen2", "qwen3", "smollm3", "starcoder2")  # fmt: skip
FAMILIES: Final = {"gpt2": ("c_attn",), **dict.fromkeys(_SEPARATE, ("k_proj", "v_proj"))}


def key_value_modules(config: "PretrainedConfig") -> tuple[str, ...]:
    """The names of a base LM's key and value projections, see `FAMILIES`. Raises ModelError for other families."""
    if config.model_type not in FAMILIES:
        raise ModelError(
            f"The base LM is of type {config.model_type!r}, whose attention layout is not known.",
            hint=f"Supported types: {', '.join(sorted(FAMILIES))}.",
        )
    return FAMILIES[config.model_type]


def loading_options(weights: BaseWeights, device: torch.device, *, compute_dtype: torch.dtype) -> dict[str, Any]:
    """Options for `from_pretrained` that load weights in their final format, straight to the device."""
    given: dict[str, Any] = {"dtype": compute_dtype, "use_safetensors": True}
    if device.type != "cpu" or weights in PACKED:
        given["device_map"] = {"": device}
    if weights in PACKED:
        if importlib.util.find_spec("bitsandbytes") is None:
            raise ModelError(f"Weights as {weights} need bitsandbytes.", hint=f"Install it: {installing('hub')}")
        # It logs for every matrix product that its inputs are cast.
        logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
        from transformers import BitsAndBytesConfig

        packing: dict[str, Any] = {"load_in_8bit": True}
        if weights == "nf4":
            packing = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
            packing["bnb_4bit_compute_dtype"] = compute_dtype
        given["quantization_config"] = BitsAndBytesConfig(**packing)
    return given


def base_dtype(weights: BaseWeights, device: torch.device) -> torch.dtype:
    """A base LM's compute dtype: with packed weights bf16, except on a CPU, where that is slow."""
    if weights == "bf16" or (weights in PACKED and device.type != "cpu"):
        return torch.bfloat16
    return torch.float32


def disable_weight_repacking(model: "PreTrainedModel", compute_dtype: torch.dtype, name: str) -> None:
    """Keep a loaded model's packed layers from being changed in use.

    On some processors bitsandbytes repacks 4-bit weights in inference, in a way that works only for some shapes and
    passes no gradient. Raises ModelError if bitsandbytes cannot compute with these layers.
    """
    for module in filter(is_packed, model.modules()):
        state = getattr(module.weight, "quant_state", None)
        # On a CPU, 4-bit blocks that span two rows give wrong results.
        if state is not None and module.weight.device.type == "cpu" and state.shape[1] % state.blocksize:
            raise ModelError(
                f"The weights of {name} cannot be held as nf4 on a CPU: a layer's {state.shape[1]} inputs are not a "
                f"multiple of {state.blocksize}.",
                hint="Use int8 or float32, or a GPU.",
            )
        module.support_avx512bf16_for_cpu = False  # type: ignore[assignment]
        module.register_forward_pre_hook(partial(_in_precision, compute_dtype))


def _in_precision(compute_dtype: torch.dtype, layer: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
    """Cast a packed layer's input to autocast's dtype if no bias would lose precision, else to `compute_dtype`."""
    (x,) = given
    is_lowered = layer.bias is None and torch.is_autocast_enabled(x.device.type)
    dtype = torch.get_autocast_dtype(x.device.type) if is_lowered else compute_dtype
    layer.compute_dtype = dtype  # type: ignore[assignment]
    return (x.to(dtype),)


def is_packed(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a module is a linear layer whose weights are packed."""
    return type(module).__module__.startswith("bitsandbytes.") and isinstance(module, nn.Linear)


def unpacked_state(module: nn.Module) -> dict[str, Tensor]:
    """A module's state dict without packed weights and their quantisation state."""
    names = {name for name, value in module.named_parameters(remove_duplicate=False) if value.is_floating_point()}
    names |= {name for name, _ in module.named_buffers()}
    return {name: value for name, value in module.state_dict().items() if name in names}


def checkpoint_layers(model: nn.Module) -> None:
    """Turn on gradient checkpointing in pretrained layers: only their inputs are kept (Chen et al., 2016).

    transformers' own switch would drop the prefix, which it takes for a growing cache; see `KVPrefix.fixed`.
    """
    from torch.utils.checkpoint import checkpoint
    from transformers.modeling_layers import GradientCheckpointingLayer

    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.forward = partial(checkpoint, module.forward, use_reentrant=False)


def open_pretrained(
    kind: Any,
    name: str,
    *,
    what: str,
    weights: BaseWeights,
    device: str | torch.device,
    compute_dtype: torch.dtype | None = None,
    check: "Callable[[PretrainedConfig], object] | None" = None,
) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """Open a pretrained model and its tokenizer, from a folder or by hub id; none of its code is run.

    `kind` is `AutoModel` or `AutoModelForCausalLM`, `what` the same in the user's words; `compute_dtype` is the dtype
    of everything but packed weights, by default a base LM's; `check` can reject a config before gigabytes are read.
    Raises ModelError.
    """
    from transformers import AutoConfig, AutoTokenizer

    install = install_hint(name)
    hint = f"Install its package: {install}" if install else "Give a folder, or a hub id; offline, one in its cache."
    with load_errors(f"{what} {name}", hint):
        source, on = locate(name), torch.device(device)
        compute_dtype = compute_dtype or base_dtype(weights, on)
        held = loading_options(weights, on, compute_dtype=compute_dtype)
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        if check is not None:
            check(config)
        if getattr(config, "quantization_config", None) is not None:
            raise ModelError(
                f"The weights of {name} are already quantised.",
                hint="Name the original model and set nf4 or int8 in the settings: it is then quantised when loaded.",
            )
        model = _load_weights(kind, source, config, held, name=name)
        disable_weight_repacking(model, compute_dtype, name)
        return model, AutoTokenizer.from_pretrained(source, trust_remote_code=False)


@contextmanager
def load_errors(what: str, hint: str) -> Iterator[None]:
    """Turn errors in loading a pretrained model into ModelError; `what` is the model in the user's words."""
    from huggingface_hub.errors import GatedRepoError, HFValidationError, StrictDataclassError

    # What the libraries raise for files that are missing, damaged or inconsistent.
    unreadable = (OSError, ValueError, KeyError, TypeError, ImportError, RuntimeError,
                  SafetensorError, StrictDataclassError)  # fmt: skip
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise ModelError(
            f"{what} does not fit in the device's memory.",
            hint="Load its weights as nf4 (model.base_weights, model.documents.weights), or use another --device.",
        ) from error
    except unreadable as error:
        if isinstance(error.__cause__, GatedRepoError):
            hint = "Ask for access on its page, then log in with `hf auth login`."
        lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
        if isinstance(error.__cause__, HFValidationError):  # of a path that leads nowhere
            lines = ["there is no such folder, and no hub id of this form."]
        # Some first lines only announce the second.
        reason = " ".join(lines[: 2 if lines[0].endswith(":") else 1])
        raise ModelError(f"{what} could not be opened: {reason}", hint=hint) from error


def _load_weights(
    kind: Any, source: str, config: "PretrainedConfig", held: dict[str, Any], *, name: str
) -> "PreTrainedModel":
    """Load a model whose files hold all the weights that its config describes.

    `from_pretrained` fills in missing weights at random. Only a pooler may be missing; it becomes zeros, every time.
    """
    options = {"config": config, "output_loading_info": True, "ignore_mismatched_sizes": True, **held}
    model: PreTrainedModel
    model, report = kind.from_pretrained(source, **options)
    poolers = {missing for missing in report["missing_keys"] if missing.startswith("pooler.")}
    for pooler in poolers & {key for key, value in model.named_parameters() if value.is_floating_point()}:
        nn.init.zeros_(model.get_parameter(pooler))
    wrong = {*(report["missing_keys"] - poolers), *(mismatched[0] for mismatched in report["mismatched_keys"])}
    # Loading does not check the shapes of packed layers, nor, before transformers 5.23, of the others beside them.
    wrong |= {key for key, module in model.named_modules() if not _has_configured_shape(module)}
    if wrong:
        raise ModelError(f"The weights of {name} do not match its config: see {min(wrong)}.", hint="Download it again.")
    return model


def _has_configured_shape(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Embedding):
        return layer.weight.shape == (layer.num_embeddings, layer.embedding_dim)
    if not isinstance(layer, nn.Linear):
        return True
    state = getattr(layer.weight, "quant_state", None)
    packed: torch.Size = layer.weight.shape if state is None else state.shape
    return packed == (layer.out_features, layer.in_features)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """Write a safetensors file atomically. Raises OSError or SafetensorError if it cannot be written."""
    partial_file = path.with_suffix(".partial")
    partial_file.unlink(missing_ok=True)  # it may be a symlink, which a write would follow
    try:
        save_file(dict(tensors), partial_file, dict(notes))
        with partial_file.open("rb") as file:
            os.fsync(file.fileno())
        partial_file.replace(path)
    finally:
        partial_file.unlink(missing_ok=True)  # else it would keep a full disk full


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """The shape of each tensor by its name."""
    return {name: value.shape for name, value in tensors.items()}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a model's file. Raises ModelError if it is missing or damaged."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        message = f"The weights in {path.parent} cannot be read: {error}"
        raise ModelError(message, hint="Get the model again.") from error


@torch.no_grad()
def restore(state: Mapping[str, Tensor], stored: Mapping[str, Tensor], origin: Path | str) -> None:
    """Copy stored tensors into a model's own. Raises ModelError if names or shapes differ."""
    require_fit(state, stored, origin)
    for name, value in state.items():
        value.copy_(shard_like(stored[name], value))


def require_fit(state: Mapping[str, Tensor], stored: Mapping[str, Tensor], origin: Path | str) -> None:
    """Raises ModelError if a model's tensors and the stored ones differ in names or shapes."""
    if shapes_of(state) != shapes_of(stored):
        raise ModelError(
            f"The weights in {origin} do not fit the model's settings.",
            hint="Get the model again; to start training from it, keep the settings that it was trained with.",
        )


def state_digest(state: Mapping[str, Tensor], *details: str) -> str:
    """SHA-256 of named tensors as float32, in any order, and of further details, hexadecimal."""
    arrays = ((name, state[name].detach().float().cpu().contiguous().numpy()) for name in sorted(state))
    return digest_arrays(arrays, *details)


def gathered_state(state: Mapping[str, Tensor], *, keep: bool = True) -> dict[str, Tensor]:
    """Tensors as a file holds them: unsharded, on the CPU, without gradient.

    With sharding (torch's FSDP2), all processes call it with the same names; without `keep`, one only contributes.
    """
    from torch.distributed.tensor import DTensor  # which takes half a second to import

    whole = {}
    for name, value in state.items():
        full = value.full_tensor() if isinstance(value, DTensor) else value
        if keep:
            whole[name] = full.detach().cpu().contiguous()
    return whole


def shard_like(whole: Tensor, other: Tensor) -> Tensor:
    """Shard a whole tensor like `other`, if that is sharded."""
    if not hasattr(other, "device_mesh"):  # whose type takes half a second to import
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole.to(other.device), other.device_mesh, other.placements)  # type: ignore[attr-defined]


def optimiser_tensors(parameters: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's state for named parameters, as `optimiser.NAME.FIELD`."""
    return {
        f"optimiser.{name}.{field}": torch.as_tensor(value)  # Adafactor's step count is a plain number
        for name, parameter in parameters.items()
        for field, value in optimiser.state.get(parameter, {}).items()
    }


def restore_optimiser(
    tensors: Mapping[str, Tensor], parameters: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer
) -> None:
    """Restore what `optimiser_tensors` returned; other tensors are ignored."""
    held = [id(value) for group in optimiser.param_groups for value in group["params"]]
    state: dict[int, dict[str, Tensor | int]] = {}
    for key, value in tensors.items():
        if key.startswith("optimiser."):
            name, field = key.removeprefix("optimiser.").rsplit(".", 1)
            is_alike = value.shape == parameters[name].shape  # a step count's is not
            sharded = shard_like(value, parameters[name]) if is_alike else value
            fields = state.setdefault(held.index(id(parameters[name])), {})
            fields[field] = sharded if sharded.is_floating_point() else int(sharded)
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def is_fast_in_bf16(device: torch.device | str) -> bool:
    """Whether bfloat16 is faster than float32 on a device: on a CPU only if it has instructions for it."""
    # torch has no public name for either.
    is_fast_cpu: bool = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()  # noqa: SLF001
    return torch.device(device).type != "cpu" or is_fast_cpu
