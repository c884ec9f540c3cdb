"""The whole model: memorise documents as codes, answer questions from them (paper, section 3 and algorithm 2)."""

import math
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mbc_engine.answer import GENERATED_TOKENS, AskOptions, Confidence
from mbc_engine.bank import CodeShape, ReadableBank, Selection, fingerprint
from mbc_engine.config import ModelSettings
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.lm.base import BaseLM
from mbc_engine.lm.chat import OnToken
from mbc_engine.lm.encoders import one_by_one
from mbc_engine.lm.pretrained import state_digest, unpacked_state
from mbc_engine.model import Draft, Model
from mbc_engine.names import READ_MODES
from mbc_engine.paper.aggregator import Aggregator
from mbc_engine.paper.amortizer import TextEncoder
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.confidence import judge
from mbc_engine.paper.memories import BankMemory, ReadableMemory, Router
from mbc_engine.paper.prefix import PrefixNetwork
from mbc_engine.paper.read_modes import Reader, Reading, read
from mbc_engine.ranking import Hit
from mbc_engine.sources import Passages
from mbc_engine.text.chunks import Chunker


@dataclass(frozen=True)
class Scope:
    """The part of a bank that is searched, and the model's parts that read it."""

    memory: BankMemory
    reader: Reader

    def __len__(self) -> int:
        return len(self.memory)


class MBC(nn.Module, Model):
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
        super().__init__()
        self._digest: tuple[object, str] | None = None
        self.settings = settings
        self.base = base
        self.documents, self.questions = documents, questions
        self.codebook, self.aggregator, self.prefix, self.router = codebook, aggregator, prefix, router
        self.is_quantising = codebook is not None

    @property
    def code_shape(self) -> CodeShape:
        return self.require_codebook().shape

    @property
    def device(self) -> str:
        return str(next(self.parameters()).device)

    @property
    def codebooks(self) -> NDArray[np.float32]:
        return self.require_codebook().books.detach().float().cpu().numpy()

    @property
    def chunker(self) -> Chunker:
        return self.documents.chunker

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Codes of a batch of texts that fit the window, [B, T, levels] int64. Raises ModelError if it makes none."""
        return self.require_codebook().encode(self.documents(texts))

    def memorise_stepwise(
        self, texts: Sequence[str], contexts: Sequence[str] = ()
    ) -> Generator[tuple[Sequence[int], NDArray[np.uint16]], None, None]:
        # The paper's documents are encoded without their contexts.
        if self.device == "cpu":
            with closing(one_by_one(self.encode, texts)) as encoded:
                for index, codes in enumerate(encoded):
                    yield [index], codes.numpy().astype(np.uint16)
            return
        for indices in self.documents.encoder.batches(texts):
            with torch.no_grad():
                codes = self.encode([texts[index] for index in indices])
            yield indices, codes.cpu().numpy().astype(np.uint16)

    def fingerprints(self) -> tuple[str, str]:
        state = unpacked_state(self.documents)
        # Packed weights are identified by their originals, so that banks move between kinds of processors.
        details = [str(self.settings.documents.window), *filter(None, [self.documents.encoder.packed_from])]
        # Hashing takes a tenth of a second for a small encoder, so it is repeated only when a weight has changed.
        version = details, [(name, value.data_ptr(), value._version) for name, value in state.items()]  # noqa: SLF001
        if self._digest is None or self._digest[0] != version:
            self._digest = version, state_digest(state, *details)[:16]
        return self._digest[1], fingerprint(self.codebooks)

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
            given = None if is_withheld else text
            drafts.append(Draft(given, confidence, documents, {}, gain, codes, withheld=is_withheld))
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
