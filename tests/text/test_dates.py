"""Which time a question is about, and whether a passage is of another."""

import pytest

from mbc_engine.text.dates import Period, is_of_another_time, months_in, names_a_time, parts_of_other_years, period_in


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
        ("What is the fee for 2027?", Period(2027)),
        ("the 2026 budget of Heron", Period(2026)),
        ("budget 2026", Period(2026)),
        ("Who coached it from 2008 to 2009?", None),
    ],
)
def test_period_of_a_question(question, period):
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
def test_passages_of_another_time(text, day, is_other):
    assert is_of_another_time(Period(2023, 3), text, day) == is_other


@pytest.mark.parametrize(
    ("text", "months"),
    [
        ("gas for march and april", {3, 4}),
        ("gas bill jan+feb", {1, 2}),
        ("oct-dec", {10, 12}),
        ("the hours of may", {5}),
        ("From May to Sept.", {5, 9}),
        ("mar 4", {3}),
        ("Month: March; Gas: 42", {3}),
        ("# May\nRain", {5}),
        ("12.03.2024: gas", {3, 12}),
        ("You may march on. May I decide on Augusta, the mayor?", set()),
        ("Children under 12 may swim for 5 euros and may bring a guest. March on Washington", set()),
        ("What You May Bring [10/03/2024, 16:20] \u017fep", set()),
    ],
)
def test_months(text, months):
    assert months_in(text, in_figures=True) == months
    assert (months_in(text) == months) == ("12.03" not in text)


FEES = "The fee for 2027 is 72 EUR (2026: 66 EUR). It was paid since 2019. In 2025, it was 64 EUR."


@pytest.mark.parametrize(
    ("question", "text", "parts"),
    [
        ("What is the fee for 2026?", FEES, ["The fee for 2027 is 72 EUR (", "In 2025, ", "it was 64 EUR."]),
        ("What is the fee for 2027?", FEES, ["2026: 66 EUR)", "In 2025, ", "it was 64 EUR."]),
        ("When was the fee for 2026 set?", FEES, []),
        ("What is the fee?", FEES, []),
        ("What was it in 2021?", "It was 4 from 2019 on, 5 between 2020 and 2022. We paid 1800 EUR.", []),
        ("Which price in 2026?", "Item: Pumps; 2025: 52; 2026: 61; Price: 1950", ["2025: 52; "]),
        ("Which price in 2026?", "Year: 2025; Price: 64", ["Year: 2025; ", "Price: 64"]),
        ("Which balance in 2025?", "# Year 2025\nFees: 7\n\nYear 2026\nFees: 8", ["Year 2026", "Fees: 8"]),
        ("Who won in 2026?", "Ada won in 2025/26, Bo in 2024/25, Cy on 2025-12-26.",
         ["Bo in 2024/25, ", "Cy on 2025-12-26."]),
    ],
)  # fmt: skip
def test_parts_about_other_years(question, text, parts):
    assert [text[start:end] for start, end in parts_of_other_years(question, text)] == parts


@pytest.mark.parametrize("text", ["every Friday", "after the harvest", "5 May", "last autumn"])
def test_times(text):
    assert names_a_time(text) and not names_a_time("the motor lift")
