"""Input for benchmarks/fuzz.py: valid files of every format, hostile ones, and tokens that are meaningful in them."""

import base64
import csv
import gzip
import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Final
from xml.sax.saxutils import escape

from docx import Document as WordDocument
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

WORDS: Final = (
    "Zoë",
    "moved",
    "to",
    "Łódź",
    "in",
    "1954.",
    "жук",
    "東京",
    "مرحبا",
    "👩‍🚀",
    "e\u0301",
    "\u2028",
    "A-",
    "\ufeff",
)
NUMBERS: Final = (
    b"0",
    b"-1",
    b"1",
    b"255",
    b"65536",
    b"2147483648",
    b"-9223372036854775809",
    b"9" * 400,
    b"1e309",
    b"NaN",
)
_ENCODINGS: Final = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "cp1251", "koi8_r", "cp932", "gb18030")
_DEEP: Final = 100_000
_BOMB_BYTES: Final = 48 << 20


def prose(rng: Random) -> str:
    """Words and line ends."""
    ends = (" ", " ", " ", "\n", "\r\n", "\r", "\n\n", "\t", "\x85", "\x0c")
    return "".join(rng.choice(WORDS) + rng.choice(ends) for _ in range(rng.choice((1, 5, 50, 400))))


def text(rng: Random) -> bytes:
    """Text in a random encoding."""
    return prose(rng).encode(rng.choice(_ENCODINGS), "replace")


def markdown(rng: Random) -> bytes:
    """Markdown with comments, and with or without front matter."""
    parts = ["---\ntitle: t\ndate: 2024-05-01\n---\n"] * rng.randrange(2)
    parts += [f"<!-- {prose(rng)} -->", f"# {prose(rng)}", prose(rng)]
    return "\n".join(parts).encode()


def html(rng: Random) -> bytes:
    """A tree of random elements, with dates, entities and a declared encoding."""
    names = (
        "p",
        "td",
        "table",
        "pre",
        "script",
        "title",
        "svg",
        "template",
        "select",
        "br",
        "time",
        "b",
        "html",
        "x:y",
    )

    def element(depth: int) -> str:
        if depth > 4 or rng.random() < 0.3:
            return escape(prose(rng))
        name = rng.choice(names)
        inner = "".join(element(depth + 1) for _ in range(rng.randrange(3)))
        return f'<{name} datetime="2024-05-01" class=x>{inner}' + f"</{name}>" * rng.randrange(3)

    charset = rng.choice(("utf-8", "koi8-r", "utf-16", "zip", "rot13", "undefined", "iso-2022-jp", "\udcff"))
    head = f'<meta charset="{charset}"><meta name=date content="1 May 2024">&eacute;&#xD800;&#0;&bad;<!-- c --><![CDATA[d]]>'
    return f"<!DOCTYPE html>{head}{element(0)}".encode("utf-8", "replace")


def jsonl(rng: Random) -> bytes:
    """Rows with values of every type."""
    values = (
        "a text",
        "\ud800",
        "\0",
        "",
        None,
        True,
        7,
        -1e300,
        ["x"],
        {"text": "y"},
        "row 3",
        "x" * 300,
        "2024-05-01",
    )
    keys = ("text", "content", "body", "title", "date", "id", "other")
    rows = [{key: rng.choice(values) for key in rng.sample(keys, 4)} for _ in range(rng.randrange(1, 9))]
    return "\n".join(json.dumps(row, ensure_ascii=rng.random() < 0.5) for row in rows).encode("utf-8", "surrogatepass")


def rows(rng: Random) -> bytes:
    """CSV in a random dialect and encoding."""
    file = io.StringIO()
    dialect = {"delimiter": rng.choice(",;\t|"), "quoting": rng.choice((csv.QUOTE_ALL, csv.QUOTE_MINIMAL))}
    writer = csv.writer(file, lineterminator=rng.choice(("\n", "\r\n", "\r")), **dialect)
    writer.writerow(("Id", "TEXT", "date"))
    writer.writerows((number, prose(rng), "2024-05-01") for number in range(rng.randrange(6)))
    return file.getvalue().encode(rng.choice(_ENCODINGS), "replace")


def json_file(rng: Random) -> bytes:
    """Rows, a chat, a notebook, or an object that holds some of them."""
    lines = [json.loads(line) for line in jsonl(rng).decode("utf-8", "replace").splitlines()]
    chat = [{"role": rng.choice(("user", None, 7)), "content": prose(rng), "ts": 1.7e9} for _ in range(3)]
    cells = [{"cell_type": "markdown", "source": [f"# {prose(rng)}"], "outputs": [{"data": {"image/png": ""}}]}]
    value = rng.choice((lines, chat, {"name": prose(rng), "rows": lines, "messages": chat}, {"cells": cells}))
    return json.dumps(value).encode()


def settings(rng: Random) -> bytes:
    """Lines of YAML and INI with keys above them."""
    keys = (f"[{prose(rng)}]", "a: |", "  - b:", "    c: d", "- &x", "*x", prose(rng))
    return "\n".join(rng.choices(keys, k=9)).encode()


