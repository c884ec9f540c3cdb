"""CaMeLS: meta-learned weights of a document's tokens (Hu, Mitchell, Manning and Finn 2023, arXiv 2305.15076).

A small weight model says how much each token of a document counts. It is trained so that after one weighted gradient
step on documents the base LM answers their questions, and speaks elsewhere as before. At adaptation it stands still,
and the base LM is fine-tuned under its weights.

The weight model of CaMeLS: a causal decoder and a small head, which give each token of a document its weight.

One inner step of CaMeLS, and how its outcome changes with the weights of the documents' tokens.

The inner batches of a meta-training: which documents, with a question to each, and a text to leave alone.
"""

import copy
import json
import math
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn import functional
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel

from mbc_engine.atomic_write import atomic_write
from mbc_engine.datasets.layout import QAExample
from mbc_engine.lm.base import BaseLM
from mbc_engine.lm.pretrained import told_of
from mbc_engine.lm.texts import Targets, TokenisedText
from mbc_engine.methods.reading import MAX_NEW_TOKENS, QUESTION_WINDOW
from mbc_engine.metrics import shortest

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
    with atomic_write(folder / _CONFIG) as file:
        file.write(model.body.config.to_json_string().encode())
    with atomic_write(folder / WEIGHTS) as file:
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


@dataclass(frozen=True)
class InnerBatch:
    """Documents to learn, questions to answer from them, and a text to leave alone."""

    documents: Targets
    questions: Targets
    elsewhere: Targets


@dataclass(frozen=True)
class Outcome:
    """What an inner step comes to.

    Attributes:
        parameters: of the base LM after it.
        loss: the outer loss then.
        gradient: of the outer loss with respect to the documents' token weights, [N].
    """

    parameters: dict[str, Tensor]
    loss: float
    gradient: Tensor


def parameters_of(model: PreTrainedModel) -> dict[str, Tensor]:
    """A model's own parameters by name, without gradient; tied ones come once."""
    return {name: value.detach() for name, value in model.named_parameters()}


def token_logits(model: PreTrainedModel, parameters: Mapping[str, Tensor], texts: Targets) -> Tensor:
    """Logits of the target tokens under parameters, row after row, [N, V]."""
    reading = {
        "input_ids": texts.ids,
        "attention_mask": texts.mask,
        "position_ids": (texts.mask.cumsum(1) - 1).clamp_min(0),
        "use_cache": False,
        "logits_to_keep": texts.target_mask.shape[1] + 1,
    }
    logits: Tensor = functional_call(model, dict(parameters), kwargs=reading).logits
    return logits[:, :-1][texts.target_mask.bool()].float()


def token_losses(model: PreTrainedModel, parameters: Mapping[str, Tensor], texts: Targets) -> Tensor:
    """Negative log-likelihood of the target tokens under parameters, row after row, [N] in nats."""
    return functional.cross_entropy(token_logits(model, parameters, texts), texts.targets, reduction="none")


def token_shares(texts: Targets) -> Tensor:
    """What a token counts in the mean over its text's tokens, [N]."""
    mask = texts.target_mask
    return (mask / mask.sum(1, keepdim=True))[mask.bool()]


def divergence(model: PreTrainedModel, parameters: Mapping[str, Tensor], texts: Targets) -> Tensor:
    """Mean over tokens of KL(model as it is || model under parameters), a scalar in nats."""
    with torch.no_grad():
        before = token_logits(model, {}, texts).log_softmax(-1)
    after = token_logits(model, parameters, texts).log_softmax(-1)
    return functional.kl_div(after, before, log_target=True, reduction="sum") / len(before)


def outer_loss(model: PreTrainedModel, parameters: Mapping[str, Tensor], batch: InnerBatch, locality: float) -> Tensor:
    """Mean loss of the answers' tokens plus `locality` times the divergence elsewhere, a scalar in nats."""
    loss = token_losses(model, parameters, batch.questions).mean()
    return loss + locality * divergence(model, parameters, batch.elsewhere) if locality else loss


