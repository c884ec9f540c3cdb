"""HTML: title, visible text, breaks, dates and encodings."""

import pytest

from tests.text.conftest import sections


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<title>T</title><p>One <b>bold</b>\n word.<p>Two", "One bold word.\n\nTwo"),
        ("<title>News</title><body><h1>News today</h1>x", "News today\n\nx"),
        ("<title>Only this</title><body><script>x</script>", "Only this"),
        ("a<br>b<hr/>c", "a\nb\n\nc"),
        ("<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"),
        ("<ol start=4><li>a<li value=9>b<ul><li>c</ul><li>d</ol>", "4. a\n9. b\n\n- c\n\n10. d"),
        ("<ul><li><p>a</p><p>b</p><li><div><br>c</div><li></ul>d", "- a\n\nb\n\n- c\n\n- \n\nd"),
        ("<dl><dt>Gull<dd><b>Berth</b>: 12<dd>Built: 1987<dt>Ink<dd>Black", "Gull:\nBerth: 12\nBuilt: 1987\nInk: Black"),
        ("<dl><dt>Ada<dd>She said: no<dt>Ink<dd>Black</dl>", "Ada: She said: no\nInk: Black"),
        ("<p>A <b>Note</b>: B<dl><dt>T<dd>x<table><td><dl><dt>k?<dd>v</dl></table>y<dd>z</dl>", "A Note: B\n\nT: x\n\nk? v\n\ny\nz"),
        ("<dl><dt>Nib<dd>A point<dd>A beak<dt>Ink:<dd>Black</dl>", "Nib: A point\nA beak\nInk: Black"),
        ("Day <input value='14 July'> <label>Hue <select><option>red<option selected>blue</select></label>",
         "Day: 14 July\nHue: blue"),
        ("<input type=checkbox checked> a<br><input type=radio>b<input type=submit value=Go><textarea> x\ny</textarea>",
         "[x] a\n[ ] b: x\ny"),
        ("<input type=checkbox checked=false> a", "[x] a"),  # as browsers show it
        ("<div><en-todo checked='true'/>a</div><div><en-todo checked='false'/>b</div>", "[x] a\n\n[ ] b"),
        ("a<img alt='A map'>b <a href='mailto:x@y.z?subject=s'>mail</a>", "a A map b mail (x@y.z)"),
        ("10<sup>6</sup> <s>7</s><sup>8</sup>", "10\u2076 ~~7~~\u2078"),
        ("in 1974.<sup>3</sup> <sup>4</sup>Note", "in 1974.\u00b3 \u2074Note"),
        ("<h2>Age<span class='mw-editsection'>[edit]</span></h2><p class=noprint>no</p>", "Age\n\nno"),
        ("<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><DT><A HREF='https://x.y/?z'>Eels</A><DT><A HREF='#'>b</A>",
         "Eels (https://x.y/?z)\nb:"),
        # What a click opens is there, what is hidden is not.
        ("<h3><button aria-expanded=false>Q?</button></h3><div hidden>A.</div><div hidden>no</div>", "Q?\n\nA."),
        ("<button aria-controls=p>Q?</button>x<div id=p style='display: none'>A.</div>", "Q?\nx\n\nA."),
        ("<details><summary>Q?</summary>A.</details>b<span aria-hidden=true>no</span>", "Q?\n\nA.\n\nb"),
        ("<div id=cookie-banner>no</div><p class='cookie-recipe'>yes<p style='visibility:hidden'>no", "yes"),
        ("<style>.x, p#y {display:none} @media print {.z {display:none}}</style><p class='w x'>no<p id=y>no<p class=z>a",
         "a"),
        ("<style>.x {display:none} .x.on {display:block} .y {visibility:hidden}</style><p class=x>a<p class=y>no", "a"),
        ("<style>.x {display:none}</style><p class=x>a<script>$('.x').show()</script>", "a"),
        ("<div style='font-size:0px'>no<p style='font-size:13px'>a</p>no<p class=k>b</p></div><p>c", "a\n\nb\n\nc"),
        # Tags that are never closed hide nothing.
        ("<div><select><option>red<option>blue<p>a</div>", "redblue\n\na"),
        ("<p>a <!-- b</p><p>c</p>", "a b\n\nc"),
        ("<nav><ul><li>Home</ul><p>a</p><svg><path/><p>b<div hidden>c", "- Home\n\na\n\nb\n\nc"),
        ("<script>'<nav><div>'</script><!-- <nav> --><nav>no</nav><div hidden>no</div>a", "a"),
        ("<table><tr><th>a<td>b</tr><tr><td>c</td> <td>d</td></table>", "a: b\nc: d"),
        ("<table><caption>Fees</caption><tr><th>Pier<th>Fee<tr><td rowspan=2>East<td>7<tr><td>8</table>b",
         "Fees\n\nPier: East; Fee: 7\nPier: East; Fee: 8\n\nb"),
        ("<table><tr><td>a<table><tr><th>x<th>y<tr><td>1<td>2</table><td>b</table>", "a\n\nx: 1; y: 2\n\nb"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>字", "漢字"),
        ("<div>a</div>b<span>c</span>", "a\n\nbc"),
        ("<pre>one\n  two</pre>", "one\n  two"),
        ("a<script>if (a<b) '</p>'</script><style>p {}</style><svg><title>s</title></svg>b<nav><p>Home</nav>c", "ab\n\nc"),
        ("<template><p>no</template><noscript>no</noscript><!-- no <p> -->yes<!-- open", "yes"),
        ("&lt;tag&gt; caf&eacute;&nbsp;&#8212; &#x1F600; &#xD800;", "<tag> café — \U0001f600 \ufffd"),
        ("<p>in</p></body></html><p>after", "in\n\nafter"),
        ("<div>" * 5000 + "deep" + "</div>" * 5000 + "end", "deep\n\nend"),
        ('<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><p/>é</html>', "é"),
        ("a < b and c > d", "a < b and c > d"),
    ],
)  # fmt: skip
def test_text(read_one, page, text):
    assert read_one("a.html", page).text == text


