"""How likely an answer is right, by hand."""

import math
from dataclasses import replace
from typing import get_args

import pytest

from mbc_engine.config import AnswerConfidence, Feature
from mbc_engine.mini.confidence import PRIOR_WEIGHT, features, label_of, probability
from mbc_engine.mini.span_reader import Span


def span(text, margin, *rivals, log=-1.0):
    return Span(text, 0, 0, len(text), margin, log, ((text, log), *rivals))


def of_reader(spans, shares):
    values = features("Who?", [""] * len(spans), "", spans, shares, 0)
    return values["margin"], values["votes"]


def test_features():
    # In the first passage: "New York" e^2 of no answer's 1, "York" e^1; in the second "Haifa" e^0. Equal shares.
    first = span("New York", 2.0, ("York", -2.0), log=-1.0)
    second = span("Haifa", 0.0, log=-2.0)
    margin, votes = of_reader([first, second], [1.0, 1.0])
    # "York" has F1 2/3 with "New York".
    behind, total = math.exp(2) + math.exp(1) * 2 / 3, math.exp(2) + math.exp(1) + 1
    assert votes == pytest.approx(math.log(behind / (total - behind)))
    assert margin == 2.0


def test_votes_count_by_share():
    first, second = span("Ada", 0.0), span("Hugo", 0.0)
    _, votes = of_reader([first, second], [1.0, math.exp(-2 / PRIOR_WEIGHT)])
    assert votes == pytest.approx(2.0)


def test_unanimous_votes():
    _, votes = of_reader([span("Ada", 0.0), span("the Ada", -3.0), None], [0.5, 0.5, 0.1])
    assert votes == pytest.approx(math.log((1 - 1e-4) / 1e-4))


@pytest.mark.parametrize(
    ("shares", "found"), [([0.5, 0.9], math.log(0.9)), ([1e-3], -2.0), ([0.0], -2.0), ([1.0], 0.0)]
)
def test_the_search_prefers_a_passage(shares, found):
    spans = [span("Ada", 1.0)] * len(shares)
    assert features("Who?", [""] * len(spans), "", spans, shares, 0)["found"] == pytest.approx(found)


def test_probability_is_the_sigmoid_of_the_weighted_features():
    settings = AnswerConfidence(weights={"margin": 0.5, "votes": 0.25}, intercept=-1.0)
    values = dict.fromkeys(get_args(Feature), 7.0) | {"margin": 1.0, "votes": 2.0}
    assert probability(values, settings) == pytest.approx(1 / (1 + math.exp(-(0.5 * 1 + 0.25 * 2 - 1))))


HOLMS = (
    "Dagny Holm was born in Bergen in 1951. Leif Holm, her brother, died in 1948. The mill of Lund is 30 metres long."
)
OTHERS = (
    "The radio tower of Haug is 212 metres tall. The water tower of Lund has 48 metres. Its mill is closed on Mondays. "
    "She then moved to Oslo."
)


