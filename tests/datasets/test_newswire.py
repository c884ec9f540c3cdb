"""Newswire stories: reproducible, answerable from their text, unambiguous in a bank, in clean English."""

import hashlib
import itertools
import json
import re
import tomllib
from collections import Counter
from dataclasses import astuple
from datetime import date
from importlib import resources

import pytest

from mbc_engine.datasets.newswire import (
    Scene,
    Split,
    Story,
    _World,
    examples,
    names,
    parse,
    stories,
    with_articles,
)

SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@pytest.fixture(scope="module")
def all_stories() -> list[Story]:
    return [story for split in SPLITS for story in stories(split, 400, seed=7)]


def name_words(split: Split) -> set[str]:
    return {word for own in names(split).values() for name in own for word in name.split()}


@pytest.mark.parametrize(
    ("split", "digest"),
    [("train", "0bf7119ccd43fa90"), ("validation", "928c8d882834d281"), ("test", "7a578789b7246a98")],
)
def test_stories_are_the_same_everywhere(split: Split, digest: str) -> None:
    written = hashlib.sha256()
    for story in stories(split, 60, seed=3):
        written.update(json.dumps([*astuple(story)]).encode())
    assert written.hexdigest()[:16] == digest


def test_fewer_stories_are_a_prefix_of_more() -> None:
    assert list(stories("test", 20, seed=1)) == list(stories("test", 60, seed=1))[:20]


def test_seeds_and_splits_tell_different_stories() -> None:
    texts = [{story.text for story in stories(split, 50, seed)} for split in SPLITS for seed in (0, 1)]
    assert all(one.isdisjoint(other) for one, other in itertools.combinations(texts, 2))


def test_story_ids_name_split_seed_and_number() -> None:
    assert [story.id for story in stories("validation", 2, seed=5)] == [
        "newswire-validation-5-000000",
        "newswire-validation-5-000001",
    ]


def test_splits_share_no_name_word() -> None:
    for one, other in itertools.combinations(SPLITS, 2):
        assert name_words(one).isdisjoint(name_words(other))


def test_every_split_has_names_enough_for_a_bank() -> None:
    for split in SPLITS:
        own = names(split)
        assert len(own["first"]) >= 50 and len(own["surname"]) >= 100 and len(own["place"]) >= 250


def test_names_are_plain_words_of_the_promised_number() -> None:
    assert sum(len(names(split)["first"]) for split in SPLITS) >= 400
    assert sum(len(names(split)["surname"]) for split in SPLITS) >= 800
    assert sum(len(names(split)["place"]) for split in SPLITS) >= 500
    assert all(re.fullmatch("[A-Z][A-Za-z]+", word) for split in SPLITS for word in name_words(split))


def test_answers_stand_in_the_text_and_not_in_their_question(all_stories: list[Story]) -> None:
    for story in all_stories:
        for question, answer in story.questions:
            assert re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", story.text), (story, answer)
            assert answer.lower() not in question.lower()
            assert 1 <= len(answer.split()) <= 6


def test_questions_name_someone_or_something_of_their_story() -> None:
    for split in SPLITS:
        own = name_words(split)
        for story in stories(split, 300):
            for question, _ in story.questions:
                assert own & set(re.findall("[A-Z][a-zA-Z]+", question)) & set(re.findall("[A-Z][a-zA-Z]+", story.text))


def test_stories_have_three_to_six_different_questions(all_stories: list[Story]) -> None:
    for story in all_stories:
        asked = [question for question, _ in story.questions]
        assert 3 <= len(asked) <= 6
        assert len(set(asked)) == len(asked)
        assert all(question.endswith("?") for question in asked)


@pytest.mark.parametrize("split", SPLITS)
def test_a_bank_never_holds_one_question_with_two_answers(split: Split) -> None:
    for seed in range(4):
        answers: dict[str, str] = {}
        for story in stories(split, 256, seed):
            for question, answer in story.questions:
                assert answers.setdefault(question, answer) == answer


def test_all_topics_occur_about_equally_often(all_stories: list[Story]) -> None:
    counts = Counter(story.topic for story in all_stories)
    assert len(counts) >= 10
    assert min(counts.values()) > len(all_stories) / len(counts) / 2


def test_questions_begin_in_many_ways_and_none_prevails(all_stories: list[Story]) -> None:
    starts = Counter(question.split()[0] for story in all_stories for question, _ in story.questions)
    assert {"Who", "Where", "Which", "What", "How", "When", "Why", "Whom"} <= set(starts)
    assert sum(count >= 20 for count in starts.values()) >= 12
    assert max(starts.values()) < 0.4 * starts.total()


