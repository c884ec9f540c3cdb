"""PowerPoint, OpenDocument and Rich Text: what stands in them, in order, and damaged or hostile files."""

import pytest

from tests.archives import zipped
from tests.text.conftest import OFFICE, links

DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"
SPACES = (
    f"xmlns:a='{DRAWING}/main' xmlns:r='{OFFICE}' xmlns:c='{DRAWING}/chart' "
    "xmlns:p='http://schemas.openxmlformats.org/presentationml/2006/main'"
)


def shape(*texts, kind="", inner=""):
    placeholder = f"<p:nvSpPr><p:nvPr><p:ph type='{kind}'/></p:nvPr></p:nvSpPr>" if kind else ""
    paragraphs = "".join(f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>" for text in texts)
    return f"<p:sp>{placeholder}<p:txBody>{paragraphs}{inner}</p:txBody></p:sp>"


def pptx():
    cells = "".join(
        f"<a:tr>{''.join(f'<a:tc{mark}><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:tc>' for text, mark in row)}</a:tr>"
        for row in ((("City", ""), ("Trams", "")), (("Oslo", ""), ("5", "")), (("", " vMerge='1'"), ("6", "")))
    )
    first = (
        shape("body", kind="body")
        + shape("The ladder", kind="title")
        + shape("7", kind="sldNum")
        + f"<p:graphicFrame><a:tbl>{cells}</a:tbl></p:graphicFrame>"
        + f"<p:grpSp>{shape('grouped_x000B_twice')}</p:grpSp>"
    )
    series = (
        "<c:ser><c:tx><c:v>2023</c:v></c:tx><c:cat><c:pt><c:v>Eels</c:v></c:pt></c:cat>"
        "<c:val><c:pt><c:v>62</c:v></c:pt></c:val></c:ser>"
    )
    title = "<c:title><a:p><a:r><a:t>Caught</a:t></a:r></a:p></c:title>"
    return {
        "[Content_Types].xml": "<T a='application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml'/>",
        "_rels/.rels": links(("officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f"<p:p {SPACES}><p:sldId r:id='r2'/><p:sldId r:id='r1'/></p:p>",
        "ppt/_rels/presentation.xml.rels": links(("slide", "slides/b.xml"), ("slide", "slides/a.xml")),
        "ppt/slides/a.xml": f"<p:sld {SPACES}>{first}</p:sld>",
        "ppt/slides/b.xml": f"<p:sld {SPACES}>{shape('end')}</p:sld>",
        "ppt/slides/_rels/a.xml.rels": links(
            ("notesSlide", "../notes.xml"), ("image", "../x.png"), ("chart", "../chart.xml"), ("comments", "../c.xml")
        ),
        "ppt/notes.xml": f"<p:notes {SPACES}>{shape('speak slowly', kind='body')}{shape('1', kind='sldNum')}</p:notes>",
        "ppt/chart.xml": f"<c:s {SPACES}><c:chart>{title}{series}</c:chart></c:s>",
        "ppt/c.xml": f"<p:l {SPACES}><p:cm authorId='0'><p:text>Why?</p:text></p:cm></p:l>",
        "ppt/commentAuthors.xml": f"<p:l {SPACES}><p:a id='0' name='Ilse'/></p:l>",
        "ppt/x.png": "x",
    }


def test_presentation(read_one):
    document = read_one("a.odt", zipped(pptx()))
    assert document.text == (
        "The ladder\n\nbody\n\nCity: Oslo; Trams: 5\nCity: Oslo; Trams: 6\n\ngrouped\ntwice\n\nCaught\nEels; 2023: 62\n"
        "Comment by Ilse: Why?\n\nNotes: speak slowly\n\nend"
    )
    assert [section.context for section in document.sections] == ["The ladder", "Slide 2"]
    assert document.losses == ("1 picture",)


NAMES = " ".join(
    f"xmlns:{name}='urn:oasis:names:tc:opendocument:xmlns:{name.replace('draw', 'drawing')}:1.0'"
    for name in ("text", "table", "draw", "office", "style", "presentation", "meta")
) + " xmlns:dc='http://purl.org/dc/elements/1.1/'"  # fmt: skip
NOTE = (
    "<text:note text:note-class='footnote'><text:note-citation>1</text:note-citation>"
    "<text:note-body><text:p>Built 1904.</text:p></text:note-body></text:note>"
)
COMMENT = "<office:annotation><dc:creator>Ilse</dc:creator><dc:date>2024</dc:date><text:p>Says who?</text:p></office:annotation>"


def odf(body, styles="", kind="text", title="The mill"):
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "styles.xml": f"<office:s {NAMES}>{styles}</office:s>",
            "content.xml": f"<office:c {NAMES}><office:body><office:x>{body}</office:x></office:body></office:c>",
            "meta.xml": f"<m {NAMES}><dc:title>{title}</dc:title><meta:creation-date>2024-05-01T10:00:00</meta:creation-date></m>",
        }
    )


CELL = "<table:table-cell><text:p>{}</text:p></table:table-cell>"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (f"<text:p>One <text:span>bold</text:span><text:s/>two{NOTE} three.{COMMENT}</text:p>",
         "One bold two three.\nFootnote: Built 1904.\nComment by Ilse: Says who?"),
        ("<text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:p>kept</text:p>", "kept"),
        ("<text:p>a<text:tab/>b<text:line-break/>c</text:p>", "a b\nc"),
        (("<text:list text:style-name='N'><text:list-item><text:p>open</text:p><text:list><text:list-item><text:p>left</text:p>"
         "</text:list-item></text:list></text:list-item><text:list-item><text:p>shut</text:p></text:list-item></text:list>"),
         "1. open\n- left\n2. shut"),
        ((f"<table:table><table:table-row>{CELL.format('City')}{CELL.format('Year')}</table:table-row>"
         f"<table:table-row>{CELL.format('Oslo')}{CELL.format('1990')}<table:table-cell table:number-columns-repeated='16000'/>"
         f"</table:table-row><table:table-row><table:covered-table-cell/>{CELL.format('1991')}</table:table-row></table:table>"),
         "City: Oslo; Year: 1990\nCity: Oslo; Year: 1991"),
        ("<text:p>x<draw:frame><draw:text-box><text:p>box</text:p></draw:text-box></draw:frame></text:p>", "x\n\nbox"),
    ],
)  # fmt: skip
def test_open_document(read_one, body, text):
    styles = (
        "<style:header><text:p>File 7</text:p></style:header><style:footer><text:p><text:page-number>3</text:page-number>"
        "</text:p></style:footer><text:list-style style:name='N'><text:list-level-style-number text:level='1'/>"
        "<text:list-level-style-bullet text:level='2'/></text:list-style>"
    )
    document = read_one("a.docx", odf(body, styles))
    assert document.text == f"File 7\n\n{text}"
    assert (document.title, document.date) == ("The mill", "2024-05-01")


