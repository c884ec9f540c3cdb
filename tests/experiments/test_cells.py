import pytest

from mbc_engine.errors import DataError
from mbc_engine.experiments.cells import cells, read_data


def data_of(settings):
    (cell,) = cells(settings)
    return read_data(cell, settings)


def test_the_stream_is_the_first_documents(settings, examples):
    data = data_of(settings())
    assert data.test.documents == tuple(example.text for example in examples(40)[26:34])
    assert len(data.train) == 20
    assert data.question_train == data.train
    assert len(data.validation) == 6


def test_without_validation_questions_documents_are_held_back(settings):
    given = settings()
    dataset = given.datasets[0].model_copy(update={"validation": None})
    data = data_of(given.model_copy(update={"datasets": [dataset]}))
    assert (len(data.train), len(data.validation)) == (18, 2)
    assert not {own.text for own in data.train} & {own.text for own in data.validation}


def test_testing_with_what_was_trained_on_is_refused(settings):
    given = settings()
    dataset = given.datasets[0]
    for changes in ({"train": [dataset.test]}, {"validation": dataset.test}, {"questions_train": [dataset.test]}):
        with pytest.raises(DataError, match="8 of the 8 documents"):
            data_of(given.model_copy(update={"datasets": [dataset.model_copy(update=changes)]}))


def test_fewer_training_questions_are_spread_evenly(settings):
    given = settings()
    dataset = given.datasets[0].model_copy(update={"most_train": 5})
    data = data_of(given.model_copy(update={"datasets": [dataset]}))
    assert [own.id for own in data.train] == ["0", "4", "8", "12", "16"]