def xml(rng: Random) -> bytes:
    """Elements as rows, and text with elements in it."""
    words = [escape(prose(rng)).replace("\x0c", " ") for _ in range(rng.randrange(1, 5))]
    rows = "".join(f'<row id="{number}"><a>{text}</a></row>' for number, text in enumerate(words))
    return f'<?xml version="1.0"?><r xmlns:y="z">{rows}<y:note>x <b>{words[0]}</b> z</y:note></r>'.encode()


_SHEET: Final = (
    '<worksheet xmlns="s"><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>b</t></is></c>'
    '</row><row r="3"><c r="A3" s="1"><v>45413.5</v></c><c r="C3" t="b"><v>1</v></c></row></sheetData>'
    '<mergeCells><mergeCell ref="A1:B2"/></mergeCells></worksheet>'
)


def xlsx(rng: Random) -> bytes:
    """A workbook of one sheet, with a comment."""
    link = '<Relationship Id="{0}" Type="x/{1}" Target="{2}"/>'
    kinds = (("a", "worksheet", "s.xml"), ("b", "styles", "t.xml"), ("c", "sharedStrings", "w.xml"))
    members = {
        "[Content_Types].xml": '<Types><O ContentType="x.spreadsheetml.sheet.main+xml"/></Types>',
        "_rels/.rels": f"<R>{link.format('a', 'officeDocument', 'xl/workbook.xml')}</R>",
        "xl/workbook.xml": '<w xmlns="s" xmlns:r="r"><sheet name="S" r:id="a"/></w>',
        "xl/_rels/workbook.xml.rels": f"<R>{''.join(link.format(*kind) for kind in kinds)}</R>",
        "xl/_rels/s.xml.rels": f"<R>{link.format('a', 'comments', 'c.xml')}</R>",
        "xl/c.xml": '<c xmlns="s"><comment ref="A3"><t>x</t></comment></c>',
        "xl/t.xml": '<t xmlns="s"><numFmt numFmtId="200" formatCode="yyyy"/><cellXfs><xf/><xf numFmtId="200"/></cellXfs></t>',
        "xl/w.xml": f'<w xmlns="s"><si><t>{"".join(sign for sign in escape(prose(rng)) if sign.isprintable())}</t></si></w>',
        "xl/s.xml": _SHEET,
    }
    return zipped({name: data.encode() for name, data in members.items()})


def ods(rng: Random) -> bytes:
    """A sheet with repeated and merged cells."""
    name = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
    cell = f'<t:table-cell t:number-columns-repeated="{rng.choice((1, 2, 9999999))}" t:number-rows-spanned="2"><x:p>a</x:p></t:table-cell>'
    rows = f'<t:table-row t:number-rows-repeated="{rng.choice((1, 2, 9999999))}">{cell}</t:table-row>' * 2
    content = f'<r xmlns:t="{name}" xmlns:x="x"><t:table t:name="S">{rows}</t:table></r>'
    return zipped({"mimetype": b"application/vnd.oasis.opendocument.spreadsheet", "content.xml": content.encode()})


def docx(rng: Random) -> bytes:
    """Paragraphs, a table and properties."""
    return _docx(rng.randrange(20))


@lru_cache  # making one takes longer than reading it
def _docx(seed: int) -> bytes:
    rng, document = Random(seed), WordDocument()
    for _ in range(seed % 4):
        document.add_paragraph("".join(sign for sign in prose(rng) if sign.isprintable()))
    document.add_table(2, 2).cell(0, 0).text = "cell"
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


_FONTS: Final = (
    (
        b"/Type /Font /Subtype /Type1 /BaseFont /Helvetica /FirstChar 32 /LastChar 34 /Widths [500 500 500] "
        b"/Encoding << /BaseEncoding /WinAnsiEncoding /Differences [65 /Adieresis /uni0416 /g7 300 /a] >>"
    ),
    (
        b"/Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /ToUnicode 8 0 R /DescendantFonts [<< /Type /Font "
        b"/Subtype /CIDFontType2 /BaseFont /X /DW 1000 /W [1 [500 600] 3 9 700] >>]"
    ),
    b"/Type /Font /Subtype /Type3 /FontMatrix [0.001 0 0 0.001 0 0] /CharProcs << /a 4 0 R >> /FontBBox [0 0 9 9]",
)
_CMAP: Final = (
    "/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <FFFF> endcodespacerange "
    "2 beginbfchar <0041> <0416> <42> <D83DDE00> endbfchar 2 beginbfrange <0043> <0050> <0061> "
    "<0060> <0062> [<0041> <0042> <0043>] endbfrange endcmap"
)
_PAINT: Final = (
    "(Zo\\353 \\(moved\\)) Tj", "<00410042> Tj", "[(A) -250 <0043> 9999999999 (B)] TJ", "T*", "1 0 0 1 72 720 Tm", "12 TL",
    "0 0 0 0 0 0 cm", "/F1 1000000000.5 Tf", "/F1 12 Tf", "/X0 Do", "q", "Q", "BT", "ET", "(x) '", '1 2 (y) "', "-1 Tz",
    "ET 72 700 m 400 700 l S 72 690 m 400 690 l S 72 600 m 72 720 l S 90 600 m 90 720 l S 400 600 m 400 720 l S BT", "/F1 20 Tf",
    "BI /W 2 /H 2 /BPC 8 /CS /G ID abcd EI", "/Span << /ActualText (z) >> BDC", "EMC", "<< /A [[[]]] >>", "99 Tr",
)  # fmt: skip


