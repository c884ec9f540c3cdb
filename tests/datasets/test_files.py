import csv
import gzip
import json

import pytest

from mbc_engine.datasets.files import load_examples
from mbc_engine.errors import DataError

ROW = {"text": "Ada moved to Aalen.", "question": "Where did Ada move?", "answers": ["Aalen", "In Aalen"]}


def test_json_lines_and_packed_ones_are_the_same(tmp_path):
    line = json.dumps(ROW)
    (tmp_path / "plain.jsonl").write_text(f"{line}\n\n{line}\n")
    with gzip.open(tmp_path / "packed.jsonl.gz", "wt") as file:
        file.write(f"{line}\n{line}\n")
    plain, packed = (load_examples(str(tmp_path / name)) for name in ("plain.jsonl", "packed.jsonl.gz"))
    assert plain == packed
    assert plain[0].answers == ("Aalen", "In Aalen")


def test_csv_answers_are_parted_by_backslashes(tmp_path):
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ROW))
        writer.writeheader()
        writer.writerow({**ROW, "answers": "Aalen\\In Aalen"})
    assert load_examples(str(path))[0].answers == ("Aalen", "In Aalen")


def test_generated_stories_come_by_name():
    assert len({example.text for example in load_examples("newswire:test:3")}) == 3


@pytest.mark.parametrize(
    "spec", ["newswire:test", "newswire:nowhere:3", "newswire:test:many", "newswire:test:-1", "none.csv", "rows.txt"]
)
def test_a_wrong_spec_is_an_error(spec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.txt").touch()
    with pytest.raises(DataError):
        load_examples(spec)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b'{"text": "t", "question": "q"}\n', "row 1 has no answers"),
        ("a.jsonl", b'{"text": "t", "question": "q", "answers": 3}\n', "row 1 has no list of answers"),
        ("a.jsonl", b"[]\n", "row 1 has no text"),
        ("a.jsonl", b"{}\n{\n", "row 1 has no"),
        ("a.jsonl", b'{"text": "t", "question": "q", "answers": "a"}\n{\n', "line 2 is not JSON"),
        ("a.jsonl", b"\xff\n", "cannot be read"),
        ("a.csv", b"text,question\na,b\n", "row 1 has no answers"),
        ("a.csv", b"text,question,answers\n" + b"x" * 200_000 + b",q,a\n", "cannot be read"),
        ("a.jsonl.gz", gzip.compress(b"x" * 1000)[:15] + b"damaged", "cannot be read"),
        ("a.jsonl.xz", b"not packed", "cannot be read"),
    ],
)
def test_a_damaged_file_says_where(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        load_examples(str(tmp_path / name))
