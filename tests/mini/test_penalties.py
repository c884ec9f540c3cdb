"""What speaks against answers, in texts written for it."""

import pytest

from mbc_engine.mini.penalties import (
    clauses_of_others,
    denied_edges,
    is_of_another_thing,
    labels,
    penalties,
    penalty,
    sections_of_others,
)
from mbc_engine.sources import Known


@pytest.mark.parametrize(
    ("question", "text", "begins", "ends"),
    [
        ("Who keeps the key?", "It is no longer Ann, who left, but Bea.", ["Ann"], ["It is"]),
        ("Who has a key?", "Bea has one. Ann doesn't have a key, Cy has no key.", [], ["Ann", "Cy"]),
        ("Where do we meet?", "We meet in the hall, not in the church.", ["church"], []),
        ("Who has no key?", "Ann doesn't have a key.", [], []),
        ("who doesnt have a key", "Ann doesn't have a key.", [], []),
        ("Which student has a key?", "Ann doesn't have a key.", [], ["Ann"]),
    ],
)
def test_what_a_text_denies(question, text, begins, ends):
    assert denied_edges(question, text) == (
        [text.index(word) for word in begins],
        [text.index(word) + len(word) for word in ends],
    )


@pytest.mark.parametrize(
    ("question", "text", "found"),
    [
        ("How many came?", "2. The carol concert\n\n173 people came.", ["2."]),
        ("When does it close on Sunday?", "Sunday; May to June: 10; July: closed", ["May to June"]),
        ("When does it close on Sunday?", "He said: on Sunday it closes at ten.", []),
    ],
)
def test_labels(question, text, found):
    assert [text[start:end] for start, end in labels(question, text)] == found


@pytest.mark.parametrize(
    ("question", "text", "found"),
    [
        ("What does it cost?", "~~5 €~~ 4 €", ["~~5 €~~"]),
        ("How many came last year?", "400 came, 57 more than last year.", ["57 more than"]),
        ("How many more came this year?", "400 came, 57 more than last year.", []),
        ("When was the fair?", "In 2024, more than 300 came.", []),
        ("When was the fair?", "In 2024 more than half came.", []),
        ("When was the fair?", "On 3 May more than 300 came.", []),
        ("Who came last?", "First: Bo 3, \u24c1\u24d0\u24e2\u24e3, x.", []),  # words of no letters
    ],
)
def test_what_is_struck_out_or_only_a_difference(question, text, found):
    assert [text[at.start : at.end] for at in penalties(question, text)] == found


PRINTERS = (
    "PRINT DATA of printers\n\nLITHO (Cork)\n bleed 3\n\nETIKETT\n bleed 2, no ink\n\nBANNER (large)\n bleed 50\n\n"
)


@pytest.mark.parametrize(
    ("question", "text", "others"),
    [
        ("Which bleed does etikett need?", PRINTERS, ["LITHO (Cork)", "BANNER (large)"]),
        ("Which bleed does a banner or litho need?", PRINTERS, ["ETIKETT"]),
        ("Which bleed do printers need?", PRINTERS, []),  # the title
        ("Which ink is needed?", PRINTERS, []),
        ("When is the mill closed?", "# Mill\n\n## Mill closed\n\n### Summer\n\nMay\n\n## Boat\n\nJune\n", ["## Boat"]),
        ("When is the mill closed?", "# Mill\n## Mill closed\nMay\n## Boat\nJune\n", ["## Boat"]),
        ("How much is the club for children?", "# A\n\n## Club\n\nIt is old.\n\n## Fees\n\nChildren pay 5.\n", []),
        ("How was the mill?", "Notes\n\nThe mill was good and\nsold.\n\nThen we went to\nthe sea.\n", []),
        ("When is the boat away?", "# Mill\n\n## Boat\n\nMay\n\n## Yard\n\nThe boat is away in June.\n", []),
    ],
)
def test_sections_of_others(question, text, others):
    found = [text[start:end] for start, end in sections_of_others(question, text)]
    assert [part.split("\n")[0] for part in found if part] == others


@pytest.mark.parametrize(
    ("question", "text", "others"),
    [
        (
            "What is the price outside the city?",
            "Within it costs 15 euros, outside 29.",
            ["Within it costs 15 euros, "],
        ),
        ("How good is the left eye?", "Acuity right 0.8, left 0.6. It is right.", ["Acuity right 0.8, "]),
        ("When is it open on Monday?", "Open Monday, Friday and Sunday from 9 to 12.", []),  # a list of days
        ("When is it open on Friday?", "Open Monday, Friday and Sunday from 9 to 12.", ["Open Monday, "]),
        ("Is it left or right?", "Right 0.8, left 0.6.", []),
        ("How old is it?", "Right 0.8, left 0.6.", []),
        ("Who left at 9?", "Ann left at 9, Bo right after her, at 10.", []),
        ("What may I bring?", "In May 3 bags, in March 2.", []),
        ("What is it in May?", "In May 3 bags, in March 2.", ["in March 2."]),
        ("Is the pool open on Sunday?", "On Saturday it is open, closed Sunday 2 May.", ["On Saturday it is open, "]),
        ("Is the pool open?", "It is open 9 to 12, closed at 1.", []),
    ],
)
def test_clauses_of_others(question, text, others):
    assert [text[start:end] for start, end in clauses_of_others(question, text)] == others


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
    ("question", "text", "is_another"),
    [
        ("Where do we sleep on 20 August?", "Day: 6; Date: 12 August; Place: Vik", True),
        ("Where do we sleep on 12 August?", "Day: 6; Date: 12 August; Place: Vik", False),
        ("Where do we sleep on 9 August?", "From 7 to 12 August we are in Vik.", False),
        ("Where do we sleep on 9 August?", "We sleep in Vik.", False),
        ("Where do we sleep on 9 September?", "Sep: Vik on 12 \u017fep", True),
    ],
)
def test_another_day(question: str, text: str, is_another: bool) -> None:
    start = text.index("Vik")
    assert bool(penalty(question, text, Known("", None), start, start + 3)) == is_another


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