def test_texts_are_short_ascii_sentences_without_leftovers(all_stories: list[Story]) -> None:
    for story in all_stories:
        assert story.text.isascii() and story.title.isascii()
        assert 25 <= len(story.text.split()) <= 100
        for line in (story.title, story.text, *itertools.chain(*story.questions)):
            assert not re.search(r"[{}<>\[\]|]|  | [,.;]|\.\.|,,", line), line
        assert story.text.endswith(".") and story.title[0] == story.title[0].upper()


def test_articles_agree_with_the_next_word(all_stories: list[Story]) -> None:
    for story in all_stories:
        for line in (story.title, story.text, *(question for question, _ in story.questions)):
            assert not re.search(r"\b[Aa] (?!one\b|once\b|[Ee]u|uni[^mn]|us[ae]|uk)[aeiouAEIOU]", line), line
            assert not re.search(r"\b[Aa]n [^aeiouAEIOUh81]", line), line


def test_dates_are_iso_dates_and_weekdays_are_the_day_or_its_eve(all_stories: list[Story]) -> None:
    for story in all_stories:
        published = date.fromisoformat(story.date)
        assert 2001 <= published.year <= 2024
        for question, answer in story.questions:
            if answer.endswith("day") and question.startswith("What day of the week did"):
                assert answer in (f"{published:%A}", f"{date.fromordinal(published.toordinal() - 1):%A}")


def test_examples_are_one_per_question_over_headline_and_text() -> None:
    (story,) = stories("train", 1)
    made = list(examples([story]))
    assert [(example.question, example.answers) for example in made] == [(q, (a,)) for q, a in story.questions]
    assert {example.text for example in made} == {f"{story.title}. {story.text}"}
    assert [example.id for example in made] == [f"{story.id}-{number}" for number in range(len(made))]
    assert {example.title for example in made} == {story.title}


def test_templates_speak_only_of_facts_their_event_has_and_ask_only_for_them() -> None:
    tables = tomllib.loads(resources.files("mbc_engine.datasets").joinpath("newswire_templates.toml").read_text())
    calendar = {"weekday", "later_weekday", "later_day", "later_month", "year", "later_year"}
    for kind, table in tables.items():
        if kind == "lists":
            continue
        facts = {*table["facts"], *calendar}
        surnames = {f"{fact}_last" for fact, recipe in table["facts"].items() if recipe == "<person>"}
        asked = itertools.chain(*table["questions"].values())
        for template in (*table["headlines"], *table["lead"], *itertools.chain(*table["body"]), *asked):
            assert set(re.findall(r"{(\w+)}", template)) <= facts | surnames, (kind, template)
        for fact, ways in table["questions"].items():
            assert fact in facts and len(ways) >= 3, (kind, fact)
            assert not any(f"{{{fact}}}" in way for way in ways), (kind, fact)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a owl, a dog and A apple", "an owl, a dog and An apple"),
        ("a university, a European, a used car, a one-off", "a university, a European, a used car, a one-off"),
        ("a unknown umbrella, a hour, a honour", "an unknown umbrella, an hour, an honour"),
        (
            "a 8-year-old, a $18 fee, a 180, a 11-hour day, a 12",
            "an 8-year-old, an $18 fee, a 180, an 11-hour day, a 12",
        ),
    ],
)
def test_articles(written: str, read: str) -> None:
    assert with_articles(written) == read


class Highest(_World):
    """Always draws the last option."""

    def __init__(self) -> None:
        pass

    def random(self) -> float:
        return 0.999999

    def name(self, kind: str) -> str:
        return kind.upper()


@pytest.mark.parametrize(
    ("template", "text", "mentioned"),
    [
        ("plain", "plain", []),
        ("{who} [won|took {what}]", "Ann took it", ["who", "what"]),
        ("[a|b[c|{what}|]]", "b", []),
        ("<place> <3-40> <1,200-98,000> <1.5-9.9> <fruit>", "PLACE 40 98,000 9.9 pear", []),
    ],
)
def test_templates_render_and_note_what_they_mention(template: str, text: str, mentioned: list[str]) -> None:
    scene = Scene(Highest(), {"who": "Ann", "what": "it"})
    assert parse(template, {"fruit": ["apple", "pear"]})(scene) == text
    assert list(scene.mentioned) == mentioned


@pytest.mark.parametrize("template", ["[a|b", "a|b", "a]", "<nothing>"])
def test_a_template_that_makes_no_sense_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"template|called"):
        parse(template, {})
