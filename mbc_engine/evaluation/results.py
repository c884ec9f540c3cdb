"""What the protocols find out, as an evaluation keeps it and its report shows it. All shares are in percent."""

from dataclasses import dataclass

from mbc_engine.events import RateTried


@dataclass(frozen=True)
class Prediction:
    """A question, what a method answered, and how that compares with the gold answers.

    Attributes:
        id: what its dataset calls the question.
        document: its document's place in the stream.
        question: the question.
        answers: all gold answers.
        answer: what the method said.
        exact_match: strict EM.
        f1: token F1, in [0, 1].
        lenient_match: the released code's match.
        rank: place of its own document among the method's sources, 0 is first; None beyond the first five, or where
            the method names none.
    """

    id: str
    document: int
    question: str
    answers: tuple[str, ...]
    answer: str
    exact_match: bool
    f1: float
    lenient_match: bool
    rank: int | None


@dataclass(frozen=True)
class Figure:
    """A mean in percent, with its 95% bootstrap interval over documents."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Cost:
    """What a method takes. Bytes are of its memory with `documents` documents in it.

    Attributes:
        seconds_per_document: to take a document in.
        seconds_per_answer: to answer a question, everything included.
        on_disk: bytes as they are stored.
        paper_bytes: bytes as the paper counts them; None where it counts none.
    """

    documents: int
    seconds_per_document: float
    seconds_per_answer: float
    on_disk: int
    paper_bytes: int | None


@dataclass(frozen=True)
class QuestionScores:
    """Figures of a set of questions.

    `first_source` and `in_five` say how often the question's own document ranked first, or among the first five; None
    where the method names no sources.
    """

    questions: int
    exact_match: Figure
    f1: Figure
    lenient_match: float
    first_source: float | None
    in_five: float | None


@dataclass(frozen=True)
class Online:
    """Online adaptation: all documents, then the questions about them (paper, section 4.2).

    `banks` is how many memories of `cost.documents` documents each were asked, 1 in the paper's protocol.
    """

    banks: int
    scores: QuestionScores
    cost: Cost


@dataclass(frozen=True)
class RetentionStep:
    """The first documents' questions after `documents` documents; `retention` is F1 in percent of the first step's,
    None where that is 0."""

    documents: int
    exact_match: float
    f1: float
    retention: float | None
    on_disk: int
    paper_bytes: int | None


@dataclass(frozen=True)
class Retention:
    """How well the first documents are kept while others arrive (paper, section 4.4.3)."""

    questions: int
    steps: tuple[RetentionStep, ...]


@dataclass(frozen=True)
class ScalingStep:
    """Scores and costs with so many documents in the memory."""

    scores: QuestionScores
    cost: Cost


@dataclass(frozen=True)
class Scaling:
    """How quality, time and bytes change with the number of documents."""

    steps: tuple[ScalingStep, ...]


@dataclass(frozen=True)
class Curve:
    """Perplexity of code usage after steps of training."""

    steps: tuple[int, ...]
    perplexity: tuple[float, ...]


@dataclass(frozen=True)
class CodeUsage:
    """Code usage over training with and without the online reset (paper, section 4.4.4)."""

    codes: int
    with_reset: Curve
    without_reset: Curve


@dataclass(frozen=True)
class RateSweep:
    """The learning rates tried on validation questions, and the one that did best."""

    best: float
    tried: tuple[RateTried, ...]
