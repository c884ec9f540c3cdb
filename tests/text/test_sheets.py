"""Spreadsheets: a document per row, with the names of its columns and the values as shown."""

import pytest

from mbc_engine.text import Skipped, read_file
from tests.archives import zipped
from tests.text.conftest import OFFICE, links, named_texts


def xlsx(sheet, after="", state="visible", more=None):
    """A workbook of one sheet, "Stock", with this XML of rows, and of what follows them."""
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    sheets = f'<sheets><sheet name="Stock" state="{state}" r:id="r1"/></sheets>'
    parts = (("worksheet", "s.xml"), ("styles", "styles.xml"), ("sharedStrings", "strings.xml"), ("person", "p.xml"))
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
    formats = ["", "yyyy-mm-dd", '#,##0.00 "EUR"', "h:mm", "mm:ss", "[h]:mm", "mmm yy"]
    styles = "".join(f"<numFmt numFmtId='{n}' formatCode='{code}'/>" for n, code in enumerate(formats, 200) if code)
    own = "".join(f"<xf numFmtId='{number}'/>" for number in (0, 10, 201, 202, 203, 204, 205, 206))
    return zipped(
        {
            "[Content_Types].xml": f'<Types><Override ContentType="{kind}"/></Types>',
            "_rels/.rels": links(("officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f'<workbook {space} xmlns:r="{OFFICE}">{sheets}</workbook>',
            "xl/_rels/workbook.xml.rels": links(*parts),
            "xl/styles.xml": f"<styleSheet {space}>{styles}<cellXfs>{own}</cellXfs></styleSheet>",
            "xl/strings.xml": f"<sst {space}><si><t>Pump</t></si><si><r><t>Id</t></r><r><t>un</t></r></si></sst>",
            "xl/s.xml": f"<worksheet {space}><sheetData>{sheet}</sheetData>{after}</worksheet>",
            **(more or {}),
        }
    )


def row(number, *cells, style=0):
    """A row of texts and numbers."""
    written = [
        f'<c t="inlineStr"><is><t>{cell}</t></is></c>' if isinstance(cell, str) else f'<c s="{style}"><v>{cell}</v></c>'
        for cell in cells
    ]
    return f'<row r="{number}">{"".join(written)}</row>'


def test_names_above_a_row(read):
    sheet = row(1, "Pumps of the mill") + row(3, "Pump", "Bar") + row(4, "Skadi", 3.9) + row(9, "Idun", 5)
    title, skadi, idun = read("a.xlsx", xlsx(sheet, state="hidden"))
    assert named_texts([title, skadi, idun]) == [
        ("Stock (hidden), row 1", "Pumps of the mill"),
        ("Stock (hidden), row 4", "Pump: Skadi; Bar: 3.9"),
        ("Stock (hidden), row 9", "Pump: Idun; Bar: 5"),
    ]
    assert [section.context for section in skadi.sections] == ["Stock (hidden) > Pumps of the mill"]


def test_lines_of_several_cells_above_the_names(read):
    names, values = row(2, "Date", "Name", "Why", "Amount"), row(3, "2 May", "Fibrelee", "net", 40)
    _, fibrelee = read("a.xlsx", xlsx(row(1, "Lee Bank", "Current account") + names + values))
    assert fibrelee.text == "Date: 2 May; Name: Fibrelee; Why: net; Amount: 40"
    assert [section.context for section in fibrelee.sections] == ["Stock > Lee Bank; Current account"]


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ('<c t="s"><v>1</v></c>', "Idun"),
        ('<c s="1"><v>0.125</v></c>', "12.50%"),
        ('<c s="2"><v>45413</v></c>', "2024-05-01"),
        ('<c s="3"><v>1200.5</v></c>', "1200.50 EUR"),
        ('<c s="4"><v>0.604166666</v></c>', "14:30"),
        ('<c s="5"><v>0.0021180555</v></c>', "03:03"),
        ('<c s="6"><v>1.0625</v></c>', "25:30"),
        ('<c s="7"><v>45413</v></c>', "May 2024"),
        ('<c s="7"><v>45414</v></c>', "2024-05-02"),
        ("<c><v>0.1</v></c>", "0.1"),
        ('<c t="b"><v>1</v></c>', "true"),
        ('<c t="str"><f>A1</f><v>so_x0021_</v></c>', "so!"),
        # An escape of half a character is no text.
        ('<c t="inlineStr"><is><t>a_x000D_\nb_xD83D_c_xyz_</t></is></c>', "a\nb\ufffdc_xyz_"),
        ('<c t="s"><v>99</v></c>', "99"),
    ],
)  # fmt: skip
def test_values_as_shown(read, cell, shown):
    assert named_texts(read("a.xlsx", xlsx(f"<row>{cell}</row>"))) == [("Stock, row 1", shown)]


