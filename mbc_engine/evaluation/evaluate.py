"""Strict EM, F1 and source ranks of a model with a given number of documents in the bank."""

from collections.abc import Iterator, Sequence

from mbc_engine.datasets.example import QAExample
from mbc_engine.errors import DataError
from mbc_engine.events import Evaluated, Event, QuestionsAnswered
from mbc_engine.model.mbc import MBC
from mbc_engine.model.scoring import Outcome, ask_all, score


def evaluate(
    model: MBC, examples: Sequence[QAExample], *, bank_documents: int | None = None, read_mode: str | None = None
) -> Iterator[Event]:
    """Answer every question from a bank of `bank_documents` documents that holds its own; last comes `Evaluated`.

    The documents are taken in order, `bank_documents` to a bank, and each question is asked of the bank with its
    document; a last, smaller group is left out unless it is the only one. None puts all documents in one bank.

    Raises:
        DataError: there are no questions.
        MBCError: the read does not fit the model.
    """
    if not examples:
        raise DataError("There are no questions to ask.", hint="Give --data a file with questions.")
    texts = list(dict.fromkeys(example.text for example in examples))
    size = min(bank_documents or len(texts), len(texts))
    groups = len(texts) // size
    group_of = {text: index // size for index, text in enumerate(texts)}
    members: list[list[QAExample]] = [[] for _ in range(groups)]
    for example in examples:
        if group_of[example.text] < groups:
            members[group_of[example.text]].append(example)
    total = sum(map(len, members))
    outcomes: list[Outcome] = []
    for group in members:
        for outcome in ask_all(model, group, read_mode=read_mode):
            outcomes.append(outcome)
            if len(outcomes) % 32 == 0 or len(outcomes) == total:
                yield QuestionsAnswered(len(outcomes), total)
    scores = score(outcomes)
    yield Evaluated(
        questions=scores.questions,
        bank_documents=size,
        banks=groups,
        exact_match=round(scores.exact_match, 2),
        f1=round(scores.f1, 2),
        lenient_match=round(scores.lenient_match, 2),
        first_source=round(scores.first_source, 2),
        in_five=round(scores.in_five, 2),
    )
