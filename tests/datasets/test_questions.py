"""Questions without answers, from files and streams, and splits by document."""

import gzip
import io
import lzma
from collections import Counter
from dataclasses import replace
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.datasets.examples import QAExample
from mbc_engine.datasets.questions import Question, hold_out, load_questions, permuted, stream_questions
from mbc_engine.errors import DataError

JSON = '{"question": " Who won? ", "id": "a"}\n\n{"question": "Who lost?", "text": "more"}\n'
TEXT = "\ufeffWho won?\n\n  {Who} lost?\r\n"


@pytest.mark.parametrize(("suffix", "packed"), [("", bytes), (".gz", gzip.compress), (".XZ", lzma.compress)])
def test_json_keeps_ids_and_counts_lines(tmp_path, suffix, packed):
    path = tmp_path / f"q.jsonl{suffix}"
    path.write_bytes(packed(JSON.encode()))
    assert load_questions(path) == [Question("a", "Who won?"), Question(3, "Who lost?")]


@pytest.mark.parametrize("name", ["q.txt", "q"])
def test_text_is_a_question_a_line(tmp_path, name):
    (tmp_path / name).write_text(TEXT)
    assert load_questions(tmp_path / name) == [Question(1, "Who won?"), Question(3, "{Who} lost?")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "has no question"),
        ('{"question": "  "}', "has no question"),
        ('{"question": 7}', "has no question"),
        ('{"question": "Who?", "id": NaN}', "has an id that is not JSON"),
        ('{"question": "Who?", "id": [{"a": -1e999}]}', "has an id that is not JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    (tmp_path / "q.jsonl").write_text(f"{JSON}{line}\n")
    with pytest.raises(DataError, match=f"line 4 {message}"):
        load_questions(tmp_path / "q.jsonl")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.jsonl", None, "cannot be read: no such file"),
        ("q.csv", b"question\n", "is not a .jsonl or .txt file"),
        ("q.txt", b" \n\n", "holds no questions"),
        ("q.txt", b"\x00\x01\x02\xff" * 9, "looks binary"),
        ("q.txt.gz", gzip.compress(b"Who?\n" * 99, mtime=0)[:-9], "is damaged"),
    ],
)
def test_what_cannot_be_used_is_an_error(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_questions(tmp_path / name)


def test_what_arrives_together_comes_together():
    blocks = Mock(read1=Mock(side_effect=[b"\xef\xbb\xbfA?\nB", b"?\n\n", b"C?\nD", b""]))
    groups = stream_questions(blocks, "stdin")
    assert [[question.text for question in group] for group in groups] == [["A?"], ["B?"], ["C?"], ["D"]]


def test_what_came_before_a_bad_line_is_given_first():
    groups = stream_questions(io.BytesIO(b'{"question": "A?"}\n{"question": "B?"}\nC?\n'), "stdin")
    assert [question.text for question in next(groups)] == ["A?", "B?"]
    with pytest.raises(DataError, match="stdin, line 3 is not JSON"):
        next(groups)


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.floats(0, 1), st.integers(1, 20))
def test_hold_out_splits_by_document(texts, share, most):
    examples = [QAExample(str(number), text, "?", ("!",)) for number, text in enumerate(texts)]
    training, validation = hold_out(examples, share, max_questions=most)
    assert not {one.text for one in training} & {one.text for one in validation}
    assert sorted([*training, *validation], key=lambda one: int(one.id)) == examples
    assert bool(training) == bool(examples)
    assert bool(validation) == (len(set(texts)) > 1)
    held = Counter(one.text for one in validation)
    assert len(held) <= 1 or held.total() <= most


def test_permuted_questions_have_a_document_that_is_not_theirs():
    asked = [QAExample(str(n), f"Text {n // 2}.", f"Question {n}?", ("a",)) for n in range(6)]
    other = permuted(asked)
    assert [one.text for one in other] == ["Text 1.", "Text 1.", "Text 2.", "Text 2.", "Text 0.", "Text 0."]
    assert [replace(one, text=two.text) for one, two in zip(other, asked, strict=True)] == asked
