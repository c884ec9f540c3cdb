"""What long-running work reports: frozen records, yielded by the engine's generators and logged (`mbc_engine.runs`)."""

from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, Literal, TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Event:
    """Base of all events, each a frozen dataclass."""

    kinds: ClassVar[dict[str, type["Event"]]] = {}

    def __init_subclass__(cls) -> None:
        Event.kinds[cls.__name__] = dataclass(frozen=True)(cls)

    def to_json(self) -> dict[str, Any]:
        """The event as a JSON object, its class name under `event`."""
        return {"event": type(self).__name__, **asdict(self)}


class Progressed(Event):
    """`done` of `total` items of some work are done; `total` is None if unknown."""

    work: Literal[
        "read texts", "verify blocks", "decode texts", "copy documents", "take in documents", "answer questions"
    ]
    done: int
    total: int | None


class TrainStarted(Event):
    """Training begins, or continues from `step` after an interruption."""

    step: int
    total_steps: int
    examples: int
    documents: int
    trainable_parameters: int


class TrainStep(Event):
    """One optimiser step: mean losses, and the router's accuracy, None without a router.

    Code statistics are 0 in a model without codes; `reset_codes` were reset to batch vectors (paper, section 3.3).
    """

    step: int
    epoch: int
    loss: float
    question_loss: float
    vq_loss: float
    route_loss: float
    reconstruction_loss: float
    route_accuracy: float | None
    perplexity: float
    dead_codes: int
    document_variance: float
    learning_rate: float
    examples_per_second: float
    reset_codes: int = 0
    distillation_loss: float = 0.0


class QuantisationStarted(Event):
    """The codebook was fitted to `vectors` vectors by k-means; from here on documents are codes."""

    step: int
    vectors: int


# Fewer, and one question is worth more than two percentage points.
FEW_QUESTIONS: Final = 50


class Validated(Event):
    """Strict EM and token F1 in percent on the validation questions, and their loss in nats per answer token; the bank
    held all their documents or, for `wrong_loss`, as many training documents."""

    step: int
    epoch: int
    questions: int
    documents: int
    exact_match: float
    f1: float
    first_source: float | None
    is_best: bool
    loss: float | None = None
    wrong_loss: float | None = None

    @property
    def f1_text(self) -> str:
        """F1 as lists show it: `41.7`, or `33.3 (3 questions)` where so few say little."""
        return f"{self.f1:.1f}" + (f" ({self.questions} questions)" if self.questions < FEW_QUESTIONS else "")


class CheckpointSaved(Event):
    """Everything needed to resume is in `path`."""

    step: int
    path: str


class TrainStateChanged(Event):
    """Training was stopped on request after `step`; logs of earlier versions also say paused and (again) training."""

    state: Literal["paused", "training", "stopped"]
    step: int
    total_steps: int


class TrainFinished(Event):
    """Training is done; the model to use is in `model`."""

    step: int
    seconds: float
    model: str


class IngestStarted(Event):
    """`files` files were found, `size` bytes on disk; reading begins."""

    files: int
    size: int


class FileSkipped(Event):
    """A file, or a row of one, that was not ingested, and why, worded to follow its name."""

    source: str
    reason: str


class FilesLeftOut(Event):
    """`count` files and whole folders were not looked at, for one reason: the kind of file whose patterns exclude them,
    or what they are. Only the first are named."""

    reason: str
    count: int
    sources: tuple[str, ...]


