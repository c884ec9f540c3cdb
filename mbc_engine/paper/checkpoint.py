"""A model as a folder: `config.toml`, `model.safetensors` (everything trained) and, with KV-LoRA, `adapter/` (peft).

Frozen pretrained parts are referred to by name, not stored. No pickle is read or written.
"""

from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save_file
from torch import Tensor

from mbc_engine.config import Config, LoraSettings
from mbc_engine.lm.pretrained import gathered_state, read_tensors, require_fit, restore, unpacked_state
from mbc_engine.names import ADAPTER, CONFIG, WEIGHTS
from mbc_engine.paper.builder import build, load_pretrained
from mbc_engine.paper.model import MBC

_SMALL: Final = 1 << 26  # bytes


def trained_state(model: MBC) -> dict[str, Tensor]:
    """Trainable parameters outside the base LM, and our buffers; tied parameters appear once."""
    every = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    return {
        name: value
        for name, value in unpacked_state(model).items()
        if not name.startswith("base.") and (name in trained or name not in every)
    }


def save_model(model: MBC, config: Config, folder: Path, *, writes: bool = True) -> None:
    """Write a model folder; all processes that hold shards of the model call this, and one of them writes."""
    # All processes contribute their shards before one writes: a full disk must not leave the others waiting.
    weights, adapter = gathered_state(trained_state(model), keep=writes), {}
    if model.settings.lora.layers:
        from mbc_engine.paper.kv_lora import adapter_state, save_adapter

        adapter = gathered_state(adapter_state(model.base.model), keep=writes)
    if not writes:
        return
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.float() for name, value in weights.items()}, folder / WEIGHTS, {"format": "mbc-1"})
    if model.settings.lora.layers:
        save_adapter(model.base.model, adapter, folder / ADAPTER)
    (folder / CONFIG).write_text(config.to_toml())


def load_into(model: MBC, folder: Path) -> None:
    """Load the weights in `folder` into a newly built model. Raises ModelError if they are damaged or do not fit."""
    if model.settings.lora.layers:
        from mbc_engine.paper.kv_lora import load_adapter

        load_adapter(model.base.model, folder / ADAPTER)
    restore(trained_state(model), read_tensors(folder / WEIGHTS), folder / WEIGHTS)


def load(
    config: Config,
    folder: Path,
    *,
    device: str | torch.device | None = "cpu",
    reader: str | None = None,  # noqa: ARG001  # only the other kind has readers
) -> MBC:
    """Open the model in a folder, as `mbc_engine.load_model`; without a device on a GPU, if there is one."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    pretrained = load_pretrained(config.model, device=device)
    with torch.device("meta"):
        described = trained_state(build(config.model.model_copy(update={"lora": LoraSettings(layers=0)}), pretrained))
    stored = (folder / WEIGHTS).stat().st_size if (folder / WEIGHTS).is_file() else 0
    if sum(value.nbytes for value in described.values()) > max(_SMALL, 2 * stored):
        require_fit(described, read_tensors(folder / WEIGHTS), folder / WEIGHTS)  # before they take memory
    model = build(config.model, pretrained).to(device)
    load_into(model, folder)
    return model.eval()
