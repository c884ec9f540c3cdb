"""Untrusted text in each format of a report."""

import json
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mbc_engine.experiments.page import in_markdown, in_script, page
from mbc_engine.experiments.report import CellReport, Report, visible

HOSTILE = "</script><img src=x onerror=alert(1)>\u2028\u2029\x1b[31m\x00\u202e<!--"


def test_invisible_characters_are_shown():
    assert (
        visible("a\tb\nc\x1b[31m\u202ed\ud800")
        == "a b\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}c<U+001B>[31m<U+202E>d<U+D800>"
    )


@given(st.text())
def test_visible_text_stays_as_it_is(text):
    assert visible(visible(text)) == visible(text)


@given(st.text(st.characters(codec="utf-8"), min_size=1) | st.just(HOSTILE))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_html_reads_back_as_the_visible_text_alone(text):
    """A title and a caution, in an element and in an attribute of the page."""
    cell = CellReport("c", text, "", (), (), None, (), (), None, None, {})
    origin = {"title": text, "date": "", "command": text, "seed": 0, "environments": (), "settings": {"a": text}}
    read = []
    parser = HTMLParser()
    parser.handle_data = read.append
    parser.feed(page(Report((), (text,), origin, (cell,), ()), {}))
    assert read.count(visible(text)) >= 4
    assert HOSTILE not in read


@given(
    st.recursive(
        st.text() | st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_in_a_script_reads_back_and_holds_nothing_that_ends_it(value):
    text = in_script(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert not set("<>&") & set(text)


def test_json_in_a_script_holds_no_infinity():
    with pytest.raises(ValueError):
        in_script(float("nan"))


def test_markdown_is_escaped():
    escaped = in_markdown("| `a` *b* [c](http://d) <b> &amp;")
    assert escaped == r"\| \`a\` \*b\* \[c\](http://d) \<b\> \&amp;"
