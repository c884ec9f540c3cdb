"""The recipe of made-up news gives the same stories everywhere."""

import hashlib
import json
from dataclasses import astuple

import pytest

from mbc_engine.datasets.examples import made_up_stories
from tests.newswire import examples, stories


@pytest.mark.parametrize(
    ("split", "digest"),
    [("train", "0bf7119ccd43fa90"), ("validation", "928c8d882834d281"), ("test", "7a578789b7246a98")],
)
def test_stories_are_the_same_everywhere(split, digest):
    written = hashlib.sha256()
    for story in stories(split, 60, seed=3):
        written.update(json.dumps([*astuple(story)]).encode())
    assert written.hexdigest()[:16] == digest


def test_the_demos_stories_are_the_recipes():
    assert made_up_stories() == list(examples(stories("test", 10)))
