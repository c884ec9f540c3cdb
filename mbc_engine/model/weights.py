"""How pretrained weights are held: float32, bf16, or packed by bitsandbytes in 4 bits (nf4, as in QLoRA) or 8.

Only the linear layers of a transformer's blocks are packed; embeddings, norms and heads stay numbers. Packed weights
have no gradient, so they are frozen whatever trains around them, and they are never stored: they are made again from
the pretrained model's own.
"""

import importlib.util
import logging
from functools import partial
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from transformers import BitsAndBytesConfig, PreTrainedModel

from mbc_engine.config import BaseWeights
from mbc_engine.errors import ModelError
from mbc_engine.extras import installing

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
