"""Contacts (vCard, RFC 6350) and calendars (iCalendar, RFC 5545): each card, event and task is a row."""

import calendar
import quopri
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, timedelta
from typing import Final, NamedTuple

from mbc_engine.text.decoding import ByteStream, decode_file, storable
from mbc_engine.text.document import MONTH_NAMES, Content
from mbc_engine.text.formats.rows import Cell, Row
from mbc_engine.text.language import word_set

_FOLDED: Final = re.compile(r"\r?\n[ \t]")
_QUOTED: Final = re.compile(r"^[^\n:]*QUOTED-PRINTABLE[^\n]*=\r?\n(?:[^\n]*=\r?\n)*", re.MULTILINE | re.IGNORECASE)
_PROPERTY: Final = re.compile(r"(?:([\w-]+)\.)?([\w-]+)((?:;(?:[^\";:]|\"[^\"]*\")*)*):(.*)", re.DOTALL)
_PARAMETER: Final = re.compile(r";([\w-]+)(?:=(\"[^\"]*\"|[^;]*))?")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_COMPONENTS: Final = {"VCARD": "Name", "VEVENT": "Event", "VTODO": "Task", "VJOURNAL": "Entry"}
_NAMES: Final = {
    "ORG": "Organisation", "TITLE": "Job title", "TEL": "Phone", "ADR": "Address", "BDAY": "Birthday", "IMPP": "Chat",
    "X-ABRELATEDNAMES": "Related", "X-ABDATE": "Date", "X-ANNIVERSARY": "Anniversary", "DTSTART": "Start", "DTEND": "End", "DUE": "Due", "COMPLETED": "Completed", "RRULE": "Repeats",
}  # fmt: skip
_TYPES: Final = {"CELL": "mobile", "IPHONE": "mobile", "HOME": "home", "WORK": "work", "FAX": "fax", "MAIN": "main",
    **{kind.upper(): kind for kind in ("spouse", "child", "parent", "sibling", "friend", "emergency")},
}  # fmt: skip
_LABEL_MARKS: Final = re.compile(r"^_\$!<|>!\$_$")  # of a label that Apple translates
# Identifiers, data and what programs need.
_LEFT_OUT: Final = word_set(
    "BEGIN END VERSION N FN SUMMARY UID REV PRODID PHOTO LOGO SOUND KEY DTSTAMP CREATED LAST-MODIFIED SEQUENCE TRANSP "
    "CLASS TZ GEO METHOD CALSCALE ATTACH PRIORITY EXDATE RECURRENCE-ID AGENT MAILER SOURCE CLIENTPIDMAP PERCENT-COMPLETE"
)


class _Property(NamedTuple):
    name: str
    parameters: dict[str, str]
    value: str
    group: str = ""  # of those that a label of Apple's is for


def read_cards(stream: ByteStream) -> Iterator[Content | Row]:
    """The cards, events and tasks; a file without any is read as it is written."""
    data = stream.read_all()
    text = decode_file(data)
    number = 0
    for kind, properties in _components(text):
        cells = list(_cells(kind, properties))
        if cells:
            number += 1
            starts = (line.value for line in properties if line.name in ("DTSTART", "DUE"))
            day = next((moment[:10] for value in starts if (moment := _iso(value))), None)
            yield Row(number, cells, date=day if kind != "VCARD" else None)
    if not number:
        yield Content(text, data)


def _components(text: str) -> Iterator[tuple[str, list[_Property]]]:
    """The kind and the properties of each component of a known kind, without those of the components in it."""
    open_ones: list[tuple[str, list[_Property]]] = []
    text = _QUOTED.sub(lambda match: re.sub(r"=\r?\n", "", match[0]), _FOLDED.sub("", text))
    for line in re.split(r"\r?\n|\r", text):
        if (match := _PROPERTY.match(line)) is None:
            continue
        name, value = match[2].upper(), match[4]
        parameters: dict[str, str] = {}
        for key, setting in _PARAMETER.findall(match[3]):
            parameters[key.upper()] = ",".join(filter(None, (parameters.get(key.upper()), setting.strip('"'))))
        if name == "BEGIN":
            open_ones.append((value.strip().upper(), []))
        elif name == "END" and open_ones:
            kind, properties = open_ones.pop()
            if kind in _COMPONENTS:
                yield kind, properties
        elif open_ones:
            open_ones[-1][1].append(_Property(name, parameters, _decoded(value, parameters), match[1] or ""))
    yield from (component for component in reversed(open_ones) if component[0] in _COMPONENTS)


def _decoded(value: str, parameters: dict[str, str]) -> str:
    if parameters.get("ENCODING", "").upper() == "QUOTED-PRINTABLE" or "QUOTED-PRINTABLE" in parameters:
        value = decode_file(quopri.decodestring(value.encode("utf-8", "replace")))
    return storable(value)