def pdf(rng: Random) -> bytes:
    """Handwritten, so that objects can be damaged in place; sometimes written by pypdf, compressed or encrypted."""
    content = " ".join(
        ["BT /F1 12 Tf (Zo\\353 moved) Tj", *(rng.choice(_PAINT) for _ in range(rng.randrange(30))), "ET"]
    ).encode()
    if rng.random() < 0.3:
        return _packed_pdf(content, rng)
    form = b"BT /F1 9 Tf (form) Tj ET /X0 Do"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /Outlines 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R 5 0 R] /Count 2 /Resources << /Font << /F1 6 0 R >> /XObject << /X0 7 0 R >> >> >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Rotate 90 >>",
        _stream(b"", content),
        b"<< /Type /Page /Parent 2 0 R /Contents [4 0 R 4 0 R] /Annots [3 0 R] >>",
        b"<< %s >>" % rng.choice(_FONTS),
        _stream(b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X0 7 0 R >> >>", form),
        _stream(b"", _CMAP.encode()),
        b"<< /CreationDate (D:20240501120000+02'00') /Title (T) >>",
    ]
    written, places = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(written)
    written += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    written += b"".join(b"%010d 00000 n \n" % place for place in places)
    written += b"trailer << /Size %d /Root 1 0 R /Info 9 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)
    return bytes(written)


def _stream(words: bytes, data: bytes) -> bytes:
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (words, len(data), data)


def _packed_pdf(content: bytes, rng: Random) -> bytes:
    writer = PdfWriter()
    stream = DecodedStreamObject()
    stream.set_data(content)
    page = writer.add_blank_page(600, 800)
    page[NameObject("/Contents")] = writer._add_object(stream.flate_encode())  # noqa: SLF001
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    fonts = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
    page[NameObject("/Resources")] = DictionaryObject(
        {NameObject("/Font"): DictionaryObject({NameObject("/F1"): fonts})}
    )
    writer.add_metadata({"/CreationDate": "D:20240501"})
    if rng.random() < 0.5:
        writer.encrypt("", algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


_SPACES: Final = " ".join(
    f"xmlns:{name}='{space}'"
    for name, space in {
        "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
        "p": "http://schemas.openxmlformats.org/presentationml/2006/main",
        "r": "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
        **{
            prefix: f"urn:oasis:names:tc:opendocument:xmlns:{prefix}:1.0"
            for prefix in ("office", "text", "table", "style", "drawing", "presentation")
        },
    }.items()
)


def pptx(rng: Random) -> bytes:
    """Two slides, with a table."""
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    text = f"<a:p><a:r><a:t>{_xml(rng)}</a:t></a:r></a:p>"
    title = "<p:nvSpPr><p:nvPr><p:ph type='title'/></p:nvPr></p:nvSpPr>"
    table = f"<p:graphicFrame><a:tbl><a:tr><a:tc>{text}</a:tc><a:tc vMerge='1'/></a:tr></a:tbl></p:graphicFrame>"
    members = {
        "[Content_Types].xml": "<T a='x.presentationml.presentation.main+xml'/>",
        "_rels/.rels": f"<R><r Id='1' Type='{kind}/officeDocument' Target='ppt/p.xml'/></R>",
        "ppt/p.xml": f"<p:p {_SPACES}><p:sldId r:id='1'/><p:sldId r:id='1'/></p:p>",
        "ppt/_rels/p.xml.rels": f"<R><r Id='1' Type='{kind}/slide' Target='s.xml'/></R>",
        "ppt/s.xml": f"<p:s {_SPACES}><p:sp>{title}{text}</p:sp>{table}</p:s>",
    }
    return zipped({name: member.encode() for name, member in members.items()})


def odt(rng: Random) -> bytes:
    """Headings, a list, a table and a note."""
    note = "<text:note><text:note-body><text:p>note</text:p></text:note-body></text:note>"
    body = (
        f"<text:h text:outline-level='2'>{_xml(rng)}</text:h><text:p>{_xml(rng)}<text:s text:c='9'/>{note}</text:p>"
        "<text:list><text:list-item text:start-value='3'><text:p>item</text:p></text:list-item></text:list><table:table>"
        "<table:table-row><table:table-cell table:number-columns-repeated='9'><text:p>c</text:p></table:table-cell>"
        "<table:covered-table-cell/></table:table-row></table:table>"
    )
    members = {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": f"<office:c {_SPACES}><office:body>{body}</office:body></office:c>",
        "meta.xml": "<m><title>t</title><date>2024-05-01</date></m>",
    }
    return zipped({name: member.encode() for name, member in members.items()})


def epub(rng: Random) -> bytes:
    """A chapter, with contents."""
    items = (
        "<item id='a' href='a.html' media-type='application/xhtml+xml'/>"
        "<item id='n' href='n.ncx' media-type='application/x-dtbncx+xml'/>"
    )
    members = {
        "mimetype": b"application/epub+zip",
        "META-INF/container.xml": b"<c><rootfile full-path='p.opf'/></c>",
        "p.opf": f"<p><title>t</title><date>2024</date>{items}<spine><itemref idref='a'/></spine></p>".encode(),
        "n.ncx": b"<n><text>Chapter</text><content src='a.html'/></n>",
        "a.html": html(rng),
    }
    return zipped(members)


def _xml(rng: Random) -> str:
    return escape("".join(sign for sign in prose(rng) if sign.isprintable()))


def rtf(rng: Random) -> bytes:
    """Groups, tables, notes and characters of all kinds."""
    parts = (
        rb"{\footnote note}", rb"\par ", rb"\u1078?", rb"\'e9", rb"{\v hidden}", rb"\trowd\intbl a\cell b\cell\row ",
        rb"{\pict\bin3 abc}", rb"\f1 ", rb"{\header h\par}", rb"\s1 ", rb"{\*\x y}", rb"\pard ", b"text",
    )  # fmt: skip
    head = rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f1\fcharset204 A;}}{\stylesheet{\s1 heading 1;}}{\info{\title t}}"
    return head + b"".join(rng.choice(parts) for _ in range(rng.randrange(40))) + b"}"


