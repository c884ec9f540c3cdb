"""How the options that select documents are parsed: dates, periods, and patterns that begin with a path."""

from datetime import date

import pytest

from mbc_cli.question_options import ask_options
from mbc_engine.errors import ConfigError


def selection(**given):
    options = dict.fromkeys(("since", "as_of", "half_life", "only", "exclude"))
    return ask_options(**options | given).selection


@pytest.mark.parametrize(
    ("typed", "first", "last"),
    [
        ("2023-06-15", date(2023, 6, 15), date(2023, 6, 15)),
        ("2023-6", date(2023, 6, 1), date(2023, 6, 30)),
        ("2022-02", date(2022, 2, 1), date(2022, 2, 28)),
        (" 2023 ", date(2023, 1, 1), date(2023, 12, 31)),
    ],
)
def test_a_month_or_year_counts_completely(typed, first, last):
    assert (selection(since=typed).since, selection(as_of=typed).as_of) == (first, last)


@pytest.mark.parametrize(("typed", "days"), [("30", 30), ("1.5d", 1.5), ("2w", 14), ("1m", 30), ("1 y", 365)])
def test_half_life_takes_units(typed, days):
    assert selection(half_life=typed).half_life == days


@pytest.mark.parametrize(
    "given",
    [
        *({"since": day} for day in ("tomorrow", "2024-13", "2023-02-29")),
        {"since": "2024", "as_of": "2023"},
        *({"half_life": period} for period in ("soon", "0d")),
        *({"only": [pattern]} for pattern in ("!a", "/")),
    ],
)
def test_an_invalid_selection_is_refused(given):
    with pytest.raises(ConfigError) as caught:
        selection(**given)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("typed", "pattern"),
    [
        ("*.txt", "*.txt"),
        ("*#a", "*#a"),
        ("sport/**", "sport/**"),
        ("[x]/rows.jsonl", r"\[x\]/rows.jsonl"),
        ("[x]/rows.jsonl#b", r"\[x\]/rows.jsonl#b"),
        ("./[x]", r"{home}/\[x\]"),
        ("./[x]/rows.jsonl#*", r"{home}/\[x\]/rows.jsonl#*"),
        ("./[[]x]/*#b", "{home}/[[]x]/*#b"),
        ("../*/*/rows.jsonl#c", "{parent}/*/*/rows.jsonl#c"),
        ("~/link/", r"{home}/\[x\]/"),
        ("{home}/link", r"{home}/\[x\]"),
        (".", "{home}"),
    ],
)
def test_patterns_that_begin_with_a_path_are_absolute(home, monkeypatch, typed, pattern):
    (home / "[x]").mkdir()
    (home / "[x]" / "rows.jsonl").touch()
    (home / "link").symlink_to(home / "[x]")
    monkeypatch.setenv("HOME", str(home))
    places = {"home": home, "parent": home.parent}
    assert selection(only=[typed.format(**places)]).only == (pattern.format(**places),)
