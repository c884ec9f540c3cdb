"""How questions are answered."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mbc_engine.errors import ConfigError
from mbc_engine.serving.answers import Answers

if TYPE_CHECKING:
    from mbc_engine.bank import Selection


@dataclass(frozen=True)
class Manner:
    """What may be said of an answer beside the question; where nobody says it, what `mbc ask` does. See `Recall.ask`.

    Attributes:
        answers: None for both where the model has a reader, else from memory.
        selection: the documents that count; None for all alike.
        least: the confidence below which an answer from memory is withheld; None for never.
    """

    answers: Answers | None = None
    read: str | None = None
    selection: "Selection | None" = None
    sources: int = 3
    max_tokens: int = 16
    beams: int = 1
    least: float | None = None

    def __post_init__(self) -> None:
        if self.least is not None and not 0 <= self.least <= 1:
            raise ConfigError(f"--min-confidence {self.least:g} is not from 0 to 1.", hint="0.5 is even odds.")
        if self.answers is Answers.READ and self.least is not None:
            raise ConfigError(
                "--min-confidence is about the answer from memory, and --answer read gives none.",
                hint="Leave out one of them.",
            )
