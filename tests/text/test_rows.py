"""Rows, a document each: JSON Lines, JSON and CSV in many dialects."""

import pytest

from mbc_engine.text import Skipped, decoding, read_file
from tests.text.conftest import named_texts


def test_no_more_than_a_text(read):
    line = '{"id": "n-1", "date": "26-FEB-1987 15:01:01.79", "title": "Cocoa", "text": "It rained."}'
    (item,) = read("a.jsonl", line)
    assert (item.part, item.text, item.date) == ("n-1", "Cocoa\n\nIt rained.", "1987-02-26")
    assert (item.title, item.size) == ("Cocoa", len("1987-02-26\0Cocoa\n\nIt rained."))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"content": "a"}', "a"),
        ('{"text": "a\\u0000b \\ud800 \\ud83d\\ude00"}', "a\ufffdb \ufffd \U0001f600"),
        ('{"text": " ", "body": "b"}', "b"),
        ('{"title": "See", "text": "See here"}', "See here"),
        ('{"text": "t", "body": "b"}', "body: b\n\nt"),
        ('{"id": "a1", "title": "Lantern", "text": "Light.", "price": 349}', "id: a1; title: Lantern; price: 349\n\nLight."),
        ('{"a": true, "b": 12.50, "c": null, "d": ["x", 1], "e": {"town": "Oslo"}}', "a: true; b: 12.5; d: x, 1; e.town: Oslo"),
        ('{"order": 7, "items": [{"sku": "A", "n": 2}, {"sku": "B"}]}', "order: 7\n\nitems.sku: A; items.n: 2\nitems.sku: B"),
        ('{"note": "two\\nlines", "no": 5}', "no: 5\n\nnote: two\nlines"),
        ("[1, 2]", "1, 2"),
        ('"a"', "a"),
    ],
)  # fmt: skip
def test_values_of_an_object(read, line, text):
    assert [own for _, own in named_texts(read("a.jsonl", line))] == [text]


def test_bad_rows(read):
    lines = '\n{"text": "good"}\n{"text": null}\n{}\nnonsense\n' + "[" * 100_000 + "\n" + "[" * 99 + "]" * 99
    assert named_texts(read("a.ndjson", lines)) == [
        *(("row 2", "good"), ("row 3", "has no text"), ("row 4", "has no text")),
        *(("5", "is not JSON"), ("6", "is not JSON"), ("7", "is nested too deeply")),
    ]
    assert named_texts(read("b.jsonl", " \n\n")) == [("", "is empty")]


@pytest.mark.parametrize(
    ("identifier", "part"),
    [
        ("17", "17"), ('"x/1"', "x/1"), ('"\\ud83d\\ude00"', "\U0001f600"), ('"a\\u0000"', "a\ufffd"),
        ('" a\\r"', " a\r"), ("null", "row 1"), ('""', "row 1"), ('"row 9"', "row 1"),
        (f'"{"x" * 200}"', "x" * 200), (f'"{"x" * 201}"', "row 1"),
    ],
)  # fmt: skip
def test_row_names(read, identifier, part):
    assert named_texts(read("a.jsonl", f'{{"id": {identifier}, "text": "t"}}')) == [(part, "t")]


def test_same_row_in_json_and_csv(read):
    (row,) = read("a.jsonl", '{"title": "T", "text": "a, b", "date": "2024-05-01T10:00:00Z", "id": 1}')
    (cells,) = read("a.csv", 'Text,Date,title\n"a, b",2024-05-01,T\n')
    assert row.digest == cells.digest


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators(read, separator):
    table = 'ID;TEXT;When\n1;"a; b, c\td\nnext ""line""";x\n\n2;e;\n'
    assert named_texts(read("a.csv", table.replace(";", separator))) == [
        ("1", 'ID: 1; When: x\n\na; b, c\td\nnext "line"'.replace("a;", f"a{separator}")),
        ("2", "e"),
    ]


