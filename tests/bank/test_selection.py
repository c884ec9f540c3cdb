"""Selecting documents by date, by age, by name, and by all of these together."""

import math
import re
import time
from datetime import UTC, date, datetime
from itertools import chain, islice, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from mbc_engine.bank import BankHeader, Origin, Selection
from mbc_engine.bank.block import OriginColumns
from mbc_engine.bank.selection import _compiled
from mbc_engine.errors import BankError, ConfigError

FIRST = date(2024, 5, 1)


def log_weights(selection, documents):
    """Log weights of documents by their origins."""
    origins = list(chain.from_iterable(documents))
    columns = ([getattr(origin, name) for origin in origins] for name in ("source", "part", "date"))
    found: list[float] = selection.log_weights(OriginColumns(*columns, list(map(len, documents)))).tolist()
    return found


def selected(selection):
    """The names, path or path#part, that a selection by name keeps."""
    origins = [[Origin(name.partition("#")[0], name.partition("#")[2], None)] for name in NAMES]
    return [name for name, log in zip(NAMES, log_weights(selection, origins), strict=True) if log == 0]


DAYS = ["2024-04-21", "2024-04-30", "2024-05-01", "2024-05-03", "2024-05-04", None, "", "nonsense", "2024"]


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ({"since": FIRST}, [0, 0, 1, 1, 1]),
        ({"as_of": date(2024, 5, 3)}, [1, 1, 1, 1, 0]),
        ({"since": FIRST, "as_of": date(2024, 5, 3)}, [0, 0, 1, 1, 0]),
        ({"since": FIRST, "as_of": FIRST}, [0, 0, 1, 0, 0]),
        ({"half_life": 10.0, "as_of": FIRST}, [0.5, 0.5**0.1, 1, 0, 0]),
    ],
)
def test_dates_decide_weights(options, weights):
    found = np.exp(log_weights(Selection(**options), [[Origin("/a", "", day)] for day in DAYS])).tolist()
    assert found == pytest.approx(weights + [0] * 4)  # undated documents are left out


NAMES = ["/news/sport/a.txt", "/news/sport/b.csv", "/news/art/sport.txt", "/news/rows.jsonl#ada", "mails.jsonl#sport/1"]
NAMES += ["Tu\u0308r.md"]
MATCHES = {
    "": ["/sport", "ada", "SPORT"],
    "0": ["news/**/a.txt"],
    "01": ["sport/**", "sport", "[a-b].*"],
    "1": ["*.csv", "sport/b.csv"],
    "2": ["**/art/**"],
    "3": ["rows.jsonl#ada", "*.jsonl#ad?"],
    "4": ["/mails.jsonl"],
    "0123": ["/news/**"],
    "5": ["T\u00fcr.md", "Tu\u0308r*"],
    "012345": ["**"],
}


@pytest.mark.parametrize(("pattern", "matched"), [(pattern, key) for key in MATCHES for pattern in MATCHES[key]])
def test_patterns_match_like_gitignore(pattern, matched):
    expected = [NAMES[int(number)] for number in matched]
    assert selected(Selection(only=(pattern,))) == expected
    assert selected(Selection(exclude=(pattern,))) == [name for name in NAMES if name not in expected]
    assert selected(Selection(only=(pattern, "art/**"), exclude=(pattern,))) == [NAMES[2]] * ("2" not in matched)


@pytest.mark.parametrize("pattern", ["", " ", "\t", "/", "!a", "!", "\\", "a\\", "a[", "[z-a]"])
@pytest.mark.parametrize("name", ["only", "exclude"])
def test_invalid_patterns_are_refused(name, pattern):
    with pytest.raises(ConfigError, match="cannot be used") as refused:
        Selection(**{name: ("*.txt", pattern)})
    assert "sport" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"half_life": half_life}, r"^A half-life must be above 0\.") for half_life in (0.0, -3.0, math.nan)),
        ({"since": date(2024, 5, 2), "as_of": FIRST}, "is later than"),
        ({"since": "2024-05-01"}, "^`since` is not a date: '2024-05-01'"),
        ({"as_of": datetime(2024, 5, 1, tzinfo=UTC)}, "^`as_of` is not a date"),
        ({"only": "*.md"}, r"^`only` takes several, not '\*\.md' alone"),
        ({"exclude": "*.md"}, "^`exclude` takes several"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message) as refused:
        Selection(**options)
    assert refused.value.hint


SOURCES = st.sampled_from(["/a.txt", "/sport/a.txt", "/sport/b.txt"])
DATES = st.sampled_from([None, "2024-04-01", "2024-05-01", "2024-06-01"])
ORIGINS = st.builds(Origin, SOURCES, st.sampled_from(["", "1", "2"]), DATES)


@given(
    documents=st.lists(st.lists(ORIGINS, min_size=1, max_size=3, unique_by=lambda origin: origin[:2]), max_size=6),
    since=st.sampled_from([None, date(2024, 4, 15)]),
    as_of=st.sampled_from([None, date(2024, 5, 15)]),
    half_life=st.sampled_from([None, 7.0]),
    only=st.sampled_from([(), ("sport/**",), ("*#1", "a.txt")]),
    exclude=st.sampled_from([(), ("b.txt",)]),
)
def test_best_origin_decides_the_weight(documents, **options):
    selection = Selection(**options)
    found = log_weights(selection, documents)
    assert found == [max(log_weights(selection, [[origin]])[0] for origin in origins) for origins in documents]


def test_weights_align_with_scan(made, monkeypatch):
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 6))
    selection = Selection(since=date(2024, 1, 10), exclude=("/1?",))
    with made.bank() as bank:
        assert list(bank.log_weights(selection)) == []
        bank.put([made.item(f"/{number}", number, date=f"2024-01-{number + 1:02}") for number in range(25)])
        bank.put([made.item("/other", 3, date="2024-02-01")])  # a second origin, which is in time
        wanted = {"/9", *(f"/{number}" for number in range(20, 25)), "/other"}
        expected: list[float] = []
        for document in bank.documents():
            expected += document.chunks * [0.0 if {name for name, *_ in document.origins} & wanted else -math.inf]
        found = list(bank.log_weights(selection))
        sums = [sums.shape[1] for sums, _ in bank.scan(np.ones((1, 3, 2, 5), np.float32))]
    assert np.concatenate(found).tolist() == expected
    assert list(map(len, found)) == sums
    assert len(sums) > 3


def test_selection_needs_origins(made):
    with made.bank(keeps_origins=False) as bank:
        bank.put([made.item("/1", 1)])
        with pytest.raises(BankError, match="made without sources") as refused:
            list(bank.log_weights(Selection(only=("/1",))))
    assert refused.value.hint


@pytest.mark.parametrize("pattern", ["*a*a*b", "a*b*a", "***a***b", "/*a*[ab]*b/x", "?a*b?*a"])
def test_stars_match_as_before_but_in_linear_time(pattern):
    (parsed,) = GitIgnoreSpec.from_lines([pattern if pattern[0] == "/" else f"**/{pattern}"]).patterns
    expected = re.compile(parsed.regex)
    for name in islice(map("".join, product("ab/x", repeat=6)), 0, None, 3):
        assert bool(_compiled(pattern).search(name)) == bool(expected.search(name)), name
    began = time.process_time()
    assert not _compiled(pattern).search("a" * 20_000 + "c")
    assert time.process_time() - began < 5
