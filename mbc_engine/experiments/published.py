"""What the paper reports, to stand beside what is measured here; the figures lie in `published.toml`.

A figure is found by the names of base, dataset and method. What the paper does not report is not there.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from mbc_engine.evaluation.report.known import PublishedScores, PublishedStep, PublishedUsage

MEGABYTE = 1024**2
# Section 4.2: documents that a model is adapted to before it is asked.
ADAPTED_DOCUMENTS = 1665


@dataclass(frozen=True)
class PublishedQuestions:
    """The paper's counts of a dataset's questions (section 4.1); `base_train` trains the base LMs of fine-tuning."""

    train: int
    validation: int
    test: int
    base_train: int


@cache
def scores() -> Mapping[tuple[str, str, str], PublishedScores]:
    """Table 1, by base, dataset and method."""
    return {
        (base, dataset, method): PublishedScores(*pair)
        for base, datasets in _figures()["answers"].items()
        for dataset, methods in datasets.items()
        for method, pair in methods.items()
    }


@cache
def retention() -> Mapping[tuple[str, str, str], tuple[PublishedStep, ...]]:
    """Table 3, by base, dataset and method."""
    table = dict(_figures()["retention"])
    documents = table.pop("documents")
    return {
        (base, dataset, method): tuple(
            PublishedStep(count, round(size * MEGABYTE), kept)
            for count, (size, kept) in zip(documents, steps, strict=True)
        )
        for base, datasets in table.items()
        for dataset, methods in datasets.items()
        for method, steps in methods.items()
    }


@cache
def parameters() -> Mapping[tuple[str, str], int]:
    """Table 2: trainable parameters, by base and method."""
    return {
        (base, method): round(millions * 1_000_000)
        for base, methods in _figures()["parameters"].items()
        for method, millions in methods.items()
    }


@cache
def code_usage() -> Mapping[tuple[str, str], PublishedUsage]:
    """Perplexity of code usage, by base and dataset: it is told of StreamingQA alone."""
    return {
        (base, "streamingqa"): PublishedUsage(tuple(told["with-reset"]), *told["without-reset"])
        for base, told in _figures()["perplexity"].items()
    }


@cache
def questions() -> Mapping[str, PublishedQuestions]:
    """How many questions each dataset has, by its name."""
    return {
        name: PublishedQuestions(own["train"], own["validation"], own["test"], own["base-train"])
        for name, own in _figures()["questions"].items()
    }


@cache
def _figures() -> dict[str, Any]:
    return tomllib.loads((files("mbc_engine.experiments") / "published.toml").read_text(encoding="utf-8"))
