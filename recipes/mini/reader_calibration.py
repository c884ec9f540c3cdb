"""Stage 3 of `mini`, continued: how much the reader heeds the routing, and when it says that there is no answer.

    python recipes/mini/reader_calibration.py --data ../shared/data --reader build/mini/reader

Takes questions of training sets that the reader never learnt from, each with the five paragraphs of its set whose
sentence vectors are nearest. Chooses the weight of the prior with which most answers are right, then the threshold with
which the reader is right most often when half the questions have lost the right paragraph. Changes `reader.toml` alone.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from encoder import sentence_vectors
from options import stage_parser
from reader_data import Row, is_held_out, read_rows

from mbc_engine.metrics import compare
from mbc_engine.mini.span_reader import SpanReader
from mbc_engine.mini.span_reader_folder import load_span_reader, save_span_reader
from mbc_engine.model.encoders import Encoder, load_encoder

# Questions that say what they are about; those on reviews and posts ("What size is it?") cannot be routed.
SETS = ("squad_train_part", "archivalqa_like")
TEMPERATURES = tuple(0.01 * 2 ** (step / 2) for step in range(10))
PRIOR_WEIGHTS = tuple(0.25 * step for step in range(25))


@dataclass(frozen=True)
class Choice:
    """What may be answered to a question from one passage.

    Attributes:
        is_right: whether the passage is the question's own.
        margin: the best span's, without prior.
        prior: log probability of the passage.
        f1: of that span.
    """

    is_right: bool
    margin: float
    prior: float
    f1: float


def similarities(encoder: Encoder, questions: Sequence[str], passages: Sequence[str]) -> np.ndarray:
    """Cosines of sentence vectors, [Q, P]."""
    asked, read = (
        encoder.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        for texts in (questions, passages)
    )
    asked_vectors = sentence_vectors(encoder.model, asked, encoder.tokenizer, 254)
    vectors: np.ndarray = asked_vectors @ sentence_vectors(encoder.model, read, encoder.tokenizer, 254).T
    return vectors


def log_softmax(scores: np.ndarray) -> np.ndarray:
    shifted = scores - scores.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def best_temperature(cosines: np.ndarray, right: np.ndarray) -> float:
    """The one with which the right passages are likeliest."""
    rows = np.arange(len(right))
    return max(TEMPERATURES, key=lambda value: float(log_softmax(cosines / value)[rows, right].mean()))


def choices(
    reader: SpanReader, encoder: Encoder, rows: Sequence[Row], every: Sequence[str], count: int
) -> list[list[Choice]]:
    """For each question what its nearest passages offer."""
    cosines = similarities(encoder, [row.question for row in rows], every)
    right = np.array([every.index(row.text) for row in rows])
    priors = log_softmax(cosines / best_temperature(cosines, right))
    nearest = np.argsort(-cosines, axis=1)[:, :count]
    pairs = [(row, place) for row, places in enumerate(nearest) for place in places]
    spans = reader.find([rows[row].question for row, _ in pairs], [[every[place]] for _, place in pairs])
    result: list[list[Choice]] = [[] for _ in rows]
    for (row, place), span in zip(pairs, spans, strict=True):
        if span is not None:
            f1 = compare(span.text, rows[row].answers).f1
            result[row].append(Choice(bool(place == right[row]), span.margin, float(priors[row, place]), f1))
    return result


def answered(offered: Sequence[Choice], weight: float) -> tuple[float, float]:
    """Margin and F1 of what is answered."""
    best = max(offered, key=lambda choice: choice.margin + weight * choice.prior)
    return best.margin + weight * best.prior, best.f1


def best_prior_weight(every: Sequence[Sequence[Choice]]) -> float:
    """The smallest with which answers are best."""
    return max(PRIOR_WEIGHTS, key=lambda weight: float(np.mean([answered(offered, weight)[1] for offered in every])))


def best_threshold(every: Sequence[Sequence[Choice]], weight: float) -> float:
    """The one with which most is right, where every other question has lost its own passage and has no answer."""
    kept = np.array([answered(offered, weight) for offered in every[::2]])
    lost = [[choice for choice in offered if not choice.is_right] for offered in every[1::2]]
    wrong = np.array([answered(offered, weight)[0] for offered in lost if offered])
    grid = np.sort(np.concatenate([kept[:, 0], wrong]))
    rights = [kept[kept[:, 0] >= value, 1].sum() / len(kept) + (wrong < value).mean() for value in grid]
    return float(grid[int(np.argmax(rights))])


def main() -> None:
    parser = stage_parser(__doc__, "data", "threads", "device", "seed")
    parser.add_argument("--reader", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=150, help="most of each set")
    parser.add_argument("--passages", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    reader = load_span_reader(args.reader, device=args.device)
    reader.prior_weight, reader.threshold = 0.0, -np.inf
    encoder = load_encoder(reader.encoder_name, device=args.device)
    every: list[list[Choice]] = []
    for name in SETS:
        rows = read_rows(args.data, name)
        held_out = [row for row in rows if is_held_out(row)]
        asked = random.Random(args.seed).sample(held_out, min(args.questions, len(held_out)))
        # As many paragraphs as a set for measuring has; those of the questions among them.
        others = random.Random(args.seed).sample(sorted({row.text for row in rows}), 400)
        found = choices(reader, encoder, asked, sorted({*others, *(row.text for row in asked)}), args.passages)
        first = 100 * np.mean([any(c.is_right for c in offered[:1]) for offered in found])
        among = 100 * np.mean([any(c.is_right for c in offered) for offered in found])
        print(f"{name}: {len(asked)} questions, own paragraph first {first:.0f} %, in {args.passages} {among:.0f} %")
        every += [offered for offered in found if offered]

    reader.prior_weight = best_prior_weight(every)
    reader.threshold = best_threshold(every, reader.prior_weight)
    margins, f1 = np.array([answered(offered, reader.prior_weight) for offered in every]).T
    print(f"prior weight {reader.prior_weight:.2f}, threshold {reader.threshold:.2f}")
    by_threshold = f1 * (margins >= reader.threshold)
    print(f"F1 {100 * f1.mean():.1f} always answered, {100 * by_threshold.mean():.1f} by the threshold")
    save_span_reader(reader, args.reader)


if __name__ == "__main__":
    main()
