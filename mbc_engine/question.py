"""A question's options and its answer; without torch, so that what was typed is checked before a model is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from mbc_engine.errors import ConfigError

if TYPE_CHECKING:
    from mbc_engine.bank import BankSizes, BankTotals, Selection
    from mbc_engine.paper.codebook import CodeMap
    from mbc_engine.sources import Source


@dataclass(frozen=True)
class AskOptions:
    """How questions are to be answered.

    Attributes:
        read_mode: of a model of the paper's method, NAME or NAME:NUMBER; None takes its own.
        selection: which documents count, and how much; None for all.
        sources: how many documents to name for each answer; of a model of the paper's method, 0 saves the look at every
            document that the flat read's sources take.
        min_confidence: an answer of a lower probability is withheld; None takes a retriever-reader's own threshold, and
            withholds nothing of a model of the paper's method.
        with_codes: also tell which codes were read.
        max_new_tokens: longest answer that is generated.
        beams: beam search's width, 1 is greedy.

    Raises:
        ConfigError: a value is out of range.
    """

    read_mode: str | None = None
    selection: "Selection | None" = None
    sources: int = 3
    min_confidence: float | None = None
    with_codes: bool = False
    max_new_tokens: int = 16
    beams: int = 1

    def __post_init__(self) -> None:
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            raise ConfigError(
                f"--min-confidence {self.min_confidence:g} is not between 0 and 1.", hint="0.5 means even odds."
            )


Label = Literal["high", "medium", "low", "memory", "model", "unsure"]


@dataclass(frozen=True)
class Confidence:
    """How far to trust an answer.

    Attributes:
        probability: of a retriever-reader, that the answer is right; of a model of the paper's method, that the bank
            held what was asked. As held-out questions had it.
        label: of a retriever-reader, high, medium or low; otherwise where the answer comes from: the memory, the model
            alone, or one cannot be sure.
    """

    probability: float
    label: Label


@dataclass(frozen=True)
class Answer:
    """An answer with everything a person may want to know of it.

    Attributes:
        question: what was asked.
        text: the answer; None where it is not in this memory, as far as the model can tell.
        confidence: in the answer, or in the one that was withheld; None if the model is not calibrated, its calibration
            cannot distinguish answers, or it was asked with another read than its own, which it is calibrated for.
        sources: the documents the question leads to: the one that the answer was read in, then the others, best first.
        seconds: what the whole batch took: `search` for encoding the questions and scanning or attending to the bank,
            `answer` for reading or generating and judging it, `sources` for looking up files, texts and sentences.
        totals, sizes: of the whole bank; of several, the sums.
        gain: what the bank adds to the log-likelihood of a token of the answer, in nats; None of a retriever-reader.
        codes: how much of the attention each code got, [levels, positions, num_codes], 1 over each level; None if it
            was not asked for. A hierarchical read estimates it, see `model/reads.py`.
    """

    question: str
    text: str | None
    confidence: Confidence | None
    sources: tuple["Source", ...]
    seconds: Mapping[str, float]
    totals: "BankTotals"
    sizes: "BankSizes"
    gain: float | None = None
    codes: "CodeMap | None" = field(default=None, repr=False, compare=False)
