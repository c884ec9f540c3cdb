"""CaMeLS: meta-learned weights of a document's tokens (Hu, Mitchell, Manning and Finn 2023, arXiv 2305.15076).

A small weight model predicts how much each token of a document counts. It is trained so that after one weighted
gradient step on documents the base LM answers their questions, while its output on other text does not change. The base
LM is then fine-tuned with its weights.

A step accumulates the outer gradients of a few inner batches of document-question-answer triples, over which, as in the
released code, the updated base LM is carried. Unlike there, the documents of an inner batch are learned in one step on
their sum, the same up to terms of α²; and the locality term compares the output on another training document, not on
web text, with that before the first inner batch.
"""

import copy
import json
import math
import random
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn import functional
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel

from mbc_engine.datasets.examples import QAExample
from mbc_engine.errors import DataError
from mbc_engine.evaluation.fine_tuning import fit
from mbc_engine.evaluation.language_models import MAX_NEW_TOKENS, QUESTION_WINDOW
from mbc_engine.evaluation.suite import Camels
from mbc_engine.evaluation.token_weights import TokenWeights
from mbc_engine.events import TuningStep
from mbc_engine.lm.base import BaseLM, Targets, TokenisedText
from mbc_engine.lm.pretrained import load_errors, write_tensors
from mbc_engine.metrics import shortest

WEIGHTS: Final = "weights.safetensors"
_CONFIG: Final = "config.json"
_LAYERS: Final = 6
_HIDDEN: Final = 128
_BETA: Final = 3.0


class WeightModel(nn.Module):
    """A randomly initialised decoder with a head of one non-negative weight per token; all are 1 before training."""

    def __init__(self, config: PretrainedConfig) -> None:
        super().__init__()
        # Eager attention is the fastest on a CPU at the length of a document.
        self.body = AutoModel.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
        self.body.get_input_embeddings().requires_grad_(False)
        self.hidden = nn.Linear(config.hidden_size, _HIDDEN)
        self.out = nn.Linear(_HIDDEN, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.constant_(self.out.bias, math.log(math.expm1(_BETA)) / _BETA)

    def forward(self, texts: Targets) -> Tensor:
        """Weights of the target tokens, row after row, [N]."""
        states = self.body(input_ids=texts.ids, attention_mask=texts.mask, use_cache=False).last_hidden_state
        scores: Tensor = self.out(functional.gelu(self.hidden(states[texts.target_mask])))
        return functional.softplus(scores.squeeze(-1), beta=_BETA)


def weight_model_for(base: BaseLM, *, seed: int = 0) -> WeightModel:
    """An untrained weight model: its body is a copy of the base LM's first layers, its head is drawn from a seed."""
    config = copy.deepcopy(base.model.config)
    config.num_hidden_layers = min(config.num_hidden_layers, _LAYERS)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: config.num_hidden_layers]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = WeightModel(config).to(base.model.device)
    pretrained = base.model.get_decoder().state_dict()
    model.body.load_state_dict({name: pretrained[name] for name in model.body.state_dict()})
    return model


def load_weights(folder: Path, device: str | torch.device = "cpu") -> TokenWeights:
    """The token weights that `meta_train` saved in a folder. Raises ModelError if they are missing or damaged."""
    with load_errors(f"The weight model in {folder}", "Delete the folder and train it again."):
        model = WeightModel(AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False))
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            model.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
            given = json.loads(file.metadata()["given"])  # the tokens before every text
    model.to(device).requires_grad_(False)

    def weights_of(piece: TokenisedText) -> Tensor:
        ids = torch.tensor([[*given, *piece.ids]], device=device)
        is_target = torch.arange(ids.shape[1], device=device)[None] >= len(given)
        weights: Tensor = model(Targets(ids, torch.ones_like(ids), is_target))
        return weights

    return weights_of


# Documents to learn, questions to answer from them, and a text for the locality term.
InnerBatch: TypeAlias = tuple[Targets, Targets, Targets]


def parameters_of(model: PreTrainedModel) -> dict[str, Tensor]:
    """A model's parameters by name, without gradients; tied ones appear once."""
    return {name: value.detach() for name, value in model.named_parameters()}


def token_logits(model: PreTrainedModel, parameters: Mapping[str, Tensor], texts: Targets) -> Tensor:
    """Logits of the target tokens with the given parameters, row after row, [N, V]."""
    inputs = {"input_ids": texts.ids, "attention_mask": texts.mask, "use_cache": False}
    logits: Tensor = functional_call(model, dict(parameters), kwargs=inputs).logits
    return logits[:, :-1][texts.target_mask[:, 1:]].float()


def token_losses(model: PreTrainedModel, parameters: Mapping[str, Tensor], texts: Targets) -> Tensor:
    """Negative log-likelihood of the target tokens with the given parameters, row after row, [N] in nats."""
    return functional.cross_entropy(token_logits(model, parameters, texts), texts.targets, reduction="none")


def divergence(model: PreTrainedModel, parameters: Mapping[str, Tensor], texts: Targets) -> Tensor:
    """Mean over tokens of KL(model || model with the given parameters), a scalar in nats."""
    with torch.no_grad():
        before = token_logits(model, {}, texts).log_softmax(-1)
    after = token_logits(model, parameters, texts).log_softmax(-1)
    return functional.kl_div(after, before, log_target=True, reduction="sum") / len(before)