def eml(rng: Random) -> bytes:
    """A message of several parts, some of them attached."""
    kinds = (
        "text/plain; charset=koi8-r",
        "text/html",
        "text/plain; format=flowed",
        "text/csv; name=a.csv",
        "message/rfc822",
    )
    parts = "".join(f"--b\nContent-Type: {rng.choice(kinds)}\n\n{prose(rng)}\n" for _ in range(rng.randrange(5)))
    head = "From: =?utf-8?q?Zo=C3=AB?= <z@x>\nTo: a, b\nDate: Tue, 14 May 2024 10:00:00 +0200\nSubject: s\n"
    kind = rng.choice(("mixed", "alternative", "related"))
    return f"{head}Content-Type: multipart/{kind}; boundary=b\n\n{parts}--b--".encode()


def mbox(rng: Random) -> bytes:
    """Messages, with quotations."""
    return b"".join(
        b"From a@x Tue May 14 10:00:00 2024\n%s\n> %s\n\n" % (eml(rng), prose(rng).encode())
        for _ in range(rng.randrange(1, 4))
    )


def srt(rng: Random) -> bytes:
    """Subtitles in a random encoding."""
    cues = (f"{number}\n00:00:0{number},000 --> 0:1\n<v Z> {prose(rng)}\n\n" for number in range(5))
    return "".join(cues).encode(rng.choice(_ENCODINGS), "replace")


def tex(rng: Random) -> bytes:
    """Headings, lists, tables and equations."""
    parts = (
        r"\section{One}", r"\begin{tabular}{ll}a & b \\ c & d\end{tabular}", r"\begin{itemize}\item x\end{itemize}",
        r"$\frac{a}{b}$", r"\textbf{b}", r"\'e", r"\cite{k}", "\n\n", "% c\n", r"\begin{equation}a_i\end{equation}",
    )  # fmt: skip
    body = "".join(rng.choice(parts) + prose(rng) for _ in range(rng.randrange(9)))
    return rf"\documentclass{{a}}\title{{T}}\begin{{document}}{body}\end{{document}}".encode()


def bib_of_strings() -> bytes:
    """Strings that are each made of four of the one before."""
    grown = "".join(f"@string{{s{at + 1} = s{at} # s{at} # s{at} # s{at}}}" for at in range(60))
    return f"@string{{s0 = {{mill}}}}{grown}@a{{k, t = s60}}".encode()


def bib(rng: Random) -> bytes:
    """Entries with strings and names."""
    fields = (
        "author = {A, B and {C D}}", 'title = "T {x} " # s', "year = 2020", "month = mar", f"note = {{{prose(rng)}}}",
    )  # fmt: skip
    entries = (f"@book{{k{number}, {', '.join(rng.sample(fields, 3))}}}\n" for number in range(rng.randrange(4)))
    return f'@string{{s = "x"}}\n{"".join(entries)}'.encode()


def org(rng: Random) -> bytes:
    """Headings and tables."""
    return f"#+TITLE: t\n* TODO {prose(rng)}\n| a | b |\n|---+---|\n| 1 | {prose(rng)} |\n** x\nT\n===\n".encode()


def asciidoc(rng: Random) -> bytes:
    """A table of AsciiDoc."""
    return f'= T\n:date: 2024-05-01\n\n[cols="1,2*"]\n|===\n|a |b\n\n2+|{prose(rng)}\na|x\n|===\n'.encode()


def ofx(rng: Random) -> bytes:
    """A bank statement."""
    return f"<OFX><CURDEF>EUR\n<STMTTRN><DTPOSTED>20240304\n<TRNAMT>-1\n<MEMO>{prose(rng)}\n</STMTTRN></OFX>".encode()


