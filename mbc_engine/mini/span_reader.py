"""Finding the answer to a question in passages: an encoder with a span head that may also say "not here".

A span is scored by its first token, its last, and the two together; "no answer" by the first position (Devlin et al.
2019). All spans of a passage and "no answer" share one softmax in training (Lee et al. 2016), so that margins over "no
answer" are comparable across passages. A reader's file has the head, and low-rank updates and biases for the linear
layers of a pretrained encoder (LoRA, Hu et al. 2021), merged when it is opened. `recipes/mini/reader.py` trains one.
"""

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from mbc_engine.config import ReaderSettings
from mbc_engine.errors import ModelError
from mbc_engine.lm.bert import Bert, open_encoder
from mbc_engine.lm.encoders import padded_batches
from mbc_engine.lm.packaged import cache_folder, local_folder, locate, unpack_once
from mbc_engine.lm.pretrained import is_fast_in_bf16, shapes_of, write_tensors
from mbc_engine.names import WEIGHTS
from mbc_engine.text.chunks import split_sentences
from mbc_engine.text.language import canonical_question

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_PAIR_RANK: Final = 64
# Merged weights are cached for reader files of at least this many bytes.
_WORTH_CACHING: Final = 1 << 20
# How many of each passage's likeliest spans are used to estimate confidence in the best.
_RIVALS: Final = 20

_AGAIN: Final = "Get the model again."

