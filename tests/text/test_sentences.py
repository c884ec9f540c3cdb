"""Sentence ends, by example; and that no character is lost."""

from itertools import pairwise
from textwrap import fill

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.text import split_sentences


def sentences(text):
    return [text[start:end] for start, end in split_sentences(text)]


@pytest.mark.parametrize(
    "parts",
    [
        ["Mr. Smith met Dr. J. A. Jones in St. Louis.", "They talked."],
        ["The U.S. Army left.", "It was 3.5 km away."],
        ["He lived in the U.S.", "He liked it."],
        ["She arrived at 5 p.m.", "The door was shut."],
        ["It cost $3.50.", "Nobody paid!", "Why?", "We don't know."],
        ['"Stop!" he cried.', "She stopped."],
        ['"It is over."', "Then he left (for good).", "(She stayed.)"],
        ["He asked “Really?” and left.", "‘No.’", "She laughed…", "Then silence."],  # noqa: RUF001
        ["See No. 5 and Fig. 2 on pp. 10–12.", "No.", "That is all."],  # noqa: RUF001
        ["Yahoo! was founded by J. Yang.", "Acme Inc. grew, i.e. it sold more, etc. and so on."],
        ["It rose by 5%.[1][2]", "It fell later.[3]"],
        ["Wait...", "What?!", "Well... no."],
        ["In 1999.", "2000 came next."],
        ["1. Apples are red.", "A. The first letter."],
        ["Jan. 5 was cold, e.g. in Washington, D.C.", "They froze."],
    ],
)
def test_one_line(parts):
    assert sentences(" ".join(parts)) == parts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("no end", ["no end"]),
        ("A heading\n\nthen text", ["A heading", "then text"]),
        ("# Fruit\n- Apples\n- Pears\n", ["# Fruit", "- Apples", "- Pears"]),
        ("A line that\nruns on here. And\nends", ["A line that\nruns on here.", "And\nends"]),
        ("Paris, Rome,\nLondon and Mr.\nSmith", ["Paris, Rome,\nLondon and Mr.\nSmith"]),
        ("Dr.\n\nWho", ["Dr.", "Who"]),
    ],
)
def test_line_breaks(text, expected):
    assert sentences(text) == expected


def test_full_lines_run_on():
    text = (
        "Until the last day of summer, the ferry to the islands is run by a company from the town of "
        "Vik, whose boats leave every hour from the old pier on the north side of the harbour beside "
        "Tomas Lind's fish shop."
    )
    wrapped = fill(text, 92)
    assert wrapped.count("\n") == 2
    assert sentences(wrapped) == [wrapped]
    # A line with room left: they may be entries.
    assert len(sentences(wrapped.replace("a company from", "some from"))) == 3
    assert len(sentences(wrapped.replace("\n", "\n- "))) == 3


@given(st.text(alphabet=st.sampled_from("aB1.!?…\"')[] \n\t,") | st.characters()))
def test_spans_lose_nothing(text):
    spans = split_sentences(text)
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(text[start:end] and text[start:end].strip() == text[start:end] for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


@pytest.mark.parametrize("text", ["." * 200_000 + "a", ".[1]" * 100_000 + "a", "(" * 200_000 + "a. B", "a. " * 50_000])
@pytest.mark.timeout(30)
def test_hostile_text(text):
    assert split_sentences(text)