def mt940(rng: Random) -> bytes:
    """A bank statement in fields with numbers."""
    return f":20:X\n:60F:C240301EUR1,\n:61:2403040304DR84,00N\n:86:005?20{prose(rng)}?32B\n:62F:C240301EUR1,\n".encode()


def wiki(rng: Random) -> bytes:
    """A table of MediaWiki."""
    return f"== T ==\n{{| a=b\n|+ c\n! a !! b\n|-\n| x=y | {prose(rng)} || [[a|b]]\n|}}\n''z''".encode()


def roff(rng: Random) -> bytes:
    """A manual page."""
    return f'.TH T 1 "x"\n.SH NAME\n{prose(rng)}\n.TP\n.BR \\-a ", " b\n{prose(rng)} \\(em \\fIx\\fP\n.It Fl v Ar x\n'.encode()


def outlook(rng: Random) -> bytes:
    """A message with a table, as Outlook saves it."""
    return OUTLOOK.replace(b"i\0n\0", rng.choice((b"i\0n\0", b"\0\xd8n\0")))


OUTLOOK: Final = zlib.decompress(
    base64.b85decode(
        "c-rlj&u-H|5XL{p`O~^BDjX2XrIENG6jgS62&oXFLhXTy3vi|~!7TxrM2V^B%T(|PJPDjR!5eVwg_v)gO;`d>b|D;S^F>~JHuC;<"
        "X4kXx@x$fM@7|ZcU`%)5qMt0HsP#F#+@Y}w<WyfjNfPNQ@k-|UuY@UDLoM9{3nRO{EcUgLy_VYLk&RWceP!Q8eXxhVUOIj9_LDO{"
        "{vINnpoc%zeVn0-Lypoy1&<KZI>V9i`!6`dV>Iy+>m1_^LcZI<D?Xd)F`lO$RCo_LheJL!)49ayKNb2W_h%e`1>S@>JHEu}%E<25"
        "^|)r~0ookBO3pT^E#r9)75=6FKjvSm6$fb{RnBp0x<4)osXe{{4oHd^qjfac9$T+}D?Ey-2T|nhh23T~*zi5O_b>YQKg{2z*IegI"
        "51BvO%vBZaFndV$JhA$IuA<=Rd&yX;kl5!hBsXT;V5Zz>4v0959&=KgGYXg)eD+>v`}1$0+i+68)FMlU=)QLD3BOBXgS?J49oSNQ"
        "S34tZ`5hA5Y=s<?Ecx*FGx=3MGp+FRDwmmtzoYScc#WrQW1e0^kHyDLp8awUu$wu~O~o%*@N-(MvibM;ylu=cTJT-1ewobQHRhKr"
        "_<8MI&*BH#UNhmF)^nnQR-esk|1DbhFKcyUivOF+b5s943w}wfOS1WOQg{AI{1?X7e-`myw(wup>ef{M<=Z#^{#Pvco>nJL<_GH9"
        "m}&f%wDrH}((Avx$_+);_ibJtoqK%;&-Jc#"
    )
)


