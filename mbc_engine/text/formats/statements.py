"""Bank statements, a row for each transaction: QIF, OFX and MT940."""

import html
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from mbc_engine.text.decoding import ByteStream, decode_file
from mbc_engine.text.document import Content
from mbc_engine.text.formats.rows import Cell, Row, written

_QIF: Final = {"D": "Date", "P": "Payee", "M": "Memo", "L": "Category", "T": "Amount", "N": "Number", "A": "Address"}
_QIF_SPLITS: Final = {"S": "Part", "E": "Memo of part", "$": "Amount of part"}  # of an amount, by categories
_QIF_INVESTED: Final = {"N": "Action", "Y": "Security", "I": "Price", "Q": "Quantity", "O": "Commission"}
_QIF_LISTS: Final = {"N": "Name", "D": "Description", "S": "Symbol"}  # of accounts, categories, classes and securities
_QIF_LISTED: Final = ("!Account", "!Type:Cat", "!Type:Class", "!Type:Security")
_OFX: Final = {
    "CHECKNUM": "Number", "DTPOSTED": "Date", "NAME": "Payee", "MEMO": "Memo", "TRNAMT": "Amount", "TRNTYPE": "Type",
    "DTPRICEASOF": "Date", "UNIQUEID": "Security", "UNITS": "Units", "UNITPRICE": "Price", "MKTVAL": "Value",
    "DTTRADE": "Date", "COMMISSION": "Commission", "TOTAL": "Amount",
}  # fmt: skip
_OFX_ACCOUNT: Final = {"ORG": "Bank", "ACCTID": "Account", "CURDEF": "Currency", "BALAMT": "Balance", "DTASOF": "Date"}
# Of banks; of investments, also what is held.
_OFX_TRANSACTION: Final = re.compile(
    r"<(?P<kind>STMTTRN|(?:BUY|SELL|POS)(?:DEBT|MF|OPT|OTHER|STOCK)|CLOSUREOPT|INCOME|INVEXPENSE|JRNLFUND|JRNLSEC"
    r"|MARGININTEREST|REINVEST|RETOFCAP|SPLIT|TRANSFER)>"
    r"(?P<fields>(?:(?!</?(?P=kind)>|</(?:BANKTRAN|INVTRAN|INVPOS)LIST>).)*)",
    re.DOTALL,
)
_OFX_SECURITY: Final = re.compile(
    r"<UNIQUEID>([^<\r\n]+)(?:(?!<UNIQUEID>|</SECINFO>).)*<SECNAME>([^<\r\n]+)", re.DOTALL
)
_OFX_FIELD: Final = re.compile(r"<([A-Z]+)>([^<\r\n]+)")
_MT940_FIELD: Final = re.compile(r"^:(\d\d[A-Z]?):", re.MULTILINE)
_MT940_BALANCES: Final = {"60F": "Opening balance", "62F": "Closing balance"}
_MT940_BALANCE: Final = re.compile(r"([CD])(\d{6})([A-Z]{3})([\d,]+)")
_MT940_TRANSACTION: Final = re.compile(r"(\d{6})(?:\d{4})?(R?[CD])[A-Z]?([\d,]+)")
# A line of MT940 has so many characters, wherever a word ends.
_MT940_LINE: Final = 27


def read_qif(stream: ByteStream) -> Iterator[Content | Row]:
    """The transactions that Quicken and its like export."""
    text, rows, cells, names = decode_file(stream.read_all()), list[list[Cell]](), list[Cell](), _QIF | _QIF_SPLITS
    for line in (*text.splitlines(), "^") if text.startswith("!") else ():
        if line.startswith("!"):
            is_list, is_invested = line.startswith(_QIF_LISTED), line.startswith("!Type:Invst")
            names = _QIF_LISTS if is_list else _QIF | (_QIF_INVESTED if is_invested else _QIF_SPLITS)
        elif line.startswith("^"):
            rows += [cells] if cells else []
            cells = []
        elif line[:1] in names:
            cells.append(Cell(names[line[0]], line[1:].strip()))
    return _statement("" if rows else text, rows)


