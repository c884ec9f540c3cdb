"""Asking questions of a memory of their own documents."""

import pytest

from mbc_engine.datasets.examples import QAExample
from mbc_engine.paper.scoring import ask_all, score


def example(text):
    return QAExample(text[:5], text, "Where did Ada move?", ("Bergen",))


@pytest.mark.parametrize("is_quantising", [True, False])
def test_sources_are_found_among_documents_of_any_length(tiny, is_quantising):
    model = tiny.model()
    model.is_quantising = is_quantising
    long = " ".join(
        f"{name} moved to Bergen in the spring." for name in ("Adabo", "Bruka", "Claro", "Darimir", "Edibo")
    )
    texts = ["Ada moved to Bergen.", " \n", long, "Hugo moved to Haifa."]
    assert [len(model.documents.chunker(text)) for text in texts] == [1, 0, 2, 1]
    outcomes = list(ask_all(model, [*map(example, texts), example(long)], read_mode="flat"))
    assert [rank is None for *_, rank in outcomes] == [False, True, False, False, False]
    assert outcomes[2][2] == outcomes[4][2]
    assert {outcomes[number][2] for number in (0, 2, 3)} == {0, 1, 2}
    scores = score(outcomes)
    assert (scores.questions, scores.first_source) == (5, 20.0 * sum(rank == 0 for *_, rank in outcomes))
