"""PDF: text of pages, dates, and the ways in which one can be unreadable."""

import io

import pytest
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, NameObject, NumberObject, TextStringObject

from tests.text.conftest import sections


def pdf(*pages, metadata=None, password=None):
    """A document whose pages hold these lines, or what this content stream draws."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject(f"/{key}"): NameObject(f"/{value}")
            for key, value in {"Type": "Font", "Subtype": "Type1", "BaseFont": "Helvetica"}.items()
        }
    )
    for lines in pages:
        page = writer.add_blank_page(600, 800)
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        written = " T* ".join(f"({line}) Tj" for line in lines)
        drawn = lines if isinstance(lines, str) else f"BT /F1 12 Tf 14 TL 72 720 Td {written} ET"
        stream.set_data(drawn.encode("latin-1"))
        page[NameObject("/Contents")] = writer._add_object(stream)
    writer.add_metadata(metadata or {})
    if password is not None:
        writer.encrypt(password, "owner", algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def test_pages(read_one):
    document = read_one("a.pdf", pdf(["First page."], [], ["Second page."]))
    assert document.text == "First page.\n\nSecond page."


def at(*texts):
    """A content stream that draws texts at places, counted from the bottom left corner."""
    return "".join(f"BT /F1 10 Tf {x} {y} Td ({text}) Tj ET " for x, y, text in texts)


PROSE = [
    *("The council inspected the twelve bridges of", "the valley. The well-", "known one at Skjold will be re-"),
    *("paired in summer, when the detour road is", "finished. Nobody knows the cost.", "- rails", "- paint"),
]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (
            ["A heading", *PROSE],
            (
                "A heading\nThe council inspected the twelve bridges of the valley. The well-known one at Skjold will be "
                "repaired in summer, when the detour road is finished. Nobody knows the cost.\n- rails\n- paint"
            ),
        ),
        (
            ["Invoice 4471", "Net: 1,050.42 EUR", "Bank: Sparbank Oslo"],
            "Invoice 4471\nNet: 1,050.42 EUR\nBank: Sparbank Oslo",
        ),
        (
            ["The staff is led by Jean-", "Paul and is a pre-", "cious thing to us."],
            "The staff is led by Jean-Paul and is a precious thing to us.",
        ),
        # Words that are placed one by one.
        (at((72, 700, "The"), (95, 700, "tunnel"), (140, 700, "was"), (162, 700, "dug.")), "The tunnel was dug."),
        ("BT /F1 10 Tf 0 1 -1 0 300 100 Tm (A map by Gro Lien.) Tj ET", "A map by Gro Lien."),
        # Columns, written row by row.
        (
            at(
                (72, 740, "A title that stands above both of the columns of the page"),
                *((72, 700 - 12 * row, line) for row, line in enumerate(PROSE[:4])),
                *(
                    (330, 700 - 12 * row, line)
                    for row, line in enumerate(
                        [
                            "It was seen by many people in the",
                            "old town, who say that the cost is",
                            "high and that the work took",
                            "eleven years.",
                        ]
                    )
                ),
            ),
            (
                "A title that stands above both of the columns of the page\n\nThe council inspected the twelve bridges of "
                "the valley. The well-known one at Skjold will be repaired in summer, when the detour road is\n\n"
                "It was seen by many people in the old town, who say that the cost is high and that the work took eleven years."
            ),
        ),
        # Three columns, and a number before a hyphen.
        (
            at(
                *(
                    (60 + 170 * column, 700 - 12 * row, line)
                    for column, lines in enumerate(
                        [
                            [
                                "The bakery has a new oven of 12-",
                                "inch stones, which came from",
                                "Hamar by lorry in May.",
                            ],
                            [
                                "The choir sings in the school,",
                                "and tickets are sold by Anne,",
                                "who sits in the library.",
                            ],
                            [
                                "The bridge is closed until the",
                                "ice has gone, so that cars must",
                                "take the road over Nes.",
                            ],
                        ]
                    )
                    for row, line in enumerate(lines)
                )
            ),
            (
                "The bakery has a new oven of 12-inch stones, which came from Hamar by lorry in May.\n\n"
                "The choir sings in the school, and tickets are sold by Anne, who sits in the library.\n\n"
                "The bridge is closed until the ice has gone, so that cars must take the road over Nes."
            ),
        ),
        # Tables.
        (
            ["Date            Payee             Sum", "3 May           Kraft             81.50"],
            "Date: 3 May; Payee: Kraft; Sum: 81.50",
        ),
        (
            at(
                *(
                    (72 + 100 * column, 700 - 14 * row, text)
                    for row, line in enumerate(
                        [["Station", "2022", "2023"], ["Vestby", "4,871", "5,130"], ["Holtet", "", "1,998"]]
                    )
                    for column, text in enumerate(line)
                )
            ),
            "Station: Vestby; 2022: 4,871; 2023: 5,130\nStation: Holtet; 2023: 1,998",
        ),
        (
            at(
                (72, 700, "Item"),
                (200, 700, "Notes on it"),
                (72, 680, "Bolt"),
                (200, 680, "of steel, kept in the"),
                (200, 669, "shed"),
                (72, 650, "Nut"),
                (200, 650, "of brass"),
            ),
            "Item: Notes on it\nBolt: of steel, kept in the shed\nNut: of brass",
        ),
        # A form right above a table, whose header has two rows.
        (
            at(
                *((x, 754, text) for x, text in ((72, "Customer:"), (260, "Segelclub"))),
                *((x, 740, text) for x, text in ((72, "Due:"), (260, "26.04.2024"))),
                *((x, 700, text) for x, text in ((72, "Zone"), (120, "Mon-Fri"), (260, "Weekend"))),
                *((x, 686, text) for x, text in ((120, "hour"), (152, "day"), (260, "hour"), (292, "day"))),
                *((x, 672, text) for x, text in ((72, "Pier"), (120, "30"), (152, "180"), (260, "15"), (292, "90"))),
            ),
            "Customer: Segelclub\nDue: 26.04.2024\nZone: Pier; Mon-Fri hour: 30; Mon-Fri day: 180; Weekend hour: 15; Weekend day: 90",
        ),
        (at((72, 700, "\xb7"), (90, 700, "rails"), (72, 686, "\xb7"), (90, 686, "paint")), "• rails\n• paint"),
        # Dots that lead to a price, and a ruled table with two lines in a cell, in the middle of its row.
        (
            at((72, 700, "Fish soup ......... 145,-"), (72, 686, "Stew"), (110, 686, "........."), (300, 686, "210,-")),
            "Fish soup 145,-\nStew 210,-",
        ),
        (
            "".join(f"70 {y} m 400 {y} l S " for y in (720, 700, 660, 620))
            + "".join(f"{x} 620 m {x} 720 l S " for x in (70, 200, 300, 400))
            + at(
                (72, 706, "Risk"),
                (202, 706, "Owner"),
                (302, 706, "Due"),
                (72, 684, "Flooding of the"),
                (72, 670, "workshop in spring"),
            )
            + at(
                (202, 677, "Hild"),
                (302, 677, "May"),
                (302, 637, "June"),
                (72, 644, "Loss of the"),
                (72, 630, "driver"),
                (202, 637, "Geir"),
            ),
            "Risk: Flooding of the workshop in spring; Owner: Hild; Due: May\nRisk: Loss of the driver; Owner: Geir; Due: June",
        ),
    ],
)
def test_layout(read_one, page, text):
    assert read_one("a.pdf", pdf(page)).text == text


def test_sentences_and_tables_go_on_over_pages(read_one):
    head, foot = (72, 780, "Roads report"), (300, 20, "Page {} of 3")
    row = [(72, 700, "{}"), (200, 700, "{}"), (330, 700, "{}"), (72, 686, "{}"), (200, 686, "{}"), (330, 686, "{}")]

    def page(number, *texts):
        return at(head, *texts, (foot[0], foot[1], foot[2].format(number)))

    def table(*cells):
        return [(x, y, cell) for (x, y, _), cell in zip(row, cells, strict=True)]

    document = read_one(
        "a.pdf",
        pdf(
            page(1, (72, 700, "The council said that the bridge will be re-")),
            page(2, *table("Item", "Bin", "Cost", "Bolt", "A", "7"), (72, 740, "paired in summer.")),
            page(3, *table("Nut", "B", "8", "Rod", "C", "9")),
        ),
    )
    assert document.text == (
        "Roads report\n\nThe council said that the bridge will be repaired in summer.\n"
        "Item: Bolt; Bin: A; Cost: 7\n\nItem: Nut; Bin: B; Cost: 8\nItem: Rod; Bin: C; Cost: 9"
    )
    assert [(place.page, document.text[place.start :][:6]) for place in document.places] == [
        *((1, "Roads "), (2, "paired"), (3, "Item: "))
    ]


def test_larger_lines_are_headings_and_smaller_ones_footnotes(read_one):
    def line(y, size, text):
        return f"BT /F1 {size} Tf 72 {y} Td ({text}) Tj ET "

    body = "The density of mussels was measured at four places and"
    first = line(760, 20, "Seabed of") + line(738, 20, "Lista") + line(700, 14, "1 Mussels") + line(680, 10, body)
    second = line(760, 10, "it was 84.") + line(720, 14, "2 Kelp") + line(700, 10, "It grows.")
    document = read_one("a.pdf", pdf(first + line(100, 8, "1 Per square metre."), second))
    assert document.text == (
        f"Seabed of Lista\n\n1 Mussels\n\n{body} it was 84.\n\n2 Kelp\n\nIt grows.\n\n1 Per square metre."
    )
    assert sections(document) == [
        ("Seabed of Lista", "Seabed of Lista"),
        ("1 Mussels", "Seabed of Lista > 1 Mussels"),
        ("2 Kelp", "Seabed of Lista > 2 Kelp"),
    ]


def test_fields_comments_bookmarks_and_losses(read_one):
    writer = PdfWriter(
        io.BytesIO(pdf(["Surname:", "Second part", "more"], "1 0 0 RG 0 0 9 9 re S", metadata={"/Title": "A form"}))
    )
    page = writer.pages[0]
    rectangle = ArrayObject(map(NumberObject, (150, 717, 300, 731)))
    names = {"Type": "Annot", "Subtype": "Widget", "FT": "Tx"}
    fields = []
    for name, value, box in (
        ("surname", "Oppegaard", rectangle),
        ("boat", "Lomvi", ArrayObject(map(NumberObject, (72, 500, 300, 514)))),
    ):
        widget = DictionaryObject({NameObject(f"/{key}"): NameObject(f"/{own}") for key, own in names.items()})
        widget |= {
            NameObject("/T"): TextStringObject(name),
            NameObject("/V"): TextStringObject(value),
            NameObject("/Rect"): box,
        }
        fields.append(writer._add_object(DictionaryObject(widget)))
    note = DictionaryObject({NameObject("/Type"): NameObject("/Annot"), NameObject("/Subtype"): NameObject("/Text")})
    note |= {NameObject("/Contents"): TextStringObject("The fee was waived."), NameObject("/Rect"): rectangle}
    page[NameObject("/Annots")] = ArrayObject([*fields, writer._add_object(DictionaryObject(note))])
    form = DictionaryObject({NameObject("/Fields"): ArrayObject(fields)})
    writer.root_object[NameObject("/AcroForm")] = writer._add_object(form)
    parent = writer.add_outline_item(title="Form", page_number=0)
    writer.add_outline_item(title="Second part", page_number=0, parent=parent)
    writer.add_attachment("a.txt", b"a")
    file = io.BytesIO()
    writer.write(file)
    document = read_one("a.pdf", file.getvalue())
    assert document.text == "Surname: Oppegaard\nSecond part\nmore\nboat: Lomvi\n\nComment: The fee was waived."
    assert document.title == "A form"
    assert [(section.start, section.context) for section in document.sections] == [
        (0, "Form"),
        (19, "Form > Second part"),
    ]
    assert document.losses == ("1 page without text", "1 attachment")


@pytest.mark.parametrize(("written", "day"), [("D:20240501003000+02'00'", "2024-04-30"), ("D:20240501", "2024-05-01")])
def test_date(read_one, written, day):
    assert read_one("a.pdf", pdf(["text"], metadata={"/CreationDate": written})).date == day


def test_bad_date(read_one):
    document = read_one("a.pdf", pdf(["text"], metadata={"/CreationDate": "D:yesterday"}))
    assert document.date == read_one("a.txt", b"text").date


def test_passwords(read_one, reason):
    assert read_one("a.pdf", pdf(["open"], password="")).text == "open"
    assert reason("a.pdf", pdf(["closed"], password="secret")) == "is password-protected"


def test_unreadable_files(reason, capfd):
    assert reason("a.pdf", pdf([], [])) == "has no text; it may be a scan"
    assert reason("a.pdf", b"") == "is empty"
    assert reason("a.pdf", pdf(["text"])[:200]).startswith("is damaged: ")
    assert capfd.readouterr() == ("", "")


def test_damaged_pages(read, read_one):
    good = pdf(["First."], ["Second."])
    document = read_one("a.pdf", good.replace(b"(First.) Tj", b"<<<<<<<< Tj"))
    assert (document.text, document.losses) == ("Second.", ("1 page without text",))
    kids = good[good.index(b"/Kids") :].partition(b"[")[2].split()
    document, skipped = read("a.pdf", good.replace(b"[ " + kids[0] + b" 0 R", b"[ 99 0 R"))
    assert document.text == "Second."
    assert skipped.reason == "is damaged: 1 of 2 pages cannot be read"
