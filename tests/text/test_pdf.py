"""PDF: text of pages, dates, and the ways in which one can be unreadable."""

import io

import pytest
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, NameObject, NumberObject, TextStringObject

from tests.text.conftest import sections


def named(**values):
    return DictionaryObject({NameObject(f"/{key}"): NameObject(f"/{value}") for key, value in values.items()})


def written(writer):
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def pdf(*pages, metadata=None, password=None):
    """A document whose pages hold these lines, or what this content stream draws."""
    writer = PdfWriter()
    for lines in pages:
        page = writer.add_blank_page(600, 800)
        font = writer._add_object(named(Type="Font", Subtype="Type1", BaseFont="Helvetica"))
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        shown = " T* ".join(f"({line}) Tj" for line in lines)
        drawn = lines if isinstance(lines, str) else f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET"
        stream.set_data(drawn.encode("latin-1"))
        page[NameObject("/Contents")] = writer._add_object(stream)
    writer.add_metadata(metadata or {})
    if password is not None:
        writer.encrypt(password, "owner", algorithm="RC4-128")
    return written(writer)


def test_pages(read_one):
    document = read_one("a.pdf", pdf(["First page."], [], ["Second page."]))
    assert document.text == "First page.\n\nSecond page."


def at(*texts):
    """A content stream that draws texts at places, counted from the bottom left corner."""
    return "".join(f"BT /F1 10 Tf {x} {y} Td ({text}) Tj ET " for x, y, text in texts)


def table(columns, tops, *rows):
    """The same of texts in rows and columns."""
    return at(*((x, y, text) for y, row in zip(tops, rows, strict=True) for x, text in zip(columns, row, strict=True)))


PROSE = [
    *("The council inspected the twelve bridges of", "the valley. The well-", "known one at Skjold will be re-"),
    *("paired in summer, when the detour road is", "finished. Nobody knows the cost.", "- rails", "- paint"),
]
BESIDE = [
    *("It was seen by many people in the", "old town, who say that the cost is"),
    *("high and that the work took", "eleven years."),
]
COLUMNS = [
    ("The bakery has a new oven of 12-", "The choir sings in the school,", "The bridge is closed until the"),
    ("inch stones, which came from", "and tickets are sold by Anne,", "ice has gone, so that cars must"),
    ("Hamar by lorry in May.", "who sits in the library.", "take the road over Nes."),
]
RULES = "".join(f"70 {y} m 400 {y} l S " for y in (720, 700, 660, 620)) + "".join(
    f"{x} 620 m {x} 720 l S " for x in (70, 200, 300, 400)
)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (["A heading", *PROSE],
         ("A heading\nThe council inspected the twelve bridges of the valley. The well-known one at Skjold will be "
          "repaired in summer, when the detour road is finished. Nobody knows the cost.\n- rails\n- paint")),
        (["Invoice 4471", "Net: 1,050.42 EUR", "Bank: Sparbank Oslo"],
         "Invoice 4471\nNet: 1,050.42 EUR\nBank: Sparbank Oslo"),
        (table((72, 220, 340, 470), (740, 724), ("Plate:", "HRO-W 412", "Since:", "2016"), ("Make:", "Skoda", "Hue:", "red")),
         "Plate: HRO-W 412\nSince: 2016\nMake: Skoda\nHue: red"),
        # Above the names of the columns, and right of all of them.
        (table((72, 300, 360, 400), (700, 660, 644, 628), ("Invoice 9", "", "", "2 May"), ("Item", "Qty", "Price", ""),
               ("Oak table", "1", "1,450.00", ""), ("Total", "", "1,450.00", "")).replace("() Tj", ""),
         "Invoice 9; 2 May\nItem: Oak table; Qty: 1; Price: 1,450.00\nItem: Total; Price: 1,450.00"),
        (["The staff is led by Jean-", "Paul and is a pre-", "cious thing to us."],
         "The staff is led by Jean-Paul and is a precious thing to us."),
        # Words that are placed one by one.
        (table((72, 95, 140, 162), [700], ("The", "tunnel", "was", "dug.")), "The tunnel was dug."),
        ("BT /F1 10 Tf 0 1 -1 0 300 100 Tm (A map by Gro Lien.) Tj ET", "A map by Gro Lien."),
        # Columns, written row by row.
        (at((72, 740, "A title that stands above both of the columns of the page"))
         + "".join(table([x], range(700, 652, -12), *zip(lines)) for x, lines in ((72, PROSE[:4]), (330, BESIDE))),
         ("A title that stands above both of the columns of the page\n\nThe council inspected the twelve bridges of "
          "the valley. The well-known one at Skjold will be repaired in summer, when the detour road is\n\n"
          "It was seen by many people in the old town, who say that the cost is high and that the work took eleven "
          "years.")),
        # Three columns, and a number before a hyphen.
        (table((60, 230, 400), (700, 688, 676), *COLUMNS),
         ("The bakery has a new oven of 12-inch stones, which came from Hamar by lorry in May.\n\n"
         "The choir sings in the school, and tickets are sold by Anne, who sits in the library.\n\n"
         "The bridge is closed until the ice has gone, so that cars must take the road over Nes.")),
        # Tables.
        (["Date            Payee             Sum", "3 May           Kraft             81.50"],
         "Date: 3 May; Payee: Kraft; Sum: 81.50"),
        (table((72, 172, 272), (700, 686, 672), ("Station", "2022", "2023"), ("Vestby", "4,871", "5,130"),
               ("Holtet", "", "1,998")),
         "Station: Vestby; 2022: 4,871; 2023: 5,130\nStation: Holtet; 2023: 1,998"),
        (table((72, 200), (700, 680, 669, 650), ("Item", "Notes on it"), ("Bolt", "of steel, kept in the"),
               ("", "shed"), ("Nut", "of brass")),
         "Item: Notes on it\nBolt: of steel, kept in the shed\nNut: of brass"),
        # A form right above a table, whose header has two rows.
        (table((72, 260), (754, 740), ("Customer:", "Segelclub"), ("Due:", "26.04.2024"))
         + table((72, 120, 260), [700], ("Zone", "Mon-Fri", "Weekend"))
         + table((72, 120, 152, 260, 292), (686, 672), ("", "hour", "day", "hour", "day"),
                 ("Pier", "30", "180", "15", "90")),
         ("Customer: Segelclub\nDue: 26.04.2024\n"
          "Zone: Pier; Mon-Fri hour: 30; Mon-Fri day: 180; Weekend hour: 15; Weekend day: 90")),
        (table((72, 90), (700, 686), ("\xb7", "rails"), ("\xb7", "paint")), "• rails\n• paint"),
        # Dots that lead to a price, and a ruled table with two lines in a cell, in the middle of its row.
        (at((72, 700, "Fish soup ......... 145,-")) + table((72, 110, 300), [686], ("Stew", ".........", "210,-")),
         "Fish soup 145,-\nStew 210,-"),
        (RULES
         + table((72, 202, 302), (706, 677, 637), ("Risk", "Owner", "Due"), ("", "Hild", "May"), ("", "Geir", "June"))
         + table([72], (684, 670, 644, 630), ["Flooding of the"], ["workshop in spring"], ["Loss of the"], ["driver"]),
         ("Risk: Flooding of the workshop in spring; Owner: Hild; Due: May\n"
          "Risk: Loss of the driver; Owner: Geir; Due: June")),
    ],
)  # fmt: skip
def test_layout(read_one, page, text):
    assert read_one("a.pdf", pdf(page)).text == text


