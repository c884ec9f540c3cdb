"""A retriever-reader, what `mini` is: chunks are found by codes, and the answer is a span of their text, or none.

A chunk becomes address codes (`address.py`), and the bank keeps its text beside them. A question is scored against all
codes, the best chunks once more by the words they share with it (`retrieval.py`); a reader finds the likeliest span in
the first few (`span_reader.py`), and a logistic regression says how likely that answer is right (`confidence.py`).
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from mbc_engine.bank import CodeShape, fingerprint
from mbc_engine.config import RetrieverReaderConfig, RetrieverReaderSettings
from mbc_engine.errors import ModelError
from mbc_engine.lm.efficiency import codes_stepwise, padded_batches
from mbc_engine.lm.encoders import Encoder, load_encoder
from mbc_engine.lm.pretrained import shapes_of, state_digest, write_tensors
from mbc_engine.mini.address import SEEN_CHUNKS, Address
from mbc_engine.mini.confidence import FEATURES, Judged, judge
from mbc_engine.mini.retrieval import Hit, Scope, WordScore, rerank
from mbc_engine.mini.span_reader import Span, SpanReader, load_span_reader
from mbc_engine.model_folder import CONFIG, READER, WEIGHTS
from mbc_engine.paper.amortizer import mean_pooled
from mbc_engine.text.chunks import Chunker

_FORMAT: Final = "mbc-retriever-reader-1"
# About a thousand tokens: more of them at once outgrow a CPU's caches, and bring more padding.
_CPU_CHARACTERS: Final = 4096


@dataclass(frozen=True)
class Answered:
    """What was read in a question's passages.

    Attributes:
        answer: the likeliest span, with its passage among those given; None if none of them has a span.
        probability: that the answer is right; 0 where there is none.
        spans: the best span of each passage, None in one without any.
    """

    answer: Span | None
    probability: float
    spans: tuple[Span | None, ...]


class RetrieverReader(nn.Module):
    """Finds passages and reads answers in them; see the module.

    Args:
        settings: what it is made of.
        encoder: the sentence encoder, with its tokenizer.
        address: of the chunks.
        frequencies: inverse document frequency of each word piece, divided by the largest, [V].
        open_reader: gives the reader, which is not needed before the first question.

    Attributes:
        name: how it is called in messages.
        folder: where it was loaded from; None for one that was built here.
        keeps_text: banks keep the text of their chunks unless told otherwise.
    """

    keeps_text: Final = True
    frequencies: Tensor

    def __init__(
        self,
        settings: RetrieverReaderSettings,
        *,
        encoder: Encoder,
        address: Address,
        frequencies: Tensor,
        open_reader: Callable[[], SpanReader],
    ) -> None:
        super().__init__()
        self.settings = settings
        self.name = "unnamed"
        self.folder: Path | None = None
        self.encoder, self.tokenizer = encoder.model, encoder.tokenizer
        self.address = address
        self.register_buffer("frequencies", frequencies)
        self._open_reader = open_reader

    @property
    def code_shape(self) -> CodeShape:
        """What the codes of a chunk look like."""
        return CodeShape(*self.settings.code_numbers)

    @property
    def books(self) -> Tensor:
        """The vectors that codes stand for, [levels, positions, num_codes, dim]."""
        return self.address.books.detach().unsqueeze(0)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.address.books.device

    @cached_property
    def chunker(self) -> Chunker:
        """What cuts texts to the window."""
        capacity = self.settings.window - self.tokenizer.num_special_tokens_to_add()
        return Chunker(self.tokenizer.backend_tokenizer, capacity)

    @cached_property
    def reader(self) -> SpanReader:
        """What finds answers in passages, loaded when it is first asked for.

        Raises:
            ModelError: it is not there or damaged.
        """
        return self._open_reader()

    def fingerprints(self) -> tuple[str, str]:
        """SHA-256 prefixes of all that codes depend on, and of the codebooks; a bank is bound to both."""
        address = self.address
        state = {f"encoder.{name}": value for name, value in self.encoder.state_dict().items()}
        state |= {"address.basis": address.basis, "address.mean": address.document_mean}
        return state_digest(state, str(self.settings.window))[:16], fingerprint(self.books.float().cpu().numpy())

    @torch.no_grad()
    def memorise(self, texts: Sequence[str], *, batch_size: int = 32) -> np.ndarray:
        """Codes of texts that fit the window, [N, tokens, 1] uint16; on a CPU a function of each text alone."""
        codes = np.zeros((len(texts), self.address.tokens, 1), np.uint16)
        for chosen, own in self.memorise_stepwise(texts, batch_size=batch_size):
            codes[chosen] = own
        return codes

    def memorise_stepwise(
        self, texts: Sequence[str], *, batch_size: int = 32
    ) -> Generator[tuple[Sequence[int], NDArray[np.uint16]], None, None]:
        """`memorise` step by step, see `codes_stepwise`: one text after the other on a CPU, on a GPU a batch."""
        batches = None if self.device.type == "cpu" else self._batches(texts, batch_size)
        return codes_stepwise(self._encoded, texts, batches)

    @torch.no_grad()
    def sentence_vectors(self, texts: Sequence[str], *, batch_size: int = 32) -> Tensor:
        """Unit vectors of sentences, the mean of the encoder's token states: [B, E]."""
        vectors = torch.empty(len(texts), self.encoder.config.hidden_size, device=self.device)
        for chosen in self._batches(texts, batch_size):
            vectors[chosen] = self._pooled([texts[index] for index in chosen], self.settings.window)
        return vectors

    @torch.no_grad()
    def whitening(self, scope: Scope) -> Tensor:
        """What questions to this part of a bank are multiplied by, see `Address.whitening`."""
        codes = torch.from_numpy(scope.sample(SEEN_CHUNKS)[..., 0].astype(np.int64))
        return self.address.whitening(codes.to(self.device))

    @torch.no_grad()
    def find(
        self, questions: Sequence[str], scope: Scope, *, top: int, whitening: Tensor | None = None
    ) -> list[list[Hit]]:
        """The chunks that questions may be about, best first; call it in a snapshot of the bank.

        Args:
            questions: one or more.
            scope: what is searched, not empty.
            top: how many chunks for each, at least as many as are ranked by their words.
            whitening: this scope's, kept from before.
        """
        whitening = self.whitening(scope) if whitening is None else whitening
        vectors = self._pooled(questions, self.settings.question_window)
        tables = self.address.tables(self.address.of_questions(vectors), whitening)
        found = scope.best(tables, max(top, self.settings.candidates))
        chunks = sorted({own.chunk for ranked in found for own in ranked})
        documents = dict(zip(chunks, scope.documents_of(chunks), strict=True))
        texts: dict[int, str] = {}
        if scope.bank.keeps_text:
            kept = zip(chunks, scope.bank.texts_at(chunks), strict=True)
            texts = {chunk: own.text if own else "" for chunk, own in kept}
        hits: list[list[Hit]] = []
        for question, ranked in zip(questions, found, strict=True):
            bonus = np.zeros(len(ranked), np.float32)
            if texts:
                bonus = self._word_bonus(question, [texts[own.chunk] for own in ranked])
            ordered = rerank(ranked, bonus)[:top]
            hits.append([Hit(own.chunk, documents[own.chunk], own.share) for own in ordered])
        return hits

    def read(self, questions: Sequence[str], passages: Sequence[Sequence[tuple[str, Hit]]]) -> list[Answered]:
        """The likeliest answer to each question in its passages, and how likely it is right.

        Args:
            questions: one or more.
            passages: the text of each question's best chunks, best first, with what the search says of them.
        """
        if not any(passages):
            return [Answered(None, 0.0, ()) for _ in questions]
        several = self.reader.spans(questions, [[text for text, _ in own] for own in passages])
        return [
            _answered(question, tuple(spans), [hit for _, hit in own], self)
            for question, spans, own in zip(questions, several, passages, strict=True)
        ]

    def _word_bonus(self, question: str, texts: Sequence[str]) -> np.ndarray:
        """What the words shared with a question add to the scores of texts."""
        (pieces,) = self._pieces([question])
        scale = self.settings.word_weight * float(self.address.log_scale.exp())
        bonus: np.ndarray = np.float32(scale) * self._word_score(pieces, texts)
        return bonus

    @cached_property
    def _word_score(self) -> WordScore:
        return WordScore(self._pieces, self.frequencies.float().cpu().numpy())

    def _pieces(self, texts: Sequence[str]) -> list[set[int]]:
        """The distinct word pieces of texts."""
        tokenizer = self.tokenizer.backend_tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return [set(own.ids) for own in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def _encoded(self, texts: Sequence[str]) -> Tensor:
        """Codes of a batch of texts, [B, tokens, 1] int64."""
        vectors = self._pooled(texts, self.settings.window)
        return self.address.encode(self.address.of_documents(vectors)).unsqueeze(-1)

    @torch.no_grad()
    def _pooled(self, texts: Sequence[str], window: int) -> Tensor:
        """Unit sentence vectors of one padded batch, [B, E]; a text longer than the window is cut."""
        batch = self.tokenizer(list(texts), padding=True, truncation=True, max_length=window, return_tensors="pt").to(
            self.device
        )
        states = self.encoder(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
        return mean_pooled(states, batch["attention_mask"])

    def _batches(self, texts: Sequence[str], size: int) -> Iterator[list[int]]:
        longest = _CPU_CHARACTERS if self.device.type == "cpu" else float("inf")
        return padded_batches(list(map(len, texts)), size=size, longest=longest)


def _answered(question: str, spans: tuple[Span | None, ...], hits: Sequence[Hit], model: RetrieverReader) -> Answered:
    judged: Judged | None = judge(question, spans, [hit.share for hit in hits], model.settings.confidence)
    if judged is None:
        return Answered(None, 0.0, spans)
    span = spans[judged.passage]
    assert span is not None
    return Answered(replace(span, passage=judged.passage), judged.probability, spans)


def build(
    settings: RetrieverReaderSettings, open_reader: Callable[[], SpanReader], device: str = "cpu"
) -> RetrieverReader:
    """A model whose addresses and word frequencies are not set yet, around its pretrained encoder.

    Raises:
        ModelError: the encoder is not there or not supported.
    """
    if len(settings.confidence.weights) != len(FEATURES):
        raise ModelError(
            f"This mbc expects {len(FEATURES)} confidence weights; the model has {len(settings.confidence.weights)}.",
            hint="Get the model again, or a version of mbc that fits it.",
        )
    encoder = load_encoder(settings.encoder, device=device)
    if encoder.is_encoder_decoder:
        raise ModelError(
            f"Sentence vectors come from an encoder-only model, and {settings.encoder} is none.",
            hint="Take a model like BERT.",
        )
    encoder.model.requires_grad_(False)
    own = settings.address
    address = Address(encoder.model.config.hidden_size, tokens=own.tokens, dim=own.dim, num_codes=own.codes)
    frequencies = torch.zeros(encoder.model.config.vocab_size)
    model = RetrieverReader(
        settings, encoder=encoder, address=address, frequencies=frequencies, open_reader=open_reader
    )
    return model.to(device).eval()


def load(config: RetrieverReaderConfig, folder: Path, *, device: str | torch.device = "cpu") -> RetrieverReader:
    """Open the model in a folder: `config.toml`, `model.safetensors` (addresses, word frequencies) and `reader/`.

    Raises:
        ModelError: a part of it is missing or damaged.
    """
    place = str(device)
    model = build(config.retriever_reader, lambda: load_span_reader(folder / READER, device=place), place)
    try:
        state = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"The weights in {folder} cannot be read: {error}", hint="Get the model again.") from error
    own = _own_state(model)
    if shapes_of(own) != shapes_of(state):
        raise ModelError(
            f"{folder / WEIGHTS} does not hold the weights its config describes.", hint="Get the model again."
        )
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(state[name])
    model.folder = folder
    return model


def save(model: RetrieverReader, folder: Path, *, dtype: torch.dtype = torch.float16) -> None:
    """Write the model's own files but for its reader, which `save_span_reader` writes."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().to(dtype).cpu().contiguous() for name, value in _own_state(model).items()}
    write_tensors(folder / WEIGHTS, state, {"format": _FORMAT})
    (folder / CONFIG).write_text(RetrieverReaderConfig(retriever_reader=model.settings).to_toml())


def _own_state(model: RetrieverReader) -> dict[str, Tensor]:
    """All but the pretrained encoder."""
    return {name: value for name, value in model.state_dict(keep_vars=True).items() if not name.startswith("encoder.")}
