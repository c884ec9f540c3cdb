import pytest

from mbc_engine.experiments.cells import BaseSettings, Cell, DatasetSettings, ExperimentSettings
from mbc_engine.experiments.materials import Materials


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_without_training_documents_a_wrong_bank_takes_news_that_the_stream_does_not_have(split, tmp_path):
    base = BaseSettings(name="mini", title="mini", model="mini")
    dataset = DatasetSettings(name="news", title="News", test=f"newswire:{split}:4")
    settings = ExperimentSettings(title="", bases=[base], datasets=[dataset], methods=["mbc-wrong"])
    materials = Materials(Cell(base, dataset), settings, tmp_path, tmp_path, "cpu")
    others = materials.other_documents()
    assert len(others) == len(materials.data.test.documents) == 4
    assert set(others).isdisjoint(materials.data.test.documents)
