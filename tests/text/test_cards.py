"""Contacts and calendars: a row each, in words."""

import pytest

from mbc_engine.text import Document

CONTACTS = """BEGIN:VCARD
VERSION:3.0
N:Skog;Ingeborg;;;
FN:Ingeborg Skog
ORG:Skog Tannlege;
item1.TEL;TYPE=WORK;TYPE=voice:+47 73 00
item1.X-ABLabel:Desk
ADR;TYPE="home,pref":;;Bakkegata 9;R\u00f8ros;;7374;Norway
BDAY:19680321
item2.X-ABRELATEDNAMES:Per
item2.X-ABLabel:_$!<Spouse>!$_
X-OTHER:no
NOTE:Likes jazz\\, and
  tea\\nand cake.
PHOTO;ENCODING=b;TYPE=JPEG:/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAE=
END:VCARD
BEGIN:VCARD
N;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:L=C3=B8k=
en;Stian;;;
TEL;CELL:+47 455
"""
CALENDAR = """BEGIN:VCALENDAR
BEGIN:VTIMEZONE
DTSTART:19700329T020000
END:VTIMEZONE
BEGIN:VEVENT
DTSTART;TZID=Europe/Oslo:20240618T143000
SUMMARY:Chimney sweep
ATTENDEE;CN="Ness, Odd":mailto:odd@x.example
ORGANIZER:mailto:kari@x.example
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20240701
DTEND;VALUE=DATE:20240715
SUMMARY:Holiday
RRULE:FREQ=MONTHLY;INTERVAL=2;BYDAY=-1FR,MO;BYMONTHDAY=4;UNTIL=20301231T000000Z
END:VEVENT
BEGIN:VTODO
SUMMARY:Renew the passport
DUE:20240830T120000Z
STATUS:NEEDS-ACTION
END:VTODO
END:VCALENDAR
"""


@pytest.mark.parametrize(
    ("name", "data", "rows"),
    [
        ("a.vcf", CONTACTS, [
            ("Name: Ingeborg Skog; Organisation: Skog Tannlege; Phone (work, Desk): +47 73 00; Address (home): Bakkegata 9, "
             "7374 R\u00f8ros, Norway; Birthday: 21 March 1968; Related (Spouse): Per\n\nNote: Likes jazz, and tea\nand cake."),
            "Name: Stian L\u00f8ken; Phone (mobile): +47 455",
        ]),
        ("a.ics", CALENDAR, [
            "Event: Chimney sweep; Start: 18 June 2024, 14:30; Attendee: Ness, Odd; Organizer: kari@x.example",
            "Event: Holiday; Start: 1 July 2024; End: 14 July 2024; Repeats: every 2 months on last Friday, Monday and day 4 until 31 December 2030, 00:00 UTC",
            "Task: Renew the passport; Due: 30 August 2024, 12:00 UTC; Status: needs action",
        ]),
        ("a.ics", "Not a calendar: really", ["Not a calendar: really"]),
        ("a.ics", "END:VEVENT\nBEGIN:VEVENT\nDTSTART:20240230\nDTEND:99991399", ["Start: 20240230; End: 99991399"]),
    ],
)  # fmt: skip
def test_cards(read, name, data, rows):
    documents = read(name, data)
    assert [document.text for document in documents if isinstance(document, Document)] == rows


def test_an_event_is_of_its_day(read):
    assert [document.date for document in read("a.ics", CALENDAR)] == ["2024-06-18", "2024-07-01", "2024-08-30"]
