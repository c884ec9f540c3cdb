"""What speaks against answers, in texts written for it."""

import pytest

from mbc_engine.mini.penalties import (
    is_of_another_thing,
    penalty,
)
from mbc_engine.sources import Known


@pytest.mark.parametrize(
    ("question", "text", "is_another"),
    [
        ("what is the rent of flat b", "Flat C is let.", True),
        ("rent of flat a?", "birch lane flat b\nThe tenant pays a rent.", True),
        ("rent of flat a?", "birch lane flat a\nThe tenant pays a rent.", False),
        ("What is flat B's rent?", "The flat a tenant rents", False),
        ("what is the rent of flat b", "Flats A and B, as flat C", False),
        ("who is the tenant of flat b", "Month: May; Flat: A; Tenant: Bo", True),
        ("what can a tenant do", "What can I do", False),
        ("What did George W Bush say?", "George H. W. Bush", False),
        ("Who invigilates Physics Paper 1?", "Subject: Physics Paper 2; Length: 1 h 45 min", True),
        ("Who invigilates Physics Paper 1?", "Physics paper 1 and Paper 2", False),
        ("What happened on May 12?", "On May 13", False),  # a time
        ("who teaches in room 14", "Rooms 12 and 14", False),
        ("What is the seventh lesson on Monday?", "Lesson: 6; Monday: Art", True),
        ("What is the sixth lesson on Monday?", "Lesson: 6; Monday: Art", False),
        ("Who came to the second lesson?", "Lesson 2 was full.", False),
        ("Who came to the second lesson?", "Lesson 3 was full.", True),
        ("Who signed the first page?", "Ann, see page 12.", False),
        ("Who came to the \u017fecond lesson?", "Lesson 3 was full.", False),
    ],
)
def test_another_thing(question: str, text: str, is_another: bool) -> None:
    assert is_of_another_thing(question, text) == is_another


@pytest.mark.parametrize(
    ("question", "span", "is_unfitting"),
    [
        ("How often is it wound?", "in minutes", True),
        *(("How often is it wound?", span, False) for span in ("30 minutes", "every noon", "daily", "twice a week")),
        ("How many are there?", "boats", True),
        ("How many are there?", "two boats", False),
    ],
)
def test_what_an_answer_has_to_have(question: str, span: str, is_unfitting: bool) -> None:
    assert bool(penalty(question, span, Known("", None), 0, len(span))) == is_unfitting
