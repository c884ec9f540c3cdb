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
_QIF_LISTS: Final = {"N": "Name", "D": "Description"}  # of accounts, categories and classes
_QIF_LISTED: Final = ("!Account", "!Type:Cat", "!Type:Class")
_OFX: Final = {"DTPOSTED": "Date", "NAME": "Payee", "MEMO": "Memo", "TRNAMT": "Amount", "TRNTYPE": "Type"}
_OFX_ACCOUNT: Final = {"ORG": "Bank", "ACCTID": "Account", "CURDEF": "Currency", "BALAMT": "Balance", "DTASOF": "Date"}
_OFX_TRANSACTION: Final = re.compile(r"<STMTTRN>((?:(?!</?STMTTRN>|</BANKTRANLIST>).)*)", re.DOTALL)
_OFX_FIELD: Final = re.compile(r"<([A-Z]+)>([^<\r\n]+)")
_MT940_FIELD: Final = re.compile(r"^:(\d\d[A-Z]?):", re.MULTILINE)
_MT940_BALANCES: Final = {"60F": "Opening balance", "62F": "Closing balance"}
_MT940_BALANCE: Final = re.compile(r"([CD])(\d{6})([A-Z]{3})([\d,]+)")
_MT940_TRANSACTION: Final = re.compile(r"(\d{6})(?:\d{4})?(R?[CD])[A-Z]?([\d,]+)")
# A line of MT940 has so many characters, wherever a word ends.
_MT940_LINE: Final = 27


def read_qif(stream: ByteStream) -> Iterator[Content | Row]:
    """The transactions that Quicken and its like export."""
    text, rows, cells, names = decode_file(stream.read_all()), list[list[Cell]](), list[Cell](), _QIF
    for line in (*text.splitlines(), "^") if text.startswith("!") else ():
        if line.startswith("!"):
            names = _QIF_LISTS if line.startswith(_QIF_LISTED) else _QIF
        elif line.startswith("^"):
            rows += [cells] if cells else []
            cells = []
        elif line[:1] in names:
            cells.append(Cell(names[line[0]], line[1:].strip()))
    return _statement("" if rows else text, rows)


def read_ofx(stream: ByteStream) -> Iterator[Content | Row]:
    """The account with its balance, and the transactions, of either version of OFX."""
    text = decode_file(stream.read_all())
    rows = [_ofx_cells(transaction[1], _OFX) for transaction in _OFX_TRANSACTION.finditer(text)]
    about = _ofx_cells(_OFX_TRANSACTION.sub("", text), _OFX_ACCOUNT)
    return _statement(written(about) if rows or about else text, rows)


def _ofx_cells(text: str, names: Mapping[str, str]) -> list[Cell]:
    fields = ((names[tag], html.unescape(value).strip()) for tag, value in _OFX_FIELD.findall(text) if tag in names)
    return [Cell(name, _day(value) if name == "Date" else value) for name, value in fields]


def read_mt940(stream: ByteStream) -> Iterator[Content | Row]:
    """The account with its balances, and the transactions."""
    text = decode_file(stream.read_all())
    about, rows, currency = list[Cell](), list[list[Cell]](), ""
    fields = _MT940_FIELD.split(text)[1:]
    for tag, value in zip(fields[::2], map(str.strip, fields[1::2]), strict=True):
        if tag == "25":
            about.append(Cell("Account", value))
        elif (name := _MT940_BALANCES.get(tag)) and (match := _MT940_BALANCE.match(value)):
            currency = match[3]
            about.append(Cell(name, f"{'-' * (match[1] == 'D')}{match[4]} {currency}, {_day('20' + match[2])}"))
        elif tag == "61" and (match := _MT940_TRANSACTION.match(value)):
            amount = f"{'-' * (match[2] in ('D', 'RC'))}{match[3]} {currency}".strip()
            rows.append([Cell("Date", _day(f"20{match[1]}")), Cell("Amount", amount)])
        elif tag == "86" and rows:
            rows[-1][1:1] = _described(value)
    return _statement(written(about) if rows or about else text, rows)


def _statement(about: str, rows: list[list[Cell]]) -> Iterator[Content | Row]:
    """The account and its transactions; a file of another kind as it is written, if `about` is all of it."""
    yield Content(about, about.encode(), part="fields" if rows else "")
    yield from (Row(number, cells) for number, cells in enumerate(rows, 1))


def _described(value: str) -> Iterator[Cell]:
    """Who, what for and how, of a field in parts as "?32Lena Vogt"; else what for."""
    _, *parts = re.split(r"\?(\d\d)", value.replace("\r", "").replace("\n", ""))
    if not parts:
        yield Cell("Memo", " ".join(value.split()))
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    names = {"Payee": ("32", "33"), "Memo": tuple(map(str, chain(range(20, 30), range(60, 64)))), "Type": ("00",)}
    for name, numbers in names.items():
        found = (texts.get(number, "") for number in numbers)
        if text := "".join(part if len(part) >= _MT940_LINE else f"{part} " for part in found if part).strip():
            yield Cell(name, text)


def _day(digits: str) -> str:
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}" if digits[:8].isdecimal() else digits
