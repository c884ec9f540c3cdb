"""The validation split shares no document with the training split."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.datasets.layout import QAExample
from mbc_engine.datasets.questions import hold_out


def example(text, number=0):
    return QAExample(str(number), text, "?", ("!",))


@given(
    texts=st.lists(st.sampled_from("abcdefgh"), max_size=60),
    share=st.floats(0, 1),
    most=st.integers(1, 20),
)
def test_parts_share_no_document_and_lose_nothing(texts, share, most):
    examples = [example(text, number) for number, text in enumerate(texts)]
    training, validation = hold_out(examples, share, max_questions=most)
    assert not {one.text for one in training} & {one.text for one in validation}
    assert sorted([*training, *validation], key=lambda one: int(one.id)) == examples
    assert bool(training) == bool(examples)
    assert bool(validation) == (len(set(texts)) > 1)
    held = Counter(one.text for one in validation)
    assert len(held) <= 1 or held.total() <= most


def test_the_last_documents_are_held_back():
    examples = [example(text) for text in "abcab" + "defghij"]
    assert [one.text for one in hold_out(examples, 0.2)[1]] == ["i", "j"]


def test_no_more_documents_than_give_the_questions_wanted():
    examples = [example(text) for text in "aabbccdd"]
    assert [one.text for one in hold_out(examples, 0.75, max_questions=4)[1]] == list("ccdd")


def test_a_single_document_is_trained_on():
    training, validation = hold_out([example("a"), example("a")], 0.5)
    assert (len(training), validation) == (2, [])