class ContentLost(Event):
    """A document is memorised without some of its content; `losses` are worded as "3 pictures"."""

    source: str
    losses: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Worded as that of a file that was skipped."""
        return f"is memorised without {', '.join(self.losses)}"


class DocumentsIngested(Event):
    """Progress of this ingest: documents committed, chunks encoded, and bytes on disk of the files processed.

    `sources` are the latest documents and files processed since the last report, `current` is the file being read or
    encoded; none for a bank that keeps no names. `files` have been read.
    """

    documents: int
    chunks: int
    unchanged: int
    size: int
    seconds: float
    sources: tuple[str, ...]
    files: int = 0
    current: str = ""


class IngestFinished(Event):
    """The ingest is over; `bank_...` and sizes in bytes are of the whole bank.

    `removed` are parts that changed files no longer have and, when pruning, those of files that are gone. `pruned` of them
    are kept for an undo. `encoding` is the part of `seconds` spent in the model. `is_complete` is False if it was stopped
    early. `not_english` counts memorised documents that do not seem to be in English; `gone` counts files in the bank that
    the named folders no longer have. Only the first memorised, removed, non-English and gone sources are named.
    """

    documents: int
    chunks: int
    unchanged: int
    removed: int
    skipped: int
    seconds: float
    encoding: float
    is_complete: bool
    bank_documents: int
    bank_origins: int
    bank_chunks: int
    code_bytes: int
    codebook_bytes: int
    file_bytes: int
    text_bytes: int = 0
    word_bytes: int = 0
    not_english: int = 0
    not_english_sources: tuple[str, ...] = ()
    memorised_sources: tuple[str, ...] = ()
    removed_sources: tuple[str, ...] = ()
    gone: int = 0
    gone_sources: tuple[str, ...] = ()
    pruned: int = 0


class TextsRecoded(Event):
    """`done` of `chunks` texts to recode are done; those that would take more bytes keep their codec.

    `problem` says why recoding cannot continue, such as a missing language model.
    """

    done: int
    chunks: int
    before_bytes: int
    after_bytes: int
    seconds: float
    codec: str
    problem: str = ""


class DamageFound(Event):
    """Damage in a bank file: `where` it is, and `what` is wrong."""

    where: str
    what: str


class BankVerified(Event):
    """A check of a whole bank is complete."""

    documents: int
    chunks: int
    damages: int


class StageStarted(Event):
    """An experiment begins stage `number` of `total`: `prepare NAME` or `METHOD PROTOCOL`, in a cell (LM, dataset)."""

    cell: str
    stage: str
    number: int
    total: int


class StageFinished(Event):
    """A stage is done and its result stored; `was_kept` if it already had been."""

    cell: str
    stage: str
    seconds: float
    was_kept: bool


class StageSkipped(Event):
    """A stage cannot be done here, and why; `follows` is the stage whose missing result is the reason, if it is one."""

    cell: str
    stage: str
    reason: str
    follows: str | None = None


class TuningStep(Event):
    """A step of fine-tuning a base LM on questions, or of meta-training token weights."""

    step: int
    total_steps: int
    loss: float
    examples_per_second: float


class RateTried(Event):
    """A learning rate of the sweep on validation questions; scores in percent."""

    rate: float
    exact_match: float
    f1: float


class ExperimentFinished(Event):
    """An experiment went through all its stages; its report is in `report`."""

    done: int
    skipped: int
    seconds: float
    report: str


class Calibrated(Event):
    """The `ConfidenceSettings` fitted to a model's answers, and how well they work on held-out questions.

    `questions` were asked of a bank of `bank_documents` documents with their document (informed) and of one without it
    (uninformed). On the `held_out` questions, `auc` is how often an informed answer gains more than an uninformed one,
    in [0, 1]; the rates, in percent, are how often answers are called from memory, unsure, and from the model alone.
    """

    questions: int
    held_out: int
    bank_documents: int
    slope: float
    intercept: float
    from_memory: float
    from_model: float
    auc: float
    informed_memory: float
    informed_unsure: float
    informed_model: float
    uninformed_memory: float
    uninformed_unsure: float
    uninformed_model: float


def run_to_completion(work: Generator[Event, None, _T], show: Callable[[Event], object] | None = None) -> _T:
    """Run work such as `evaluate` to its end and return its result; `show` gets each event."""
    while True:
        try:
            event = next(work)
        except StopIteration as end:
            result: _T = end.value
            return result
        if show is not None:
            show(event)