@pytest.mark.parametrize(
    ("table", "texts"),
    [
        ("sep=;\r\nPump;Bar\r\nIdun;5,1\r\n", ["Pump: Idun; Bar: 5,1"]),
        ("Name;Price\nSieve, fine;19,90\nBowl;12,50\n", ["Name: Sieve, fine; Price: 19,90", "Name: Bowl; Price: 12,50"]),
        ("Halvor,555-0101\nSigne,555-0102\n", ["Halvor; 555-0101", "Signe; 555-0102"]),
        ("Ada,Oslo\nBo,Oslo\nCy,Oslo\n", ["Ada; Oslo", "Bo; Oslo", "Cy; Oslo"]),
        ("Region,2023,2024\nNorth,1,2\n", ["Region: North; 2023: 1; 2024: 2"]),
        ("Item;2022 EUR;2023 EUR\nRent;1;2\n", ["Item: Rent; 2022 EUR: 1; 2023 EUR: 2"]),
        ("Boat;1999 EUR;2049 EUR\nCar;499 EUR;9 EUR\n", ["Boat; 1999 EUR; 2049 EUR", "Car; 499 EUR; 9 EUR"]),
        ("Name,Town,Job,,\nAda,Oslo,vet,red,car\nBo,Rome,cook,blue,bus\n", ["Name: Ada; Town: Oslo; Job: vet; red; car", "Name: Bo; Town: Rome; Job: cook; blue; bus"]),
        ("Farm,2022,,2023,\n,t,kg,t,kg\nMo,1,2,3,4\n", ["Farm: Mo; 2022 t: 1; 2022 kg: 2; 2023 t: 3; 2023 kg: 4"]),
        ("Day;Air;Wind\n;\u00b0C;m/s\n2024-01-01;4.2;11\n2024-01-02;5;9\n", ["Day: 2024-01-01; Air (\u00b0C): 4.2; Wind (m/s): 11", "Day: 2024-01-02; Air (\u00b0C): 5; Wind (m/s): 9"]),
        ("Day;Air;Wind\n;n/a;n/a\n2024-01-01;4.2;11\n2024-01-02;5;9\n", ["Air: n/a; Wind: n/a", "Day: 2024-01-01; Air: 4.2; Wind: 11", "Day: 2024-01-02; Air: 5; Wind: 9"]),
        ('Book,ISBN\nEmma,"=""0141"""\nRye,=""""\n', ["Book: Emma; ISBN: 0141", 'Book: Rye; ISBN: ""']),
        ("Book,Review\nEmma,Fine.<br/>Rather <i>long</i>\nRye,a<b\n", ["Book: Emma\n\nReview: Fine.\nRather long", "Book: Rye; Review: a<b"]),
        ("Property;Value\nModel;Hydra 9\nPower;11 kW\n", ["Model: Hydra 9\nPower: 11 kW"]),
        ("Name;Wert\n" + "a;1\n" * 101, ["Name: a; Wert: 1"] * 101),
        ("a,A,b\n1,2,3\n", ["a: 1; A: 2; b: 3"]),
        ("a,b\n1,2,3\n4\n", ["a: 1; b: 2; 3", "a: 4"]),
        ('hose\tnote\tcolour\nAlta\t"2 inch\tred\nBodo\tlong\tblue\n', ['hose: Alta; note: "2 inch; colour: red', "hose: Bodo; note: long; colour: blue"]),
        ('a\tb\tc\nx\t"2\tred\ny\t1\tblue\nz\t4"\tred\n', ['a: x; b: "2; c: red', "a: y; b: 1; c: blue", 'a: z; b: 4"; c: red']),
        ('a,b\n"5"" pipe",6" pipe\n', ['a: 5" pipe; b: 6" pipe']),
        ('a,b\n"one\n\ntwo","three\nfour"\n', ["a: one\n\ntwo\n\nb: three\nfour"]),
        ("text\nOne, two\nthree\n", ["One, two", "three"]),
        ("text,Text\nfirst,second\n", ["Text: second\n\nfirst"]),
        ("Only one line of words\n", ["Only one line of words"]),
    ],
)  # fmt: skip
def test_dialects(read, table, texts):
    assert [text for _, text in named_texts(read("a.csv", table))] == texts


