"""Finding the answer to a question in passages: an encoder with a span head that may also say "not here".

Each passage is read together with the question. The score of a span is that of its first token plus that of its last
plus that of the two together; the score of "no answer" comes from the first position (Devlin et al. 2019). All spans
of a passage and "no answer" share one softmax in training (Lee et al. 2016), so that a span's margin over "no answer"
compares across passages.

A span reader as a folder: `reader.toml`, which names its frozen encoder, and `reader.safetensors`, all else.
"""

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import tomlkit
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mbc_engine.errors import ModelError
from mbc_engine.lm.efficiency import padded_batches
from mbc_engine.lm.encoders import LowRankLinear, add_low_rank, load_encoder
from mbc_engine.lm.pretrained import shapes_of, write_tensors

_PAIR_RANK: Final = 64
# Of each passage, so many of the likeliest spans say how sure the best one is.
_RIVALS: Final = 20


@dataclass(frozen=True)
class Span:
    """An answer and where it stands.

    Attributes:
        text: exactly the passage's characters from `start` to `end`.
        passage: which of the given passages.
        start, end: characters.
        margin: the score of the span minus that of "no answer".
        log_probability: under the softmax over all spans of what was read at once, and "no answer".
        rivals: the texts of the likeliest spans there, this one among them, each with its log probability.
    """

    text: str
    passage: int
    start: int
    end: int
    margin: float
    log_probability: float = field(default=0.0, compare=False)
    rivals: tuple[tuple[str, float], ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class PassageWindow:
    """A passage's tokens that are read at once.

    Attributes:
        ids: the tokens, without special ones.
        offsets: where each lies in the passage, (start, end) in characters.
    """

    ids: Sequence[int]
    offsets: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class PairBatch:
    """Questions, each with the passage it is read with: [CLS] question [SEP] passage [SEP], padded.

    Attributes:
        ids, mask, types: what a BERT reads, [B, S].
        inside: the passage's own tokens, [B, S] of bool.
        starts: where the passage starts in each row, [B].
    """

    ids: Tensor
    mask: Tensor
    types: Tensor
    inside: Tensor
    starts: Sequence[int]


@dataclass(frozen=True)
class SpanScores:
    """What speaks for each answer.

    Attributes:
        spans: from each first to each last token, [B, S, S]; minus infinity where no span can be.
        none: "no answer", [B].
    """

    spans: Tensor
    none: Tensor


@dataclass(frozen=True)
class _Job:
    """One window of one passage, for one question."""

    question: int
    passage: int
    window: PassageWindow


class SpanHead(nn.Module):
    """Scores of spans from an encoder's states."""

    def __init__(self, dim: int, longest: int, rank: int = _PAIR_RANK) -> None:
        super().__init__()
        self.longest = longest
        self.edges = nn.Linear(dim, 2)
        self.first = nn.Linear(dim, rank)
        self.last = nn.Linear(dim, rank)
        self.none = nn.Linear(dim, 1)

    def forward(self, states: Tensor, inside: Tensor) -> SpanScores:
        """Score all spans of up to `longest` tokens.

        Args:
            states: the encoder's, [B, S, D].
            inside: tokens that spans are made of, [B, S].
        """
        first, last = self.edges(states).unbind(-1)
        pairs = self.first(states) @ self.last(states).transpose(1, 2) / math.sqrt(self.first.out_features)
        scores = first.unsqueeze(2) + last.unsqueeze(1) + pairs
        length = inside.shape[1]
        near = torch.ones(length, length, dtype=torch.bool, device=inside.device).triu().tril(self.longest - 1)
        possible = inside.unsqueeze(2) & inside.unsqueeze(1) & near
        return SpanScores(scores.masked_fill(~possible, -torch.inf), self.none(states[:, 0]).squeeze(-1))


class SpanReader(nn.Module):
    """Reads passages for an answer; see the module."""

    def __init__(
        self,
        encoder: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        window: int,
        longest: int,
        encoder_name: str | None = None,
    ) -> None:
        """Put a head on an encoder.

        Args:
            encoder: a BERT.
            tokenizer: its tokenizer, one that knows where its tokens lie.
            window: most tokens read at once, those of the question and special ones included; what is longer is read
                in windows that overlap by half.
            longest: most tokens of an answer.
            encoder_name: what `load_encoder` finds the encoder by; None for where it was loaded from.
        """
        super().__init__()
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.encoder_name = encoder_name or str(encoder.name_or_path)
        self.window, self.longest = window, longest
        self.head = SpanHead(encoder.config.hidden_size, longest)

    def forward(self, batch: PairBatch) -> SpanScores:
        """Score the spans of each passage; the head computes in single precision."""
        output = self.encoder(input_ids=batch.ids, attention_mask=batch.mask, token_type_ids=batch.types)
        scores: SpanScores = self.head(output.last_hidden_state.float(), batch.inside)
        return scores

    @torch.inference_mode()
    def spans(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]], *, batch_size: int = 16
    ) -> list[list[Span | None]]:
        """The best span of each passage of each question, whatever its margin; None in one without tokens."""
        asked = self._question_ids(questions)
        jobs = list(self._jobs(asked, passages))
        lengths = [len(asked[job.question]) + len(job.window.ids) for job in jobs]
        best: list[list[Span | None]] = [[None] * len(own) for own in passages]
        for places in padded_batches(lengths, size=batch_size, longest=math.inf):
            chosen = [jobs[place] for place in places]
            batch = self.pair([asked[job.question] for job in chosen], [job.window for job in chosen])
            for job, found in zip(chosen, self._best_spans(batch, chosen, passages), strict=True):
                known = best[job.question][job.passage]
                if known is None or found.margin > known.margin:
                    best[job.question][job.passage] = found
        return best

    def compute_in(self, dtype: torch.dtype) -> "SpanReader":
        """Let the encoder compute in `dtype`; weights that are trained, and those they change, stay as they are."""
        for module in self.encoder.modules():
            if isinstance(module, nn.Embedding | nn.LayerNorm):
                module.to(dtype)
        return self

    def pair(self, questions: Sequence[Sequence[int]], windows: Sequence[PassageWindow]) -> PairBatch:
        """Questions' tokens and passages' tokens as the encoder reads them."""
        cls, sep, pad = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id, self.tokenizer.pad_token_id
        rows = [[cls, *asked, sep, *window.ids, sep] for asked, window in zip(questions, windows, strict=True)]
        starts = [len(asked) + 2 for asked in questions]
        places = torch.arange(max(map(len, rows)))
        lengths, first = torch.tensor([len(row) for row in rows])[:, None], torch.tensor(starts)[:, None]
        ids = torch.tensor([row + [pad] * (len(places) - len(row)) for row in rows])
        mask, types = places < lengths, (places >= first) & (places < lengths)
        device = self.head.none.weight.device
        return PairBatch(
            ids.to(device),
            mask.long().to(device),
            types.long().to(device),
            (types & (places < lengths - 1)).to(device),
            starts,
        )

    def windows(self, passage: str, question_tokens: int) -> list[PassageWindow]:
        """A passage in pieces that fit beside a question; none of a passage without tokens."""
        encoded = self.tokenizer(passage, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
        room = self.window - question_tokens - 3
        step = max(1, room // 2)
        starts = range(0, max(len(ids) - room, 0) + step, step) if len(ids) > room else range(min(len(ids), 1))
        return [PassageWindow(ids[start : start + room], offsets[start : start + room]) for start in starts]

    def _question_ids(self, questions: Sequence[str]) -> list[list[int]]:
        """Questions' tokens; a question takes a third of the window at most."""
        encoded = self.tokenizer(list(questions), add_special_tokens=False, verbose=False) if questions else {}
        return [ids[: self.window // 3] for ids in encoded.get("input_ids", [])]

    def _jobs(self, asked: Sequence[Sequence[int]], passages: Sequence[Sequence[str]]) -> Iterator[_Job]:
        for question, (ids, texts) in enumerate(zip(asked, passages, strict=True)):
            for passage, text in enumerate(texts):
                for window in self.windows(text, len(ids)):
                    yield _Job(question, passage, window)

    def _best_spans(self, batch: PairBatch, jobs: Sequence[_Job], passages: Sequence[Sequence[str]]) -> Iterator[Span]:
        """The best span of each row, and its rivals."""
        scores = self(batch)
        flat, length = scores.spans.flatten(1), batch.ids.shape[1]
        total = torch.logaddexp(flat.logsumexp(1), scores.none).unsqueeze(1)
        best = flat.argmax(1, keepdim=True)  # the first of equal ones
        values, places = flat.topk(min(_RIVALS, flat.shape[1]), dim=1)
        margins = (flat.gather(1, best).squeeze(1) - scores.none).tolist()
        logs, log_best = (values - total).tolist(), (flat.gather(1, best) - total).squeeze(1).tolist()
        for row, (job, start) in enumerate(zip(jobs, batch.starts, strict=True)):
            text, offsets = passages[job.question][job.passage], job.window.offsets

            def edges(place: int) -> tuple[int, int]:
                first, last = divmod(place, length)
                return offsets[first - start][0], offsets[last - start][1]  # noqa: B023

            likely = zip(places[row].tolist(), logs[row], strict=True)
            rivals = tuple((text[slice(*edges(place))], log) for place, log in likely if math.isfinite(log))
            own = edges(int(best[row]))
            yield Span(text[slice(*own)], job.passage, *own, margins[row], log_best[row], rivals)


def adapt(encoder: PreTrainedModel, rank: int) -> None:
    """Make a BERT's layers learn by changes of this rank; its pooler, which no reader reads, is dropped."""
    encoder.register_module("pooler", None)
    add_low_rank(encoder, rank)


def trained_parameters(reader: SpanReader) -> dict[str, nn.Parameter]:
    """The head, and the changes to the encoder, by name."""
    return {name: value for name, value in reader.named_parameters() if value.requires_grad}


SETTINGS: Final = "reader.toml"
WEIGHTS: Final = "reader.safetensors"
_AGAIN: Final = "Get the model again."


def save_span_reader(reader: SpanReader, folder: Path, dtype: torch.dtype = torch.float16) -> None:
    """Write `reader.toml` and `reader.safetensors`: what was trained, and the name of the frozen encoder.

    Args:
        reader: one whose encoder learns by low-rank changes.
        folder: made if it is not there.
        dtype: what the weights are stored in.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "encoder": reader.encoder_name,
        "rank": _rank(reader),
        "window": reader.window,
        "longest": reader.longest,
    }
    tensors = {name: value.detach().to(dtype).cpu().contiguous() for name, value in trained_parameters(reader).items()}
    write_tensors(folder / WEIGHTS, tensors, {"format": "span-reader-1"})
    (folder / SETTINGS).write_text(tomlkit.dumps(settings))


def load_span_reader(
    folder: Path, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> SpanReader:
    """Open a reader, ready to find answers.

    Args:
        folder: what `save_span_reader` wrote.
        device: where it is to run.
        dtype: what its encoder computes in; None for bfloat16 on a CPU that multiplies it, else for single precision.

    Raises:
        ModelError: it is not there or damaged, or its encoder cannot be opened.
    """
    settings = _read_settings(folder / SETTINGS)
    encoder = load_encoder(settings.encoder, device=device)
    adapt(encoder.model, settings.rank)
    reader = SpanReader(
        encoder.model,
        encoder.tokenizer,
        window=settings.window,
        longest=settings.longest,
        encoder_name=settings.encoder,
    )
    load_into(reader, folder)
    reader.compute_in(dtype or _fast_dtype(torch.device(device)))
    return reader.to(device).eval()


def load_into(reader: SpanReader, folder: Path) -> None:
    """Give a reader the weights of the one in `folder`.

    Raises:
        ModelError: they are damaged, or of a reader of another size.
    """
    try:
        state = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"The weights of the reader in {folder} cannot be read: {error}", hint=_AGAIN) from error
    own = trained_parameters(reader)
    if shapes_of(own) != shapes_of(state):
        raise ModelError(f"{folder / WEIGHTS} does not hold the weights that its settings describe.", hint=_AGAIN)
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(state[name])


def _fast_dtype(device: torch.device) -> torch.dtype:
    """Twice as fast as single precision on a CPU made for it: 1 of 120 answers changed, margins moved by 0.03."""
    # torch has no public name for either.
    multiplies = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()  # noqa: SLF001
    return torch.bfloat16 if device.type == "cpu" and multiplies else torch.float32


@dataclass(frozen=True)
class _Settings:
    encoder: str
    rank: int
    window: int
    longest: int


def _read_settings(path: Path) -> _Settings:
    """Raises ModelError unless the file holds just these settings."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        settings = _Settings(
            encoder=str(found["encoder"]),
            rank=int(found["rank"]),
            window=int(found["window"]),
            longest=int(found["longest"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"The settings of the reader in {path.parent} cannot be read: {error}", hint=_AGAIN) from error
    if min(settings.rank, settings.longest) < 1 or settings.window < 8:
        raise ModelError(f"{path} has invalid settings.", hint=_AGAIN)
    return settings


def _rank(reader: SpanReader) -> int:
    return next(layer.down.shape[0] for layer in reader.modules() if isinstance(layer, LowRankLinear))
