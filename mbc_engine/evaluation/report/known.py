"""What a report takes as given: how methods are called and what they have to beat, and what the paper reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class KnownMethod:
    """A method by its title.

    Attributes:
        title: as tables call it.
        controls: the methods that it has to beat before its figures mean anything.
        spoilt_bank: of another method whose bank is taken away or spoilt, what that one is asked with, as it follows
            "with"; "" for methods of their own.
        is_told: whether it is told which document a question is about, so that nothing competes with it.
    """

    title: str
    controls: tuple[str, ...] = ()
    spoilt_bank: str = ""
    is_told: bool = False


@dataclass(frozen=True)
class PublishedScores:
    """The paper's figures of a method, in percent."""

    exact_match: float
    f1: float


@dataclass(frozen=True)
class PublishedStep:
    """The paper's bytes of a bank after `documents`, and F1 of the first ones in percent of what it was."""

    documents: int
    bank_bytes: int
    retention: float


@dataclass(frozen=True)
class PublishedUsage:
    """The paper's perplexity of code usage: a range, or from where on; and where it falls to without reset."""

    with_reset: tuple[float, ...]
    without_reset: float


@dataclass(frozen=True)
class Known:
    """What a report takes as given.

    Attributes:
        methods: by name, in the order of their lines.
        scores, retention: the paper's, by the names of base, dataset and method.
        code_usage: the paper's, by the names of base and dataset.
        documents: how many the paper's methods were asked about; 0 if unknown.
    """

    methods: Mapping[str, KnownMethod]
    scores: Mapping[tuple[str, str, str], PublishedScores] = field(default_factory=dict)
    retention: Mapping[tuple[str, str, str], tuple[PublishedStep, ...]] = field(default_factory=dict)
    code_usage: Mapping[tuple[str, str], PublishedUsage] = field(default_factory=dict)
    documents: int = 0

    def title(self, method: str) -> str:
        """What tables call a method."""
        return self.methods[method].title if method in self.methods else method

    def spoilt_bank(self, method: str) -> str:
        """What a method's bank is spoilt with; "" if it is none that does so."""
        return self.methods[method].spoilt_bank if method in self.methods else ""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Each method with each of its controls."""
        return [(name, control) for name, method in self.methods.items() for control in method.controls]