def test_lines_above_the_header(read):
    above, row = read("a.csv", "Account,,\nPeriod,May,\n\nDate,Payee,Amount\n2024-05-04,Rail,84.20\n")
    assert named_texts([above]) == [("header", "Account\nPeriod: May")]
    assert (row.text, row.date) == ("Date: 2024-05-04; Payee: Rail; Amount: 84.20", "2024-05-04")
    assert [section.context for section in row.sections] == ["Account; Period: May"]
    table = "Lee Bank;Current account;IE29 LEEC\nOpening;;3412,08\nDate;Name;Why;Amount;Balance\n"  # as of a bank
    items = read("a.csv", f"{table}02.04.2024;Barrack Lane;rent;-410,00;3002,08\n03.04.2024;Fibrelee;net;-40;2962,08\n")
    assert named_texts(items[:2]) == [
        ("header", "Lee Bank; Current account; IE29 LEEC\nOpening; 3412,08"),
        ("row 1", "Date: 02.04.2024; Name: Barrack Lane; Why: rent; Amount: -410,00; Balance: 3002,08"),
    ]


def test_more_lines_above_than_rows(read):
    account = "IBAN;DE12 5001\nName;Current\nBank;INK\nPeriod;March\nBalance;1.512,90;EUR"
    table = "Day;Value;Payee;Kind;Amount\n29.03.2024;29.03.2024;Radio;Debit;-55,08\n15.03.2024;15.03.2024;Shop;Card;-17,34\n"
    header, *below = read("a.csv", f"Turnover;Made: 02.04.2024\n\n{account}\n\n{table}")
    assert header.text.endswith("Period: March\nBalance; 1.512,90; EUR")
    assert named_texts(below)[1] == (
        "row 2",
        "Day: 15.03.2024; Value: 15.03.2024; Payee: Shop; Kind: Card; Amount: -17,34",
    )


def test_long_lines_above_the_header_are_of_the_file_alone(read):
    above, row = read("a.csv", f"Friends\n{'Some have no address. ' * 9}\nName,Town\nAda,Oslo\nBo,Rome\n")[:2]
    assert (above.part, [section.context for section in row.sections]) == ("header", ["Friends"])


def test_long_row(read):
    """What identifies it comes first, and is the title of each of its chunks."""
    (item,) = read("a.csv", f"no,name,note,serial\n7,Scale,{'It works. ' * 90},BV-1\n")
    assert item.title == "Scale"
    assert item.text.startswith("no: 7; name: Scale; serial: BV-1\n\nnote: It works.")


def test_empty_tables(reason):
    assert reason("a.csv", "\n") == reason("a.tsv", "text\n") == "is empty"


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "cp1251"])
def test_encodings(read, codec):
    russian = "Съешь же ещё этих мягких французских булок"
    assert named_texts(read("a.csv", f"text\tid\r\n{russian}\t1\r\n".encode(codec))) == [("1", russian)]
    if codec != "cp1251":
        assert named_texts(read("a.jsonl", f'{{"text": "{russian}"}}\r\n'.encode(codec))) == [("row 1", russian)]


def test_too_long_lines(read, monkeypatch):
    monkeypatch.setattr(decoding, "LINE_CHARACTERS", 20)
    items = read("a.jsonl", '{"text": "first"}\n{"text": "' + "x" * 100 + '"}\n{"text": "third"}')
    assert named_texts(items) == [("row 1", "first"), ("2", "is longer than 16 MB"), ("row 3", "third")]
    assert named_texts(read("a.csv", "text\nfirst\n" + "x" * 30)) == [
        ("row 1", "first"),
        ("", "has a line longer than 16 MB"),
    ]


def test_cells_without_text(read):
    table = 'Id,Product,Note,\n7,"Tent, red",  ,x\n8,,"two\nlines",\n,,,\n9,Stove\n'
    assert named_texts(read("a.csv", table)) == [
        ("7", "Id: 7; Product: Tent, red; x"),
        ("8", "Id: 8\n\nNote: two\nlines"),
        ("9", "Id: 9; Product: Stove"),
    ]


TABLE = "id,text,Review,title\na,short,It leaks.,Tent\nb,only,,Stove\nb,,It burns.,\n"


