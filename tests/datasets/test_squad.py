"""SQuAD's splits are the published ranges, from the hub and from the original files alike."""

import json
import sys

import datasets
import pytest

from mbc_engine.datasets import by_name
from mbc_engine.datasets.by_name import load_examples
from mbc_engine.errors import DataError

TRAIN, DEV = 87_599, 10_570


def original(questions):
    """SQuAD's layout: articles of seven paragraphs with five questions each, whose ids count from 0."""
    paragraphs = []
    for first in range(0, questions, 5):
        asked = [
            {"id": str(number), "question": f"{number}?", "answers": [{"text": f"the {number}"}, {"text": f"{number}"}]}
            for number in range(first, min(first + 5, questions))
        ]
        paragraphs.append({"context": f" Text {first}.", "qas": asked})
    articles = [{"title": f"T{at}", "paragraphs": paragraphs[at : at + 7]} for at in range(0, len(paragraphs), 7)]
    return {"version": "1.1", "data": articles}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files with as many questions as the original ones."""
    folder = tmp_path_factory.mktemp("original")
    (folder / "train-v1.1.json").write_text(json.dumps(original(TRAIN)))
    (folder / "dev-v1.1.json").write_text(json.dumps(original(DEV)))
    return folder


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder of Parquet files that stands for the hub's dataset; its train split is far too small."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(by_name, "HUB_ID", str(tmp_path / "hub"))
    for split, questions in (("train", 12), ("validation", DEV)):
        rows = [
            {
                "id": asked["id"],
                "title": article["title"],
                "context": paragraph["context"],
                "question": asked["question"],
                "answers": {"text": [answer["text"] for answer in asked["answers"]], "answer_start": [0, 0]},
            }
            for article in original(questions)["data"]
            for paragraph in article["paragraphs"]
            for asked in paragraph["qas"]
        ]
        datasets.Dataset.from_list(rows).to_parquet(tmp_path / "hub" / "data" / f"{split}-00000-of-00001.parquet")


def numbers(examples):
    return [int(example.id) for example in examples]


@pytest.mark.slow
def test_training_and_validation_splits(folder):
    everything = load_examples(str(folder / "train-v1.1.json"))
    assert numbers(everything) == list(range(TRAIN))
    training, validation = (by_name.cut_squad(split, everything) for split in ("train", "validation"))
    assert numbers(training) == list(range(42_118, 82_011))
    assert numbers(validation) == list(range(82_011, 87_599))
    assert load_examples(f"squad:validation:{folder}") == validation


def test_test_split_of_the_hub_and_the_original_files(folder, hub):
    examples = load_examples(f"squad:test:{folder}")
    assert numbers(examples) == list(range(1_665 * 5))
    assert load_examples("squad:test") == examples


def test_wrong_number_of_questions(hub, tmp_path):
    with pytest.raises(DataError, match="has 12 questions, not the 87,599"):
        load_examples("squad:train")
    (tmp_path / "dev-v1.1.json").write_text(json.dumps(original(7)))
    with pytest.raises(DataError, match=r"dev-v1\.1\.json has 7 questions, not the 10,570"):
        load_examples(f"squad:test:{tmp_path}")


def test_hub_without_network(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path))
    monkeypatch.setattr(by_name, "HUB_ID", "nobody/has-this")
    with pytest.raises(DataError, match="could not be downloaded from the hub") as caught:
        load_examples("squad:train")
    assert "squad:SPLIT:FOLDER" in caught.value.hint


def test_hub_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="package datasets") as caught:
        load_examples("squad:train")
    assert "-e '.[hub]'" in caught.value.hint
