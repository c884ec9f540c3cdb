"""Word documents: all that people write in them, in order; dates, damage and bombs."""

import io
import re
import zipfile
from datetime import UTC, datetime

import pytest
from docx import Document as WordDocument
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from tests.archives import zipped
from tests.text.conftest import OFFICE, sections

LINKS = "word/_rels/document.xml.rels"


def docx(*blocks, modified=None, body="", inserted=None, parts=None):
    """A document of paragraphs and tables, and then what `body` says in XML; XML at the end of parts, and more parts."""
    document = WordDocument()
    for block in blocks:
        if isinstance(block, str):
            document.add_paragraph(block)
            continue
        table = document.add_table(len(block), len(block[0]))
        for row, cells in zip(table.rows, block, strict=True):
            for cell, text in zip(row.cells, cells, strict=True):
                cell.text = text
    if body:
        wrapped = parse_xml(f"<w:body {nsdecls('w')}>{body}</w:body>")
        for element in list(wrapped):
            document.element.body.insert(-1, element)
    if modified:
        document.core_properties.modified = modified

    def change(name, member):
        before, end, after = member.rpartition(b"</")
        return before + inserted[name].encode() + end + after if name in (inserted or {}) else member

    return repacked(saved(document), change, parts)


def saved(document):
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def repacked(data, change, more=None):
    """The archive with its members changed, of which None leaves one out, and with more."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: change(name, archive.read(name)) for name in archive.namelist()}
    return zipped({name: data for name, data in members.items() if data is not None} | (more or {}))


def test_order(read_one):
    data = docx("Heading", "Some  text.\nNext line.", [["a", "b\nc"], ["d", ""]], "After")
    assert read_one("a.docx", data).text == "Heading\n\nSome text.\nNext line.\n\na: d\n\nAfter"


def run(text, properties=""):
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(text, properties=""):
    return f"<w:p><w:pPr>{properties}</w:pPr>{run(text)}</w:p>"


def styled(style):
    return f'<w:pStyle w:val="{style}"/>'


BOX = f"<w:txbxContent>{paragraph('box')}</w:txbxContent>"
MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
CHOICE = "http://schemas.openxmlformats.org/markup-compatibility/2006"


WHITE = "<w:color w:val='FFFFFF'/>"


def field(code, inner=""):
    return f"<w:r><w:fldChar w:fldCharType='begin'>{inner}</w:fldChar><w:instrText> {code} </w:instrText></w:r>"


def cells(*rows):
    """Rows of a table, from texts and how their cells are merged."""
    written = (
        "".join(f"<w:tc><w:tcPr>{merge}</w:tcPr>{paragraph(text)}</w:tc>" for text, merge in row) for row in rows
    )
    return "".join(f"<w:tr>{row}</w:tr>" for row in written)


VERSIONS = f"<mc:Choice><w:r>{BOX}</w:r></mc:Choice><mc:Fallback><w:r>{BOX}</w:r></mc:Fallback>"
FIELD_END = "<w:r><w:fldChar w:fldCharType='end'/></w:r>"
CHECKED = "<w:ffData><w:checkBox><w:checked/></w:checkBox></w:ffData>"
ENTRIES = "".join(f"<w:listEntry w:val='{entry}'/>" for entry in ("red", "blue"))
CHOSEN = f"<w:ffData><w:ddList><w:result w:val='1'/>{ENTRIES}</w:ddList></w:ffData>"
DELETED_ROW = "<w:tr><w:trPr><w:del w:id='9'/></w:trPr><w:tc><w:p/></w:tc><w:tc><w:p/></w:tc></w:tr>"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (f"<w:sdt><w:sdtContent>{paragraph('control')}</w:sdtContent></w:sdt>", "control"),
        (f"<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>{paragraph('Click')}</w:sdtContent></w:sdt>", ""),
        (f"<w:p><w:ins>{run('new')}</w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del></w:p>", "new"),
        (f"<w:p><w:moveFrom>{run('there')}</w:moveFrom><w:moveTo>{run('here')}</w:moveTo></w:p>", "here"),
        (paragraph("one", "<w:rPr><w:del/></w:rPr>") + paragraph("two"), "one two"),
        ("<w:p>" + run("no", WHITE) + run("a", WHITE + "<w:highlight w:val='red'/>") + "</w:p>", "a"),
        (f"<w:tbl><w:tr><w:tc><w:p>{run('a', WHITE)}</w:p></w:tc></w:tr></w:tbl>", "a"),
        ("<w:p>" + run("hidden", "<w:vanish/>") + run("shown", "<w:vanish w:val='0'/>") + "</w:p>", "shown"),
        (f"<w:p>{run('a')}<w:r><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t><w:noBreakHyphen/></w:r></w:p>", "a b\nc-"),
        (f"<w:p><w:fldSimple w:instr='PAGE'>{run('7')}</w:fldSimple>{run('x')}</w:p>", "x"),
        (f"<w:p>{field('NUMPAGES')}{run('7')}{FIELD_END}{run('x')}</w:p>", "x"),
        (f"<w:p>{run('is ')}{field('FORMDROPDOWN', CHOSEN)}{FIELD_END}</w:p>", "is blue"),
        (f"<w:p>{field('FORMCHECKBOX', CHECKED)}{run('done')}</w:p>", "☒ done"),
        (f"<w:p>{run('a')}<w:r><w:pict>{BOX}</w:pict></w:r>{run('b')}</w:p>", "ab\n\nbox"),
        (f"<w:p>{run('not ', '<w:strike/>')}{run('so', '<w:dstrike/>')}{run('x')}</w:p>", "~~not so~~x"),
        (f"<w:p><mc:AlternateContent xmlns:mc='{CHOICE}'>{VERSIONS}</mc:AlternateContent></w:p>", "box"),
        (paragraph("Contents", styled("TOCHeading")), "Contents"),
        ("<w:tbl>" + cells([("Name", ""), ("Role", "")], [("Ada", ""), ("Chef", "")]) + "</w:tbl>", "Name: Ada; Role: Chef"),
        ("<w:tbl>" + cells([("Name", ""), ("Role", "")]).replace("<w:rPr>", "<w:rPr><w:b/>")
         + cells([("On 2 May", ""), ("740", "")]) + "</w:tbl>", "Name: On 2 May; Role: 740"),
        ("<w:tbl>" + cells([("Rent", ""), ("", ""), ("740", "")]).replace("<w:rPr>", "<w:rPr><w:b/>")
         + cells([("Gas", ""), ("", ""), ("30", "")]) + "</w:tbl>", "Rent; 740\nGas; 30"),
        ("<w:tbl>" + DELETED_ROW + cells(
            (("City", ""), ("Year", ""), ("Trams", "<w:gridSpan w:val='2'/>")),
            (("Oslo", "<w:vMerge w:val='restart'/>"), ("1990", ""), ("5", ""), ("6", "")),
            (("", "<w:vMerge/>"), ("1991", ""), ("7", "<w:gridSpan w:val='2'/>")),
         ) + "</w:tbl>", "City: Oslo; Year: 1990; Trams: 5; Trams: 6\nCity: Oslo; Year: 1991; Trams: 7"),
    ],
)  # fmt: skip
def test_where_text_is_read(read_one, body, text):
    assert read_one("a.docx", docx("start", body=body)).text == f"start\n\n{text}".strip()


def math(tag, **parts):
    return f"<m:{tag}>{''.join(f'<m:{name}>{inner}</m:{name}>' for name, inner in parts.items())}</m:{tag}>"


def term(text):
    return f"<m:r><m:t>{text}</m:t></m:r>"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (math("f", num=term("a+b"), den=term("2")), "(a+b)/2"),
        (math("sSup", e=term("x"), sup=term("n+1")), "x^(n+1)"),
        (math("sSubSup", e=term("x"), sub=term("i"), sup=term("2")), "x_i^2"),
        (math("rad", deg="", e=term("x")), "√(x)"),
        (math("nary", sub=term("0"), sup=term("1"), e=term("f")), "∫_0^1 f"),
        (math("d", e=term("x")), "(x)"),
        (math("func", fName=term("sin"), e=term("x")), "sin(x)"),
        (math("m", mr=f"<m:e>{term('1')}</m:e><m:e>{term('2')}</m:e>"), "[1, 2]"),
    ],
)
def test_equations(read_one, written, text):
    body = f"<w:p xmlns:m='{MATH}'>{run('y = ')}<m:oMath>{written}</m:oMath></w:p>"
    assert read_one("a.docx", docx(body=body)).text == f"y = {text}"


def test_numbered_steps(read_one):
    levels = "".join(
        f"<w:lvl w:ilvl='{level}'><w:start w:val='1'/><w:numFmt w:val='{format}'/><w:lvlText w:val='{label}'/></w:lvl>"
        for level, format, label in ((0, "decimal", "%1."), (1, "lowerLetter", "%1%2)"), (2, "bullet", "x"))
    )
    again = "<w:lvlOverride w:ilvl='0'><w:startOverride w:val='4'/></w:lvlOverride>"
    lists = f"<w:abstractNum w:abstractNumId='900'>{levels}</w:abstractNum>" + "".join(
        f"<w:num w:numId='{number}'><w:abstractNumId w:val='900'/>{override}</w:num>"
        for number, override in ((900, ""), (901, again))
    )
    items = [("open", 0), ("left", 1), ("right", 1), ("sign", 2), ("shut", 0), ("x", 1), ("fourth", 0, 901)]
    body = "".join(
        paragraph(text, f"<w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='{[900, *own][-1]}'/></w:numPr>")
        for text, level, *own in items
    )
    document = read_one("a.docx", docx(body=body, inserted={"word/numbering.xml": lists}))
    assert document.text == "1. open\n1a) left\n1b) right\n- sign\n2. shut\n2a) x\n4. fourth"


def test_headings_and_captions(read_one):
    letters = cells(*([(letter, "") for letter in row] for row in ("ab", "cd")))
    styles = (("The report", "Title"), ("One", "Heading1"), ("Deep", "Heading2"), ("Table 1: Letters", "Caption"))
    body = "".join(paragraph(text, styled(style)) for text, style in styles) + f"<w:tbl>{letters}</w:tbl>"
    body += paragraph("Two", "<w:outlineLvl w:val='0'/>") + paragraph("end")
    document = read_one("a.docx", docx(body=body))
    assert document.title == "The report"
    assert sections(document) == [
        ("One", "One"),
        ("Deep", "One > Deep"),
        ("a: c; b: d", "One > Deep > Table 1: Letters"),
        ("Two", "Two"),
    ]


def test_what_stands_around_the_text(read_one):
    document = WordDocument()
    written = document.add_paragraph("The lake is deep.")
    document.add_comment(written.runs, "Says who?", author="Ilse")
    document.sections[0].header.paragraphs[0].text = "File TS-1"
    document.sections[0].footer.paragraphs[0].text = "Cabinet 12"
    document.add_section().header.is_linked_to_previous = False
    document.sections[1].header.paragraphs[0].text = "File TS-1"
    picture = "<a:blip xmlns:a='http://schemas.openxmlformats.org/drawingml/2006/main'/>"
    document.element.body.insert(1, parse_xml(f"<w:p {nsdecls('w')}><w:r><w:drawing>{picture}</w:drawing></w:r></w:p>"))
    read = read_one("a.docx", saved(document))
    assert read.text == "File TS-1\n\nThe lake is deep.\nComment by Ilse: Says who?\n\nCabinet 12"
    assert read.losses == ("1 picture",)


def test_notes(read_one):
    notes = f"<w:footnotes {nsdecls('w')}><w:footnote w:id='2'>{paragraph(' 38 metres.')}</w:footnote></w:footnotes>"
    body = f"<w:p>{run('Deep')}<w:r><w:footnoteReference w:id='2'/></w:r>{run(' water.')}</w:p>" + paragraph("After.")
    link = f'<Relationship Id="n" Type="{OFFICE}/footnotes" Target="/word/notes.xml"/>'
    data = docx(body=body, inserted={LINKS: link}, parts={"word/notes.xml": notes})
    assert read_one("a.docx", data).text == "Deep water.\nFootnote: 38 metres.\n\nAfter."


def test_charts_and_diagrams(read_one):
    link = '<Relationship Id="{}" Type="{}/{}" Target="{}"/>'
    links = link.format("c", OFFICE, "chart", "c.xml") + link.format("d", OFFICE, "diagramData", "d.xml")
    drawing = "<w:p><w:r><w:drawing><x:{} xmlns:x='x' xmlns:r='{}' r:{}='{}'/></w:drawing></w:r></w:p>"
    drawn = (("chart", OFFICE, "id", "c"), ("relIds", OFFICE, "dm", "d"), ("chart", OFFICE, "id", "?"))
    body = "".join(drawing.format(*own) for own in drawn)
    series = "<ser><tx><v>Eels</v></tx><cat><v>2023</v></cat><val><v>62</v></val></ser>"
    parts = {
        "word/c.xml": f"<c xmlns='c'>{series}</c>",
        "word/d.xml": "<d xmlns:a='http://schemas.openxmlformats.org/drawingml/2006/main'><a:p><a:t>Keeper</a:t></a:p></d>",
    }
    read = read_one("a.docx", docx("a", body=body, inserted={LINKS: links}, parts=parts))
    assert (read.text, read.losses) == ("a\n\n2023; Eels: 62\n\nKeeper", ("1 chart",))


def test_parts_of_any_name_and_strict_namespaces(read_one):
    usual = rb"schemas.openxmlformats.org/(\w+)/2006/(main|relationships/officeD)"
    renamed = {}
    with zipfile.ZipFile(io.BytesIO(docx("text"))) as archive:
        for name in archive.namelist():
            strict = re.sub(usual, rb"purl.oclc.org/ooxml/\1/\2", archive.read(name))
            renamed[name.replace("document.xml", "main.bin")] = strict.replace(b"document.xml", b"main.bin")
    assert read_one("a.docx", zipped(renamed)).text == "text"


def test_date(read_one):
    data = docx("text", modified=datetime(2024, 5, 1, 12, tzinfo=UTC))
    assert read_one("a.docx", data).date == "2024-05-01"

    def without_properties(name, member):
        if name == "docProps/core.xml":
            return None
        return re.sub(rb"<Relationship [^>]*core-properties[^>]*/>", b"", member) if name == "_rels/.rels" else member

    bare = read_one("a.docx", repacked(data, without_properties))
    assert (bare.text, bare.date) == ("text", read_one("a.txt", b"text").date)


def test_unreadable_files(reason):
    assert reason("a.docx", docx()) == reason("a.docx", b"") == "is empty"
    assert reason("a.docx", b"PK\3\4 not an archive").startswith("is damaged: ")
    assert reason("a.docx", docx("text")[:-100]).startswith("is damaged: ")


def test_zip_bomb(reason, monkeypatch):
    size = 1_234_567  # of which no other field of the archive has the bytes
    bomb = repacked(docx("text"), lambda name, data: b" " * size if name == "word/styles.xml" else data)
    monkeypatch.setattr("mbc_engine.text.formats.archives.MOST_XML_BYTES", 1 << 20)
    assert reason("a.docx", bomb) == "is too large when unpacked"
    liar = bomb.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little"))
    assert reason("a.docx", liar).startswith("is damaged: Bad CRC-32")
