"""The end-to-end objective (paper, section 3.5, algorithm 1) and the optional routing and reconstruction losses."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from mbc_engine.config import TrainingSettings
from mbc_engine.model.base import Targets
from mbc_engine.model.centring import document_variance
from mbc_engine.model.mbc import MBC
from mbc_engine.training.data import Batch, TrainingSet
from mbc_engine.training.texts import TextStates


@dataclass(frozen=True)
class Losses:
    """The losses of a batch and what was seen on the way.

    Attributes:
        total: what is minimised, a scalar with gradient.
        question, vq, routing, reconstruction: its parts before weighting, without gradient.
        route_accuracy: fraction of questions whose own document scores highest; None without a router.
        document_variance: share of the documents' energy that tells them apart.
        codes: [U, T, levels], None while there are no codes.
        residuals: what each level coded, [levels, U, T, D]; None likewise.
    """

    total: Tensor
    question: float
    vq: float
    routing: float
    reconstruction: float
    route_accuracy: float | None
    document_variance: float
    codes: Tensor | None
    residuals: Tensor | None


@dataclass(frozen=True)
class Objective:
    """The objective over a training set.

    Attributes:
        model: what is trained.
        data: documents and questions.
        documents, questions: their token states.
        settings: weights and windows.
    """

    model: MBC
    data: TrainingSet
    documents: TextStates
    questions: TextStates
    settings: TrainingSettings

    def __call__(self, batch: Batch) -> Losses:
        """Losses of a batch: the bank is the batch's own documents."""
        model, weights = self.model, self.settings.losses
        vectors = self._document_vectors(batch.documents)
        quantized = model.codebook.quantize(vectors) if model.is_quantising else None
        memory = quantized.vectors if quantized is not None else vectors
        question = model.questions.amortizer.vectors(*self.questions.states(batch.examples))
        own = torch.tensor(batch.own, device=memory.device)

        scores = model.router.scores(question, memory) if model.router is not None else None
        modulation = model.aggregator(question, self._bank(memory, own, scores)).modulation
        question_loss = model.base.loss(model.prefix(modulation), self._asked(batch))
        vq_loss = quantized.loss if quantized is not None else vectors.new_zeros(())
        routing_loss = vectors.new_zeros(())
        if scores is not None and weights.routing:
            routing_loss = functional.cross_entropy(scores.float(), own)
        reconstruction_loss = vectors.new_zeros(())
        if weights.reconstruction:
            chosen = batch.documents[: weights.reconstruction_documents or None]
            texts = [self.data.documents[index] for index in chosen]
            written = model.base.written(texts, window=weights.reconstruction_tokens)
            reconstruction_loss = model.base.loss(model.prefix(memory[: len(chosen)]), written)

        total = (
            question_loss
            + weights.vq * vq_loss
            + weights.routing * routing_loss
            + weights.reconstruction * reconstruction_loss
        )
        return Losses(
            total=total,
            question=question_loss.item(),
            vq=vq_loss.item(),
            routing=routing_loss.item(),
            reconstruction=reconstruction_loss.item(),
            route_accuracy=(scores.argmax(-1) == own).float().mean().item() if scores is not None else None,
            document_variance=document_variance(vectors.detach()),
            codes=quantized.codes if quantized is not None else None,
            residuals=quantized.residuals if quantized is not None else None,
        )

    def _document_vectors(self, documents: list[int]) -> Tensor:
        """Phi of documents [U, T, D]; under back-propagation dropout a random share, never all, has no gradient."""
        amortizer = self.model.documents.amortizer
        dropped = min(round(len(documents) * self.settings.backprop_dropout), len(documents) - 1)
        if not dropped:
            return amortizer.vectors(*self.documents.states(documents))
        order = torch.randperm(len(documents)).tolist()
        with torch.no_grad():
            without = amortizer.readout(*self.documents.states([documents[place] for place in order[:dropped]]))
        kept = amortizer.readout(*self.documents.states([documents[place] for place in order[dropped:]]))
        restored = torch.cat([without, kept])[torch.tensor(order, device=kept.device).argsort()]
        return amortizer.centre(restored)

    def _bank(self, memory: Tensor, own: Tensor, scores: Tensor | None) -> Tensor:
        """What each question reads: all documents [1, U·T, D], or its own and the best others [K, k·T, D]."""
        count = self.settings.bank_documents
        if not count or count >= len(memory):
            return memory.flatten(0, 1).unsqueeze(0)
        preference = (
            scores.detach().clone() if scores is not None else torch.rand(len(own), len(memory), device=own.device)
        )
        preference = preference.scatter(1, own.unsqueeze(1), torch.inf)
        return memory[preference.topk(count, dim=-1).indices].flatten(1, 2)

    def _asked(self, batch: Batch) -> Targets:
        return self.model.base.asked(
            [self.data.questions[index] for index in batch.examples],
            [self.data.answers[index] for index in batch.examples],
            question_window=self.settings.question_window,
            answer_window=self.settings.answer_window,
        )
