"""Training sets: documents kept once, epochs in a seeded order that can be entered anywhere."""

import pytest

from mbc_engine.datasets.layout import QAExample
from mbc_engine.training.data import TrainingSet


def example(text: str, question: str, *answers: str) -> QAExample:
    return QAExample(question, text, question, answers or ("yes",))


@pytest.fixture
def data() -> TrainingSet:
    return TrainingSet(
        [example("A", "a1"), example("B", "b1", "long answer", "short"), example("A", "a2"), example("C", "c")]
    )


def test_distinct_documents_and_shortest_answers(data: TrainingSet) -> None:
    assert data.documents == ["A", "B", "C"]
    assert data.questions == ["a1", "b1", "a2", "c"]
    assert data.answers == ["yes", "short", "yes", "yes"]


def test_batch(data: TrainingSet) -> None:
    batch = data.batch([3, 2, 0])
    assert (batch.examples, batch.documents, batch.positions) == ([3, 2, 0], [2, 0], [0, 1, 1])


def test_epoch_drops_a_partial_batch() -> None:
    data = TrainingSet([example(str(index), str(index)) for index in range(10)])
    batches = [batch.examples for batch in data.epoch(0, 4, seed=1)]
    assert data.steps(4) == 2
    assert [len(batch) for batch in batches] == [4, 4]
    assert len({index for batch in batches for index in batch}) == 8


def test_small_set_is_one_batch(data: TrainingSet) -> None:
    assert data.steps(64) == 1
    (batch,) = data.epoch(0, 64, seed=0)
    assert sorted(batch.examples) == [0, 1, 2, 3]


def test_order_of_an_epoch() -> None:
    data = TrainingSet([example(str(index), str(index)) for index in range(30)])

    def order(epoch: int, seed: int, skip: int = 0) -> list[list[int]]:
        return [batch.examples for batch in data.epoch(epoch, 5, seed=seed, skip=skip)]

    assert order(0, 7) == order(0, 7)
    assert order(0, 7) != order(1, 7)
    assert order(0, 7) != order(0, 8)
    assert order(0, 7, skip=2) == order(0, 7)[2:]
    assert order(0, 7, skip=6) == []
