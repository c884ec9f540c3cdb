"""KV-LoRA (paper, section 3.4): low-rank updates of the key and value projections of the last n layers, with peft.

GPT-2 computes queries, keys and values in one projection; there keys and values share the down-projection A, as in the
paper. Imported only for adapters: importing peft takes up to a second, and imports bitsandbytes if installed.
"""

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model_state_dict, inject_adapter_in_model, set_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from mbc_engine.errors import ModelMismatch
from mbc_engine.lm.pretrained import key_value_modules, read_tensors, shapes_of

WEIGHTS = "adapter_model.safetensors"


class FusedKeyValueLora(nn.Module, LoraLayer):
    """LoRA on the key and value columns of a fused query-key-value projection, A shared, one B over both."""

    def __init__(
        self, base_layer: nn.Module, adapter_name: str, config: LoraConfig, r: int, lora_alpha: int, **options: Any
    ) -> None:
        super().__init__()
        LoraLayer.__init__(self, base_layer, **options)
        self.width: int = self.in_features  # type: ignore[assignment]
        self.out_features = 2 * self.width
        self._active_adapter = adapter_name
        self.update_layer(adapter_name, r, lora_alpha=lora_alpha, config=config, **options)

    def forward(self, x: Tensor) -> Tensor:
        projected: Tensor = self.base_layer(x)
        for name in self.active_adapters:
            down = self.lora_A[name](self.lora_dropout[name](x).to(self.lora_A[name].weight.dtype))
            update = self.lora_B[name](down) * self.scaling[name]
            query, key_value = projected.tensor_split((self.width,), dim=-1)
            projected = torch.cat([query, key_value + update.to(projected.dtype)], dim=-1)
        return projected


def add_kv_lora(base: PreTrainedModel, *, rank: int, alpha: int, dropout: float, layers: int) -> None:
    """Adapt the last `layers` layers of the base LM, in place; only the adapter requires gradients afterwards.

    The adapter is always float32, or small updates would be lost. Raises ModelError for an unknown family.
    """
    depth = base.config.num_hidden_layers
    modules = key_value_modules(base.config)
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=list(modules),
        layers_to_transform=list(range(max(0, depth - layers), depth)),
    )
    if len(modules) == 1:
        fused = (module for name, module in base.named_modules() if name.endswith(modules))
        layers_by_type: dict[type[nn.Module], type[nn.Module]] = {type(module): FusedKeyValueLora for module in fused}
        config._register_custom_module(layers_by_type)  # noqa: SLF001 - peft has no other way
    base.requires_grad_(False)
    inject_adapter_in_model(config, base)
    for parameter in base.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


def set_dropout(base: PreTrainedModel, is_training: bool) -> None:
    """Turn the adapter's dropout on or off; the base LM itself is always deterministic."""
    for layer in base.modules():
        if isinstance(layer, LoraLayer):
            layer.lora_dropout.train(is_training)


def adapter_state(base: PreTrainedModel) -> dict[str, Tensor]:
    """The adapter's weights by peft's names."""
    return get_peft_model_state_dict(base, adapter_name="default")  # type: ignore[no-any-return]


def save_adapter(base: PreTrainedModel, state: dict[str, Tensor], folder: Path) -> None:
    """Write `adapter_config.json` and the weights from `adapter_state`, in peft's layout."""
    folder.mkdir(parents=True, exist_ok=True)
    base.peft_config["default"].save_pretrained(str(folder))
    save_file(state, folder / WEIGHTS)


def load_adapter(base: PreTrainedModel, folder: Path) -> None:
    """Load the weights in `folder` into the base LM's adapter. Raises ModelMismatch if names or shapes differ."""
    state = read_tensors(folder / WEIGHTS)
    if shapes_of(state) != shapes_of(adapter_state(base)):
        raise ModelMismatch(
            f"The adapter in {folder} does not fit the base LM {base.name_or_path}.",
            hint="It belongs to another architecture; train again or get the base LM it was trained with.",
        )
    set_peft_model_state_dict(base, state, adapter_name="default")
