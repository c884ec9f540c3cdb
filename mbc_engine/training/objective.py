"""The end-to-end objective (paper, section 3.5, algorithm 1), optional routing and reconstruction losses, and a step."""

from collections.abc import Callable, Iterable, Sequence
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
from mbc_engine.paper.mbc import MBC
from mbc_engine.training.data import Batch, TextStates, TrainingSet
from mbc_engine.training.processes import Processes, Share


@dataclass(frozen=True)
class Losses:
    """The losses of a batch. Of several processes each has its share of them; they add up to those of the batch.

    `total` is what is minimised, with gradient; its parts are not weighted yet. `route_accuracy` is the fraction of
    questions whose own document scores highest, None without a router; `document_variance` the share of the documents'
    energy that distinguishes them. `codes` [U, T, levels] and the `residuals` that each level coded, [levels, U, T, D],
    are None while there are no codes.
    """

    questions: int
    total: Tensor
    question: float
    vq: float
    routing: float
    reconstruction: float
    route_accuracy: float | None
    document_variance: float
    codes: Tensor | None
    residuals: Tensor | None


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

    def forward(self, batch: Batch, chance: torch.Generator) -> Losses:
        """Losses of a batch, whichever part of it falls to this process: the bank is the batch's own documents.

        `chance` is for draws that all processes have to make alike.
        """
        model, weights, processes = self.model, self.settings.losses, self.processes
        vectors = self._document_vectors(batch.documents, chance)
        codebook = model.codebook if model.is_quantising else None
        quantized = codebook.quantize(vectors) if codebook is not None else None
        memory = quantized.vectors if quantized is not None else vectors

        share = processes.share(len(batch.examples))
        places = share.worked_on
        question = self._question_vectors(batch.examples, share)[places]
        own = torch.tensor(batch.own, device=memory.device)
        scores = model.router.scores(question, memory) if model.router is not None else None
        modulation = model.aggregator(question, self._bank(memory, own, places, scores, chance)).modulation
        asked = self._asked([batch.examples[place] for place in places])
        question_loss = self._shared_loss(model.prefix(modulation), asked, share)
        # Every process has the whole codebook loss.
        vq_loss = quantized.loss / processes.count if quantized is not None else vectors.new_zeros(())
        routing_loss = vectors.new_zeros(())
        if scores is not None and weights.routing:
            ranked = functional.cross_entropy(scores.float(), own[places])
            routing_loss = ranked * share.weight(len(places), share.total)
        reconstruction_loss = vectors.new_zeros(())
        if weights.reconstruction:
            reconstruction_loss = self._reconstruction_loss(batch, memory)

        total = (
            question_loss
            + weights.vq * vq_loss
            + weights.routing * routing_loss
            + weights.reconstruction * reconstruction_loss
        )
        hits = (scores.argmax(-1) == own[places]).float().mean().item() if scores is not None else None
        return Losses(
            questions=len(batch.examples),
            total=total,
            question=question_loss.item(),
            vq=vq_loss.item(),
            routing=routing_loss.item(),
            reconstruction=reconstruction_loss.item(),
            route_accuracy=None if hits is None else hits * share.weight(len(places), share.total),
            document_variance=document_variance(vectors.detach()),
            codes=quantized.codes if quantized is not None else None,
            residuals=quantized.residuals if quantized is not None else None,
        )

    def _document_vectors(self, documents: list[int], chance: torch.Generator) -> Tensor:
        """Phi of documents [U, T, D]; under back-propagation dropout a random share, never all, has no gradient."""
        amortizer, share = self.model.documents.amortizer, self.processes.share(len(documents))
        numbers = [documents[place] for place in share.places]
        # Each process leaves out its own part, so that all of them have equally much to do.
        dropped = min(round(len(numbers) * self.settings.backprop_dropout), len(numbers) - 1)
        if dropped:
            order = torch.randperm(len(numbers), generator=chance).tolist()
            with torch.no_grad():
                without = amortizer.readout(*self.documents.states([numbers[place] for place in order[:dropped]]))
            kept = amortizer.readout(*self.documents.states([numbers[place] for place in order[dropped:]]))
            readout = torch.cat([without, kept])[torch.tensor(order, device=kept.device).argsort()]
        else:
            readout = amortizer.readout(*self.documents.states(numbers))
        return amortizer.centre(self.processes.gathered(readout, share.total))

    def _question_vectors(self, examples: list[int], share: Share) -> Tensor:
        """Vectors of all questions [K, T, D], since they may be centred by what they have in common."""
        amortizer = self.model.questions.amortizer
        readout = amortizer.readout(*self.questions.states([examples[place] for place in share.places]))
        return amortizer.centre(self.processes.gathered(readout, share.total))

    def _bank(
        self, memory: Tensor, own: Tensor, places: list[int], scores: Tensor | None, chance: torch.Generator
    ) -> Tensor:
        """What questions read: all documents [1, U·T, D], or each its own and the best others [K, k·T, D]."""
        count = self.settings.bank_documents
        if not count or count >= len(memory):
            return memory.flatten(0, 1).unsqueeze(0)
        if scores is not None:
            preference = scores.detach().clone()
        else:
            preference = torch.rand(len(own), len(memory), generator=chance).to(own.device)[places]
        preference = preference.scatter(1, own[places].unsqueeze(1), torch.inf)
        return memory[preference.topk(count, dim=-1).indices].flatten(1, 2)

    def _reconstruction_loss(self, batch: Batch, memory: Tensor) -> Tensor:
        """What it takes the base LM to write documents back from their own vectors, this process's share."""
        settings = self.settings.losses
        chosen = batch.documents[: settings.reconstruction_documents or None]
        share = self.processes.share(len(chosen))
        texts = [self.data.documents[chosen[place]] for place in share.worked_on]
        written = self.model.base.texts.written(texts, window=settings.reconstruction_tokens)
        return self._shared_loss(self.model.prefix(memory[share.worked_on]), written, share)

    def _shared_loss(self, prefix: KVPrefix, texts: Targets, share: Share) -> Tensor:
        """This process's share of the mean over the target tokens of all processes."""
        tokens = int(texts.target_mask.sum())
        (total,) = self.processes.summed([tokens if share.own else 0])
        return self.model.base.loss(prefix, texts) * share.weight(tokens, total)

    def _asked(self, examples: list[int]) -> Targets:
        return self.model.base.texts.asked(
            [self.data.questions[index] for index in examples],
            [self.data.answers[index] for index in examples],
            question_window=self.settings.question_window,
            answer_window=self.settings.answer_window,
        )


