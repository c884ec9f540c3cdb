"""The end-to-end objective (paper, section 3.5, algorithm 1), optional routing and reconstruction losses, a step."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn import functional
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from mbc_engine.config import TrainingSettings
from mbc_engine.lm.base import KVPrefix, Targets
from mbc_engine.paper.amortizer import document_variance
from mbc_engine.paper.codebook import Quantized
from mbc_engine.paper.mbc import MBC
from mbc_engine.training.data import Batch, TextStates, TrainingSet
from mbc_engine.training.processes import Processes, Share


@dataclass(frozen=True)
class Losses:
    """The losses of a batch. With several processes, each has a share; the shares add up to the batch's losses.

    `total` is what is minimised, with gradient. `figures` has its unweighted parts, and what else `TrainStep` reports:
    the fraction of questions whose own document scores highest, if there is a router, and the share of the documents'
    energy that distinguishes them. `quantized` is None while there are no codes.
    """

    questions: int
    total: Tensor
    figures: dict[str, float]
    quantized: Quantized | None


class Objective(nn.Module):
    """The objective over a training set; `documents` and `questions` are its token states."""

    def __init__(
        self,
        model: MBC,
        data: TrainingSet,
        documents: TextStates,
        questions: TextStates,
        settings: TrainingSettings,
        processes: Processes,
    ) -> None:
        super().__init__()
        self.model, self.data, self.settings, self.processes = model, data, settings, processes
        self.documents, self.questions = documents, questions

    def forward(self, batch: Batch, generator: torch.Generator) -> Losses:
        """This process's share of a batch's losses; the bank is the batch's own documents.

        `generator` is for draws that must be the same in all processes.
        """
        model, weights, processes = self.model, self.settings.losses, self.processes
        vectors = self._document_vectors(batch.documents, generator)
        quantized = model.codebook.quantize(vectors) if model.codebook is not None and model.is_quantising else None
        memory = quantized.vectors if quantized is not None else vectors

        share = processes.share(len(batch.examples))
        places = share.worked_on
        # All questions, since centring may use their statistics.
        amortizer = model.questions.amortizer
        readout = amortizer.readout(*self.questions.states([batch.examples[place] for place in share.places]))
        question = amortizer.centre(processes.gather(readout, share.total))[places]
        own = torch.tensor(batch.own, device=memory.device)
        scores = model.router.scores(question, memory) if model.router is not None else None
        modulation = model.aggregator(question, self._bank(memory, own, places, scores, generator)).modulation
        written = batch.documents[: weights.reconstruction_documents or None] if weights.reconstruction else []
        written_share = processes.share(len(written))
        # In one pass: the prefix network's weights are large, and so is their gradient.
        prefix = model.prefix(torch.cat([modulation, memory[written_share.worked_on]]))
        asked, rest = prefix.of(slice(len(places))), prefix.of(slice(len(places), None))
        question_loss = self._shared_loss(asked, self._asked(batch.examples, places), share)
        # Every process computes the whole codebook loss.
        vq_loss = quantized.loss / processes.count if quantized is not None else vectors.new_zeros(())
        routing_loss = reconstruction_loss = vectors.new_zeros(())
        figures = {"document_variance": document_variance(vectors.detach())}
        if scores is not None:
            weight = share.weight(len(places), share.total)
            figures["route_accuracy"] = (scores.argmax(-1) == own[places]).float().mean().item() * weight
            if weights.routing:
                routing_loss = functional.cross_entropy(scores.float(), own[places]) * weight
        if written:
            texts = [self.data.documents[written[place]] for place in written_share.worked_on]
            targets = model.base.prompt_tokenizer.text_targets(texts, window=weights.reconstruction_tokens)
            reconstruction_loss = self._shared_loss(rest, targets, written_share)
        total = (
            question_loss
            + weights.vq * vq_loss
            + weights.routing * routing_loss
            + weights.reconstruction * reconstruction_loss
        )
        figures |= {
            "loss": total.item(),
            "question_loss": question_loss.item(),
            "vq_loss": vq_loss.item(),
            "route_loss": routing_loss.item(),
            "reconstruction_loss": reconstruction_loss.item(),
        }
        return Losses(len(batch.examples), total, figures, quantized)

    def _document_vectors(self, documents: list[int], generator: torch.Generator) -> Tensor:
        """Phi of documents [U, T, D]; with back-propagation dropout, a random share, never all, has no gradient."""
        amortizer, share = self.model.documents.amortizer, self.processes.share(len(documents))
        numbers = [documents[place] for place in share.places]
        # Each process drops from its own share, so that all have equally much to do.
        dropped = min(round(len(numbers) * self.settings.backprop_dropout), len(numbers) - 1)
        if dropped:
            order = torch.randperm(len(numbers), generator=generator).tolist()
            # Those with a gradient first: older torch reuses autocast's copies of weights, made without, for both.
            kept = amortizer.readout(*self.documents.states([numbers[place] for place in order[dropped:]]))
            with torch.no_grad():
                without = amortizer.readout(*self.documents.states([numbers[place] for place in order[:dropped]]))
            readout = torch.cat([without, kept])[torch.tensor(order, device=kept.device).argsort()]
        else:
            readout = amortizer.readout(*self.documents.states(numbers))
        return amortizer.centre(self.processes.gather(readout, share.total))

    def _bank(
        self, memory: Tensor, own: Tensor, places: list[int], scores: Tensor | None, generator: torch.Generator
    ) -> Tensor:
        """What questions read: all documents [1, U·T, D], or for each its own and the best others [K, k·T, D]."""
        count = self.settings.bank_documents
        if not count or count >= len(memory):
            return memory.flatten(0, 1).unsqueeze(0)
        if scores is not None:
            preference = scores.detach().clone()
        else:
            preference = torch.rand(len(own), len(memory), generator=generator).to(own.device)[places]
        preference = preference.scatter(1, own[places].unsqueeze(1), torch.inf)
        return memory[preference.topk(count, dim=-1).indices].flatten(1, 2)

    def _shared_loss(self, prefix: KVPrefix, texts: Targets, share: Share) -> Tensor:
        """This process's share of the mean over the target tokens of all processes."""
        tokens = int(texts.target_mask.sum())
        (total,) = self.processes.summed([tokens if share.own else 0])
        return self.model.base.loss(prefix, texts) * share.weight(tokens, total)

    def _asked(self, examples: list[int], places: list[int]) -> Targets:
        chosen = [examples[place] for place in places]
        return self.model.base.prompt_tokenizer.question_answer_targets(
            [self.data.questions[index] for index in chosen],
            [self.data.answers[index] for index in chosen],
            question_window=self.settings.question_window,
            answer_window=self.settings.answer_window,
        )


