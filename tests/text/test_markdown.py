"""Markdown: front matter, links, tasks, tables, code, comments, headings and lines."""

import base64

import pytest

from mbc_engine.text.formats import markdown
from tests.text.conftest import sections


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("---\ntitle: x\nstatus: on hold\n---\n# Head\n<!-- a\n-- b -->*Text* <!-- open\n---\n",
         "title: x\nstatus: on hold\n\nHead\n\n*Text*\n<!-- open"),
        ("---\n\nBetween rules.\n\n---\n", "Between rules."),
        ("---\ntitle: never closed\n", "title: never closed"),
        ("---\nNote: it stays locked.\n---\nb", "Note: it stays locked.\n\nb"),
        ("a\n\n***\n\nb\n***\nc", "a\n\nb\n\nc"),
        ("Setext\n===\ntext", "Setext\n\ntext"),
        # Code and diagrams stay, comments go.
        ("A `<!--` here.\n\nb\n\n```mermaid\nA --> B\n```\nc <!-- gone --> d",
         "A <!-- here.\n\nb\n\n```mermaid\nA --> B\n```\nc  d"),
        ("```html\n<!-- kept -->\n```\n\n    <!-- kept -->\n\n<!-- gone -->\nx",
         "```html\n<!-- kept -->\n```\n\n    <!-- kept -->\n\nx"),
        ("```\nnever closed\n<!-- kept -->", "```\nnever closed\n<!-- kept -->"),
        ("<details><summary>Q</summary>\n\nA `x`\n\n</details>\n\nrun <name> a<br>b<b>c</b>",
         "Q\n\nA x\n\nrun <name> a\nbc"),
        ("<!-- never closed\nx", "<!-- never closed\nx"),
        # What a generator of pages shows of comments.
        ("# Sluice\n\n<!-- YAML\nadded: v1.2.0\nremoved:\n  - v3.0.0\n-->\n\nIt opens.\n<!--\nNot so.\n-->\n<!-- a: b -->",
         "Sluice\n\nadded: v1.2.0\nremoved:\n  - v3.0.0\n\nIt opens."),
        # Links, notes, quotations and tasks.
        ("[form](https://a.b/c) [#](#top) <https://d.e> [f](g%20h.md) [i][1]\n\n[1]: http://j.k",
         "form (https://a.b/c) # https://d.e f i (http://j.k)\n\n[1]: http://j.k"),
        ("a [b] [c][]\n\n[b]: d.md#b\n[c]: #c\n  'in two lines'\nd\n\n```\n[e]: f.md\n```", "a b c\n\nd\n\n```\n[e]: f.md\n```"),
        ("[Ada]: Hi\n\n- [Bo]: 3.50\n  once\n\nb[^1]\n\n[^1]: Ibid.\n[^2]: a/b\n[c d]: /e",
         "[Ada]: Hi\n\n- [Bo]: 3.50\n  once\n\nb^1\n\n[^1]: Ibid.\n[^2]: a/b"),
        ("![A map](a.png) ![](b/c.png) ![[d.png|200]]", "A map c.png d.png"),
        ("[[people/Runa Berg|Runa Berg]] [[Runa Berg|she]] [[Note#Part]] `[[x|y]]`",
         "Runa Berg she (Runa Berg) Note#Part [[x|y]]"),
        ("> [!note] Chair\n> Led by **Runa**\n> since 2021.", "[!note] Chair\nLed by Runa\nsince 2021."),
        ("1. a\n2. b\n   - [x] c\n   - [ ] *d*\n     e\n9) f", "1. a\n2. b\n   - [x] c\n   - [ ] d\n     e\n9) f"),
        ("5*3*2, a_b_c, ~~old~~, \\*, &amp; **bold**word", "5*3*2, a_b_c, ~~old~~, *, & boldword"),
        # Tables.
        ("| Item | Bin |\n|---|---:|\n| **A** [[x\\|y]] | 1<br>2 |\n| B | |\n\nc",
         "Item: A y (x); Bin: 1, 2\nItem: B\n\nc"),
        ("| Item | Bin |\n|---|---|", "Item; Bin"),
        ("| Team | Team |\n|---|---|\n| Anna | Cook |\n| | |\n| Ben | Driver |", "Team\nAnna: Cook\nBen: Driver"),
        ("| | |\n|---|---|\n| Anna | Cook |", "Anna: Cook"),
    ],
)  # fmt: skip
def test_text(read_one, page, text):
    assert read_one("a.md", page).text == text
    assert read_one("a.md", page.replace("\n", "\r\n")).text == text


@pytest.mark.parametrize(
    ("page", "title", "day"),
    [
        ("---\n# by hand\ntitle: 'Dunlin atlas' # x\ncreated: 2020-01-05T10:00:00Z\ntags: [a]\n---\nb", "Dunlin atlas",
         "2020-01-05"),
        ('---\n"title": Curlew\ndate: "January 4, 2020"\nupdated: 2021-01-01\n...\nb', "Curlew", "2020-01-04"),
        ('+++\ntitle = "Heron ledger"\ndate = 2020-01-02\n+++\nb', "Heron ledger", "2020-01-02"),
        ("---\ntitle: >-\n  A long\ndate: 2020-01-02\n---\nb", "A long", "2020-01-02"),
    ],
)  # fmt: skip
def test_properties(read_one, page, title, day):
    document = read_one("a.md", "\ufeff" + page)
    assert (document.title, document.date) == (title, day)
    assert document.text.endswith("\n\nb")


def test_embedded_files(read_one):
    data, genes = base64.b64encode(bytes(range(256))).decode(), "ACGT" * 60
    shown = f"![mill](data:image/png;base64,{data}) {genes}\n\n![][a]\n\n```drawing\n{data}\n```\n\n[a]: <data:image/png;base64,{data}>"
    document = read_one("a.md", f"{shown}\n\nend")
    assert document.text.split() == ["mill", genes, "```drawing", "```", "end"]
    assert document.losses == ("3 embedded files",)
    assert document.places[-1].line + document.text.count("\n", document.places[-1].start) == 11


def test_headings_and_lines(read_one, monkeypatch):
    monkeypatch.setattr(markdown, "_STRETCH", 20)
    page = "---\na: b\n---\nText\n\n# Orion *x*\n## Cost\n```sh\n# no heading\n\n\n```\n| a | b |\n|--|--|\n| 1 | 2 |\n\nLate\n===\nend"
    document = read_one("a.md", page)
    assert sections(document) == [*(("Orion x", "Orion x"), ("Cost", "Orion x > Cost"), ("Late", "Late"))]
    lines = {}
    for place, following in zip(document.places, [*document.places[1:], None], strict=True):
        shown = document.text[place.start : following and following.start].split("\n")
        lines |= {text: place.line + index for index, text in enumerate(shown) if text}
    assert list(lines) == [line for line in document.text.split("\n") if line]
    assert list(lines.values()) == [2, 4, 6, 7, 8, 9, 12, 15, 17, 19]
