import runpy
from itertools import chain
from pathlib import Path

RECIPE = runpy.run_path(str(Path(__file__).parents[2] / "recipes" / "mini" / "everyday.py"))
sets, Question, place_of = RECIPE["sets"], RECIPE["Question"], RECIPE["place_of"]


def test_each_answer_stands_once_in_what_is_around_it_in_its_text():
    kept, trained_on = sets(held_out=True), sets(held_out=False)
    assert not kept.keys() & trained_on.keys()
    for document in chain(*kept.values(), *trained_on.values()):
        for asked in document["questions"]:
            if asked["a"] is not None:
                around = asked.get("in", asked["a"])
                assert (document["text"].count(around), around.count(asked["a"])) == (1, 1), asked


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