def inner_step(
    model: PreTrainedModel,
    parameters: Mapping[str, Tensor],
    batch: InnerBatch,
    weights: Tensor,
    *,
    rate: float,
    locality: float,
) -> Outcome:
    """Make a weighted gradient step on documents and see what it does.

    Args:
        model: the base LM as it was, which it stays. Its attention has to be `eager`: others have no forward mode.
        parameters: where it stands, by name, without gradient.
        batch: of documents and their questions.
        weights: of the documents' tokens, [N].
        rate: α.
        locality: weight of the divergence elsewhere.
    """
    shares = token_shares(batch.documents)
    tracked = _tracked(parameters)
    inner = (shares * weights.detach() * token_losses(model, tracked, batch.documents)).sum()
    gradients = torch.autograd.grad(inner, list(tracked.values()))
    updated = {
        name: value - rate * gradient for (name, value), gradient in zip(parameters.items(), gradients, strict=True)
    }
    tracked = _tracked(updated)
    outer = outer_loss(model, tracked, batch, locality)
    direction = dict(zip(tracked, torch.autograd.grad(outer, list(tracked.values())), strict=True))
    slopes = _slopes(lambda moved: token_losses(model, moved, batch.documents), parameters, direction)
    return Outcome(updated, outer.item(), -rate * shares * slopes)


def _tracked(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().requires_grad_() for name, value in parameters.items()}


@torch.no_grad()
def _slopes(
    losses: Callable[[dict[str, Tensor]], Tensor], parameters: Mapping[str, Tensor], direction: dict[str, Tensor]
) -> Tensor:
    """Derivative of losses at parameters along a direction, [N]."""
    with warnings.catch_warnings():
        # Forward mode loads a part of torch that is deprecated by another.
        warnings.filterwarnings("ignore", r"`torch\.jit", DeprecationWarning)
        slopes: Tensor = jvp(losses, (dict(parameters),), (direction,))[1]
    return slopes


@dataclass(frozen=True)
class InnerBatches:
    """An endless sequence of inner batches, the same whenever it is begun.

    Attributes:
        base: what they are for.
        examples: questions about documents, at least one; each comes once in a round of all.
        count: document-question-answer triples of a batch.
        window: most tokens of a document; of a longer one a piece with the answer is taken.
        seed: of the order of each round, and of the texts to leave alone.
    """

    base: BaseLM
    examples: Sequence[QAExample]
    count: int
    window: int
    seed: int

    def batch(self, number: int) -> InnerBatch:
        """The inner batch of this number, and a text of none of its documents, if there is another."""
        chosen = [self.examples[place] for place in self._places(number * self.count)]
        texts = [example.text for example in chosen]
        answers = [shortest(example.answers) for example in chosen]
        others = [example.text for example in self.examples if example.text not in texts] or texts
        elsewhere = random.Random(f"{self.seed} elsewhere {number}").choice(others)
        window = min(self.window, self.base.context - 1)
        pieces = [self._piece_of(text, answer, window) for text, answer in zip(texts, answers, strict=True)]
        return InnerBatch(
            documents=self.base.texts.written(pieces, window=window),
            questions=self.base.texts.asked(
                [example.question for example in chosen],
                answers,
                question_window=QUESTION_WINDOW,
                answer_window=MAX_NEW_TOKENS,
            ),
            elsewhere=self.base.texts.written([self._piece_of(elsewhere, "", window)], window=window),
        )

    def _places(self, start: int) -> list[int]:
        """The next `count` places from `start` on, in rounds of all examples in an order drawn for each."""
        total, end = len(self.examples), start + self.count
        places = []
        for round_number in range(start // total, (end - 1) // total + 1):
            order = random.Random(f"{self.seed} round {round_number}").sample(range(total), total)
            first = round_number * total
            places += order[max(0, start - first) : end - first]
        return places

    def _piece_of(self, text: str, answer: str, window: int) -> str:
        """The first piece of a text with an answer in it, or the first of all."""
        pieces = [piece.text for piece in self.base.texts.pieces(text, window)]
        return next((piece for piece in pieces if answer in piece), pieces[0])