def test_merged_cells_comments_and_losses(read):
    sheet = row(1, "Name", "2023", "", "") + row(2, "", "Q1", "Q2", "Q3") + row(3, "Ada", 1, 2, 3) + row(4, "", 4, 5)
    merged = ("A1:A2", "B1:D1", "A3:A4", "A1:XFD1048576")
    after = "".join(["<mergeCells>", *(f'<mergeCell ref="{area}"/>' for area in merged), "</mergeCells>"])
    comment = '<comment ref="A4" authorId="{}"><text><t>{}</t></text></comment>'
    comments = comment.format(0, "Ask Ivar.") + comment.format(1, "Your version of Excel can read this thread.")
    authors = "<authors><author>Bo</author><author>tc=1</author></authors>"
    thread = "<a><threadedComment ref='A3' personId='p'><text>Is it so?</text></threadedComment></a>"
    drawing = '<d xmlns="d"><pic/><pic/><graphicFrame/></d>'
    more = {
        "xl/_rels/s.xml.rels": links(("comments", "c.xml"), ("drawing", "d.xml"), ("threadedComment", "t.xml")),
        "xl/c.xml": f"<comments xmlns='s'>{authors}<a>{comments}</a></comments>",
        "xl/t.xml": thread,
        "xl/p.xml": "<a><person id='p' displayName='Ilse'/></a>",
        "xl/d.xml": drawing,
        "xl/vbaProject.bin": "",
    }
    first, second = read("a.xlsm", xlsx(sheet, after, more=more))
    assert named_texts([first, second]) == [
        ("Stock, row 3", "Name: Ada; 2023 Q1: 1; 2023 Q2: 2; 2023 Q3: 3\n\nComment by Ilse: Is it so?"),
        ("Stock, row 4", "Name: Ada; 2023 Q1: 4; 2023 Q2: 5\n\nComment: Ask Ivar."),
    ]
    assert first.losses == ("1 macro", "2 pictures", "1 chart")


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (row(1, "Name:", "Ada") + row(2, "Born:", 1980), ["Name: Ada; Born: 1980"]),
        (row(1, "Pump", "Skadi") + row(2, "Bar", 3.9) + row(3, "Place", "Hall") + row(4, "Built", "2024-05-02"),
         ["Pump: Skadi; Bar: 3.9; Place: Hall; Built: 2024-05-02"]),
        (row(1, "Property", "Value") + row(2, "Model", "Hydra 9"), ["Model: Hydra 9"]),
        (row(1, "Item", "Cost") + row(2, "Tea", 3.5) + row(3, "Pie", "free"),
         ["Item: Tea; Cost: 3.5", "Item: Pie; Cost: free"]),
        (row(1, "Ada", 5) + row(2, "Bo", 6), ["Ada: 5", "Bo: 6"]),
        (row(1, "a", "b") + row(2, 1, 2) + row(4, "c", "d", "e") + row(5, 3, 4, 5), ["a: 1; b: 2", "c: 3; d: 4; e: 5"]),
        (row(1, "a", "b") + row(2, 1, 2) + row(4, "Ask Jo."), ["a: 1; b: 2", "Ask Jo."]),
        (row(1, "a", "b") + row(2, 1, 2) + row(3, "a", "b") + row(4, 3, 4), ["a: 1; b: 2", "a: 3; b: 4"]),
        ('<row r="1048576"><c r="XFD1048576"><v>7</v></c></row>', ["7"]),
    ],
)  # fmt: skip
def test_other_layouts(read, rows, found):
    assert [text for _, text in named_texts(read("a.xlsx", xlsx(rows)))] == found