def clip_gradients(parameters: Iterable[nn.Parameter], most: float) -> None:
    """Scale gradients, some of which processes may hold in parts, down to a norm of `most` together."""
    parts: list[nn.Parameter] = []
    whole: list[nn.Parameter] = []
    for parameter in parameters:
        if parameter.grad is not None:
            (parts if isinstance(parameter.grad, DTensor) else whole).append(parameter)
    norm = torch.stack([_norm(some) for some in (parts, whole) if some]).norm()
    for some in (parts, whole):
        clip_grads_with_norm_(some, most, norm)


def _norm(parameters: list[nn.Parameter]) -> Tensor:
    norm = get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def adam(model: MBC, rate: float) -> torch.optim.Optimizer:
    """Adam for whatever trains; the codebook is a group of its own, since it is never held in parts."""
    codebook = model.codebook
    books = None if codebook is None else codebook.books
    others = [value for value in model.parameters() if value.requires_grad and value is not books]
    groups = [{"params": others}, *([] if books is None else [{"params": [books]}])]
    return torch.optim.Adam(groups, lr=rate)


def learning_rate(step: int, total: int, settings: TrainingSettings) -> float:
    """Linear warm-up over the first share of the steps, then constant (paper, section 4.3.1)."""
    warmup = max(1, round(total * settings.warmup))
    return settings.learning_rate * min(1.0, (step + 1) / warmup)


def optimiser_step(
    objective: Objective, optimizer: torch.optim.Optimizer, batch: Batch, chance: torch.Generator, *, rate: float
) -> tuple[list[Losses], int]:
    """Learn from a batch, in `accumulate` forward passes over parts of it, each with its own bank.

    `chance` is for draws that all processes have to make alike. Returns the losses of each pass, and how many dead
    codes were reset.
    """
    model, settings, processes = objective.model, objective.settings, objective.processes
    for group in optimizer.param_groups:
        group["lr"] = rate
    model.train()
    passes: list[Losses] = []
    resets, size = 0, -(-len(batch.examples) // settings.accumulate)
    for start in range(0, len(batch.examples), size):
        part, is_last = batch.examples[start : start + size], start + size >= len(batch.examples)
        with nullcontext() if is_last else processes.without_exchange():
            with torch.autocast(processes.device.type, torch.bfloat16, enabled=settings.precision == "bf16"):
                losses = processes.inside(objective, objective.data.batch(part), chance)
            if losses.codes is not None and losses.residuals is not None:
                codebook = model.require_codebook()
                codebook.update_usage(losses.codes)
                resets += codebook.reset_dead(losses.residuals, chance) if settings.reset_codes else 0
            # Gradients become the mean over the processes, whose losses add up.
            processes.accelerator.backward(losses.total * (processes.count * len(part) / len(batch.examples)))
        passes.append(losses)
    clip_gradients(model.parameters(), settings.clip)
    optimizer.step()
    optimizer.zero_grad()
    return passes, resets


def mean_losses(passes: Sequence[Losses], processes: Processes) -> dict[str, Any]:
    """The losses of a step's passes and of all processes, by their names in `TrainStep`."""
    questions = sum(losses.questions for losses in passes)

    def mean(figure: Callable[[Losses], float]) -> float:
        return sum(figure(losses) * losses.questions for losses in passes) / questions

    shares = {
        "loss": mean(lambda losses: losses.total.item()),
        "question_loss": mean(lambda losses: losses.question),
        "vq_loss": mean(lambda losses: losses.vq),
        "route_loss": mean(lambda losses: losses.routing),
        "reconstruction_loss": mean(lambda losses: losses.reconstruction),
        "route_accuracy": mean(lambda losses: losses.route_accuracy or 0.0),
    }
    figures: dict[str, Any] = dict(zip(shares, processes.summed([*shares.values()]), strict=True))
    if passes[0].route_accuracy is None:
        figures["route_accuracy"] = None
    return {**figures, "document_variance": mean(lambda losses: losses.document_variance)}