def inner_step(
    model: PreTrainedModel,
    parameters: Mapping[str, Tensor],
    batch: InnerBatch,
    weights: Tensor,
    *,
    rate: float,
    locality: float,
) -> tuple[dict[str, Tensor], float, Tensor]:
    """Take a step of `rate` α on documents with token `weights` [N], from `parameters` without gradients.

    `model` is the original base LM, which is not changed; it needs `eager` attention, as others lack forward-mode
    differentiation. Returns the updated parameters, their outer loss, and its gradient with respect to the weights,
    [N].
    """
    documents, questions, elsewhere = batch
    mask = documents.target_mask
    shares = (mask / mask.sum(1, keepdim=True))[mask]  # each token's share in the mean over its text
    names, start = list(parameters), [value.detach().requires_grad_() for value in parameters.values()]
    inner = shares * weights.detach() * token_losses(model, dict(zip(names, start, strict=True)), documents)
    steps = torch.autograd.grad(inner.sum(), start)
    moved = [(value - rate * step).detach().requires_grad_() for value, step in zip(start, steps, strict=True)]
    updated = dict(zip(names, moved, strict=True))
    outer = token_losses(model, updated, questions).mean()
    if locality:
        outer = outer + locality * divergence(model, updated, elsewhere)
    direction = dict(zip(names, torch.autograd.grad(outer, moved), strict=True))
    with torch.no_grad(), warnings.catch_warnings():
        # Forward mode imports a part of torch that is deprecated.
        warnings.filterwarnings("ignore", r"`torch\.jit", DeprecationWarning)
        slopes: Tensor = jvp(lambda at: token_losses(model, at, documents), (dict(parameters),), (direction,))[1]
    return {name: value.detach() for name, value in updated.items()}, outer.item(), -rate * shares * slopes


def inner_batch(
    base: BaseLM, examples: Sequence[QAExample], number: int, count: int, *, window: int, seed: int
) -> InnerBatch:
    """Batch `number` of an endless sequence, each of `count` examples, or all, and the text of another, if there is one.

    Of a document longer than the window, a piece with the answer is taken.
    """
    rng, tokenizer = random.Random(f"{seed} batch {number}"), base.prompt_tokenizer
    window = min(window, base.context - 1)

    def piece_of(text: str, answer: str) -> str:
        pieces = [piece.text for piece in tokenizer.pieces(text, window)]
        return next((piece for piece in pieces if answer in piece), pieces[0])

    chosen = rng.sample(examples, min(count, len(examples)))
    texts, golds = [example.text for example in chosen], [shortest(example.answers) for example in chosen]
    elsewhere = rng.choice([example.text for example in examples if example.text not in texts] or texts)
    asked = [example.question for example in chosen]
    return (
        tokenizer.text_targets(list(map(piece_of, texts, golds)), window=window),
        tokenizer.question_answer_targets(asked, golds, question_window=QUESTION_WINDOW, answer_window=MAX_NEW_TOKENS),
        tokenizer.text_targets([piece_of(elsewhere, "")], window=window),
    )


def meta_train(
    base: BaseLM,
    examples: Sequence[QAExample],
    folder: Path,
    settings: Camels,
    *,
    window: int = 512,
    seed: int = 0,
    snapshot_seconds: float = 60,
    stop: threading.Event | None = None,
) -> Iterator[TuningStep]:
    """Train a weight model for a float32 base LM on at most `window` tokens of a document; `load_weights` loads it.

    Setting `stop` ends it after the current step with a snapshot; called again, it resumes and gives bit-identical
    weights. Raises the same errors as `train_on_questions`.
    """
    if not examples:
        raise DataError("There are no questions to train token weights on.", hint="Name a dataset that has some.")
    model = weight_model_for(base, seed=seed)
    count, batches = settings.inner_documents, settings.inner_batches
    learnt = {name: value for name, value in model.named_parameters() if value.requires_grad}

    def add_gradients(step: int) -> float:
        parameters, losses = parameters_of(base.model), []
        for number in range(step * batches, (step + 1) * batches):
            batch = inner_batch(base, examples, number, count, window=window, seed=seed)
            weights = model(batch[0])
            parameters, loss, gradient = inner_step(
                base.model, parameters, batch, weights, rate=settings.inner_rate, locality=settings.locality
            )
            weights.backward(gradient / batches)
            losses.append(loss)
        return sum(losses) / len(losses)

    def save() -> None:
        given = base.prompt_tokenizer.text_targets(["a"], window=1).ids[0, :-1].tolist()
        (folder / _CONFIG).write_text(model.body.config.to_json_string())
        write_tensors(folder / WEIGHTS, model.state_dict(), {"given": json.dumps(given)})

    usual = base.model.config._attn_implementation  # noqa: SLF001 - transformers has no public name for it
    base.model.set_attn_implementation("eager")
    try:
        yield from fit(
            add_gradients,
            learnt,
            torch.optim.Adam(learnt.values(), lr=settings.learning_rate),
            folder,
            steps=settings.steps,
            batch_size=count * batches,
            save=save,
            snapshot_seconds=snapshot_seconds,
            stop=stop,
        )
    finally:
        base.model.set_attn_implementation(usual)