@pytest.mark.parametrize(("kind", "body", "text"), [
    ("text", f"<text:h>One</text:h>{COMMENT}", "One\nComment by Ilse: Says who?"),
    ("spreadsheet", f"<table:table table:name='S'><table:table-row>{'<table:table-cell><text:p>a</text:p></table:table-cell>'}</table:table-row></table:table>", "a"),
])  # fmt: skip
def test_flat_open_document(read_one, kind, body, text):
    mark = f"office:mimetype='application/vnd.oasis.opendocument.{kind}'".replace("'", '"')
    meta = "<office:meta><dc:title>The mill</dc:title><dc:date>2024-05-01T10:00:00</dc:date></office:meta>"
    inner = f"{meta}<office:body><office:x>{body}</office:x></office:body>"
    document = read_one("a.fodt", f'<?xml version="1.0"?>\n<office:document {NAMES} {mark}>{inner}</office:document>')
    assert (document.text, document.date) == (text, "2024-05-01")


def test_open_headings_and_slides(read_one):
    heading = "<text:h text:outline-level='{}'>{}</text:h>"
    document = read_one(
        "a.odt", odf(heading.format(1, "One") + heading.format(2, "Deep") + "<draw:frame><draw:image/></draw:frame>")
    )
    assert [section.context for section in document.sections] == ["One", "One > Deep"]
    assert document.losses == ("1 picture",)
    styles = "<style:style style:name='P1' style:parent-style-name='Title'/>"
    titled = odf("<text:p text:style-name='P1'>My mill</text:p>", styles, title="")
    assert read_one("a.odt", titled).title == "My mill"
    frame = "<draw:frame presentation:class='{}'><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"
    page = (
        f"<draw:page>{frame.format('title', 'Eels')}{frame.format('outline', 'They swim.')}"
        f"<presentation:notes>{frame.format('notes', 'slowly')}</presentation:notes></draw:page>"
    )
    slides = read_one("a.odp", odf(page + "<draw:page/>", kind="presentation"))
    assert slides.text == "Eels\n\nThey swim.\n\nNotes: slowly"
    assert slides.sections[0] == (0, "Eels")


RTF = r"""{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial Cyr;}}{\colortbl;\red0;}
{\stylesheet{\s0 Normal;}{\s1 heading 1;}}{\info{\title The mill}{\creatim\yr2024\mo5\dy1\hr3}{\author X}}
{\header\pard File TS-1\par}{\footer Cabinet {\field{\*\fldinst PAGE}{\fldrslt 3}}\par}
\pard\s1 Wheel\par\pard caf\'e9 \u1078?\u1091? {\f1\'e6\'f3\'ea} \{x\} {\v hidden}{\deleted gone}shown{\footnote\pard Built 1904.}.
{\*\atnauthor Ilse}{\*\annotation\pard Says who?}\par
{\listtext 1.\tab}Grease the axle.\par{\pict\bin4 \par{\*\shppict{\pict\pngblip 8950}}{\nonshppict{\pict 00}}}
\trowd\cellx100\cellx200\pard\intbl Name\cell Cost\cell\row\trowd\pard\intbl Boat\cell 5\cell\row\pard end \emdash{} of\par}"""


def test_rich_text(read_one):
    document = read_one("a.doc", RTF)
    assert document.text == (
        "File TS-1\n\nWheel\n\ncafé жу жук {x} shown.\nFootnote: Built 1904.\nComment by Ilse: Says who?\n\n"
        "1. Grease the axle.\n\nName: Boat; Cost: 5\n\nend — of\n\nCabinet 3"
    )
    assert (document.title, document.date) == ("The mill", "2024-05-01")
    assert [section.context for section in document.sections] == ["Wheel", ""]
