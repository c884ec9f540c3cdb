"""Finding the answer to a question in passages: an encoder with a span head that may also say "not here".

A span is scored by its first token, its last, and the two together; "no answer" by the first position (Devlin et al.
2019). All spans of a passage and "no answer" share one softmax in training (Lee et al. 2016), so that margins over "no
answer" are comparable across passages. A reader's file has the head, and low-rank changes and biases for the linear
layers of a pretrained encoder (LoRA, Hu et al. 2021). `recipes/mini/reader.py` trains one.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from mbc_engine.config import ReaderSettings
from mbc_engine.errors import ModelError
from mbc_engine.lm.bert import Bert, Floats, batches, map_tensors
from mbc_engine.lm.packaged import version_of
from mbc_engine.lm.quantized import kept_layers
from mbc_engine.text.chunks import NARROW, split_sentences
from mbc_engine.text.dates import SHORT_NAMES, asks_when, parts_of_other_years
from mbc_engine.text.language import canonical_question

# How many of each passage's likeliest spans are used to estimate confidence in the best.
_RIVALS: Final = 20
# The width of the products by which pairs of a span's edges are scored.
PAIR_RANK: Final = 64
# What spans lose in a clause or sentence about other years than those that the question names.
_ANOTHER_YEAR: Final = 5.0
_GAP: Final = re.compile(r"\n\s*\n")  # which no span goes across
# Read of a passage; a chunk has half of them, unless somebody made it.
_MOST_TOKENS: Final = 512
_AGAIN: Final = "Get the model again."

Offsets = Sequence[tuple[int, int]]  # of tokens, the characters of the passage from start to end
# Tokens of a passage that are read at once, without special ones.
Window = tuple[Sequence[int], Offsets]


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


class Encoding(NamedTuple):
    """A question and a window of a passage as the encoder reads them, [CLS] question [SEP] passage [SEP]."""

    ids: list[int]
    type_start: int  # where tokens of the second type begin
    start: int  # where the passage begins, after its context

    @classmethod
    def of(cls, question: Sequence[int], context: Sequence[int], passage: Sequence[int], first: int, sep: int) -> Self:
        """From their tokens, and the special ones that stand first and separate them."""
        before = [first, *question, sep, *context]
        return cls([*before, *passage, sep], len(question) + 2, len(before))


class SpanHead:
    """Scores of spans of up to `longest` tokens from an encoder's states."""

    def __init__(self, weights: Mapping[str, Floats], longest: int) -> None:
        self.weights, self.longest = weights, longest

    def scores(self, passage: Floats) -> Floats:
        """Scores by first and last token, [S, S], from the states of a passage, [S, D].

        Spans that are too long, or end before they start, score minus infinity.
        """
        first, last = self._linear("edges", passage).T
        projected = self._linear("first", passage)
        pairs = projected @ self._linear("last", passage).T / np.float32(math.sqrt(projected.shape[1]))
        distances = np.arange(len(passage)) - np.arange(len(passage))[:, None]
        is_possible = (distances >= 0) & (distances < self.longest)
        return np.where(is_possible, first[:, None] + last + pairs, np.float32(-np.inf))

    def none(self, states: Floats) -> float:
        """The score of "no answer", from all states of a row."""
        return float(self._linear("none", states[:1])[0, 0])

    def _linear(self, name: str, x: Floats) -> Floats:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]