@pytest.mark.parametrize(
    ("question", "answer", "suspected"),
    [
        ("When was Dagny Holm born?", "1951", set()),
        ("when did leif holm die", "1948", set()),
        ("WHEN WAS DAGNY HOLM BORN", "1951", set()),
        ("Where was Ingrid Holm born?", "Bergen", {"overlooked"}),
        ("Who was born in 1950?", "Dagny Holm", {"overlooked"}),
        ("Where was Leif Holm born in 1951?", "Bergen", {"misplaced"}),
        ("How tall is the radio tower of Lund?", "212 metres", {"misplaced"}),
        ("how tall is the radio tower of lund", "212 metres", {"misplaced"}),
        (
            "Where did the owner of the tower of Haug move?",
            "Oslo",
            {"attribute"},
        ),  # Haug is what the passage begins with
        ("When did Leif Holm's uncle die?", "1948", {"attribute", "opposite"}),
        ("When did the cousin of Leif Holm die in Norway?", "1948", {"attribute", "opposite"}),
        ("What is the rent of the mill of Lund?", "30 metres", {"attribute"}),
        ("What is the insurance for the mill of Lund?", "30 metres", {"attribute"}),
        ("What became of the brother of Dagny Holm?", "Leif Holm", set()),
        ("How wide is the mill?", "30 metres", {"opposite"}),
        ("how tall is teh radio towr of haug", "212 metres", set()),
        ("On which days is the mill open?", "Mondays", {"opposite"}),
        ("How old was Dagny Holm?", "1951", {"opposite"}),
        ("How old is the mill of Lund?", "30 metres", set()),
        ("When was Holm F31 born?", "1951", {"overlooked"}),
        ("when was holm f31 born", "1951", {"overlooked"}),
        ("who was born at 7", "Dagny Holm", {"overlooked"}),
        ("Ingrid Holm was born where?", "Bergen", {"overlooked"}),
        ("What is the birthplace and nationality of Dagny Holm?", "Bergen", set()),
    ],
)
def test_signs_of_a_near_miss(question, answer, suspected):
    text = HOLMS if answer in HOLMS else OTHERS
    start = text.index(answer)
    found = Span(answer, 0, start, start + len(answer), 3.0, 0.0, ((answer, 0.0),))
    values = features(question, [text], "people in Norway", [found], [1.0], 0)
    signs: dict[str, float] = {
        name: value for name, value in values.items() if name not in ("margin", "votes", "found")
    }
    assert {name for name, value in signs.items() if value} == suspected
    assert all(0 <= value <= 3 for value in signs.values())  # as much as the reader is sure of it
    doubted = replace(found, margin=-1.0)
    assert not sum(list(features(question, [text], "", [doubted], [1.0], 0).values())[3:])


@pytest.mark.parametrize(
    ("question", "shares", "suspected"),
    [
        ("what is the deposit of ada holm", [1.0, 0.0], False),  # not misplaced: "deposit" is no name
        ("what is ada's deposit", [1.0, 0.0], False),
        ("what is hugo's deposit", [1.0, 0.0], True),
        ("what is the deposit of gavin", [1.0, 0.0], True),  # a name elsewhere
        ("what is the boat deposit", [0.5, 0.5], False),
        ("What is the boat deposit of Ada Holm?", [0.01, 0.9], False),
        ("what is the boat deposit", [0.01, 0.9], True),  # the search found what says "boat"
        ("what is the deposit for the boat", [0.5, 0.5], True),
        ("what is the deposit for the flat", [0.5, 0.5], False),
        ("what is the name of the owner", [0.5, 0.5], False),
    ],
)
def test_names_without_capitals(question, shares, suspected):
    lease = "Ada Holm rents Flat A. She paid a deposit of 860 pounds, held by the Lund Deposit Scheme."
    start = lease.index("860 pounds")
    found = Span("860 pounds", 0, start, start + 10, 3.0, 0.0, (("860 pounds", 0.0),))
    values = features(question, [lease, "The boat of Gavin Lee"], "", [found, None], shares, 0)
    assert any(values[sign] for sign in ("overlooked", "misplaced")) == suspected


@pytest.mark.parametrize("are_together", [True, False])
@pytest.mark.parametrize(
    ("question", "is_suspected"),
    [
        ("What is the unit price of the vega hinge?", False),
        ("what is the unit price of the vega washer", True),  # another row has that word
        ("what does the vega hinge for the washer cost", True),
        ("what is the price of the vega hinge in the list", False),
    ],
)
def test_a_row_is_about_what_its_first_cell_names(question, is_suspected, are_together):
    rows = [
        "Item: Vega hinge; Unit price: 48.70; Bin: P-61",
        "Item: Alta washer; Unit price: 72.00; Bin: E-5; Stock: 12",
    ]
    passages = ["\n".join(rows), "A list."] if are_together else rows
    start = rows[0].index("48.70")
    found = Span("48.70", 0, start, start + 5, 3.0, 0.0, (("48.70", 0.0),))
    values = features(question, passages, "", [found, None], [0.7, 0.3], 0)
    assert any(values[sign] for sign in ("overlooked", "misplaced")) == is_suspected


