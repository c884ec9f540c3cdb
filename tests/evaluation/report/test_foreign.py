"""Text from outside in each form of a report."""

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.evaluation.report.tables import in_html, in_markdown, in_script, visible

HOSTILE = "</script><img src=x onerror=alert(1)>\u2028\u2029\x1b[31m\x00\u202e<!--"


def test_what_cannot_be_seen_is_shown():
    assert (
        visible("a\tb\nc\x1b[31m\u202ed\ud800")
        == "a b\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}c<U+001B>[31m<U+202E>d<U+D800>"
    )


@given(st.text())
def test_visible_text_stays_as_it_is(text):
    assert visible(visible(text)) == visible(text)


@given(st.text(st.characters(codec="utf-8")) | st.just(HOSTILE))
def test_html_reads_back_as_the_visible_text_alone(text):
    read, tags = [], []
    parser = HTMLParser()
    parser.handle_data = read.append
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, attributes))
    parser.feed(f'<p title="{in_html(text)}">{in_html(text)}</p>')
    parser.close()
    assert tags == [("p", [("title", visible(text))])]
    assert "".join(read) == visible(text)


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


def test_markdown_loses_its_meaning():
    told = in_markdown("| `a` *b* [c](http://d) <b> &amp;")
    assert told == r"\| \`a\` \*b\* \[c\](http://d) \<b\> \&amp;"
