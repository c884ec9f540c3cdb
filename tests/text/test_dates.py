"""Which time a question is about, and whether a passage is of another."""

import pytest

from mbc_engine.text.dates import Period, is_of_another_time, period_in


@pytest.mark.parametrize(
    ("question", "period"),
    [
        ("Who came on 14 May 2024?", Period(2024, 5, 14)),
        ("who came on may 14th, 2024", Period(2024, 5, 14)),
        ("2024-05-14", Period(2024, 5, 14)),
        ("What was the bill in March 2023?", Period(2023, 3)),
        ("Who was the treasurer in 2019?", Period(2019)),
        ("How many of the 2019 in 1999 and in 2001?", None),
        ("Who came on 31 February 2024?", Period(2024, 2)),
        ("Who has 2000 boats?", None),
    ],
)
def test_period_of_a_question(question: str, period: Period | None) -> None:
    assert period_in(question) == period


@pytest.mark.parametrize(
    ("text", "day", "is_other"),
    [
        ("Household report, March 2024. Electricity 113.20.", None, True),
        ("Household report, March 2023.", None, False),
        ("Written in 2022.", "2023-03-01", False),
        ("It names no year, only 1,999 euros.", "2020-01-01", False),
        ("12 April 2023", None, True),
    ],
)
def test_passages_of_another_time(text: str, day: str | None, is_other: bool) -> None:
    assert is_of_another_time(Period(2023, 3), text, day) == is_other