def test_indices_and_exponents_stand_where_they_are_written(read_one):
    def sentence(y, text, script, after):
        parts = f"({text}) Tj /F1 7 Tf 4 Ts ({script}) Tj 0 Ts /F1 10 Tf ( {after}) Tj"
        return f"BT /F1 10 Tf 72 {y} Td {parts} ET "

    page = sentence(720, "The mills turn at a rate of", "", "three turns a")
    page += sentence(708, "minute, or 10", "-4", "a day, as in the")
    page += sentence(696, "reports", "2", "of the council.")
    assert read_one("a.pdf", pdf(page)).text == (
        "The mills turn at a rate of three turns a minute, or 10^-4 a day, as in the reports2 of the council."
    )


def test_sentences_and_tables_go_on_over_pages(read_one):
    def page(number, tops=(), *rows):
        head, foot = (72, 780, "Roads report"), (300, 20, f"Page {number} of 3")
        return at(head) + table((72, 200, 330), tops, *rows) + at(foot)

    first = at((72, 700, "The council said that the bridge will be re-"))
    second = page(2, (700, 686), ("Item", "Bin", "Cost"), ("Bolt", "A", "7")) + at((72, 740, "paired in summer."))
    third = page(3, (700, 686), ("Nut", "B", "8"), ("Rod", "C", "9"))
    document = read_one("a.pdf", pdf(page(1) + first, second, third))
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
    form = pdf(["Surname:", "Second part", "more"], "1 0 0 RG 0 0 9 9 re S", metadata={"/Title": "A form"})
    writer = PdfWriter(io.BytesIO(form))

    def added(texts, box, **names):
        texts = {NameObject(f"/{name}"): TextStringObject(text) for name, text in texts.items()}
        rectangle = {NameObject("/Rect"): ArrayObject(map(NumberObject, box))}
        return writer._add_object(DictionaryObject(named(Type="Annot", **names) | texts | rectangle))

    field = {"Subtype": "Widget", "FT": "Tx"}
    surname = added({"T": "surname", "V": "Oppegaard"}, (150, 717, 300, 731), **field)
    boat = added({"T": "boat", "V": "Lomvi"}, (72, 500, 300, 514), **field)
    note = added({"Contents": "The fee was waived."}, (150, 717, 300, 731), Subtype="Text")
    writer.pages[0][NameObject("/Annots")] = ArrayObject([surname, boat, note])
    fields = DictionaryObject({NameObject("/Fields"): ArrayObject([surname, boat])})
    writer.root_object[NameObject("/AcroForm")] = writer._add_object(fields)
    parent = writer.add_outline_item(title="Form", page_number=0)
    writer.add_outline_item(title="Second part", page_number=0, parent=parent)
    writer.add_attachment("a.txt", b"a")
    document = read_one("a.pdf", written(writer))
    assert document.text == "Surname: Oppegaard\nSecond part\nmore\nboat: Lomvi\n\nComment: The fee was waived."
    assert document.title == "A form"
    assert list(document.sections) == [(0, "Form"), (19, "Form > Second part")]
    assert document.losses == ("1 page without text", "1 attachment")


def test_date(read_one):
    other = read_one("a.txt", b"text").date
    for shown, day in {"20240501003000+02'00'": "2024-04-30", "20240501": "2024-05-01", "yesterday": other}.items():
        assert read_one("a.pdf", pdf(["text"], metadata={"/CreationDate": f"D:{shown}"})).date == day


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
