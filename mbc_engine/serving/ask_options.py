"""How questions are answered; without torch, so that front ends can check what was typed before a model is loaded."""

from collections.abc import Callable
from dataclasses import dataclass

from mbc_engine.bank import Selection
from mbc_engine.errors import ConfigError


@dataclass(frozen=True)
class AskOptions:
    """The options of a question, see `Recall.ask`.

    Raises:
        ConfigError: a value is out of range.
    """

    read_mode: str | None = None
    selection: Selection | None = None
    sources: int = 3
    min_confidence: float | None = None
    with_codes: bool = False
    max_new_tokens: int = 16
    beams: int = 1
    on_token: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            raise ConfigError(
                f"--min-confidence {self.min_confidence:g} is not between 0 and 1.", hint="0.5 means even odds."
            )