def test_title_and_headings(read_one):
    page = "<title>Visit us</title>x<h1>Visit</h1>a<h2>By <b>boat</b></h2>b<h1>Fees</h1><svg><title>no</title></svg>c"
    document = read_one("a.html", page)
    assert document.title == "Visit us"
    assert sections(document) == [("Visit", "Visit"), ("By boat", "Visit > By boat"), ("Fees", "Fees")]


def test_folders_of_bookmarks(read_one):
    inner = "<DT><H3>Rye</H3><DL><p><DT><A HREF='http://b'>b</A></DL><p><DT><A HREF='http://c'>c</A>"
    page = f"<!DOCTYPE NETSCAPE-Bookmark-file-1><H1>All</H1><DL><p><DT><H3>Food</H3><DL><p>{inner}</DL><p><DT>d</DL>"
    folders = [context for _, context in sections(read_one("a.html", page))]
    assert folders == ["All", "All > Food", "All > Food > Rye", "All > Food", "All"]


@pytest.mark.parametrize(
    "page",
    [
        '<meta property="article:published_time" content="2024-05-01T10:00:00Z">',
        '<meta name="Date" content="2023-01-02"><meta name="DC.date.issued" content="2024-05-01">',
        '<meta itemprop="datePublished" content="Wed, 01 May 2024 10:00:00 GMT">',
        '<meta name="date" content="soon"> <time datetime="2024-05-01">1st</time><time datetime="2025-01-01">',
    ],
)
def test_date(read_one, page):
    assert read_one("a.htm", page + "text").date == "2024-05-01"


RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю."


@pytest.mark.parametrize(
    ("declaration", "codec", "text"),
    [
        ('<meta charset="windows-1251">', "cp1251", RUSSIAN),
        ('<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r", RUSSIAN),
        ('<?xml version="1.0" encoding="ISO-8859-5"?>', "iso8859-5", RUSSIAN),
        ('<meta charset="latin-1">', "utf-8", RUSSIAN),
        ('<meta charset="windows-1251">', "utf-16", RUSSIAN),
        ('<meta charset="rot13">', "cp1251", RUSSIAN),
        ('<meta charset="iso-2022-jp">', "iso2022_jp", "吾輩は猫"),
    ],
)
def test_declared_encoding(read_one, declaration, codec, text):
    assert read_one("a.html", (declaration + text).encode(codec)).text == text


def test_unreadable_pages(reason, monkeypatch):
    assert reason("a.html", "<script>x</script><p>") == reason("a.html", "<!--") == reason("a.html", " ") == "is empty"
    assert reason("a.html", b"<p>\0\1\2") == "looks binary"
    monkeypatch.setattr("mbc_engine.text.decoding.MOST_BYTES", 1 << 20)
    assert reason("a.html", "x" * (1 << 20) + "y") == "is larger than 1 MB"
