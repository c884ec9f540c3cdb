"""Whatever state a file is in, reading it gives documents or says why not; `benchmarks/fuzz.py` tries it for longer."""

import gzip
import lzma
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mbc_engine.text import Document, Skipped, read_file
from mbc_engine.text.formats import SUFFIXES
from tests.text.test_docx import docx
from tests.text.test_pdf import pdf

HTML = (
    '<?xml version="1.0"?><!DOCTYPE html><html><head><meta charset="utf-8"><title>T</title><meta name="date" '
    'content="2024-05-01"></head><body><!-- c --><p class="x">caf&eacute; é<br>b</p><table><tr><td>c</table></body>'
).encode()
ROWS = b'{"id": "a", "title": "T", "text": "caf\\u00e9", "date": "2024-05-01"}\n' * 5


def mutated(data, rng):
    """Some bytes changed, a stretch lost, doubled or zeroed."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 3, 20))):
        position = rng.randrange(len(changed))
        changed[position] = rng.randrange(256)
    start = rng.randrange(len(changed))
    stretch = slice(start, start + rng.randrange(1, 200))
    replacement = rng.choice((changed[stretch], changed[stretch] * 2, b"", b"\0" * 50))
    changed[stretch] = replacement
    return bytes(changed)


FILES = {
    "a.pdf": pdf(["First"], ["Second"], metadata={"/CreationDate": "D:20240501"}),
    "a.docx": docx("A paragraph.", [["cell", ""], ["", ""]]),
    "a.html": HTML,
    "a.jsonl.xz": lzma.compress(ROWS),
    "a.txt.gz": gzip.compress(HTML, mtime=0),
    "a.jsonl": ROWS,
    "a.csv": b"id,title,text\n" + b'1,"a ""b""","c\nd"\n' * 5,
    "a.txt": "Zoë\r\nжж".encode("utf-16"),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", FILES)
def test_damaged_files(write, rounds, name):
    rng = random.Random(0)
    for _ in range(rounds(full=1000, reduced=60)):
        require_sound(write(name, mutated(FILES[name], rng)))


def require_sound(path):
    """What comes of a file can be stored and printed."""
    for item in read_file(path):
        assert isinstance(item, Document | Skipped)
        text = item.text + item.part if isinstance(item, Document) else item.reason
        assert "\0" not in text
        text.encode()
        assert isinstance(item, Document) or item.reason.isprintable()


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
def test_random_markup(write, suffix, words, compress):
    compression = {bytes: "", gzip.compress: ".gz", lzma.compress: ".xz"}[compress]
    require_sound(write(f"a{suffix}{compression}", compress(b"".join(words))))