# Tokens of a passage that are read at once, without special ones, and their character offsets in the passage.
Window = tuple[Sequence[int], Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class Span:
    """An answer: the passage's characters from `start` to `end`."""

    text: str
    passage: int
    start: int
    end: int
    margin: float  # its score minus that of "no answer"
    # Over "no answer" and all spans of its window; `rivals` are the likeliest of these, this one included.
    log_probability: float = field(default=0.0, compare=False)
    rivals: tuple[tuple[str, float], ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class PairBatch:
    """Questions with passages as input for BERT, [CLS] question [SEP] passage [SEP], padded, [B, S]."""

    ids: Tensor
    mask: Tensor
    types: Tensor
    passage_mask: Tensor  # bool, true for the passages' tokens
    starts: Sequence[int]  # where each passage begins in its row, after its context


class SpanHead(nn.Module):
    """Scores of spans of up to `longest` tokens from an encoder's states."""

    def __init__(self, dim: int, longest: int, rank: int = _PAIR_RANK) -> None:
        super().__init__()
        self.longest = longest
        self.edges = nn.Linear(dim, 2)
        self.first = nn.Linear(dim, rank)
        self.last = nn.Linear(dim, rank)
        self.none = nn.Linear(dim, 1)

    def forward(self, states: Tensor, passage_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Scores by first and last token, [B, S, S], and of "no answer", [B], from states [B, S, D].

        Spans that are not entirely within `passage_mask`, [B, S], score minus infinity.
        """
        first, last = self.edges(states).unbind(-1)
        pairs = self.first(states) @ self.last(states).transpose(1, 2) / math.sqrt(self.first.out_features)
        scores = first.unsqueeze(2) + last.unsqueeze(1) + pairs
        length = passage_mask.shape[1]
        near = torch.ones(length, length, dtype=torch.bool, device=passage_mask.device).triu().tril(self.longest - 1)
        possible = passage_mask.unsqueeze(2) & passage_mask.unsqueeze(1) & near
        return scores.masked_fill(~possible, -torch.inf), self.none(states[:, 0]).squeeze(-1)


class SpanReader(nn.Module):
    """Finds answers in passages with a BERT; see the module.

    It reads `window` tokens at once, question and special ones included, and longer passages in windows that overlap by
    half; an answer has at most `longest` tokens.
    """

    def __init__(
        self, encoder: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", *, window: int, longest: int
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.window, self.longest = window, longest
        self._has_types = getattr(encoder.config, "type_vocab_size", 1) > 1
        self.head = SpanHead(encoder.config.hidden_size, longest)

    def forward(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """Score the spans of each passage as `SpanHead`, in single precision."""
        types = {"token_type_ids": batch.types} if self._has_types else {}
        output = self.encoder(input_ids=batch.ids, attention_mask=batch.mask, **types)
        scores: tuple[Tensor, Tensor] = self.head(output.last_hidden_state.float(), batch.passage_mask)
        return scores

    @torch.inference_mode()
    def spans(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
        contexts: Sequence[Sequence[str]] | None = None,
        *,
        batch_size: int = 16,
    ) -> list[list[Span | None]]:
        """The best span of each passage of each question, whatever its margin; None if a passage has no tokens.

        What is known of a passage from its document is read before it, but no span is taken from it.
        """
        forms = list(map(canonical_question, questions))
        encoded = self.tokenizer(forms, add_special_tokens=False, verbose=False) if forms else {}
        # A question takes a third of the window at most.
        question_ids = [ids[: self.window // 3] for ids in encoded.get("input_ids", [])]
        context_ids = cache(self._context_ids)
        jobs = [
            (question, passage, context, window)
            for question, (ids, texts) in enumerate(zip(question_ids, passages, strict=True))
            for passage, text in enumerate(texts)
            for context in [context_ids(contexts[question][passage]) if contexts else []]
            for window in self.windows(text, len(ids) + len(context))
        ]
        lengths = [len(question_ids[question]) + len(context) + len(ids) for question, _, context, (ids, _) in jobs]
        best: list[list[Span | None]] = [[None] * len(texts) for texts in passages]
        for rows in padded_batches(lengths, size=batch_size, longest=math.inf):
            chosen = [jobs[row] for row in rows]
            batch = self.pair(
                [question_ids[question] for question, *_ in chosen],
                [ids for *_, (ids, _) in chosen],
                [context for *_, context, _ in chosen],
            )
            spans = self._best_spans(
                batch,
                [(passages[question][passage], passage, offsets) for question, passage, _, (_, offsets) in chosen],
            )
            for (question, passage, *_), span in zip(chosen, spans, strict=True):
                known = best[question][passage]
                if known is None or span.margin > known.margin:
                    best[question][passage] = span
        return best

    def _context_ids(self, context: str) -> list[int]:
        """The tokens of a context and what separates it from its passage, at most a quarter of the window."""
        if not context:
            return []
        ids: list[int] = self.tokenizer(context.lower(), add_special_tokens=False, verbose=False)["input_ids"]
        return [*ids[: self.window // 4], *self._separator]

    @cached_property
    def _separator(self) -> list[int]:
        separator: list[int] = self.tokenizer(":", add_special_tokens=False)["input_ids"]
        return separator

    def pair(
        self,
        questions: Sequence[Sequence[int]],
        passages: Sequence[Sequence[int]],
        contexts: Sequence[Sequence[int]] | None = None,
    ) -> PairBatch:
        cls, sep, pad = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id, self.tokenizer.pad_token_id
        firsts = [[cls, *ids, sep] for ids in questions]
        befores = contexts or [()] * len(firsts)
        rows = [[*first, *before, *ids, sep] for first, before, ids in zip(firsts, befores, passages, strict=True)]
        starts = [len(first) + len(before) for first, before in zip(firsts, befores, strict=True)]
        positions = torch.arange(max(map(len, rows)))
        lengths, second = (torch.tensor(list(map(len, parts)))[:, None] for parts in (rows, firsts))
        ids = torch.tensor([row + [pad] * (len(positions) - len(row)) for row in rows])
        mask, types = positions < lengths, (positions >= second) & (positions < lengths)
        device = self.head.none.weight.device
        passage_mask = (positions >= torch.tensor(starts)[:, None]) & (positions < lengths - 1)
        return PairBatch(
            ids.to(device), mask.long().to(device), types.long().to(device), passage_mask.to(device), starts
        )

    def windows(self, passage: str, question_tokens: int) -> list[Window]:
        """What is read at once of a passage, `as_read`, with offsets in the passage itself."""
        text, origins = as_read(passage)
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ids = encoded["input_ids"]
        offsets = [(origins[start], origins[end]) for start, end in encoded["offset_mapping"]]
        room = self.window - question_tokens - 3
        step = max(1, room // 2)
        starts = range(0, max(len(ids) - room, 0) + step, step) if len(ids) > room else range(min(len(ids), 1))
        return [(ids[start : start + room], offsets[start : start + room]) for start in starts]

    def _best_spans(
        self, batch: PairBatch, read: Sequence[tuple[str, int, Sequence[tuple[int, int]]]]
    ) -> Iterator[Span]:
        scores, none = self(batch)
        flat, length = scores.flatten(1), batch.ids.shape[1]
        total = torch.logaddexp(flat.logsumexp(1), none).unsqueeze(1)
        best = flat.argmax(1, keepdim=True)  # the first wins a tie
        values, indices = flat.topk(min(_RIVALS, flat.shape[1]), dim=1)
        margins = (flat.gather(1, best).squeeze(1) - none).tolist()
        logs, log_best = (values - total).tolist(), (flat.gather(1, best) - total).squeeze(1).tolist()
        for row, ((text, passage, offsets), start) in enumerate(zip(read, batch.starts, strict=True)):

            def edges(index: int) -> tuple[int, int]:
                first, last = divmod(index, length)
                return offsets[first - start][0], offsets[last - start][1]  # noqa: B023

            likely = zip(indices[row].tolist(), logs[row], strict=True)
            rivals = tuple((text[slice(*edges(index))], log) for index, log in likely if math.isfinite(log))
            start_end = edges(int(best[row]))
            yield Span(text[slice(*start_end)], passage, *start_end, margins[row], log_best[row], rivals)


# Lines that are not longer are entries, not parts of a paragraph that was wrapped.
_NARROW: Final = 60
_STOPS: Final = ".!?\u2026:;,"
_BOX: Final = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+(\[[ xX]\])(?=[ \t])", re.MULTILINE)


def as_read(passage: str) -> tuple[str, Sequence[int]]:
    """A passage without what the reader does not see, and where each of its characters, and its end, is in the passage.

    An entry that ends with its line gets a semicolon, and a box says whether it is ticked.
    """
    changes = {match.span(1): "open:" if match[1] == "[ ]" else "done:" for match in _BOX.finditer(passage)}
    width = max(map(len, passage.split("\n")))
    for (_, end), (following, _) in pairwise(split_sentences(passage)):
        line = end - passage.rfind("\n", 0, end)
        is_entry = width <= _NARROW or line + len(passage[following:].split(maxsplit=1)[0]) <= width
        if "\n" in passage[end:following] and passage[end - 1] not in _STOPS and is_entry:
            changes[end, end + 1] = ";"
    parts, origins, done = list[str](), list[int](), 0
    for (start, end), written in sorted(changes.items()):
        parts += (passage[done:start], written)
        origins += (*range(done, start + 1), *[end] * (len(written) - 1))
        done = end
    return "".join((*parts, passage[done:])), [*origins, *range(done, len(passage) + 1)]


def load_span_reader(
    weights: Path, settings: ReaderSettings, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> SpanReader:
    """Open a reader; `dtype` None is bfloat16 on a CPU with native support, else float32.

    Raises ModelError if it is missing or damaged, or its encoder cannot be opened.
    """
    encoder = open_encoder(settings.encoder, device=device)
    encoder.model.register_module("pooler", None)  # unused
    reader = SpanReader(encoder.model, encoder.tokenizer, window=settings.window, longest=settings.longest)
    is_on_cpu = torch.device(device).type == "cpu"
    dtype = dtype or (torch.bfloat16 if is_on_cpu and is_fast_in_bf16() else torch.float32)
    try:
        if is_on_cpu and isinstance(encoder.model, Bert) and weights.stat().st_size >= _WORTH_CACHING:
            _open_merged(reader, weights, settings, dtype)
        else:
            _merge(reader, weights, settings, dtype)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"The weights of the reader in {weights} cannot be read: {error}", hint=_AGAIN) from error
    return reader.to(device).eval().requires_grad_(False)


def _open_merged(reader: SpanReader, weights: Path, settings: ReaderSettings, dtype: torch.dtype) -> None:
    """Load the merged weights from the user's cache, which keeps the latest for each name of a reader and encoder.

    Merging takes longer than answering, while cached weights are read from the disk only as they are used.
    """
    base = Path(local_folder(locate(settings.encoder)) or "", WEIGHTS)
    with weights.open("rb") as file:
        changes = hashlib.file_digest(file, "sha256").hexdigest()
    origin = f"{base} {base.stat().st_size} {base.stat().st_mtime_ns} {changes} {settings.rank} {dtype}"
    key = hashlib.sha256(f"{settings.name} {settings.encoder}".encode()).hexdigest()
    folder = cache_folder(f"reader-{key[:16]}")

    def cached() -> dict[str, Tensor]:
        with suppress(OSError, SafetensorError), safe_open(folder / WEIGHTS, "pt") as file:
            if (file.metadata() or {}).get("origin") == origin:
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it has no iterator
        return {}

    if not (state := cached()):
        _merge(reader, weights, settings, dtype)

        def fill(into: Path) -> None:
            write_tensors(into / WEIGHTS, reader.state_dict(), {"origin": origin})

        with suppress(ModelError, SafetensorError):  # the disk is full: they are merged again next time
            unpack_once(folder, lambda: bool(cached()), fill, "The reader")
        state = cached() or reader.state_dict()
    # Align the head in memory as after a merge, so that its scores are bit-identical.
    state |= {name: value.clone() for name, value in state.items() if name.startswith("head.")}
    reader.load_state_dict(state, assign=True)


@torch.no_grad()
def _merge(reader: SpanReader, origin: Path, settings: ReaderSettings, dtype: torch.dtype) -> None:
    state, rank = load_file(origin), settings.rank
    # The linear layers, not the embeddings.
    layers = {
        name: module
        for name, module in reader.encoder.named_modules(prefix="encoder")
        if getattr(module, "bias", None) is not None and module.get_parameter("weight").dim() == 2
    }
    expected = {f"head.{name}": value.shape for name, value in reader.head.named_parameters()}
    for name, layer in layers.items():
        rows, columns = layer.get_parameter("weight").shape
        sizes = {"down": (rank, columns), "up": (rows, rank), "bias": (rows,)}
        expected |= {f"{name}.{part}": torch.Size(size) for part, size in sizes.items()}
    if shapes_of(state) != expected:
        raise ModelError(f"{origin} does not hold the weights that its settings describe.", hint=_AGAIN)
    for name, value in reader.head.named_parameters():
        value.copy_(state[f"head.{name}"])
    for name, layer in layers.items():
        weight = layer.get_parameter("weight").float()
        up, down, bias = (state[f"{name}.{part}"].to(weight.device).float() for part in ("up", "down", "bias"))
        layer.weight, layer.bias = nn.Parameter(torch.addmm(weight, up, down)), nn.Parameter(bias)
    nn.Module.to(reader.encoder, dtype)
