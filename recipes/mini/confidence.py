"""The confidence of a reader of `mini`: a logistic regression for the probability that an answer is right.

    python recipes/mini/confidence.py --readings build/mini/readings --reader small --write
    python recipes/mini/confidence.py --readings build/mini/readings --reader large --like small --write

Fits the features of `mbc_engine/mini/confidence.py` to what `readings.py` wrote. Each domain is also judged by the
others' fit; the worst is what to expect of other people's files, next to the error that as few answers would have by
chance if the fit were true. `--like small` draws the weights to those that the package has for the small reader, since
some signs are rare in the readings. `--write` puts the result into mini's `config.toml`.

Sets with one gold answer per question lack others that people would give. Of the answers that share words with one gold
of SQuADShifts' reviews and posts, but are not equal to it, 39% (F1 below 0.5) and 55% (F1 of 0.5 or more) were another
annotator's, measured on 700 of its questions with at least three golds; these are their targets here. An answer that
shares no word is wrong, as is anything but the gold itself if it was read in another paragraph.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray
from readings import ANOTHER_NAME, NOT_THERE

from mbc_engine.config import AnswerConfidence, Feature, RetrieverReaderConfig, parse_model_config
from mbc_engine.metrics import compare
from mbc_engine.mini.confidence import features
from mbc_engine.mini.model import reader_of
from mbc_engine.mini.span_reader import Span
from mbc_engine.names import CONFIG, packaged_model

FEATURES: Final[tuple[Feature, ...]] = get_args(Feature)
# How much weights are drawn to 0, or to those of another reader.
TO_NONE, TO_OTHER = 1.0, 30.0
# Weight of a question that was changed so that nothing answers it; others have 1. With it, one in three is of that kind.
NONE_WEIGHT: Final = 0.25
CHANCES: Final = 200

Array = NDArray[np.float64]


def read(folder: Path, reader: str) -> "tuple[NDArray[np.str_], Answers]":
    """The domain of each answer, and the answers."""
    names, *columns = zip(*_rows(folder, reader), strict=True)
    return np.array(names), Answers(*map(np.array, columns))


def _rows(folder: Path, reader: str) -> Iterator[tuple[str, list[float], float, float]]:
    for file in sorted(folder.glob(f"{reader}-*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row: dict[str, Any] = json.loads(line)
            best = row["read"][row["best"]]
            if row["change"] == ANOTHER_NAME and not compare(best["span"]["text"], row["golds"], "any").f1:
                continue  # it may be right
            known, date = best["known"]
            spans = [each["span"] and Span(**each["span"]) for each in row["read"]]
            shares = [each["share"] for each in row["read"]]
            texts = [each["text"] for each in row["read"]]
            values = features(row["question"], texts, f"{known} {date or ''}", spans, shares, row["best"])
            weight = 1.0 if row["change"] in ("", NOT_THERE) else NONE_WEIGHT
            yield file.stem, [*(values[name] for name in FEATURES), 1.0], row["worth"], weight


@dataclass(frozen=True)
class Answers:
    """Inputs with a last column of ones, targets, and weights of answers."""

    inputs: Array
    targets: Array
    weights: Array

    def of(self, chosen: NDArray[np.bool_]) -> "Answers":
        return Answers(self.inputs[chosen], self.targets[chosen], self.weights[chosen])

    def fitted(self, like: Array | None = None) -> Array:
        """The regression's weights and intercept, by Newton's method; weights are drawn to those of `like`."""
        prior = np.zeros(len(FEATURES) + 1) if like is None else np.append(like[:-1], 0.0)
        strength = np.append(np.full(len(FEATURES), TO_NONE if like is None else TO_OTHER), 0.01)
        line = prior.copy()
        for _ in range(200):
            likely = probabilities(self.inputs, line)
            slope = self.inputs.T @ (self.weights * (likely - self.targets)) + strength * (line - prior)
            curvature = (self.inputs.T * (self.weights * likely * (1 - likely))) @ self.inputs + np.diag(strength)
            step = np.linalg.solve(curvature, slope)
            line = line - step * min(1.0, 0.5 / np.abs(step).max(initial=1e-12))  # a whole one may overshoot
        return line


def weights_of(confidence: AnswerConfidence) -> Array:
    return np.array([*(confidence.weights[name] for name in FEATURES), confidence.intercept])


def probabilities(inputs: Array, line: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(0.5 * (inputs @ line))


def area(said: Array, is_right: NDArray[np.bool_]) -> float:
    """Area under the ROC curve: how often a right answer has the higher probability; ties count half."""
    right, wrong = said[is_right][:, None], said[~is_right]
    return float(((right > wrong).mean() + (right >= wrong).mean()) / 2) if right.size and wrong.size else np.nan


def error(said: Array, targets: Array | NDArray[np.bool_], weights: Array) -> float:
    """The expected calibration error, in ten bins of equal width."""
    bins = np.minimum((10 * said).astype(int), 9)
    gaps = np.bincount(bins, weights * (said - targets), 10)
    return float(np.abs(gaps).sum() / weights.sum())


def report(name: str, said: Array, answers: Answers) -> str:
    rng = np.random.default_rng(0)
    chance = [error(said, rng.random(len(said)) < said, answers.weights) for _ in range(CHANCES)]
    return (
        f"{name}: {len(said)} answers, AUC {area(said, answers.targets > 0.5):.3f}, "
        f"ECE {error(said, answers.targets, answers.weights):.3f} ({np.mean(chance):.3f} by chance)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readings", type=Path, required=True, help="the folder that readings.py wrote")
    parser.add_argument("--reader", required=True, help="the reader's name in mini's config.toml")
    parser.add_argument("--like", help="the reader to whose weights in config.toml this one's are drawn")
    parser.add_argument("--write", action="store_true", help="write the result to mini's config.toml")
    args = parser.parse_args()
    path = packaged_model("mini") / CONFIG
    config = parse_model_config(path.read_text(encoding="utf-8"), str(path))
    assert isinstance(config, RetrieverReaderConfig)
    settings = config.retriever_reader
    like = None if args.like is None else weights_of(reader_of(settings, args.like).confidence)
    domains, answers = read(args.readings, args.reader)
    held_out = np.empty(len(domains))
    for domain in sorted(set(domains)):
        of_domain = domains == domain
        held_out[of_domain] = probabilities(answers.of(of_domain).inputs, answers.of(~of_domain).fitted(like))
        print(report(domain, held_out[of_domain], answers.of(of_domain)))
    print(report("all, each judged by the others", held_out, answers))
    line = answers.fitted(like)
    found = {name: round(float(value), 4) for name, value in zip(FEATURES, line, strict=False)}
    print(report("all", probabilities(answers.inputs, line), answers), found, f"intercept {line[-1]:.4f}")
    if args.write:
        readers = []
        for reader in settings.readers:
            kept = {"sure": reader.confidence.sure, "perhaps": reader.confidence.perhaps}
            fitted = AnswerConfidence(weights=found, intercept=round(float(line[-1]), 4), **kept)
            readers.append(reader.model_copy(update={"confidence": fitted}) if reader.name == args.reader else reader)
        settings = settings.model_copy(update={"readers": tuple(readers)})
        path.write_text(RetrieverReaderConfig(retriever_reader=settings).to_toml(), encoding="utf-8")


if __name__ == "__main__":
    main()
