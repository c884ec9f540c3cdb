"""Fitting to data without gradients: readouts by PCA, the codebook by k-means, centring; and validation scores."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mbc_engine.datasets.examples import QAExample
from mbc_engine.errors import ConfigError
from mbc_engine.lm.encoders import mean_pooled
from mbc_engine.metrics import Scores
from mbc_engine.paper.amortizer import Amortizer, EncoderAmortizer
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.model import MBC
from mbc_engine.paper.scoring import answer_losses, ask_all, score
from mbc_engine.training.data import TextStates
from mbc_engine.training.processes import Processes

_BATCH = 64
SAMPLE = 8192
CENTRING_SAMPLE = 2048
COMPONENTS = 192
# Texts, and tokens of each, on which the scale of a layer's values is measured.
_READ_TEXTS, _READ_TOKENS = 16, 64
# Columns other than the principal ones start small, so that the first codes are spent on what routing needs.
OTHER_COLUMNS = 0.1


@torch.no_grad()
def start_from_pca(model: MBC, documents: TextStates) -> None:
    """Set both readouts to the principal components of the documents' sentence vectors, spread over the positions.

    Position t gets components t, t + T, t + 2T, …, so that every position has strong and weak ones, and routing scores
    start close to the product of sentence vectors. Raises ConfigError unless both amortizers are encoder-only and equally
    wide.
    """
    sides = (model.documents.amortizer, model.questions.amortizer)
    encoders = [side for side in sides if isinstance(side, EncoderAmortizer)]
    if len({side.head_weight.shape[1] for side in encoders}) != 1 or len(encoders) < len(sides):
        raise ConfigError("training.pca_start needs encoder-only amortizers of one width.")
    pooled = torch.cat([mean_pooled(*documents.states(chosen)) for chosen in _sample(documents, SAMPLE)])
    components = torch.pca_lowrank(pooled, q=min(COMPONENTS, *pooled.shape), center=True)[2]  # [E, components]
    for side in encoders:
        side.head_weight.mul_(OTHER_COLUMNS)
        width = min(side.head_weight.shape[2], components.shape[1] // side.tokens)
        for token in range(side.tokens):
            side.head_weight[token, :, :width] = components[:, token :: side.tokens][:, :width]


@torch.no_grad()
def fit_value_scale(model: MBC, texts: Sequence[str]) -> None:
    """Set `value_scale`, if there is one, to the root mean square of the base LM's values on the first texts, by layer.

    SmolLM2's is 0.04 in the first layer and 1.4 in the last. If a prefix's values are far larger, the loss is so steep
    that steps overshoot.
    """
    if model.prefix.value_scale is not None:
        read = model.base.prompt_tokenizer.tokens(texts[:_READ_TEXTS], _READ_TOKENS)
        prefixes = [model.base.read(tokens) for tokens in read if tokens]
        squares = torch.cat([prefix.values.float().square().mean((2, 4)) for prefix in prefixes], dim=-1)
        model.prefix.value_scale.copy_(squares.mean((0, 2)).sqrt())


@torch.no_grad()
def fit_centring(amortizer: Amortizer, texts: TextStates) -> None:
    """Refit centring to texts, or a sample of them.

    The running statistics of training lag behind a quickly changing amortizer, which costs most of its answers.
    """
    if amortizer.centring is not None:
        was_training = amortizer.training
        amortizer.eval()
        amortizer.centring.fit(_readouts(amortizer, texts, CENTRING_SAMPLE))
        amortizer.train(was_training)


def require_enough(codebook: Codebook, documents: int) -> None:
    """Raise ConfigError if this many documents give fewer vectors per codebook than it has codes."""
    vectors = min(documents, SAMPLE) * (1 if codebook.per_position else codebook.tokens)
    if vectors < codebook.num_codes:
        most = 1 << vectors.bit_length() - 1
        raise ConfigError(
            f"A codebook of {codebook.num_codes} codes cannot start from {documents} document{'s' * (documents > 1)}.",
            hint=f"Train on more documents{f', or with --set model.codebook.codes={most}' if most > 1 else ''}.",
        )


@torch.no_grad()
def fit_codebook(model: MBC, documents: TextStates) -> int:
    """Fit the codebook to the documents' vectors and quantise from here on. Returns how many documents were used."""
    was_training = model.training
    model.eval()
    vectors = model.documents.amortizer.centre(_readouts(model.documents.amortizer, documents, SAMPLE))
    model.require_codebook().fit(vectors)
    model.is_quantising = True
    model.train(was_training)
    return len(vectors)


def _readouts(amortizer: Amortizer, texts: TextStates, limit: int) -> Tensor:
    return torch.cat([amortizer.readout(*texts.states(chosen)).float() for chosen in _sample(texts, limit)])


def _sample(texts: TextStates, limit: int) -> Iterator[list[int]]:
    chosen = torch.randperm(len(texts))[:limit].tolist()
    for start in range(0, len(chosen), _BATCH):
        yield chosen[start : start + _BATCH]


@torch.no_grad()
def validate(model: MBC, questions: Sequence[QAExample], others: Sequence[str], processes: Processes) -> Scores:
    """Scores and losses of one or more questions, asked of a memory of all their documents; each process asks a share.

    `others` are documents that no question is about, for the loss with a wrong bank.
    """
    model.eval()
    share = processes.share(len(questions))
    # Stand-ins are asked too: with sharded parameters, all processes must take the same steps.
    asked = [questions[index] for index in share.indices]
    outcomes = processes.run_wrapped(lambda: list(ask_all(model, questions, asked=asked)))
    banks = list(dict.fromkeys(example.text for example in questions)), others
    losses = [processes.run_wrapped(answer_losses, model, bank, asked)[: share.count] for bank in banks]
    loss, wrong_loss = (sum(values) / max(1, share.count) for values in losses)
    scores = replace(score(outcomes[: share.count]), loss=loss, wrong_loss=wrong_loss)
    if processes.count == 1:
        return scores
    names = [name for name in vars(scores) if name != "questions"]
    sums = [getattr(scores, name) * scores.questions for name in names]
    count, *pooled = processes.summed([scores.questions, *sums])
    return Scores(int(count), **{name: value / count for name, value in zip(names, pooled, strict=True)})
