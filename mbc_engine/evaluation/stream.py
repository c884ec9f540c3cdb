"""The stream of documents that an evaluation lives through, and the questions about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mbc_engine.datasets.example import QAExample
from mbc_engine.datasets.spacing import evenly_spaced
from mbc_engine.errors import DataError


@dataclass(frozen=True)
class Stream:
    """Documents in the order in which they arrive, each once.

    Attributes:
        documents: their texts.
        examples: all questions about them, in the dataset's order.
        most_questions: most questions that a protocol asks; None for all.
    """

    documents: tuple[str, ...]
    examples: tuple[QAExample, ...]
    most_questions: int | None = None

    @cached_property
    def place_of(self) -> dict[str, int]:
        """Each document's place."""
        return {text: place for place, text in enumerate(self.documents)}

    def about(self, start: int, end: int) -> list[QAExample]:
        """All questions about the documents of these places."""
        return [example for example in self.examples if start <= self.place_of[example.text] < end]

    def asked_about(self, end: int) -> list[QAExample]:
        """The questions to ask about the first `end` documents: all, or as many as are asked, evenly spaced."""
        return evenly_spaced(self.about(0, end), self.most_questions)


def stream(examples: Sequence[QAExample], documents: int | None = 1665, questions: int | None = None) -> Stream:
    """The first documents of a dataset and the questions about them.

    Args:
        examples: questions and their documents.
        documents: most documents, the paper's 1,665; None takes all.
        questions: most questions that a protocol asks, evenly spaced over those it could ask; None asks all. It is the
            questions that are fewer then, not the documents.

    Raises:
        DataError: there are no questions.
    """
    if not examples:
        raise DataError("There are no questions to ask.", hint="Give a dataset with questions to test with.")
    texts = tuple(dict.fromkeys(example.text for example in examples))[:documents]
    taken = set(texts)
    return Stream(texts, tuple(example for example in examples if example.text in taken), questions)
