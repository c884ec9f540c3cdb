"""The whole model: memorise documents as codes, answer questions from them (paper, section 3 and algorithm 2)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mbc_engine.answer import GENERATED_TOKENS, AskOptions, Confidence
from mbc_engine.bank import CodeShape, ReadableBank, Selection
from mbc_engine.config import ModelSettings
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.lm.base import BaseLM
from mbc_engine.lm.chat import OnToken
from mbc_engine.lm.pretrained import unpacked_state
from mbc_engine.model import Draft, Model
from mbc_engine.names import READ_MODES
from mbc_engine.paper.aggregator import Aggregator
from mbc_engine.paper.amortizer import TextEncoder
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.confidence import judge
from mbc_engine.paper.memories import BankMemory, ReadableMemory, Router
from mbc_engine.paper.prefix import PrefixNetwork
from mbc_engine.paper.reads import Reader, Reading, read
from mbc_engine.ranking import Hit
from mbc_engine.sources import Passages


@dataclass(frozen=True)
class Scope:
    """The part of a bank that is searched, and the model's parts that read it."""

    memory: BankMemory
    reader: Reader

    def __len__(self) -> int:
        return len(self.memory)


class MBC(Model):
    """A memory-bank-compression model; as in the paper, its banks keep no text beside the codes by default.

    `documents` and `questions` are g_amort and g_input. A model that does not quantise, such as MAC, has no codebook;
    `is_quantising` says whether documents are quantised, see `is_warming_up`.
    """

    keeps_text: ClassVar[bool] = False

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
        super().__init__(documents.encoder, documents.window)
        self.settings = settings
        self.base = base
        self.documents, self.questions = documents, questions
        self.codebook, self.aggregator, self.prefix, self.router = codebook, aggregator, prefix, router
        self.is_quantising = codebook is not None

    @property
    def code_shape(self) -> CodeShape:
        return self.require_codebook().shape

    @property
    def codebooks(self) -> Tensor:
        return self.require_codebook().books.detach()

    def encode(self, texts: Sequence[str], contexts: Sequence[str] = ()) -> Tensor:
        return self.require_codebook().encode(self.documents(texts))

    def _coding_state(self) -> tuple[dict[str, Tensor], list[str]]:
        # Packed weights are identified by their originals, so that banks move between kinds of processors.
        details = str(self.settings.documents.window), self.documents.encoder.packed_from
        return unpacked_state(self.documents), [detail for detail in details if detail is not None]

    @property
    def read_modes(self) -> tuple[str, ...]:
        return tuple(mode for mode in READ_MODES if mode != "routed" or self.router is not None)

    @property
    def is_warming_up(self) -> bool:
        """Whether documents will be quantised but are not yet: only in a warm start of training."""
        return self.codebook is not None and not self.is_quantising

    def require_codebook(self) -> Codebook:
        """The codebook. Raises ModelError if there is none: documents are then vectors, which no bank holds."""
        if self.codebook is None:
            raise ModelError(
                f"The model {self.name} makes no codes, so no bank can be made with it.",
                hint="Use one trained with model.quantised = true; models without codes are for comparison only.",
            )
        return self.codebook

    def check(self, options: AskOptions) -> None:
        if options.write:
            raise ConfigError(
                f"--write does not apply to {self.name}, whose own base LM writes every answer.",
                hint="Leave it out; it is for mini.",
            )
        calibration, read_mode = self.settings.confidence, self.settings.read
        if options.min_confidence is None:
            return
        if calibration is None:
            raise ConfigError(
                f"The model {self.name} is not calibrated: it does not know how sure its answers are.",
                hint="Run `mbc calibrate`, or leave out --min-confidence.",
            )
        if not calibration.slope:
            raise ConfigError(
                f"Calibration found that the model {self.name} cannot tell whether its bank holds what was asked.",
                hint="Leave out --min-confidence, or calibrate another model.",
            )
        if options.read_mode not in (None, read_mode):
            raise ConfigError(
                f"The model {self.name} is calibrated for its own read, {read_mode}, not for {options.read_mode}.",
                hint="Leave out --read or --min-confidence.",
            )

    def can_stream(self, options: AskOptions) -> bool:
        return options.beams == 1 and options.min_confidence is None

    def scope(self, bank: ReadableBank, selection: Selection | None = None) -> Scope:
        """Raises ModelError if the model makes no codes."""
        return Scope(BankMemory(bank, self.require_codebook(), selection), self.reader())

    def search(self, questions: Sequence[str], scope: Scope, *, top: int = 5, read_mode: str | None = None) -> Reading:
        return self.read(questions, scope.memory, read_mode=read_mode, top=max(1, top), reader=scope.reader)

    def answer(
        self,
        questions: Sequence[str],
        found: Reading,
        options: AskOptions,
        passages: Passages,
        *,
        on_token: OnToken = None,
    ) -> list[Draft]:
        """What the base LM generates after a prefix made from the codes that were read; no text is."""
        most = options.max_new_tokens or GENERATED_TOKENS
        texts = self.generate_answers(found, questions, max_new_tokens=most, beams=options.beams, on_token=on_token)
        calibration = self.settings.confidence if options.read_mode in (None, self.settings.read) else None
        drafts = []
        for row, (text, gain) in enumerate(zip(texts, self.memory_gains(found, questions, texts), strict=True)):
            # Without a slope it cannot distinguish answers.
            confidence = Confidence(*judge(calibration, gain)) if calibration and calibration.slope else None
            is_withheld = confidence is not None and confidence.probability < (options.min_confidence or 0.0)
            documents = found.sources[row] if options.sources else []
            codes = found.codes[row] if options.with_codes and found.codes is not None else None
            drafts.append(Draft(None if is_withheld else text, confidence, documents, {}, gain, codes))
        return drafts

    def train(self, mode: bool = True) -> Self:
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
        """The parts that reads use; while the model does not change, reusing it makes further reads faster."""
        settings = self.settings
        return Reader(self.aggregator, self.codebook, self.router, settings.routed_documents, settings.group_documents)

    @torch.no_grad()
    def amortise(self, texts: Sequence[str]) -> Tensor:
        """Continuous vectors of texts that fit the window, [N, T, D] float32: what MAC remembers."""
        encoder = self.documents.encoder
        vectors = torch.zeros(len(texts), self.settings.tokens, self.base.shape.dim, device=encoder.model.device)
        for chosen in encoder.batches(texts):
            vectors[chosen] = self.documents([texts[index] for index in chosen]).float()
        return vectors

    @torch.no_grad()
    def read(
        self,
        questions: Sequence[str],
        memory: ReadableMemory,
        *,
        read_mode: str | None = None,
        top: int = 5,
        reader: Reader | None = None,
    ) -> Reading:
        """What questions read from a memory (paper, algorithm 2, line 7), and its `top` documents.

        `read_mode` is NAME or NAME:NUMBER, see `reads.read`; None is the model's own. `reader` is one to reuse.
        """
        vectors = self.questions(questions)
        return read(read_mode or self.settings.read, reader or self.reader(), vectors, memory, top=top)

    @torch.no_grad()
    def generate_answers(self, reading: Reading, questions: Sequence[str], **options: Any) -> list[str]:
        """The base LM's answers given what was read (paper, algorithm 2, line 8); options as in `BaseLM.generate`."""
        return self.base.generate(self.prefix(reading.modulation), questions, **options)

    @torch.no_grad()
    def memory_gains(self, reading: Reading, questions: Sequence[str], answers: Sequence[str]) -> list[float]:
        """What a memory adds, over an empty one, to the mean log-likelihood per token of each answer, in nats."""
        empty = self.aggregator.empty_modulation(reading.question)
        prefix = self.prefix(torch.cat([reading.modulation, empty]))
        with_memory, without = self.base.log_likelihood(prefix, [*questions] * 2, [*answers] * 2).chunk(2)
        gains: list[float] = (with_memory - without).tolist()
        if not all(map(math.isfinite, gains)):
            raise ModelError(
                "This model computes NaN or infinite likelihoods; its training must have diverged.",
                hint="Use another model.",
            )
        return gains

    def answer_from(
        self, questions: Sequence[str], memory: ReadableMemory, *, max_new_tokens: int = 16, **options: Any
    ) -> list[tuple[str, list[Hit]]]:
        """Answers from a memory, each with its documents, best first; options as in `read`."""
        reading = self.read(questions, memory, **options)
        texts = self.generate_answers(reading, questions, max_new_tokens=max_new_tokens)
        return list(zip(texts, reading.sources, strict=True))


def compile_parts(model: MBC, *, backend: str = "inductor") -> None:
    """Compile the encoders and the aggregator, with dynamic shapes; the base LM and prefix network stay uncompiled."""
    parts: list[nn.Module] = [model.aggregator]
    for side in (model.documents, model.questions):
        pretrained = side.amortizer.pretrained
        is_pair = pretrained.config.is_encoder_decoder
        parts += [pretrained.get_encoder(), pretrained.get_decoder()] if is_pair else [pretrained]
    for part in {id(part): part for part in parts}.values():  # one encoder may serve both sides
        part.compile(backend=backend, dynamic=True)
