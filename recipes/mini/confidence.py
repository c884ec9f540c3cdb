"""The confidence of a reader of `mini`: a logistic regression for the probability that an answer is right.

    python recipes/mini/confidence.py --readings build/mini/readings --reader large
    python recipes/mini/confidence.py --readings build/mini/readings --reader large --write

Fits the features of `mbc_engine/mini/confidence.py` to what `readings.py` wrote. Each domain is also judged by the
others' fit; the worst is what to expect of other people's files. There are few readings, so weights are drawn to those
of an earlier fit on 600 questions that had only margin and votes (`PRIOR`). `--write` puts the result into mini's
`config.toml`.

Sets with one gold answer per question lack others that people would give. Of the answers that share words with one gold
of SQuADShifts' reviews and posts, but are not equal to it, 39% (F1 below 0.5) and 55% (F1 of 0.5 or more) were another
annotator's, measured on 700 of its questions with at least three golds; these are their targets here. An answer that
shares no word is wrong, as is anything but the gold itself if it was read in another paragraph.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from mbc_engine.config import AnswerConfidence, Feature, RetrieverReaderConfig, parse_model_config
from mbc_engine.mini.confidence import features
from mbc_engine.mini.span_reader import Span
from mbc_engine.names import CONFIG, packaged_model

FEATURES: Final[tuple[Feature, ...]] = get_args(Feature)
# What weights are drawn to, and how much in questions; 0 and 1 for other features.
PRIOR: Final[dict[Feature, tuple[float, float]]] = {"margin": (0.4, 30.0), "votes": (0.555, 10.0)}
# Weight of a question that nothing answers; one with an answer has 1.
NONE_WEIGHT: Final = 0.5

Array = NDArray[np.float64]


def read(folder: Path, reader: str) -> Iterator[tuple[str, list[float], float, float]]:
    """The domain, features, target and weight of each answer."""
    for file in sorted(folder.glob(f"{reader}-*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row: dict[str, Any] = json.loads(line)
            best = row["read"][row["best"]]
            known, date = best["known"]
            spans = [each["span"] and Span(**each["span"]) for each in row["read"]]
            shares = [each["share"] for each in row["read"]]
            values = features(row["question"], best["text"], f"{known} {date or ''}", spans, shares, row["best"])
            weight = NONE_WEIGHT if row["change"] else 1.0
            yield file.stem, [*(values[name] for name in FEATURES), 1.0], row["worth"], weight


def fitted(inputs: Array, targets: Array, weights: Array) -> Array:
    """The regression's weights and intercept, by Newton's method."""
    drawn = [PRIOR.get(name, (0.0, 1.0)) for name in FEATURES]
    prior, strength = (np.array(values) for values in zip(*drawn, (0.0, 0.01), strict=True))
    line = prior.copy()
    for _ in range(200):
        likely = probabilities(inputs, line)
        slope = inputs.T @ (weights * (likely - targets)) + strength * (line - prior)
        curvature = (inputs.T * (weights * likely * (1 - likely))) @ inputs + np.diag(strength)
        step = np.linalg.solve(curvature, slope)
        line = line - step * min(1.0, 0.5 / np.abs(step).max(initial=1e-12))  # a whole one may overshoot
    return line


def probabilities(inputs: Array, line: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(0.5 * (inputs @ line))


def area(said: Array, is_right: NDArray[np.bool_]) -> float:
    """Area under the ROC curve: how often a right answer has the higher probability; ties count half."""
    right, wrong = said[is_right][:, None], said[~is_right]
    return float(((right > wrong).mean() + (right >= wrong).mean()) / 2) if right.size and wrong.size else np.nan


def error(said: Array, targets: Array) -> float:
    """The expected calibration error, in ten bins of equal width."""
    bins = np.minimum((10 * said).astype(int), 9)
    return float(sum(abs((said - targets)[bins == number].sum()) for number in range(10)) / len(said))


def report(name: str, said: Array, targets: Array) -> str:
    return f"{name}: {len(said)} answers, AUC {area(said, targets > 0.5):.3f}, ECE {error(said, targets):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readings", type=Path, required=True, help="the folder that readings.py wrote")
    parser.add_argument("--reader", required=True, help="the reader's name in mini's config.toml")
    parser.add_argument("--write", action="store_true", help="write the result to mini's config.toml")
    args = parser.parse_args()
    names, *columns = zip(*read(args.readings, args.reader), strict=True)
    domains, (inputs, targets, weights) = np.array(names), map(np.array, columns)
    held_out = np.empty(len(targets))
    for domain in sorted(set(names)):
        own = domains == domain
        held_out[own] = probabilities(inputs[own], fitted(inputs[~own], targets[~own], weights[~own]))
        print(report(domain, held_out[own], targets[own]))
    print(report("all, each judged by the others", held_out, targets))
    line = fitted(inputs, targets, weights)
    found = {name: round(float(value), 4) for name, value in zip(FEATURES, line, strict=False)}
    print(report("all", probabilities(inputs, line), targets), found, f"intercept {line[-1]:.4f}")
    if args.write:
        path = packaged_model("mini") / CONFIG
        config = parse_model_config(path.read_text(encoding="utf-8"), str(path))
        assert isinstance(config, RetrieverReaderConfig)
        settings = config.retriever_reader
        readers = []
        for reader in settings.readers:
            kept = {"sure": reader.confidence.sure, "perhaps": reader.confidence.perhaps}
            own = AnswerConfidence(weights=found, intercept=round(float(line[-1]), 4), **kept)
            readers.append(reader.model_copy(update={"confidence": own}) if reader.name == args.reader else reader)
        settings = settings.model_copy(update={"readers": tuple(readers)})
        path.write_text(RetrieverReaderConfig(retriever_reader=settings).to_toml(), encoding="utf-8")


if __name__ == "__main__":
    main()
