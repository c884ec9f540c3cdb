"""The whole model: memorise documents as codes, answer questions from them (paper, section 3 and algorithm 2).

The parts of a model that torch.compile makes faster, for texts of any number and length.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from mbc_engine.bank import CodeShape, fingerprint
from mbc_engine.config import ModelSettings
from mbc_engine.errors import ModelError
from mbc_engine.lm.base import BaseLM
from mbc_engine.lm.efficiency import codes_stepwise
from mbc_engine.lm.prefix import PrefixNetwork
from mbc_engine.lm.pretrained import state_digest, unpacked_state
from mbc_engine.paper.aggregator import Aggregator
from mbc_engine.paper.amortizer import TextEncoder
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.memories import Memory, Router, shape_of
from mbc_engine.paper.reads import Ranked, Reader, Reading, read
from mbc_engine.text.chunks import Chunker

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Answer:
    """What the base LM said, and the documents it came from, best first."""

    text: str
    sources: tuple[Ranked, ...]


class MBC(nn.Module):
    """A memory-bank-compression model.

    Attributes:
        settings: what it is made of.
        name: how it is called in messages.
        folder: where it was loaded from; None for one that was built here.
        base: the frozen base LM, with KV-LoRA if the settings say so.
        documents, questions: g_amort and g_input.
        codebook: None in a model that does not quantise, such as MAC; see `require_codebook`.
        aggregator, prefix, router: see their modules.
        is_quantising: whether documents are codes; see `is_warming_up`.
        keeps_text: banks keep no text beside the codes unless told to, as in the paper.
    """

    keeps_text: Final = False

    def __init__(
        self,
        settings: ModelSettings,
        *,
        base: BaseLM,
        documents: TextEncoder,
        questions: TextEncoder,
        codebook: Codebook | None,
        aggregator: Aggregator,
        prefix: PrefixNetwork,
        router: Router | None,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.name = "unnamed"
        self.folder: Path | None = None
        self.base = base
        self.documents, self.questions = documents, questions
        self.codebook, self.aggregator, self.prefix, self.router = codebook, aggregator, prefix, router
        self.is_quantising = codebook is not None

    @property
    def code_shape(self) -> CodeShape:
        """What the codes of a chunk look like. Raises ModelError if the model makes none."""
        return shape_of(self.require_codebook())

    @property
    def books(self) -> Tensor:
        """The vectors that codes stand for, [levels, positions, num_codes, D]. Raises ModelError if there are none."""
        return self.require_codebook().books.detach()

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.parameters()).device

    @property
    def chunker(self) -> Chunker:
        """What cuts documents to the window."""
        return self.documents.chunker

    def sentence_vectors(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors of sentences, [B, E]."""
        return self.documents.sentence_vectors(texts)

    def fingerprints(self) -> tuple[str, str]:
        """SHA-256 prefixes of the document side, frozen parts included, and of the codebook; a bank is bound to both.

        Packed weights count by what they were made from, so that a bank goes from one kind of processor to another.
        """
        packed_from = self.documents.packed_from
        details = [str(self.settings.documents.window), *([] if packed_from is None else [packed_from])]
        digest = state_digest(unpacked_state(self.documents), *details)
        return digest[:16], fingerprint(self.books.float().cpu().numpy())

    @property
    def is_warming_up(self) -> bool:
        """Whether documents are to become codes and are not yet: only in a warm start of training."""
        return self.codebook is not None and not self.is_quantising

    def require_codebook(self) -> Codebook:
        """The codebook.

        Raises:
            ModelError: there is none: documents are vectors, and no bank holds these.
        """
        if self.codebook is None:
            raise ModelError(
                f"The model {self.name} makes no codes of documents, and a bank holds nothing else.",
                hint="Take one trained with model.quantised = true; models without codes are there to be compared.",
            )
        return self.codebook

    def train(self, mode: bool = True) -> Self:
        """Training mode for what trains; frozen parts stay deterministic, without their dropout."""
        super().train(mode)
        self.base.model.eval()
        if self.settings.lora.layers:
            from mbc_engine.paper.kv_lora import set_dropout

            set_dropout(self.base.model, mode)
        for side in (self.documents, self.questions):
            if side.is_frozen:
                side.amortizer.pretrained.eval()
        return self

    def reader(self) -> Reader:
        """The parts that reads use; keep it, for as long as the model stays as it is, and further reads are faster."""
        settings = self.settings
        return Reader(self.aggregator, self.codebook, self.router, settings.routed_documents, settings.group_documents)

    @torch.no_grad()
    def memorise(self, texts: Sequence[str], *, batch_size: int = 32) -> np.ndarray:
        """Codes of texts that fit the window: [N, T, levels] uint16 (paper, algorithm 2, lines 2 to 5).

        On a CPU they depend on nothing but the text: however documents come in, a bank of them is the same. In batches,
        two of 200 paragraphs got another code of mini's 180. A GPU gets batches of `batch_size`.

        Raises:
            ModelError: the model makes none.
        """
        codebook = self.require_codebook()
        codes = np.zeros((len(texts), codebook.tokens, codebook.levels), dtype=np.uint16)
        for chosen, own in self.memorise_stepwise(texts, batch_size=batch_size):
            codes[chosen] = own
        return codes

    def memorise_stepwise(
        self, texts: Sequence[str], *, batch_size: int = 32
    ) -> Generator[tuple[Sequence[int], NDArray[np.uint16]], None, None]:
        """`memorise` step by step, see `codes_stepwise`: one text after the other on a CPU, on a GPU a batch."""
        self.require_codebook()
        batches = None if self.device.type == "cpu" else self.documents.batches(texts, batch_size)
        return codes_stepwise(self._encoded, texts, batches)

    def _encoded(self, texts: Sequence[str]) -> Tensor:
        """Codes of a batch of texts, [B, T, levels] int64."""
        return self.require_codebook().encode(self.documents(texts))

    @torch.no_grad()
    def amortise(self, texts: Sequence[str], *, batch_size: int = 32) -> Tensor:
        """Continuous vectors of texts that fit the window, [N, T, D] float32: what MAC remembers."""
        device = next(self.documents.amortizer.parameters()).device
        vectors = torch.zeros(len(texts), self.settings.tokens, self.base.shape.dim, device=device)
        for chosen in self.documents.batches(texts, batch_size):
            vectors[chosen] = self.documents([texts[index] for index in chosen]).float()
        return vectors

    @torch.no_grad()
    def read(
        self,
        questions: Sequence[str],
        memory: Memory,
        *,
        read_mode: str | None = None,
        top: int = 5,
        reader: Reader | None = None,
    ) -> Reading:
        """What questions take from a memory (paper, algorithm 2, line 7).

        Args:
            questions: one or more.
            memory: what is remembered.
            read_mode: NAME or NAME:NUMBER, see `read_modes.py`; None takes the model's own.
            top: how many documents to name, at least 1.
            reader: this model's, kept from before.

        Raises:
            MBCError: the read does not fit the model.
        """
        vectors = self.questions(questions)
        return read(read_mode or self.settings.read, reader or self.reader(), vectors, memory, top=top)

    @torch.no_grad()
    def say(
        self,
        reading: Reading,
        questions: Sequence[str],
        *,
        passages: Sequence[str] | None = None,
        max_new_tokens: int = 16,
        beams: int = 1,
        on_token: Callable[[str], None] | None = None,
    ) -> list[str]:
        """What the base LM answers under what was read (paper, algorithm 2, line 8); see `BaseLM.generate`."""
        return self.base.generate(
            self.prefix(reading.modulation),
            questions,
            passages=passages,
            max_new_tokens=max_new_tokens,
            beams=beams,
            on_token=on_token,
        )

    @torch.no_grad()
    def memory_gains(self, reading: Reading, questions: Sequence[str], answers: Sequence[str]) -> list[float]:
        """What a memory adds, against an empty one, to the mean log-likelihood of a token of each answer, in nats.

        Raises:
            ModelError: a gain is no number, or infinite.
        """
        prefix = self.prefix(torch.cat([reading.modulation, reading.question]))
        with_memory, without = self.base.log_likelihood(prefix, [*questions] * 2, [*answers] * 2).chunk(2)
        gains: list[float] = (with_memory - without).tolist()
        if not all(map(math.isfinite, gains)):
            raise ModelError(
                "This model computes likelihoods that are no numbers; its training must have diverged.",
                hint="Take another model.",
            )
        return gains

    @torch.no_grad()
    def answer(
        self,
        questions: Sequence[str],
        memory: Memory,
        *,
        read_mode: str | None = None,
        top: int = 5,
        reader: Reader | None = None,
        max_new_tokens: int = 16,
    ) -> list[Answer]:
        """Answer questions from a memory, with sources; see `read` and `say`."""
        reading = self.read(questions, memory, read_mode=read_mode, top=top, reader=reader)
        texts = self.say(reading, questions, max_new_tokens=max_new_tokens)
        return [Answer(text, tuple(sources)) for text, sources in zip(texts, reading.sources, strict=True)]


def compile_parts(model: MBC, *, backend: str = "inductor") -> None:
    """Compile what reads texts and the bank, at first use; a base LM and its prefix stay as they are.

    Args:
        model: one that is to be trained.
        backend: torch.compile's.
    """
    sides = (model.documents.amortizer.pretrained, model.questions.amortizer.pretrained)
    parts = [model.aggregator, *(stack for pretrained in sides for stack in _stacks(pretrained))]
    for part in {id(part): part for part in parts}.values():  # one encoder may serve both sides
        part.compile(backend=backend, dynamic=True)


def _stacks(pretrained: PreTrainedModel) -> list[nn.Module]:
    """What an amortizer calls of its pretrained model."""
    is_pair = pretrained.config.is_encoder_decoder
    return [pretrained.get_encoder(), pretrained.get_decoder()] if is_pair else [pretrained]
