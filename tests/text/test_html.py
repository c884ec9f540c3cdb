"""HTML: title, visible text, breaks, dates and encodings."""

from collections.abc import Callable

import pytest

from mbc_engine.text import Document

ReadOne = Callable[[str, bytes | str], Document]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<title>T</title><p>One <b>bold</b>\n word.<p>Two", "T\n\nOne bold word.\n\nTwo"),
        ("<title>News</title><body><h1>News today</h1>x", "News today\n\nx"),
        ("<title>Only this</title><body><script>x</script>", "Only this"),
        ("a<br>b<hr/>c", "a\nb\n\nc"),
        ("<ul><li>a<li>b</ul>c", "a\nb\n\nc"),
        ("<table><tr><th>a<td>b</tr><tr><td>c</td> <td>d</td></table>", "a\tb\nc\td"),
        ("<div>a</div>b<span>c</span>", "a\n\nbc"),
        ("<pre>one\n  two</pre>", "one\ntwo"),
        (
            "a<script>if (a<b) '</p>'</script><style>p {}</style><svg><title>s</title></svg>b<nav><p>Home</nav>c",
            "ab\n\nc",
        ),
        ("<template><p>no</template><noscript>no</noscript><!-- no <p> -->yes<!-- open", "yes"),
        ("&lt;tag&gt; caf&eacute;&nbsp;&#8212; &#x1F600; &#xD800;", "<tag> café — \U0001f600 \ufffd"),
        ("<p>in</p></body></html><p>after", "in\n\nafter"),
        ("<div>" * 5000 + "deep" + "</div>" * 5000 + "end", "deep\n\nend"),
        ('<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><p/>é</html>', "é"),
        ("a < b and c > d", "a < b and c > d"),
    ],
)
def test_text(read_one: ReadOne, page: str, text: str) -> None:
    assert read_one("a.html", page).text == text


@pytest.mark.parametrize(
    ("page", "day"),
    [
        ('<meta property="article:published_time" content="2024-05-01T10:00:00Z">', "2024-05-01"),
        ('<meta name="Date" content="2023-01-02"><meta name="DC.date.issued" content="2024-05-01">', "2024-05-01"),
        ('<meta itemprop="datePublished" content="Wed, 01 May 2024 10:00:00 GMT">', "2024-05-01"),
        (
            '<meta name="date" content="soon">x <time datetime="2024-05-01">1st</time><time datetime="2025-01-01">',
            "2024-05-01",
        ),
    ],
)
def test_date(read_one: ReadOne, page: str, day: str) -> None:
    assert read_one("a.htm", page + "text").date == day


@pytest.mark.parametrize(
    ("declaration", "codec"),
    [
        ('<meta charset="windows-1251">', "cp1251"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r"),
        ('<?xml version="1.0" encoding="ISO-8859-5"?>', "iso8859-5"),
        ('<meta charset="latin-1">', "utf-8"),
        ('<meta charset="windows-1251">', "utf-16"),
        ('<meta charset="rot13">', "cp1251"),
    ],
)
def test_declared_encoding(read_one: ReadOne, declaration: str, codec: str) -> None:
    text = "Съешь же ещё этих мягких французских булок, да выпей чаю."
    assert read_one("a.html", (declaration + text).encode(codec)).text == text


def test_iso_2022_jp(read_one: ReadOne) -> None:
    assert read_one("a.html", '<meta charset="iso-2022-jp">吾輩は猫'.encode("iso2022_jp")).text == "吾輩は猫"


def test_unreadable_pages(reason: Callable[[str, bytes | str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason("a.html", "<script>x</script><p>") == reason("a.html", "<!--") == reason("a.html", " ") == "is empty"
    assert reason("a.html", b"<p>\0\1\2") == "looks binary"
    monkeypatch.setattr("mbc_engine.text.formats.html.MOST_HTML_BYTES", 1 << 20)
    assert reason("a.html", "x" * (1 << 20) + "y") == "is larger than 1 MB"


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "piece", ["<div>", "<a ", "<!--", "<![", "<a b='", "<p><b>", "&", "</", "<td>", "<meta ", "<title>"]
)
def test_hostile_pages(read: Callable[[str, str], list[object]], piece: str) -> None:
    assert len(read("a.html", "text" + piece * 200_000)) <= 1 + len(piece) * 200_000 // 32_000
