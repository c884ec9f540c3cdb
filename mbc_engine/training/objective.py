"""The end-to-end objective (paper, section 3.5, algorithm 1), optional losses, a step."""

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
from mbc_engine.lm.base import Targets
from mbc_engine.paper.amortizer import document_variance
from mbc_engine.paper.codebook import Quantized
from mbc_engine.paper.model import MBC
from mbc_engine.training.data import Batch, TextStates, TrainingSet
from mbc_engine.training.processes import Processes, Share


@dataclass(frozen=True)
class Losses:
    """The losses of a batch. With several processes, each has a share; the shares add up to the batch's losses.

    `total` is what is minimised, with gradient. `figures` has its unweighted parts, and what else `TrainStep` reports:
    the fraction of questions whose document scores highest, if there is a router, and the share of the documents'
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
        indices = share.unpadded
        # All questions, since centring may use their statistics.
        amortizer = model.questions.amortizer
        readout = amortizer.readout(*self.questions.states([batch.examples[index] for index in share.indices]))
        question = amortizer.centre(processes.gather(readout, share.total))[indices]
        positions = torch.tensor(batch.positions, device=memory.device)[indices]
        scores = model.router.scores(question, memory) if model.router is not None else None
        modulation = model.aggregator(
            question, self._bank(memory, batch.positions, indices, scores, generator)
        ).modulation
        written = batch.documents[: weights.reconstruction_documents or None] if weights.reconstruction else []
        written_share = processes.share(len(written))
        # In one pass: the prefix network's weights are large, and so is their gradient.
        prefix = model.prefix(torch.cat([modulation, memory[written_share.unpadded]]))
        asking, writing = prefix.of(slice(len(indices))), prefix.of(slice(len(indices), None))
        asked = [batch.examples[index] for index in indices]
        targets = self._answers(asked)
        question_loss = self._shared(model.base.loss(asking, targets), targets, share)
        distillation_loss = vectors.new_zeros(())
        if weights.distillation:
            divergence = model.base.divergence(asking, targets, self._answers(asked, reads=True))
            distillation_loss = self._shared(divergence, targets, share)
        # Every process computes the whole codebook loss.
        vq_loss = quantized.loss / processes.count if quantized is not None else vectors.new_zeros(())
        routing_loss = reconstruction_loss = vectors.new_zeros(())
        figures = {"document_variance": document_variance(vectors.detach())}
        if scores is not None:
            weight = share.weight(len(indices), share.total)
            figures["route_accuracy"] = (scores.argmax(-1) == positions).float().mean().item() * weight
            if weights.routing:
                routing_loss = functional.cross_entropy(scores.float(), positions) * weight
        if written:
            texts = [self.data.documents[written[index]] for index in written_share.unpadded]
            targets = model.base.prompt_tokenizer.text_targets(texts, window=weights.reconstruction_tokens)
            reconstruction_loss = self._shared(model.base.loss(writing, targets), targets, written_share)
        parts = {
            "question_loss": (1.0, question_loss),
            "vq_loss": (weights.vq, vq_loss),
            "route_loss": (weights.routing, routing_loss),
            "reconstruction_loss": (weights.reconstruction, reconstruction_loss),
            "distillation_loss": (weights.distillation, distillation_loss),
        }
        total = sum((weight * loss for weight, loss in parts.values()), vectors.new_zeros(()))
        figures |= {"loss": total.item(), **{name: loss.item() for name, (_, loss) in parts.items()}}
        return Losses(len(batch.examples), total, figures, quantized)

    def _document_vectors(self, documents: list[int], generator: torch.Generator) -> Tensor:
        """Phi of documents [U, T, D]; with back-propagation dropout, a random share, never all, has no gradient."""
        amortizer, share = self.model.documents.amortizer, self.processes.share(len(documents))
        numbers = [documents[index] for index in share.indices]
        # Each process drops from its own share, so that all have equally much to do.
        dropped = min(round(len(numbers) * self.settings.backprop_dropout), len(numbers) - 1)
        if dropped:
            order = torch.randperm(len(numbers), generator=generator).tolist()
            # Those with a gradient first: older torch reuses autocast's copies of weights, made without, for both.
            learning = amortizer.readout(*self.documents.states([numbers[index] for index in order[dropped:]]))
            with torch.no_grad():
                fixed = amortizer.readout(*self.documents.states([numbers[index] for index in order[:dropped]]))
            readout = torch.cat([fixed, learning])[torch.tensor(order, device=learning.device).argsort()]
        else:
            readout = amortizer.readout(*self.documents.states(numbers))
        return amortizer.centre(self.processes.gather(readout, share.total))

    def _bank(
        self,
        memory: Tensor,
        positions: list[int],
        indices: list[int],
        scores: Tensor | None,
        generator: torch.Generator,
    ) -> Tensor:
        """What questions read: all documents [1, U·T, D], or for each its own and the best others [K, k·T, D]."""
        count = self.settings.bank_documents
        if not count or count >= len(memory):
            return memory.flatten(0, 1).unsqueeze(0)
        if scores is not None:
            preference = scores.detach().clone()
        else:
            preference = torch.rand(len(positions), len(memory), generator=generator).to(memory.device)[indices]
        right = torch.tensor(positions, device=memory.device)[indices]
        preference = preference.scatter(1, right.unsqueeze(1), torch.inf)
        return memory[preference.topk(count, dim=-1).indices].flatten(1, 2)

    def _shared(self, loss: Tensor, texts: Targets, share: Share) -> Tensor:
        """This process's share of the mean over the target tokens of all processes."""
        tokens = int(texts.target_mask.sum())
        (total,) = self.processes.summed([tokens if share.count else 0])
        return loss * share.weight(tokens, total)

    def _answers(self, examples: list[int], *, reads: bool = False) -> Targets:
        return self.model.base.prompt_tokenizer.question_answer_targets(
            [self.data.questions[example] for example in examples],
            [self.data.answers[example] for example in examples],
            passages=[self.data.document_of(example) for example in examples] if reads else None,
            question_window=self.settings.question_window,
            answer_window=self.settings.answer_window,
        )


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> None:
    """Clip gradients, some of which may be sharded, to a total norm of `max_norm`."""
    trained = [parameter for parameter in parameters if parameter.grad is not None]
    sharded = [parameter for parameter in trained if isinstance(parameter.grad, DTensor)]
    whole = [parameter for parameter in trained if not isinstance(parameter.grad, DTensor)]
    groups = [group for group in (sharded, whole) if group]
    norms = [get_total_norm([value.grad for value in group if value.grad is not None]) for group in groups]
    norm = torch.stack([norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]).norm()
    for group in groups:
        clip_grads_with_norm_(group, max_norm, norm)


def adam(model: MBC, rate: float) -> torch.optim.Optimizer:
    """Adam for all trainable parameters; the codebook is a group of its own, since it is never sharded."""
    books = [] if model.codebook is None else [model.codebook.books]
    others = [value for value in model.parameters() if value.requires_grad and not any(value is book for book in books)]
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