@pytest.mark.parametrize(
    ("question", "text", "answer", "is_suspected"),
    [
        (
            "Where is Frank Holm buried?",
            "Ida Holm was a nurse. She is buried in Vik.\n\nFrank Lund sailed.",
            "Vik",
            True,
        ),
        (
            "Where is Ida Holm buried?",
            "Ida Holm was a nurse. She is buried in Vik.\n\nFrank Lund sailed.",
            "Vik",
            False,
        ),
        ("Where is Frank Holm buried?", "Ida Holm was a nurse. Buried in Vik.\n\nFrank Lund sailed.", "Vik", False),
        ("Where is Frank Lund buried?", "Ida Holm met Frank Lund. He is buried in Vik.", "Vik", False),
        ("When is the trip of class 8b?", "Trip of class 7b: 4 May. At 8, lunch.", "4 May", True),
        ("When is the trip of class 7b?", "Trip of class 7b: 4 May. At 8, lunch.", "4 May", False),
        ("How deep is W3?", "W3 broke.\n\nWafer: W1; Deep: 61", "61", True),
        ("How deep is 8b?", "8b broke.\n\nWafer: 7b; Deep: 61", "61", True),
        ("When was Leif Holm hired?", "Dagny Holm came in 1951. Leif rows.", "1951", True),
        ("When does Bo Lund retire?", "Bo Lund is a skipper. She will retire to Oslo in 2027.", "2027", False),
        ("How much is the beech board?", "Name: Pine board; Price: 7", "7", True),
        ("How much is the pine board?", "Name: Pine board; Price: 7", "7", False),
        ("When does Bo Lund retire?", "Boat: Bo Lund, yard.\n\nAda Holm will retire in 2027.", "2027", True),
        ("When does Ada Holm retire?", "Boat: Bo Lund, yard.\n\nAda Holm will retire in 2027.", "2027", False),
        ("When did Ann Lee win?", "It rained. Ann Lee may win. Lee won with Ida Moss in 2019.", "2019", False),
        ("When did Ann Lee win?", "Ann Lee may win. Ann Lee did win. Ida Moss won in 2019.", "2019", False),
        ("When did Ann Lee win?", "It rained. Ann Lee sings. Ida Moss won in 2019.", "2019", False),
        ("Who is head of the music room?", "Head of the house: Bo\nMusic room: Ann\nYard: Cy", "Bo", True),
        ("Who is head of the house?", "Head of the house: Bo\nMusic room: Ann\nYard: Cy", "Bo", False),
        ("Who fetches Ann?", "Ann: I need a lift\nBo: Cy fetches you\nAnn: good", "Cy", False),
        ("How many points has Vik?", "Team: Vik; Points: 4; Board points: 22", "4", False),
        ("What is the price of the long board?", "Name: Pine board, long; Price: 7", "7", False),
        ("Who likened choosing headlines to wine tasting?", "Ann: Headlines are like wine tasting.", "Ann", False),
        ("Who sold the building?", "Ann sold the boat.", "Ann", True),
        ("What causes most of the deaths?", "Mostly, water causes the fatalities.", "water", False),
    ],
)
def test_another_than_the_sentence_is_about(question, text, answer, is_suspected):
    start = text.index(answer)
    found = Span(answer, 0, start, start + len(answer), 3.0, 0.0, ((answer, 0.0),))
    values = features(question, [text], "", [found], [1.0], 0)
    assert any(values[sign] for sign in ("overlooked", "misplaced")) == is_suspected


@pytest.mark.parametrize(
    ("question", "sign"),
    [
        ("Where was Ingrid born?", 3.0),
        ("How long was Ingrid born?", 3.0),
        ("Which town did Ingrid come from as a child of rich people?", 0.0),
    ],
)
def test_a_near_miss_shares_the_other_words(question, sign):
    found = Span("Bergen", 0, 23, 29, 3.0, 0.0, (("Bergen", 0.0),))
    assert features(question, [HOLMS], "", [found], [1.0], 0)["overlooked"] == sign


@pytest.mark.parametrize(("likely", "label"), [(1.0, "high"), (0.8, "high"), (0.79, "medium"), (0.44, "low")])
def test_labels(likely, label):
    assert label_of(likely, 0.5) == label


def test_extreme_margins_stay_finite():
    far = Span("Ada", 0, 0, 3, 400.0, -0.0, (("Ada", -0.0), ("Hugo", -400.0)))
    for value in of_reader([far, span("Hugo", -400.0, log=-700.0)], [1.0, 0.0]):
        assert math.isfinite(value)