class SpanReader:
    """Finds answers in passages with a BERT; see the module.

    It reads `window` tokens at once, question and special ones included, and longer passages in windows that overlap by
    half; an answer has at most `longest` tokens.
    """

    def __init__(self, encoder: Bert, head: SpanHead, *, window: int) -> None:
        self.encoder, self.head, self.window = encoder, head, window

    def spans(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
        contexts: Sequence[Sequence[str]] | None = None,
    ) -> list[list[Span | None]]:
        """The best span of each passage of each question, whatever its margin; None if a passage has no tokens.

        What is known of a passage from its document is read before it, but no span is taken from it.
        """
        jobs = [
            (number, passage, encoding, offsets)
            for number, (question, texts) in enumerate(zip(questions, passages, strict=True))
            for passage, text in enumerate(texts)
            for encoding, offsets in self.encodings(question, text, contexts[number][passage] if contexts else "")
        ]
        best: list[list[Span | None]] = [[None] * len(texts) for texts in passages]
        others = [
            [parts_of_other_years(question, text) for text in texts]
            for question, texts in zip(questions, passages, strict=True)
        ]

        def read(chosen: Sequence[int]) -> list[Span]:
            several_jobs = [jobs[job] for job in chosen]
            ids, starts = zip(*((encoding.ids, encoding.type_start) for _, _, encoding, _ in several_jobs), strict=True)
            several = self.encoder.states(ids, starts, calls=len(cut))
            return [
                self._best_span(
                    states, encoding.start, passages[number][passage], passage, offsets, others[number][passage]
                )
                for states, (number, passage, encoding, offsets) in zip(several, several_jobs, strict=True)
            ]

        cut = list(batches([len(encoding.ids) for _, _, encoding, _ in jobs], self.window))
        for chosen, spans in zip(cut, self.encoder.in_threads(read, cut), strict=True):
            for (question, passage, *_), span in zip((jobs[job] for job in chosen), spans, strict=True):
                known = best[question][passage]
                if known is None or span.margin > known.margin:
                    best[question][passage] = span
        return best

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.encoder.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _context_ids(self, context: str) -> list[int]:
        """The tokens of a context and what separates it from its passage, at most a quarter of the window."""
        return [*self._ids(context.lower())[: self.window // 4], *self._separator] if context else []

    @cached_property
    def _separator(self) -> list[int]:
        return self._ids(":")

    def encodings(self, question: str, passage: str, context: str = "") -> list[tuple[Encoding, Offsets]]:
        """The question with each window of the passage, and the characters of the window's tokens."""
        # A question takes a third of the window at most.
        asked, known = self._ids(canonical_question(question))[: self.window // 3], self._context_ids(context)
        return [
            (Encoding.of(asked, known, ids, self.encoder.cls, self.encoder.sep), offsets)
            for ids, offsets in self.windows(passage, len(asked) + len(known), _needs_times(question))
        ]

    def windows(self, passage: str, question_tokens: int, keeps_times: bool) -> list[Window]:
        """What is read at once of a passage, `as_read`, with offsets in the passage itself."""
        text, origins = as_read(passage, keeps_times=keeps_times)
        encoded = self.encoder.tokenizer.encode(text, add_special_tokens=False)
        ids = encoded.ids[:_MOST_TOKENS]
        # What is left out after a character does not belong to it.
        offsets = [
            (origins[start], min(origins[end], origins[end - 1] + 1)) for start, end in encoded.offsets[:_MOST_TOKENS]
        ]
        room = self.window - question_tokens - 3
        step = max(1, room // 2)
        starts = range(0, max(len(ids) - room, 0) + step, step) if len(ids) > room else range(min(len(ids), 1))
        return [(ids[start : start + room], offsets[start : start + room]) for start in starts]

    @np.errstate(over="ignore", invalid="ignore")
    def _best_span(
        self,
        states: Floats,
        start: int,
        text: str,
        passage: int,
        offsets: Offsets,
        others: Sequence[tuple[int, int]],
    ) -> Span:
        none, scores = self.head.none(states), self.head.scores(states[start:-1])
        firsts = np.array(offsets)[:, 0]
        for low, high in others:
            scores[(low <= firsts) & (firsts < high)] -= _ANOTHER_YEAR
        paragraphs = np.searchsorted([gap.start() for gap in _GAP.finditer(text)], firsts)
        scores[paragraphs[:, None] != paragraphs] = -np.inf
        flat = scores.reshape(-1)
        total = float(np.logaddexp(_log_sum_exp(flat), none))
        if not math.isfinite(total):
            raise ModelError("The reader's weights are not all numbers.", hint=_AGAIN)

        def edges(index: int) -> tuple[int, int]:
            first, last = divmod(index, len(offsets))
            return offsets[first][0], offsets[last][1]

        best = int(flat.argmax())  # the first wins a tie
        # Stable, so that of equal ones the first come first.
        likely = np.argpartition(-flat, min(_RIVALS, len(flat)) - 1)[:_RIVALS]
        likely = likely[np.lexsort((likely, -flat[likely]))]
        rivals = tuple(
            (text[slice(*edges(int(index)))], float(flat[index]) - total)
            for index in likely
            if np.isfinite(flat[index])
        )
        first, last = edges(best)
        return Span(text[first:last], passage, first, last, float(flat[best]) - none, float(flat[best]) - total, rivals)


def _log_sum_exp(values: NDArray[np.float32]) -> float:
    most = float(values.max())
    return most + math.log(float(np.exp(values - most).sum(dtype=np.float64)))


_STOPS: Final = ".!?\u2026:;,"
_BOX: Final = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+(\[[ xX]\])(?=[ \t])", re.MULTILINE)
# In the name of a column, at its start or after a number: "Mar: 7", "Mar 24: 7", "Week 1 Tue: 7".
_SHORT_NAME: Final = re.compile(rf"(?:(?<=[;\d] )|^)({'|'.join(SHORT_NAMES)})\.?(?=(?: \d{{2,4}})?: )", re.MULTILINE)
# Of dots, from an entry to what it has.
_LEADER: Final = re.compile(r"(?<![.\s])[ \t]*+\.(?:[ \t]?\.){3,}+[ \t]*+(?=\S)")
# The time before a line of speech, as `formats/subtitles.py` writes it, or of a log.
_TIME: Final = re.compile(r"^\d\d:\d\d:\d\d (?=\S)", re.MULTILINE)


def _needs_times(question: str) -> bool:
    return asks_when(question) or re.search(r"\d:\d\d", question) is not None


def as_read(passage: str, *, keeps_times: bool = False) -> tuple[str, Sequence[int]]:
    """A passage without what the reader does not see, and where each of its characters, and its end, is in the passage.

    An entry that ends with its line gets a semicolon, a leader of dots is a colon, a column has the whole name of a month
    or weekday, a box says whether it is ticked, and times before lines are left out.
    """
    changes = {match.span(1): "open:" if match[1] == "[ ]" else "done:" for match in _BOX.finditer(passage)}
    changes |= {leader.span(): ": " for leader in _LEADER.finditer(passage)}
    changes |= {short.span(): SHORT_NAMES[short[1]] for short in _SHORT_NAME.finditer(passage)}
    if not keeps_times:
        changes |= {time.span(): "" for time in _TIME.finditer(passage)}
    width = max(map(len, passage.split("\n")))
    for (_, end), (following, _) in pairwise(split_sentences(passage)):
        line = end - passage.rfind("\n", 0, end)
        is_entry = width <= NARROW or line + len(passage[following:].split(maxsplit=1)[0]) <= width
        if "\n" in passage[end:following] and passage[end - 1] not in _STOPS and is_entry:
            changes[end, end + 1] = ";"
    parts, origins, done = list[str](), list[int](), 0
    for (start, end), written in sorted(changes.items()):
        if start < done:  # a part of what has changed already
            continue
        parts += (passage[done:start], written)
        origins += (*range(done, start + bool(written)), *[end] * (len(written) - 1))
        done = end
    return "".join((*parts, passage[done:])), [*origins, *range(done, len(passage) + 1)]


def load_span_reader(
    weights: Path, settings: ReaderSettings, *, device: str = "cpu", encoder: Bert | None = None
) -> SpanReader:
    """Open a reader, around its `encoder` if that is open already.

    Raises ModelError if it is missing or damaged, or its encoder cannot be opened.
    """
    encoder = encoder or Bert.open(settings.encoder, device=device)
    try:
        version = version_of(weights)
        stored = {name: value.astype(np.float32) for name, value in map_tensors(weights).items()}
    except (OSError, SafetensorError, ValueError) as error:
        raise ModelError(f"The weights of the reader in {weights} cannot be read: {error}", hint=_AGAIN) from error
    rank, width = settings.rank, encoder.width
    expected: dict[str, tuple[int, ...]] = {}
    for name, rows in {"edges": 2, "first": PAIR_RANK, "last": PAIR_RANK, "none": 1}.items():
        expected |= {f"head.{name}.weight": (rows, width), f"head.{name}.bias": (rows,)}
    for name, (outputs, inputs) in encoder.linear_layers().items():
        sizes = {"down": (rank, inputs), "up": (outputs, rank), "bias": (outputs,)}
        expected |= {f"encoder.{name}.{part}": size for part, size in sizes.items()}
    if {name: value.shape for name, value in stored.items()} != expected:
        raise ModelError(f"{weights} does not hold the weights that its settings describe.", hint=_AGAIN)

    if not all(np.isfinite(value).all() for value in stored.values()):
        raise ModelError(f"The weights in {weights} are not all numbers.", hint=_AGAIN)

    def part(prefix: str) -> dict[str, Floats]:
        return {name.removeprefix(prefix): value for name, value in stored.items() if name.startswith(prefix)}

    changed = encoder.with_lora(part("encoder."))
    changed.layers = kept_layers(changed, version)
    return SpanReader(changed, SpanHead(part("head."), settings.longest), window=settings.window)