def test_named_text_column(write):
    """Rows without it are skipped; which column it is changes no text."""
    path = write("a.csv", TABLE)
    whole = named_texts(list(read_file(path)))
    assert named_texts(read_file(path, "Review")) == [whole[0], ("row 2", "has no text"), whole[2]]
    path = write("a.jsonl", '{"text": "a"}\n{"review": "b"}\n{"review": null}\n{"Review": "c"}')
    assert named_texts(read_file(path, "review")) == [
        *(("row 1", "has no text"), ("row 2", "review: b"), ("row 3", "has no text"), ("row 4", "Review: c")),
    ]


def test_names_that_come_again_and_a_title_in_the_middle(read):
    rows = read("a.csv", ";;Stock;\n;;;\n;Item;;Bin\n;Rope;;b\n;Item;;Bin\n;Sail;;c\n")
    assert [row.text for row in rows] == ["Stock", "Item: Rope; Bin: b", "Item: Sail; Bin: c"]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("Project,Orion\nHead,Kai Moe\nStart,2024-05-02\nBudget,4100\n",
         "Project: Orion\nHead: Kai Moe\nStart: 2024-05-02\nBudget: 4100"),
        ("Surname,Okonkwo\nPhone,555-0101\n\nBorn,1951-03-02\nRent,740 EUR,\n",
         "Surname: Okonkwo\nPhone: 555-0101\nBorn: 1951-03-02\nRent: 740 EUR"),
        ("Name:,Ada\nBorn:,1980\n", "Name: Ada\nBorn: 1980"),
    ],
)  # fmt: skip
def test_names_and_values(read_one, table, text):
    assert read_one("a.csv", table).text == text


@pytest.mark.parametrize(
    ("table", "last"),
    [
        ("City,Trams\nOslo,4\nVik,5\nNes,6\nHof,?\n", "City: Hof; Trams: ?"),
        ("Item,Price\nTea,3.50\nCake,free\nPie,on request\n", "Item: Pie; Price: on request"),
        ("Student,Grade\nAnna,A\nBen,87\nCleo,B\nDan,C\n", "Student: Dan; Grade: C"),
        ("Term,Meaning\nNotice,14 days\nLease,a contract\nRent,what is paid\n", "Term: Rent; Meaning: what is paid"),
        ("Name,Score\nAnna,7\nBen,\nCleo,\nDan,\n", "Name: Dan"),
        ("Task,Due\nPaint,5 May\nRoof,2024-05-01\nFence,open\n", "Task: Fence; Due: open"),
        ("Item,Price\nTea,3\nCake,free\nPie,4\nJam,5\nHam,6\nNut,7\nOil,2024-05-01\nRye,8\n", "Item: Rye; Price: 8"),
        ("title,text\nA,42\nB,It rained.\nC,2024-05-01\n", "C\n\n2024-05-01"),
    ],
)  # fmt: skip
def test_odd_values_make_no_form(read, table, last):
    documents = read("a.csv", table)
    assert (len(documents), documents[-1].text) == (len(table.splitlines()) - 1, last)


def test_a_form_in_a_named_text_column(write):
    table = "question,answer\nBy,Ada\nFee,4\nFrom,2024-05-01\n"
    path = write("a.csv", table)
    assert len(list(read_file(path))) == 1
    texts = ["question: By; answer: Ada", "question: Fee; answer: 4", "question: From; answer: 2024-05-01"]
    assert [document.text for document in read_file(path, "Answer")] == texts


@pytest.mark.parametrize(
    ("name", "data", "columns"),
    [
        ("a.csv", "Id,Name\n1,Ada\n2,Bruno\n3," + "x" * 400, "Id, Name"),
        ("a.jsonl", '{"q": 1, "a\\u0007": 2}\n{"c": "d"}', "q, a?"),
        ("b.csv", f"{'x' * 199},y\n1,2\n", f"{'x' * 199},…"),
    ],
)
def test_unknown_column(write, monkeypatch, name, data, columns):
    """Of a table, nothing after the first row is read."""
    monkeypatch.setattr(decoding, "LINE_CHARACTERS", 300)
    path = write(name, data)
    reason = f"has no column named 'review'; its columns are {columns}"
    assert list(read_file(path, "review")) == [Skipped(str(path.resolve()), reason)]