def test_a_comment_on_names_that_come_again(read):
    sheet = row(1, "a", "b") + row(2, 1, 2) + row(3, "a", "b")
    comment = "<a><threadedComment ref='B3'><text>In EUR.</text></threadedComment></a>"
    more = {"xl/_rels/s.xml.rels": links(("threadedComment", "t.xml")), "xl/t.xml": comment}
    assert named_texts(read("a.xlsx", xlsx(sheet, more=more)))[1] == ("Stock, row 3", "a: a; b: b\n\nComment: In EUR.")


def test_a_form_in_a_named_text_column(write):
    sheet = row(1, "question", "answer") + row(2, "By", "Ada") + row(3, "Fee", 4) + row(4, "From", "2024-05-01")
    path = write("a.xlsx", xlsx(sheet))
    assert len(list(read_file(path))) == 1
    assert named_texts(read_file(path, "answer"))[1] == ("Stock, row 3", "question: Fee; answer: 4")


def test_opendocument(read):
    spaces = 'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" xmlns:text="t" xmlns:office="o"'
    cell = "<table:table-cell{1}><text:p>{0}</text:p>{2}</table:table-cell>"
    comment = "<office:annotation><text:p>Hot</text:p></office:annotation>"
    idun = cell.format("Idun", ' table:number-rows-spanned="2"', comment)
    rows = [
        cell.format("Pump", "", "") + cell.format("Share", "", ""),
        idun + cell.format("25%", ' table:number-columns-repeated="2"', ""),
        "<table:covered-table-cell/>" + cell.format("30%", "", ""),
        '<table:table-cell table:number-columns-repeated="9999999"/>',
    ]
    body = "".join(f"<table:table-row>{cells}</table:table-row>" for cells in rows)
    content = f'<r {spaces}><table:table table:name="Stock">{body}</table:table></r>'
    about = {"meta.xml": "<m><title>The mill</title><date>2024-05-01T10:00:00</date></m>"}
    data = zipped({"mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": content, **about})
    found = read("a.ods", data)
    assert {(row.date, row.sections[0].context) for row in found} == {("2024-05-01", "The mill > Stock")}
    assert named_texts(found) == [
        ("Stock, row 2", "Pump: Idun; Share: 25%; 25%\n\nComment: Hot"),
        ("Stock, row 3", "Pump: Idun; Share: 30%"),
    ]


def test_damaged_sheets(reason):
    assert reason("a.xlsx", xlsx("<row><c>")).startswith("is damaged: ")
    entity = '<!DOCTYPE a [<!ENTITY b "ha">]><worksheet xmlns="s"><row><c><v>&b;</v></c></row></worksheet>'
    with_entity = xlsx("", more={"xl/s.xml": entity})
    assert reason("a.xlsx", with_entity) == reason("a.xlsx", xlsx("")) == "is empty"


def test_a_sheet_that_repeats_one_text_without_end(read, monkeypatch):
    monkeypatch.setattr("mbc_engine.text.file_reader._MOST_TEXT", 50)
    *rows, last = read("x.xlsx", xlsx("".join(row(number, "Ada moved to Aalen.") for number in range(1, 9))))
    assert (len(rows), last) == (2, Skipped(last.source, "expands to too much text"))
    assert len(read("x.csv", "name\n" + "Ada moved to Aalen.\n" * 8)) == 8