def _cells(kind: str, properties: list[_Property]) -> Iterator[Cell]:
    named = {item.name: item.value for item in reversed(properties)}
    last, first, *more = *_parts(named.get("N", "")), "", ""
    called = _plain(named.get("FN" if kind == "VCARD" else "SUMMARY", ""))
    if called := called or " ".join(filter(None, (first, *more, last))).strip():
        yield Cell(_COMPONENTS[kind], called)
    labels = {
        item.group: _LABEL_MARKS.sub("", item.value) for item in properties if item.group and item.name == "X-ABLABEL"
    }
    for name, parameters, value, group in properties:
        if (
            name in _LEFT_OUT
            or (name.startswith("X-") and name not in _NAMES)
            or parameters.get("ENCODING", "").upper() in ("B", "BASE64")
        ):
            continue
        written = _written(name, parameters, value)
        types = {item.upper() for item in (*parameters, *parameters.get("TYPE", "").split(","))} & _TYPES.keys()
        kinds = [*sorted(_TYPES[name] for name in types), *filter(None, [labels.get(group)])]
        label = _NAMES.get(name, name.replace("-", " ").capitalize())
        if written:
            yield Cell(f"{label} ({', '.join(kinds)})" if kinds else label, written)


def _written(name: str, parameters: dict[str, str], value: str) -> str:
    """A value as people write it."""
    parts = _parts(value)
    match name:
        case "ADR":
            box, more, street, town, region, code, country = (*parts, *[""] * 7)[:7]
            return ", ".join(filter(None, (box, more, street, f"{code} {town}".strip(), region, country)))
        case "ORG":
            return ", ".join(filter(None, parts))
        case "RRULE":
            return _rule(dict(part.partition("=")[::2] for part in value.upper().split(";")))
        case "STATUS":
            return value.lower().replace("-", " ")
        case "ATTENDEE" | "ORGANIZER":
            return parameters.get("CN") or re.sub("(?i)^mailto:", "", value)
    if name == "DTEND" and "T" not in value:  # the day after the last
        with suppress(ValueError, OverflowError):
            value = (date.fromisoformat(_iso(value)) - timedelta(days=1)).isoformat()
    return (
        _day(value)
        if name in ("DTSTART", "DTEND", "DUE", "COMPLETED", "BDAY", "ANNIVERSARY", "X-ANNIVERSARY", "X-ABDATE")
        else _plain(value)
    )


_UNITS: Final = {"DAILY": "days", "WEEKLY": "weeks", "MONTHLY": "months", "YEARLY": "years"}
_WEEKDAYS: Final = dict(zip(("MO", "TU", "WE", "TH", "FR", "SA", "SU"), calendar.day_name, strict=True))
_SAID: Final = {"FREQ", "INTERVAL", "BYDAY", "BYMONTHDAY", "UNTIL", "COUNT", "WKST"}
_NTH: Final = {"1": "first", "2": "second", "3": "third", "4": "fourth", "-1": "last"}


def _rule(rule: dict[str, str]) -> str:
    """How often an event repeats, as "weekly on Tuesday and Friday until 9 July 2024" and "every 2 months on first Monday"."""
    often, interval = rule.get("FREQ", ""), rule.get("INTERVAL", "1")
    days = [f"{_NTH.get(day[:-2], day[:-2])} {_WEEKDAYS.get(day[-2:], '')}".strip() for day in _listed(rule, "BYDAY")]
    days += [f"day {day}" for day in _listed(rule, "BYMONTHDAY") if day.isdecimal()]
    if set(rule) - _SAID:  # on some of these days only
        days = []
    parts = [
        f"every {interval} {_UNITS[often]}" if interval != "1" and often in _UNITS else often.lower(),
        f"on {' and '.join(filter(None, (', '.join(days[:-1]), days[-1])))}" if days else "",
        f"until {_day(rule['UNTIL'])}" if "UNTIL" in rule else "",
        f"{rule['COUNT']} times" if "COUNT" in rule else "",
    ]
    return " ".join(filter(None, parts))


def _listed(rule: dict[str, str], name: str) -> list[str]:
    return [part for part in rule.get(name, "").split(",") if part]


_MOMENT: Final = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:T(\d\d):?(\d\d)(?::?\d\d)?(?:\.\d+)?(Z?))?")


def _iso(value: str) -> str:
    match = _MOMENT.match(value.strip())
    return "-".join(match.groups("")[:3]) if match else ""


def _day(value: str) -> str:
    """A date or time, such as 20240618T143000, in words: "18 June 2024, 14:30"."""

    def shown(match: re.Match[str]) -> str:
        with suppress(ValueError):
            day = date(int(match[1]), int(match[2]), int(match[3]))
            written = f"{day.day} {MONTH_NAMES[day.month - 1]} {day.year}"
            return f"{written}, {match[4]}:{match[5]}{' UTC' * bool(match[6])}" if match[4] else written
        return match[0]

    return _MOMENT.sub(shown, value.strip())


def _parts(value: str) -> list[str]:
    return [_plain(part) for part in re.split(r"(?<!\\);", value)]


def _plain(value: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] in "nN" else match[1], value).strip()