OFX = """OFXHEADER:100

<OFX><CURDEF>EUR<BANKTRANLIST>
<STMTTRN><TRNTYPE>DEBIT<DTPOSTED>20240304120000<TRNAMT>-61.40<NAME>A &amp; B<MEMO>Paint</STMTTRN>
<STMTTRN>
<DTPOSTED>20240306
<TRNAMT>9
</STMTTRN></BANKTRANLIST><BALAMT>12.50</OFX>"""
INVESTED = """<OFX><CURDEF>USD<INVTRANLIST><BUYSTOCK><INVBUY><DTTRADE>20240215<UNIQUEID>123<UNITS>100
<TOTAL>-1050</INVBUY><BUYTYPE>BUY</BUYSTOCK></INVTRANLIST><INVPOSLIST><POSSTOCK><UNIQUEID>123<MKTVAL>1100</POSSTOCK>
</INVPOSLIST><SECINFO><UNIQUEID>123<UNIQUEIDTYPE>CUSIP<SECNAME>Acme &amp; Co</SECINFO></OFX>"""
MT940 = """:20:X
:25:1234/99
:60F:C240301EUR10,00
:61:2403040304DR84,00N005NONREF
:86:005?00LASTSCHRIFT?20Abschlag Gas fuer den Monat?21 Maerz?32Erdgas
:61:240305C2,N051
:86:Rent
of May
:62F:D240305EUR72,00
-"""


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.qif", "!Account\nNGiro\nTBank\n^\n!Type:Bank\nD03/04/2024\nT-84.00\nPWater\n^\nD03/09/2024\nMPaid\n^\n",
         ["Name: Giro", "Date: 03/04/2024; Amount: -84.00; Payee: Water", "Date: 03/09/2024; Memo: Paid"]),
        ("a.ofx", OFX,
         ["Currency: EUR; Balance: 12.50", "Type: DEBIT; Date: 2024-03-04; Amount: -61.40; Payee: A & B; Memo: Paint",
          "Date: 2024-03-06; Amount: 9"]),
        ("a.sta", MT940,
         ["Account: 1234/99; Opening balance: 10,00 EUR, 2024-03-01; Closing balance: -72,00 EUR, 2024-03-05",
          "Date: 2024-03-04; Payee: Erdgas; Memo: Abschlag Gas fuer den Monat Maerz; Type: LASTSCHRIFT; Amount: -84,00 EUR",
          "Date: 2024-03-05; Memo: Rent of May; Amount: 2, EUR"]),
        ("a.qif", "!Type:Bank\nT-5\nSFruit\nEPears\n$-3\nSFish\n$-2\n^\n!Type:Invst\nD3/4/24\nNBuy\nYAcme\nI10.50\nQ100\n^\n",
         ["Amount: -5; Part: Fruit; Memo of part: Pears; Amount of part: -3; Part: Fish; Amount of part: -2",
          "Date: 3/4/24; Action: Buy; Security: Acme; Price: 10.50; Quantity: 100"]),
        ("a.ofx", INVESTED,
         ["Currency: USD", "Type: BUYSTOCK; Date: 2024-02-15; Security: Acme & Co; Units: 100; Amount: -1050",
          "Type: POSSTOCK; Security: Acme & Co; Value: 1100"]),
        ("a.sta", ":61:240304D8,N051R7//B4\nfor tea\n:86:166?20Tea?31DE89\n:61:240305D9,N051NONREF\n:86:OK?20 or so\n:62F:C240305EUR7,\n:86:Call us\n-",
         ["Closing balance: 7, EUR, 2024-03-05; Memo: Call us",
          "Date: 2024-03-04; Account: DE89; Memo: Tea; Amount: -8,; Reference: R7; Details: for tea",
          "Date: 2024-03-05; Memo: OK?20 or so; Amount: -9,"]),
        *((name, "A page of notes.", ["A page of notes."]) for name in ("a.qif", "a.ofx", "a.sta")),
    ],
)  # fmt: skip
def test_bank_statements(read, name, data, expected):
    assert [document.text for document in read(name, data)] == expected