def clip_gradients(parameters: Iterable[nn.Parameter], most: float) -> None:
    """Clip gradients, some of which may be sharded, to a total norm of `most`."""
    parts: list[nn.Parameter] = []
    whole: list[nn.Parameter] = []
    for parameter in parameters:
        if parameter.grad is not None:
            (parts if isinstance(parameter.grad, DTensor) else whole).append(parameter)
    norms = [
        get_total_norm([parameter.grad for parameter in some if parameter.grad is not None])
        for some in (parts, whole)
        if some
    ]
    norm = torch.stack([norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]).norm()
    for some in (parts, whole):
        clip_grads_with_norm_(some, most, norm)


def adam(model: MBC, rate: float) -> torch.optim.Optimizer:
    """Adam for all trainable parameters; the codebook is a group of its own, since it is never sharded."""
    books = [] if model.codebook is None else [model.codebook.books]
    others = [value for value in model.parameters() if value.requires_grad and all(value is not own for own in books)]
    return torch.optim.Adam([{"params": group} for group in (others, books) if group], lr=rate, fused=True)


def learning_rate(step: int, total: int, settings: TrainingSettings) -> float:
    """Linear warm-up over the first share of the steps, then constant (paper, section 4.3.1), finally linear decay."""
    warmup, decay = (max(1, round(total * share)) for share in (settings.warmup, settings.decay))
    falling = (total - step) / decay if settings.decay else 1.0
    return settings.learning_rate * min(1.0, (step + 1) / warmup, falling)


def optimiser_step(
    objective: Objective, optimizer: torch.optim.Optimizer, batch: Batch, generator: torch.Generator, *, rate: float
) -> tuple[list[Losses], int]:
    """Take a step on a batch, in `accumulate` forward passes over parts of it, each with its own bank.

    Returns the losses of each pass, and how many dead codes were reset.
    """
    model, settings, processes = objective.model, objective.settings, objective.processes
    for group in optimizer.param_groups:
        group["lr"] = rate
    model.train()
    passes: list[Losses] = []
    resets, size = 0, -(-len(batch.examples) // settings.accumulate)
    for start in range(0, len(batch.examples), size):
        part, is_last = batch.examples[start : start + size], start + size >= len(batch.examples)
        with nullcontext() if is_last else processes.no_sync():
            with torch.autocast(processes.device.type, torch.bfloat16, enabled=settings.precision == "bf16"):
                losses = processes.run_wrapped(objective, objective.data.batch(part), generator)
            if losses.quantized is not None:
                codebook = model.require_codebook()
                codebook.update_usage(losses.quantized.codes)
                resets += codebook.reset_dead(losses.quantized.residuals, generator) if settings.reset_codes else 0
            # Gradients are averaged over the processes, whose losses add up.
            processes.accelerator.backward(losses.total * (processes.count * len(part) / len(batch.examples)))
        passes.append(losses)
    clip_gradients(model.parameters(), settings.clip)
    optimizer.step()
    optimizer.zero_grad()
    return passes, resets


def mean_losses(passes: Sequence[Losses], processes: Processes) -> dict[str, Any]:
    """The losses of a step over its passes and all processes, by their names in `TrainStep`."""
    questions = sum(losses.questions for losses in passes)
    means = {
        name: sum(losses.figures[name] * losses.questions for losses in passes) / questions
        for name in passes[0].figures
    }
    variance = means.pop("document_variance")  # already of the whole batch in every process
    summed = dict(zip(means, processes.summed([*means.values()]), strict=True))
    return {"route_accuracy": None, **summed, "document_variance": variance}
