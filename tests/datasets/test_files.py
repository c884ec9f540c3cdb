"""Question files: every layout, and what can be wrong with them."""

import csv
import gzip
import io
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mbc_engine.datasets.examples import read_examples
from mbc_engine.errors import DataError
from tests.datasets.conftest import ROW, as_lines

ARCHIVAL = {
    "id": "train_0",
    "question": "Where did Ada move?",
    "answer": "Aalen",
    "para_id": "17_1",
    "doc_id": 17,
    "title": "A Move",
    "text": "['Bruno stayed.', 'Ada moved to Aalen.']",
    "para_num": 1,
    "ans_paragraph": "Ada moved to Aalen.",
    "ans_text": "Bruno stayed.\nAda moved to Aalen.",
}


@pytest.fixture
def load(tmp_path):
    """The examples in a file of this name and content."""

    def load(name, content):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_examples(tmp_path / name)

    return load


def as_csv(*rows):
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def test_compressed_files(load):
    line = json.dumps(ROW)
    plain = load("plain.jsonl", f"{line}\n\n{line}\n")
    assert plain == load("packed.jsonl.GZ", gzip.compress(f"{line}\n{line}\n".encode()))
    assert plain[0].answers == ("Aalen", "In Aalen")


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_backslashes_separate_answers(load, name):
    row = {**ROW, "answers": "Aalen\\In Aalen"}
    assert load(name, (as_csv if name == "rows.csv" else as_lines)(row))[0].answers == ("Aalen", "In Aalen")


@pytest.mark.parametrize(("name", "written"), [("a.csv", as_csv), ("a.jsonl", as_lines)])
def test_archivalqa(load, name, written):
    (example,) = load(name, written(ARCHIVAL))
    assert example.text == "Ada moved to Aalen."
    assert example.answers == ("Aalen",)
    assert (example.id, example.title) == ("train_0", "A Move")


def test_byte_order_marks_and_crlf(load):
    content = "\ufefftext,question,answers\r\n" + '"One,\r\ntwo ""three"".",Which?,Two\r\n' + "\r\n"
    (example,) = load("a.csv", content)
    assert example.text == 'One,\r\ntwo "three".'
    assert load("a.jsonl", "\ufeff" + as_lines(ROW))


def test_answers_are_stripped(load):
    row = {**ROW, "question": " Where? ", "answers": ["", " Aalen\n", "  ", 1912, 10**400]}
    (example,) = load("a.jsonl", as_lines(row))
    assert (example.question, example.answers) == ("Where?", ("Aalen", "1912", f"{10**400}"))


def test_ids(load):
    rows = [ROW, {**ROW, "id": 7}, {**ROW, "id": None}, {**ROW, "id": ""}]
    assert [example.id for example in load("a.jsonl", as_lines(*rows))] == ["1", "7", "3", "4"]


def test_surrogates_and_nulls_are_replaced(load):
    (example,) = load("a.jsonl", as_lines({**ROW, "text": "half \ud800 a letter\0", "title": "\udc00"}))
    assert (example.text, example.title) == ("half \ufffd a letter\ufffd", "\ufffd")


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0\\"), min_size=1).filter(str.strip)
ROWS = st.lists(
    st.fixed_dictionaries({"text": WORDS, "question": WORDS, "answers": st.lists(WORDS, min_size=1)}), min_size=1
)


@given(ROWS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip(load, rows):
    expected = [(row["text"], row["question"].strip(), tuple(map(str.strip, row["answers"]))) for row in rows]
    for_csv = [{**row, "answers": "\\".join(row["answers"])} for row in rows]
    for examples in (load("a.jsonl", as_lines(*rows)), load("a.csv", as_csv(*for_csv))):
        assert [(example.text, example.question, example.answers) for example in examples] == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "t", "question": "q"}\n', "a.jsonl has no answers; its columns are text, question."),
        ("a.csv", "text,question\na,b\n", "a.csv has no answers; its columns are text, question."),
        ("a.csv", "qa_id,question,answers\n0,q,a\n", "has no text; its columns are qa_id, question, answers."),
        ("a.csv", "id,question,answer\n0,q,a\n", "has no ans_paragraph; its columns are id, question, answer."),
        ("a.csv", f"{'x' * 50},{','.join('abcdefghijkl')}\n1,2\n", f"are {'x' * 30}…, {', '.join('abcdefghijk')}, …"),
        ("a.jsonl", "[]\n", "has no text, question, answers; its columns are none."),
        ("a.jsonl", as_lines(ROW, {**ROW, "question": "\n"}), "a.jsonl, row 2 has no question."),
        ("a.jsonl", as_lines(ROW, {"text": "t"}), "row 2 has no question."),
        ("a.jsonl", as_lines(ROW, [1]), "row 2 is not an object with columns."),
        ("a.jsonl", as_lines({**ROW, "text": 3}), "row 1 has a value for text that is not text."),
        ("a.jsonl", as_lines({**ROW, "text": float("nan")}), "row 1 has a value for text that is not text."),
        ("a.jsonl", as_lines({**ROW, "answers": 3}), "row 1 has a value for answers that is neither text nor a list."),
        ("a.jsonl", as_lines({**ROW, "answers": [" "]}), "row 1 has no answers."),
        ("a.jsonl", as_lines({**ROW, "answers": [float("nan")]}), "row 1 has an answer that is not text."),
        ("a.jsonl", as_lines({**ROW, "answers": [True]}), "row 1 has an answer that is not text."),
        ("a.jsonl", as_lines(ROW) + "{\n", "a.jsonl cannot be read: line 2 is not JSON."),
        ("a.jsonl", as_lines(ROW) + "[" * 100_000 + "\n", "line 2 is not JSON."),
        ("a.jsonl", "", "a.jsonl holds no questions."),
        ("a.csv", "text,question,answers\n", "a.csv holds no questions."),
        ("a.csv", "text,question,answers\nt,q,\n", "row 1 has no answers."),
        ("a.csv", "text,question,answers\nt,q\n", "row 1 has no answers."),
        ("a.csv", "text,question,answers\nt,q,a\nOne, two.,q,a\n", "row 2 has more cells than the header."),
        ("a.csv", "text,question,answers,answers\nt,q,a,b\n", "a.csv has 2 columns answers."),
        ("a.csv", 'text,question,answers\nt,q,a\n"never closed,q,a\n',
         "a.csv cannot be read: unexpected end of data, after line 2."),
        ("a.csv", f"text,question,answers\n{'x' * (17 << 20)},q,a\n",
         "cannot be read: field larger than field limit (16777216), after line 1."),
        ("a.csv", "text,question,answers\nCaf\u00e9,q,a\n".encode("cp1252"), "a.csv is not UTF-8."),
        ("a.jsonl", as_lines(ROW).encode("utf-16"), "a.jsonl is not UTF-8."),
        ("a.jsonl.gz", gzip.compress(as_lines(ROW).encode(), mtime=0)[:-9], "cannot be read: Compressed file ended"),
        ("a.jsonl.xz", b"not packed", "cannot be read"),
        ("a.json", "{", "a.json cannot be read: "),
        ("a.json", as_lines(ROW), "a.json is not in SQuAD's format"),
        ("a.json", json.dumps([ROW]), "a.json is not in SQuAD's format"),
    ],
)  # fmt: skip
def test_errors(load, name, content, message):
    with pytest.raises(DataError) as caught:
        load(name, content)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_a_folder_is_not_a_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"is a folder\.$"):
        read_examples(tmp_path)
