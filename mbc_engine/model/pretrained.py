"""Opening pretrained models by hub id or path: nothing of them made up, their weights held as they are to be."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, StrictDataclassError
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mbc_engine.config import BaseWeights
from mbc_engine.errors import ModelError
from mbc_engine.model.weights import loading_options, settle

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