def code(rng: Random) -> bytes:
    """Definitions in several languages."""
    parts = (
        "class A:",
        "def f(x):",
        "int g(int a) {",
        "}",
        "// c",
        "@d",
        "const h = (x) => {",
        "create table t (",
        "\t",
        "    ",
    )
    return "\n".join(rng.choice(parts) + rng.choice(("", prose(rng))) for _ in range(rng.randrange(30))).encode()


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def members_of(data: bytes) -> dict[str, bytes]:
    """The files in a valid archive, by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _word(body: bytes, before: bytes = b"") -> bytes:
    """A Word document with this XML body."""
    spaces = b'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    members = members_of(docx(Random(0)))
    members["word/document.xml"] = b"%s<w:document %s><w:body>%s</w:body></w:document>" % (before, spaces, body)
    return zipped(members)


def _entities(canary: Path) -> bytes:
    """Declarations of entities that expand exponentially, or that include another file."""
    grown = "".join(f'<!ENTITY e{number} "{f"&e{number - 1};" * 20}">' for number in range(1, 12))
    return f'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY e0 "ha">{grown}<!ENTITY f SYSTEM "file://{canary}">]>'.encode()


def hostile(canary: Path) -> dict[str, list[Callable[[], bytes]]]:
    """Hostile files by format.

    Args:
        canary: a file whose content must not appear in any document.
    """
    paragraph = b"<w:p><w:r><w:t>%s</w:t></w:r></w:p>"
    large = b"The river rose.\n" * (_BOMB_BYTES // 16)
    return {
        "pdf": [
            lambda: b"%PDF-1.4\n" + b"[" * _DEEP,
            lambda: b"%PDF-1.4\n1 0 obj " + b"<</A " * _DEEP,
            lambda: b"%PDF-1.4\ntrailer <</Root 1 0 R /Prev 9>>\nstartxref\n9\n%%EOF",
            lambda: pdf(Random(1)).replace(b"/Kids [3 0 R 5 0 R]", b"/Kids [2 0 R 2 0 R]"),
            lambda: pdf(Random(1)).replace(b"/Size 10", b"/Size 9999999999"),
            lambda: _bomb_pdf(large),
        ],
        "docx": [
            lambda: _word(paragraph % b"&e11;&f;", _entities(canary)),
            lambda: _word(b"<w:tbl><w:tr><w:tc>" * (_DEEP // 20)),
            lambda: _word(paragraph % (b"A" * _BOMB_BYTES)),
            lambda: _word((paragraph % b"A") * 1_600_000),
            lambda: zipped({**members_of(docx(Random(0))), "../../escape.xml": b"<a/>", "word/media/x.bin": large}),
            lambda: zipped({"[Content_Types].xml": b"<Types/>"}),
        ],
        "pptx": [lambda: zipped({**members_of(pptx(Random(0))), "ppt/s.xml": b"<p:sp>" * _DEEP, "x": large})],
        "odt": [
            lambda: zipped({**members_of(odt(Random(0))), "content.xml": _entities(canary) + b"<p>&e11;&f;</p>"}),
            lambda: zipped({**members_of(odt(Random(0))), "meta.xml": large}),
        ],
        "epub": [lambda: zipped({**members_of(epub(Random(0))), "a.html": _entities(canary) + b"<p>&e11;&f;</p>"})],
        "rtf": [lambda: rb"{\rtf1 " + b"{" * _DEEP, lambda: rb"{\rtf1 " + rb"\u1?" * 1_000_000],
        "eml": [
            lambda: b"Content-Type: multipart/mixed; boundary=b\n\n" * _DEEP,
            lambda: b"Subject: " + b"=?utf-8?q?" * _DEEP + b"\n\nx",
        ],
        **{key: [lambda: b"BEGIN:VEVENT\n" * _DEEP, lambda: b"BEGIN:VCARD\nTEL" + b';"' * 1000000, lambda: b"QUOTED-PRINTABLE=\n" * 100000] for key in ("vcf", "ics")},
        "mbox": [lambda: b"From a@x Tue May 14 10:00:00 2024\n\n" * _DEEP, lambda: b">" * 3_000_000],
        "srt": [lambda: b"0:01,0 -->\n<" * _DEEP],
        "tex": [lambda: b"\\section{" * (_DEEP // 5), lambda: b"\\begin{tabular}" * _DEEP, lambda: b"$$" * _DEEP],
        "bib": [lambda: b"@a{k, t = {" + b"{" * _DEEP, lambda: b"@a{k, t = s # " * _DEEP, bib_of_strings],
        "msg": [lambda: outlook(Random(0))[:512] * 9, lambda: outlook(Random(0)).replace(b"\xfe\xff\xff\xff", b"\1\0\0\0")],
        "man": [lambda: b".TP\n.SH " + b'"' * 1_000_000, lambda: b".B \\" * _DEEP, lambda: b".TH a 1\n" + b".SS x\n" * _DEEP],
        "adoc": [lambda: b"|===\n" + b"|" * 1_000_000 + b"\n|===", lambda: b"[cols=9*]\n|===\n" * _DEEP],
        "ofx": [lambda: b"<STMTTRN>" * _DEEP, lambda: b"<A" * 1_000_000],
        "sta": [lambda: b":61:240304C1,\n" * _DEEP, lambda: b":61:240304C1,\n:86:" + b"?20a" * 200_000],
        "wiki": [lambda: b"{|\n" * _DEEP, lambda: b"{|\n" + b"|-\n|a" * _DEEP + b"\n|}"],
        "org": [lambda: b"|" * 1_000_000, lambda: b"*" * 1_000_000 + b" x"],
        "py": [lambda: b"def " * _DEEP, lambda: b"class a\n" * _DEEP, lambda: b" a" * 140 + b"(" + b"\n"],
        "html": [
            lambda: b"<div>" * _DEEP,
            lambda: b"<table><tr><td>" * _DEEP,
            lambda: b"<p " + b"a=1 " * _DEEP + b">x",
            lambda: _entities(canary) + b"<p>&e11;&f;</p>",
            lambda: b"&" * 1_000_000,
            lambda: b"<!--" * _DEEP,
            lambda: b"<a" * _DEEP,
        ],
        "markdown": [lambda: b"<!--" * _DEEP, lambda: b"---\na:\n" + b"--" * _DEEP, lambda: b"-->" * _DEEP],
        "text": [lambda: large, lambda: b"\xff" * 1_000_000, lambda: b"\xef\xbb\xbf" * _DEEP, lambda: b"\r" * 3_000_000],
        "jsonl": [
            lambda: b'{"text": ' + b"[" * _DEEP,
            lambda: b'{"a":' * _DEEP,
            lambda: b'{"text": "a", "id": ' + b"9" * _DEEP + b"}",
            lambda: b'{"text": "' + b"\\ud800" * _DEEP + b'"}',
            lambda: b'{"text": "' + b"a" * (17 << 20),
        ],
        "json": [
            lambda: b"[" * _DEEP,
            lambda: b'{"' + b"k" * 100_000 + b'":' + b"[{}," * 40 + b"1" + b"]" * 40 + b"}",
            lambda: b"[" + b"[]," * 3_000_000 + b"[]]",
            lambda: b"[" + b"9" * 5_000_000 + b"]",
        ],
        "ipynb": [lambda: b'{"cells": [{"source": [[[]]], "outputs": {}}, 3]}'],
        "yaml": [lambda: b"a:\n" * _DEEP, lambda: b"- " * _DEEP + b"x:", lambda: b"a " * _DEEP, lambda: b"a: &a [x]\n" + b"b: *a\n" * _DEEP],
        "toml": [lambda: b"[" * _DEEP, lambda: (b"[" + b"a." * 500 + b"]\n") * 9],
        "xml": [lambda: _entities(canary) + b"<r>&e11;&f;</r>", lambda: b"<a>" * _DEEP, lambda: b"<r>" + b"<a b='c'/>" * 300_000 + b"</r>"],
        "xlsx": [
            lambda: _workbook(b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>' * 1000, b"A1:XFD1048576"),
            lambda: _workbook(b"<row><c t='inlineStr'><is><t>%s</t></is></c></row>" % (b"A" * _BOMB_BYTES), b"A1:A1"),
            lambda: _workbook(b"<row><c><v>1e308</v></c><c t='s'><v>-1</v></c></row>", b"B:A"),
        ],
        "ods": [lambda: ods(Random(1)).replace(b"a", b"b")],
        "csv": [lambda: b"a,b,c\n" + b'x,"y,z\n' * _DEEP, lambda: b'a,b,c\nx,"y\n' + b'y","z\n' * _DEEP, lambda: b'text\n"' + b'""' * 2_000_000, lambda: b"text" + b",text" * _DEEP, lambda: b"text\n" + b"a" * (17 << 20)],
    }  # fmt: skip


def _workbook(rows: bytes, merged: bytes) -> bytes:
    """A workbook with these rows and merged cells."""
    members = members_of(xlsx(Random(0)))
    members["xl/s.xml"] = b'<w xmlns="s"><sheetData>%s</sheetData><mergeCell ref="%s"/></w>' % (rows, merged)
    return zipped(members)


def _bomb_pdf(large: bytes) -> bytes:
    writer = PdfWriter()
    stream = DecodedStreamObject()
    stream.set_data(b"BT /F1 12 Tf (x) Tj ET " + large)
    writer.add_blank_page(600, 800)[NameObject("/Contents")] = writer._add_object(stream.flate_encode())  # noqa: SLF001
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def cards(rng: Random) -> bytes:
    """Contacts and events with folded, quoted-printable and base64 properties."""
    names = ("FN", "N", "SUMMARY", "ADR;TYPE=home", "TEL;CELL", "DTSTART", "DTEND;VALUE=DATE", "RRULE", "ATTENDEE;CN=x")
    values = (b"a\\, b\\nc", b";;x;y;;", b"20240618T143000Z", b"99999999", b"FREQ=DAILY;UNTIL=0", b"mailto:a@x", b"")
    lines = list[bytes]()
    for _ in range(rng.randrange(5)):
        kind = rng.choice((b"VCARD", b"VEVENT", b"VTODO", b"VALARM"))
        properties = [rng.choice(names).encode() + b":" + rng.choice(values) for _ in range(rng.randrange(6))]
        properties += [b"NOTE;ENCODING=QUOTED-PRINTABLE:a=C3=\n=B8", b"PHOTO;ENCODING=b:AA\n AA="][: rng.randrange(3)]
        lines += [b"BEGIN:" + kind, *properties, b"END:" + kind]
    return b"\r\n".join(lines)


SAMPLES: Final[dict[str, Callable[[Random], bytes]]] = {
    "pdf": pdf,
    "docx": docx,
    "pptx": pptx,
    "odt": odt,
    "epub": epub,
    "rtf": rtf,
    "eml": eml,
    "mbox": mbox,
    "msg": outlook,
    **dict.fromkeys(("vcf", "ics"), cards),
    "srt": srt,
    "tex": tex,
    "bib": bib,
    "org": org,
    "adoc": asciidoc,
    "wiki": wiki,
    "ofx": ofx,
    "sta": mt940,
    "man": roff,
    "py": code,
    "html": html,
    "markdown": markdown,
    "text": text,
    "jsonl": jsonl,
    "csv": rows,
    "json": json_file,
    "ipynb": json_file,
    "yaml": settings,
    "toml": settings,
    "xml": xml,
    "xlsx": xlsx,
    "ods": ods,
}
SUFFIXES: Final = {name: f".{name}" for name in SAMPLES} | {"markdown": ".md", "text": ".txt"}
COMPRESSIONS: Final[dict[str, Callable[[bytes], bytes]]] = {
    ".gz": lambda data: gzip.compress(data, 1, mtime=0),
    ".xz": lambda data: lzma.compress(data, preset=0),
}
TOKENS: Final = {
    "pdf": (
        b"/Kids", b"/Parent", b"/Contents", b"/Filter", b"/FlateDecode", b"/LZWDecode", b"/ASCII85Decode", b"/DecodeParms",
        b"/Predictor", b"/Columns", b"/Length", b"/Prev", b"/XRefStm", b"/Encrypt", b"/ObjStm", b"/ToUnicode", b"/Font",
        b"/Type0", b"/Crypt", b"/JBIG2Decode", b"/RunLengthDecode", b"1 0 R", b"2 0 R", b"3 0 R", b"4 0 R", b"7 0 R",
        b"99 0 R", b"stream\n", b"endstream", b"endobj", b"obj", b"xref", b"trailer", b"null", b"true", b"<<", b">>",
        b"[", b"]", b"(", b")", b"<", b">", b"%", b"\\",
    ),
    "docx": (b"<w:p>", b"</w:p>", b"<w:tbl>", b"<w:moveFrom>", b"<w:txbxContent>", b"&amp;", b"]]>", b"<!DOCTYPE a>", b"<?x?>", b"rId1", b"../", b"http://x.invalid/"),
    "pptx": (b"<a:p>", b"<a:tbl>", b"<a:tc hMerge='1'/>", b"&amp;", b"<!DOCTYPE a>", b"r:id='1'", b"../", b"</p:sp>"),
    "odt": (b"<text:p>", b"<text:note>", b"<table:table-row>", b"='-1'", b"='x'", b"<!DOCTYPE a>", b"<text:list>"),
    "epub": (b"<itemref idref='a'/>", b"href=", b"../", b"<content src='#x'/>", b"%2e%2e", b"<?x?>"),
    "rtf": (b"{", b"}", b"\\*", b"\\bin9 ", b"\\u-1 ", b"\\'", b"\\cell ", b"\\row ", b"\\uc99 ", b"\\ansicpg7 ", b"\\footnote "),
    "eml": (b"\n--b\n", b"\n\n", b"Content-Type: ", b"=?x?b?", b"charset=", b"base64", b"boundary=", b"filename*0*=", b"\0"),
    "mbox": (b"\n\nFrom a@x Tue May 14 10:00:00 2024\n", b"\n>From ", b"\n> ", b"--b", b"\0"),
    **dict.fromkeys(("vcf", "ics"), (b"BEGIN:VEVENT\n", b"END:VEVENT\n", b"\n ", b"=\n", b";", b":", b'"', b"ENCODING=QUOTED-PRINTABLE")),
    "srt": (b" --> ", b"\n\n", b"<v ", b"{\\an8}", b"00:00:01,000", b"WEBVTT"),
    "tex": (b"{", b"}", b"\\\\", b"&", b"$", b"\\section{", b"\\begin{", b"\\end{", b"%", b"\\item[", b"\\verb|"),
    "bib": (b"{", b"}", b'"', b"#", b"@a{", b"=", b",", b"\\", b" and "),
    "msg": (b"\xfe\xff\xff\xff", b"\x1f\0\x37\0", b"_\0_\0", b"\0" * 64, b"\2\1\1\x37"),
    "man": (b"\n.SH ", b"\n.TP\n", b"\n.IP ", b"\\(", b"\\f[", b'"', b"\n.B ", b"\n.It Fl "),
    "adoc": (b"\n|===\n", b"|", b'[cols="', b"2+|", b"a|", b"\n\n", b"9*"),
    "ofx": (b"<STMTTRN>", b"</STMTTRN>", b"<NAME>", b"<", b">", b"&amp;", b"\n"),
    "sta": (b"\n:61:", b"\n:86:", b"?20", b"?", b"\n", b"C240301EUR"),
    "wiki": (b"\n{|\n", b"\n|}\n", b"\n|-\n", b"||", b"!!", b"=", b"[[", b"''"),
    "org": (b"\n* ", b"\n|", b"#+title:", b"\n===\n", b"|-"),
    "py": (b"\nclass ", b"def ", b"(", b") {", b"    ", b"\n", b"//", b"const a = ("),
    "html": (b"<p>", b"</p>", b"<script>", b"</html>", b"<!--", b"-->", b"<![CDATA[", b"&#x110000;", b"&lt", b"<plaintext>", b"<meta charset=", b"\0"),
    "markdown": (b"---\n", b"<!--", b"-->", b"date: 2024", b"...\n"),
    "text": (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0", b"\r", b"\x1b[2J", b"\xed\xa0\x80"),
    "jsonl": (b'"text":', b'"id":', b'"date":', b"{", b"}", b"[", b"\\ud800", b"null", b"\n", b'"'),
    **dict.fromkeys(("json", "ipynb"), (b'"text":', b'"messages":', b'"cells":', b"{", b"}", b"[", b"]", b"null", b'"')),
    **dict.fromkeys(("yaml", "toml"), (b"- ", b"a:", b"[", b"]", b"&x", b"*x", b"|", b"\t")),
    **dict.fromkeys(("xml", "xlsx", "ods"), (b"<r>", b"</r>", b"<row>", b"<c>", b"<v>", b"&e;", b"]]>", b"<!DOCTYPE a>", b"A1", b"../")),
    "csv": (b'"', b'""', b",", b";", b"\t", b"\n", b"\r", b"\0", b"text"),
}  # fmt: skip
