"""The weight model of CaMeLS: a causal decoder and a small head, which give each token of a document its weight.

Theirs is DistilGPT2, whole, with a head of one hidden layer of 128 and softplus of β = 3; a token's weight is read off
its own state, so it knows the token and what stands before it. So is ours, but for three things. The body is a copy of
the base LM's own first layers, as many as DistilGPT2 has, so that every family has one with its own tokenizer. Its
embeddings do not train: they are most of a small body's parameters, and only a few of them occur in a document. And all
weights start at 1, plain fine-tuning, where theirs start at log(2)/3.
"""

import copy
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModel, PretrainedConfig

from mbc_engine.model.base import BaseLM
from mbc_engine.model.base_texts import Targets
from mbc_engine.model.pretrained import told_of
from mbc_engine.model.tokenised_text import TokenisedText
from mbc_engine.whole_file import whole_file

WEIGHTS: Final = "weights.safetensors"
_CONFIG: Final = "config.json"
_LAYERS: Final = 6
_HIDDEN: Final = 128
_BETA: Final = 3.0


class WeightModel(nn.Module):
    """A decoder with a head of one non-negative number a token; all of them are 1 until it is trained.

    Args:
        config: the decoder's, its weights are made up.
    """

    def __init__(self, config: PretrainedConfig) -> None:
        super().__init__()
        # Plain attention is the fastest on a CPU at the length of a document.
        self.body = AutoModel.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
        self.body.get_input_embeddings().requires_grad_(False)
        self.hidden = nn.Linear(config.hidden_size, _HIDDEN)
        self.out = nn.Linear(_HIDDEN, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.constant_(self.out.bias, math.log(math.expm1(_BETA)) / _BETA)

    def forward(self, texts: Targets) -> Tensor:
        """Weights of the target tokens, row after row, [N]."""
        states = self.body(
            input_ids=texts.ids,
            attention_mask=texts.mask,
            position_ids=(texts.mask.cumsum(1) - 1).clamp_min(0),
            use_cache=False,
        ).last_hidden_state
        targets = states[:, -texts.target_mask.shape[1] :][texts.target_mask.bool()]
        scores: Tensor = self.out(functional.gelu(self.hidden(targets)))
        return functional.softplus(scores.squeeze(-1), beta=_BETA)


@dataclass(frozen=True)
class LearnedWeights:
    """Token weights of a trained weight model.

    Attributes:
        model: the weight model.
        given: the tokens that stand before every text.
    """

    model: WeightModel
    given: tuple[int, ...]

    @torch.no_grad()
    def __call__(self, piece: TokenisedText) -> Tensor:
        """Weights of a piece's tokens, [S]."""
        device = self.model.out.weight.device
        ids = torch.tensor([[*self.given, *piece.ids]], device=device)
        weights: Tensor = self.model(Targets(ids, torch.ones_like(ids), torch.ones_like(ids[:, len(self.given) :])))
        return weights


def weight_model_for(base: BaseLM, *, seed: int = 0) -> WeightModel:
    """An untrained weight model whose body is a copy of the base LM's first layers, its head drawn from a seed."""
    config = copy.deepcopy(base.model.config)
    config.num_hidden_layers = min(config.num_hidden_layers, _LAYERS)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: config.num_hidden_layers]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = WeightModel(config).to(base.model.device)
    own = model.body.state_dict()
    pretrained = base.model.get_decoder().state_dict()
    model.body.load_state_dict({name: pretrained[name] for name in own})
    return model


def save_weights(model: WeightModel, base: BaseLM, folder: Path, origin: str) -> None:
    """Write the weight model of a base LM for `load_weights`; its weights come last: where they are, all is there.

    Args:
        model: the weight model.
        base: what it was trained for.
        folder: where.
        origin: how it was trained, for `origin_of`.
    """
    given = base.texts.written(["a"], window=1).ids[0, :-1].tolist()
    with whole_file(folder / _CONFIG) as file:
        file.write(model.body.config.to_json_string().encode())
    with whole_file(folder / WEIGHTS) as file:
        file.write(save(model.state_dict(), {"given": json.dumps(given), "origin": origin}))


def origin_of(folder: Path) -> str:
    """How the weight model in a folder was trained."""
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        return str(file.metadata()["origin"])


def load_weights(folder: Path, device: str | torch.device = "cpu") -> LearnedWeights:
    """Open what `meta_train` left in a folder.

    Raises:
        ModelError: it is not there, or damaged.
    """
    with told_of(f"The weight model in {folder}", "Delete the folder and train it again."):
        model = WeightModel(AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False))
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            model.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
            given = json.loads(file.metadata()["given"])
    return LearnedWeights(model.to(device).requires_grad_(False), tuple(given))
