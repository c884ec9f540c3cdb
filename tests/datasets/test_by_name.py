"""Datasets by name: what a name means, and parts of a whole."""

from pathlib import Path

import pytest

from mbc_engine.datasets.by_name import absolute, file_of, is_of_hub, load_examples, own_validation
from mbc_engine.errors import DataError
from tests.datasets.conftest import ROW, as_lines


@pytest.mark.parametrize(
    "spec",
    [
        *("newswire:test:3", "none.csv", "rows.txt", "", "n" * 300, "squad", "squad:", "squad:dev", "squad:train:"),
        *(f"squad:train:{'n' * 300}", "squad:train:~nobody-here/it"),
    ],
)
def test_a_wrong_spec_is_an_error(spec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.txt").touch()
    with pytest.raises(DataError):
        load_examples(spec)


def test_an_absolute_name_means_the_same_in_every_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert absolute("a.csv") == str(tmp_path / "a.csv")
    assert absolute("squad:test:original") == f"squad:test:{tmp_path / 'original'}"
    assert absolute("squad:test:~/it") == f"squad:test:{tmp_path / 'home' / 'it'}"
    for already in ("squad:train", "squad:test:/a:b", "squad:test[:4]", "/elsewhere/rows.csv"):
        assert absolute(already) == absolute(already, tmp_path / "elsewhere") == already
    assert absolute("rows.csv[2:]", tmp_path) == f"{tmp_path}/rows.csv[2:]"
    assert absolute("squad:test:here[:9]", tmp_path) == f"squad:test:{tmp_path}/here[:9]"


@pytest.mark.parametrize(
    ("sources", "validation"),
    [
        (["squad:train"], "squad:validation"),
        (["squad:train:/original[:9]"], "squad:validation:/original"),
        (["squad:test"], None),
        (["squad:train", "train.csv"], None),
        (["train.csv"], None),
    ],
)
def test_a_training_on_squad_alone_has_a_validation_of_its_own(sources, validation):
    assert own_validation(sources) == validation


@pytest.mark.parametrize(
    ("part", "taken"),
    [("", "abac"), ("[:1]", "aa"), ("[1:]", "bc"), ("[1:2]", "b"), ("[0:9]", "abac"), ("[:]", "abac"), ("[2:3]", "c")],
)
def test_a_part_is_of_documents_with_all_their_questions(tmp_path, part, taken):
    path = tmp_path / "rows.jsonl"
    path.write_text(as_lines(*({**ROW, "text": text} for text in "abac")))
    assert "".join(example.text for example in load_examples(f"{path}{part}")) == taken


def test_a_part_without_documents_is_an_error_that_counts_them(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(as_lines(ROW))
    with pytest.raises(DataError, match="holds no questions") as caught:
        load_examples(f"{path}[1:]")
    assert caught.value.hint == f"{path} has 1 documents."


def test_where_a_dataset_comes_from():
    assert file_of("/here/rows.csv[2:]") == Path("/here/rows.csv")
    assert file_of("squad:test:/here[:9]") == Path("/here")
    assert (file_of("squad:test[:9]"), is_of_hub("squad:test[:9]")) == (None, True)
    assert not is_of_hub("squad:test:/here")
