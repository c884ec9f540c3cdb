import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_cli.formatting import display_path, format_bytes_per_chunk, format_duration, format_size, pluralise, sanitise

OBEYED = {"Cc", "Cs", "Zl", "Zp"}
BIDIRECTIONAL = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@pytest.mark.parametrize(
    ("foreign", "harmless"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x9b2J", "<U+009B>2J"),
        ("two\nlines\tand a tab", "two lines and a tab"),
        ("gone\b\b\b\x7f", "gone␈␈␈␡"),
        ("invoice\u202etxt.exe", "invoice<U+202E>txt.exe"),
        ("tag\U000e0041", "tag<U+E0041>"),
        ("pay\u200bpal \xad\u3164\u2060", "pay<U+200B>pal <U+00AD><U+3164><U+2060>"),
        (
            "a\u200db\ufe0f 1\ufe0f\u20e3 \u2764\ufe0f\u200d\U0001f525 é\u200d\u200d",
            "a<U+200D>b<U+FE0F> 1\ufe0f\u20e3 \u2764\ufe0f\u200d\U0001f525 é\u200d<U+200D>",
        ),
        ("[bold]markup[/bold] :smile:", "[bold]markup[/bold] :smile:"),
        ("Ünïcode 漢字 👩‍👩‍👧 می‌خواهم", "Ünïcode 漢字 👩‍👩‍👧 می‌خواهم"),
    ],
)
def test_control_characters_are_shown(foreign, harmless):
    assert sanitise(foreign) == harmless


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_no_control_character_is_left(text):
    shown = sanitise(text)
    assert not {character for character in shown if unicodedata.category(character) in OBEYED}
    assert not BIDIRECTIONAL & set(shown)
    assert sanitise(shown) == shown


@pytest.mark.parametrize(
    ("formatted", "values", "texts"),
    [
        (format_size, (0, 999, 1000, 13_500, 999_499, 999_500), "0 B,999 B,1 kB,13.5 kB,999 kB,1 MB"),
        (format_duration, (0.123, 12.3, 59.6, 302, 11_220), "0.12 s,12 s,1 min 00 s,5 min 02 s,3 h 07 min"),
        (lambda count: format_bytes_per_chunk(count, 2).split()[0], (4, 5, 199, 200), "2,2.5,99.5,100"),
        (lambda count: pluralise(count, "file"), (0, 1, 9), "0 files,1 file,9 files"),
    ],
)
def test_numbers(formatted, values, texts):
    assert list(map(formatted, values)) == texts.split(",")


def test_paths_inside_the_working_folder_are_relative(home, monkeypatch):
    assert display_path(home / "notes" / "a.txt") == "notes/a.txt"
    assert display_path("/elsewhere/a.txt") == "/elsewhere/a.txt"
    assert display_path(f"{home}/a.jsonl#https://b//c") == "a.jsonl#https://b//c"
    (folder := home / "gone").mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert display_path(folder / "a.txt") == str(folder / "a.txt")