def read_ofx(stream: ByteStream) -> Iterator[Content | Row]:
    """The account with its balance, and the transactions, of either version of OFX."""
    text = decode_file(stream.read_all())
    securities = dict(_OFX_SECURITY.findall(text))
    rows: list[list[Cell]] = []
    for transaction in _OFX_TRANSACTION.finditer(text):
        kind, cells = transaction["kind"], _ofx_cells(transaction["fields"], _OFX, securities)
        rows.append(cells if kind == "STMTTRN" else [Cell("Type", kind), *cells])
    about = _ofx_cells(_OFX_TRANSACTION.sub("", text), _OFX_ACCOUNT, {})
    return _statement(written(about) if rows or about else text, rows)


def _ofx_cells(text: str, names: Mapping[str, str], securities: Mapping[str, str]) -> list[Cell]:
    """The fields of these names, securities by their own."""
    found = (
        (tag, securities.get(value, value) if tag == "UNIQUEID" else value) for tag, value in _OFX_FIELD.findall(text)
    )
    fields = ((names[tag], html.unescape(value).strip()) for tag, value in found if tag in names)
    return [Cell(name, _day(value) if name == "Date" else value) for name, value in fields]


def read_mt940(stream: ByteStream) -> Iterator[Content | Row]:
    """The account with its balances, and the transactions."""
    text = decode_file(stream.read_all())
    about, rows, currency, is_of_row = list[Cell](), list[list[Cell]](), "", False
    fields = _MT940_FIELD.split(text)[1:]
    for tag, value in zip(fields[::2], map(str.strip, fields[1::2]), strict=True):
        is_of_row = is_of_row and tag == "86"
        if tag == "25":
            about.append(Cell("Account", value))
        elif (name := _MT940_BALANCES.get(tag)) and (match := _MT940_BALANCE.match(value)):
            currency = match[3]
            about.append(Cell(name, f"{'-' * (match[1] == 'D')}{match[4]} {currency}, {_day('20' + match[2])}"))
        elif tag == "61" and (match := _MT940_TRANSACTION.match(value)):
            amount = f"{'-' * (match[2] in ('D', 'RC'))}{match[3]} {currency}".strip()
            line, _, details = value[match.end() :].partition("\n")
            reference = line[4:].partition("//")[0].strip()  # after the kind of transaction
            further = {"Reference": reference if reference != "NONREF" else "", "Details": " ".join(details.split())}
            cells = (Cell(name, text) for name, text in further.items() if text)
            rows.append([Cell("Date", _day(f"20{match[1]}")), Cell("Amount", amount), *cells])
            is_of_row = True
        elif tag == "86" and is_of_row:
            rows[-1][1:1] = _described(value)
        elif tag == "86":
            about += _described(value.removesuffix("-"))
    return _statement(written(about) if rows or about else text, rows)


def _statement(about: str, rows: list[list[Cell]]) -> Iterator[Content | Row]:
    """The account and its transactions; a file of another kind as it is written, if `about` is all of it."""
    yield Content(about, about.encode(), part="fields" if rows else "")
    yield from (Row(number, cells) for number, cells in enumerate(rows, 1))


def _described(value: str) -> Iterator[Cell]:
    """Who, what for and how, of a field in parts as "?32Lena Vogt"; else what for."""
    code, *parts = re.split(r"\?(\d\d)", value.replace("\r", "").replace("\n", ""))
    if not parts or not (code or "0").isdecimal():
        yield Cell("Memo", " ".join(value.split()))
        return
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    names = {
        "Payee": ("32", "33"),
        "Account": ("31",),
        "Memo": tuple(map(str, chain(range(20, 30), range(60, 64)))),
        "Type": ("00",),
    }
    for name, numbers in names.items():
        found = (texts.get(number, "") for number in numbers)
        if text := "".join(part if len(part) >= _MT940_LINE else f"{part} " for part in found if part).strip():
            yield Cell(name, text)


def _day(digits: str) -> str:
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}" if digits[:8].isdecimal() else digits
