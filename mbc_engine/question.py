"""How questions are answered; without torch, so that front ends can check what was typed before a model is loaded.

What is said to a question: the answer or none, how far to trust it, its sources, and what it took.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from mbc_engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mbc_engine.bank import BankSizes, BankTotals, Selection
    from mbc_engine.paper.codebook import CodeMap
    from mbc_engine.sources import Source


@dataclass(frozen=True)
class AskOptions:
    """The options of a question, see `Recall.ask`.

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
    on_token: "Callable[[str], None] | None" = None

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
class Timings:
    """Seconds that answering took.

    Attributes:
        search: encoding the questions, and scanning or attending to the bank.
        answer: generating the answer or reading it in the passages, and judging it.
        sources: looking up files, texts and sentences.
    """

    search: float
    answer: float
    sources: float


@dataclass(frozen=True)
class Reply:
    """An answer with everything a person may want to know of it.

    Attributes:
        question: what was asked.
        answer: the answer; None where it is not in this memory, as far as the model can tell.
        confidence: in the answer, or in the one that was withheld; None if the model is not calibrated, its calibration
            tells no answers apart, or it was asked by another read than its own, which it is calibrated for.
        sources: the documents the question leads to: the one that the answer was read in, then the others, best first.
        timings: of the whole batch.
        totals, sizes: of the whole bank; of several, the sums.
        gain: what the bank adds to the log-likelihood of a token of the answer, in nats; None of a retriever-reader.
        codes: how much of the attention each code got, [levels, positions, num_codes], 1 over each level; None if it
            was not asked for. A hierarchical read estimates it, see `model/reads.py`.
    """

    question: str
    answer: str | None
    confidence: Confidence | None
    sources: tuple["Source", ...]
    timings: Timings
    totals: "BankTotals"
    sizes: "BankSizes"
    gain: float | None = None
    codes: "CodeMap | None" = field(default=None, repr=False, compare=False)
