"""Predictions: how replies are scored, what they come to, and the file they are kept in."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.datasets.layout import QAExample
from mbc_engine.errors import DataError
from mbc_engine.evaluation.results import Prediction, predict, read_predictions, score, write_predictions
from mbc_engine.methods.method import MethodReply

ASKED = QAExample("7", "Ada moved to the old port of Bergen.", "Where?", ("the old port of Bergen", "Bergen"))
WORDS = st.text(st.characters(exclude_categories=["Cs"]))
PREDICTIONS = st.builds(
    Prediction,
    id=WORDS,
    document=st.integers(0, 10**6),
    question=WORDS,
    answers=st.lists(WORDS).map(tuple),
    answer=WORDS,
    exact_match=st.booleans(),
    f1=st.floats(0, 1),
    lenient_match=st.booleans(),
    rank=st.none() | st.integers(0, 4),
)


def predicted(reply: MethodReply, golds: str = "shortest") -> Prediction:
    return predict(ASKED, reply, document=12, place=2, golds=golds)  # type: ignore[arg-type]


def test_a_prediction_tells_everything_of_the_question():
    assert predicted(MethodReply("Bergen harbour")) == Prediction(
        "7", 12, "Where?", ASKED.answers, "Bergen harbour", False, pytest.approx(2 / 3), True, None
    )


def test_golds_are_the_shortest_or_any():
    assert predicted(MethodReply("old port of Bergen")).f1 == pytest.approx(2 / 5)
    assert predicted(MethodReply("old port of Bergen"), "any").exact_match


@pytest.mark.parametrize(
    ("sources", "rank"),
    [(None, None), ((), None), ((2,), 0), ((9, 8, 7, 6, 2), 4), ((9, 8, 7, 6, 5, 2), None), ((12,), None)],
)
def test_the_rank_is_of_the_documents_place_among_the_first_five(sources, rank):
    assert predicted(MethodReply("", sources)).rank == rank


def test_an_answer_that_no_file_can_hold_is_kept_as_well_as_it_can_be(tmp_path):
    own = predicted(MethodReply("Berg\ud800en\0"))
    write_predictions([own], tmp_path / "p.jsonl")
    assert read_predictions(tmp_path / "p.jsonl") == [own]
    assert own.answer == "Berg\ufffden\ufffd"


def test_scores_are_means_in_percent():
    right = replace(predicted(MethodReply("Bergen", (2,))), document=0)
    half = replace(right, exact_match=False, f1=0.5, rank=3)
    wrong = replace(right, document=1, exact_match=False, f1=0.0, lenient_match=False, rank=None)
    scores = score([right, half, half, wrong], names_sources=True, seed=0)
    assert scores.questions == 4
    assert (scores.exact_match.value, scores.f1.value, scores.lenient_match) == (25, 50, 75)
    assert (scores.first_source, scores.in_five) == (25, 75)
    # With both documents, one of them twice, or the other twice: the mean of f1 is 1/2, 2/3, or 0.
    assert (scores.f1.low, scores.f1.high) == pytest.approx((0, 200 / 3))


@given(st.lists(PREDICTIONS, max_size=4))
def test_what_is_written_is_read(tmp_path_factory, predictions):
    path = tmp_path_factory.getbasetemp() / "round-trip.jsonl"
    write_predictions(predictions, path)
    assert read_predictions(path) == predictions
    assert path.read_bytes().count(b"\n") == len(predictions)


class TestDamage:
    @pytest.fixture
    def kept(self, tmp_path: Path) -> Path:
        write_predictions([predicted(MethodReply("Bergen"))] * 2, tmp_path / "p.jsonl")
        return tmp_path / "p.jsonl"

    @pytest.mark.parametrize(
        ("old", "new", "told"),
        [
            (b'"f1":1.0', b'"f1":"1.0"', "line 1 is not a prediction: f1: Input should be a valid number."),
            (b'"rank":null', b'"rang":null', "line 1 is not a prediction: rank: Field required."),
            (b'{"id"', b'"id"', "line 1 is not a prediction: Invalid JSON"),
            (b"Bergen", b"\xff", "line 1 is not a prediction: Invalid JSON"),
        ],
    )
    def test_a_line_that_is_none_is_named(self, kept, old, new, told):
        kept.write_bytes(kept.read_bytes().replace(old, new, 1))
        with pytest.raises(DataError) as caught:
            read_predictions(kept)
        assert caught.value.message.startswith(f"{kept}, {told}")

    def test_an_empty_line_is_none(self, kept):
        kept.write_bytes(kept.read_bytes().replace(b"\n", b"\n\n", 1))
        with pytest.raises(DataError, match="line 2 is not a prediction"):
            read_predictions(kept)

    def test_a_line_that_is_cut_off_is_named(self, kept):
        kept.write_bytes(kept.read_bytes()[:-1])
        with pytest.raises(DataError, match=r"is cut off in line 2\.$"):
            read_predictions(kept)

    def test_a_missing_file_is_named(self, kept):
        kept.unlink()
        with pytest.raises(DataError, match=r"p.jsonl cannot be read: No such file or directory\.$"):
            read_predictions(kept)
