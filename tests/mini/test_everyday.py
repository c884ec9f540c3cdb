import runpy
from itertools import chain
from pathlib import Path

EVERYDAY = runpy.run_path(str(Path(__file__).parents[2] / "recipes" / "mini" / "everyday.py"))
sets, Question, place_of = EVERYDAY["sets"], EVERYDAY["Question"], EVERYDAY["place_of"]


def test_each_answer_stands_once_in_what_is_around_it_in_its_text():
    parts = [sets(part) for part in ("training", "calibration", "test")]
    assert [len(part) for part in parts] == [93, 5, 8]
    for document in chain(*(documents for part in parts for documents in part.values())):
        for asked in document["questions"]:
            if asked["a"] is not None:
                around = asked.get("in", asked["a"])
                assert (document["text"].count(around), around.count(asked["a"])) == (1, 1), asked


def test_the_words_of_a_question_may_tell_that_it_has_no_answer():
    def asked(number):
        subjects = [f"the {name}{number}" for name in ("shop", "club", "boat")]
        with_answer = [Question(f"when does {subject} open", "a.txt", "May", "May") for subject in subjects]
        return [*with_answer, *(Question(f"what did {subject} cost", "a.txt", "", "") for subject in subjects)]

    odds = EVERYDAY["odds_of_none"]({str(number): asked(number) for number in range(10)})
    assert all((odds[text] > 1) == ("cost" in text) for text in odds)


def test_an_answer_is_found_in_a_passage_that_is_not_as_its_file_is():
    passage = "item: kettle; colour: blue; price: 34"
    asked = Question("how much is the blue kettle", "prices.csv", "34", "kettle,blue,34")
    assert place_of(asked, passage) == (35, 37, 1.0)
    assert place_of(asked, passage.replace("kettle; colour: blue", "lamp; colour: red")) is None  # another row
    assert place_of(asked, "Blue kettle, 34 cm, price: 34") is None  # one or the other


def test_an_answer_is_where_what_is_around_it_stands():
    asked = Question("when did it open", "shop.txt", "May", "open since May")
    assert place_of(asked, "Closed in May. Now open since May.") == (30, 33, 1.0)
    assert place_of(asked, "Closed in May.") is None
