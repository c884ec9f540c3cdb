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
    """How questions are to be answered; ConfigError if a value is out of range.

    Attributes:
        read_mode: of a model of the paper's method, NAME or NAME:NUMBER; None for its own.
        selection: which documents count, and how much; None for all.
        sources: documents to name for each answer; 0 saves a model of the paper's method a scan in flat reads.
        min_confidence: withhold answers below this probability; None for a retriever-reader's own threshold.
        with_codes: also return which codes were read.
        max_new_tokens: longest generated answer.
        beams: beam search's width; 1 is greedy.
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
    """How far to trust an answer, calibrated on held-out questions.

    Attributes:
        probability: of a retriever-reader, that the answer is right; otherwise that the bank held what was asked.
        label: of a retriever-reader, high, medium or low; otherwise where the answer comes from.
    """

    probability: float
    label: Label


@dataclass(frozen=True)
class Answer:
    """An answer with its sources.

    Attributes:
        text: the answer; None if it is not in this memory, as far as the model can say.
        confidence: in the answer, withheld or not; None if the model is not calibrated, or not for this read.
        sources: the document the answer was read in, then the others, best first.
        seconds: of the whole batch: `search` for encoding the questions and scanning the bank, `answer` for reading or
            generating, `sources` for looking up files, texts and sentences.
        totals, sizes: of the banks, summed.
        gain: what the bank adds to the log-likelihood of a token of the answer, in nats; None of a retriever-reader.
        codes: each code's share of the attention, [levels, positions, num_codes], summing to 1 per level; None unless
            asked for. A hierarchical read estimates it, see `paper/reads.py`.
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
