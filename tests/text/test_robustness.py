"""Whatever state a file is in, reading it gives documents or says why not; `benchmarks/fuzz.py` tries it for longer."""

import gzip
import lzma

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mbc_engine.text import Document
from mbc_engine.text.formats import SUFFIXES

MIXED = "multipart/mixed; boundary=b\n\n"
HOSTILE = {
    "a.html": [
        "text" + piece * 12_000
        for piece in ("<div>", "<a ", "<!--", "<![", "<a b='", "<p><b>", "&", "</", "<td>", "<meta ", "<title>")
    ],
    "a.md": [
        *("<!--" * 200_000, "---\na: b\n" + "x\n" * 20_000, "[" * 20_000, "![[" * 3_000),
        *("<a " * 5_000, "# a\n" * 5_000, "`" * 9_000),
    ],
    "a.tex": [
        text * 1_500
        for text in (r"\textbf{", r"\begin{tabular}", r"\section{", "$$", r"\[", r"\item[", "%", r"\begin{equation}")
    ],
    "a.ltx": [r"\SI[" * 60_000],
    "a.org": ["|a|b|\n|x|" + "@" * 200_000],
    "a.adoc": [
        "|===\n" + "1" * 200_000,
        "|===\n|a\n" * 9_000,
        "[a]\n" * 40_000,
        "|===\n" + "|" * 50_000 + "\n|===",
        "|===\n" + "999.999+|x " * 10_000 + "\n|===",
        "[cols=999]\n|===\n" + "999.999+|x " * 10_000 + "\n|===",
    ],
    "a.wiki": [
        "{|\n|a\n" * 9_000,
        "{|\n|" + "a=" * 90_000 + "\n|}",
        "{|\n" + "|-\n" * 40_000 + "|}",
        "[[a" * 60_000,
        "{|\n" + "| rowspan=999 colspan=999 | x\n|-\n" * 9_000 + "|}",
    ],
    "a.c": [f"{text}\n{{\n" * 2_000 for text in ("a " * 200, "def " * 70, "(" * 299, "a:" * 149 + "(")],
    "a.rtf": [
        rf"{{\rtf1 {inner}"
        for inner in (
            *("{" * 90_000, "}" * 90_000, r"\cell" * 90_000, r"\u-5" * 90_000, r"\bin999999999 ", r"{\footnote " * 900),
        )
    ],
    "a.eml": [
        *(f"Content-Type: {MIXED}" + f"--b\nContent-Type: {MIXED}" * 3000, "Content-Type: message/rfc822\n\n" * 3000),
        *("Subject: " + "=?utf-8?q?" * 20_000 + "\n\nx", "From: " + "<(" * 5000 + "\n\nx"),
        "Content-Type: text/plain; charset=rot13\n\nx",
    ],
    "a.csv": ['h,i,j\na,"b\n' + 'c","d\n' * 2_000],
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("name", "data"), [(name, data) for name in HOSTILE for data in HOSTILE[name]], ids=lambda value: value[:20]
)
def test_hostile_files(read, name, data):
    """Each takes linear time, and gives no more than it has."""
    items = read(name, data)
    assert 1 <= len(items) <= 1 + (data.count("\n") if name == "a.csv" else len(data) // 32_000)


WORDS = st.sampled_from(
    [b"text", b"id", b'"', b"'", b",", b";", b"\t", b"{", b"}", b"[", b"]", b":", b"null", b"1e999", b"\\ud800", b"\n", b"\r",
     b"<p>", b"</p>", b"<td>", b"<pre>", b"<!--", b"-->", b"<title>", b"<script", b"&#0;", b"&amp", b"=", b"/>", b"---\n",
     b"date: 2024", b"\0", b"\x1b[2J", b"\xff\xfe", b"\xef\xbb\xbf", b"\xe9", "жук".encode("koi8_r"), "Zoë".encode()]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    suffix=st.sampled_from(sorted(SUFFIXES)),
    words=st.lists(WORDS | st.binary(max_size=8), max_size=40),
    compress=st.sampled_from([bytes, gzip.compress, lzma.compress]),
)
def test_random_markup(read, suffix, words, compress):
    """What comes of a file can be stored and printed."""
    compression = {bytes: "", gzip.compress: ".gz", lzma.compress: ".xz"}[compress]
    for item in read(f"a{suffix}{compression}", compress(b"".join(words))):
        text = item.text + item.part if isinstance(item, Document) else item.reason
        assert "\0" not in text
        text.encode()
        assert isinstance(item, Document) or item.reason.isprintable()
