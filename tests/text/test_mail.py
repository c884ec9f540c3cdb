"""Messages, mailboxes, attachments, subtitles and books."""

import sys
from email.message import EmailMessage

import pytest
from fuzz_samples import OUTLOOK

from tests.archives import zipped


def message(body="The boat is sold.", *, html="", **headers):
    written = EmailMessage()
    for name, value in ({"From": "Ann <a@x.org>", "Date": "Tue, 14 May 2024 23:00:00 -0500"} | headers).items():
        written[name] = value
    written.set_content(body)
    if html:
        written.add_alternative(html, subtype="html")
    return written


def test_message(read_one):
    document = read_one("a.eml", bytes(message(html="<p>The page.", To="b@x.org", Subject="Boot über Nacht")))
    assert document.text == (
        "From: Ann <a@x.org>\nTo: b@x.org\nDate: Tue, 14 May 2024 23:00:00 -0500\nSubject: Boot über Nacht\n\n"
        "The boat is sold."
    )
    assert (document.title, document.date, document.losses) == ("Boot über Nacht", "2024-05-14", ())


@pytest.mark.parametrize(
    ("head", "body", "text"),
    [
        ("text/html", "<p>One<p>Two", "One\n\nTwo"),
        ("text/plain; charset=nonsense", "caf\u00e9", "café"),
        ("text/plain; format=flowed", "one \ntwo  \nthree\n> quoted \n", "one two three\n> quoted"),
        ("multipart/signed; boundary=b", "--b\n\nfirst\n--b\nContent-Type: text/x; name=s.asc\n\nsign\n--b--", "first"),
        ("multipart/related; boundary=b", "--b\n\nfirst\n--b\nContent-Type: text/css\n\np {}\n--b--", "first"),
        ("multipart/mixed; boundary=b", "--b\n\nfirst\n--b\n\nsecond\n--b--", "first\n\nsecond"),
        ("multipart/alternative; boundary=b", "--b\n\n\n--b\nContent-Type: text/html\n\n<p>page\n--b--", "page"),
        ("multipart/alternative; boundary=b",
         "--b\n\nSee the page.\n--b\nContent-Type: text/html\n\n<p>Now with more than twice as many words.\n--b--",
         "Now with more than twice as many words."),
        ("multipart/alternative; boundary=b",
         "--b\n\nThe sum is 740 Euro.\n--b\nContent-Type: text/html\n\n<p>View online\n--b--", "The sum is 740 Euro."),
        ("multipart/alternative; boundary=b",
         "--b\n\nJoin\n--b\nContent-Type: text/calendar\n\nBEGIN:VEVENT\nSUMMARY:Tea\nEND:VEVENT\n--b--",
         "Join\n\nEvent: Tea"),
        ("message/rfc822", "Subject: Inner\n\nforwarded", "Subject: Inner\n\nforwarded"),
    ],
)  # fmt: skip
def test_bodies(read_one, head, body, text):
    assert read_one("a.eml", f"Subject: S\nContent-Type: {head}\n\n{body}").text == f"Subject: S\n\n{text}"


def test_attachments(read):
    written = message(Subject="S")
    written.add_attachment(b"Name,Cost\nboat,7\n", maintype="text", subtype="csv", filename="costs.csv")
    written.add_attachment(b"\x89PNG\r\n\x1a\n\0\0", maintype="image", subtype="png", filename="a.png")
    box = (b"From a@x.org Tue May 14 10:00:00 2024\n" + bytes(written) + b"\n") * 2
    own, attached = read("letter", bytes(written))
    of_first, in_box, _, also_in_box = read("a.mbox", box)
    assert own.text.endswith("Subject: S\nAttachment: costs.csv\nAttachment: a.png\n\nThe boat is sold.")
    assert own.losses == of_first.losses == ("1 attachment",)
    assert (attached.part, attached.text) == ("attachment 1: costs.csv", "Name: boat; Cost: 7")
    assert in_box.part == "message 1, attachment 1: costs.csv"
    assert in_box.digest == also_in_box.digest


def test_messages_of_apple_mail(read_one):
    own = bytes(message(Subject="S"))
    document, alone = read_one("a.emlx", b"%d   \n%b<plist><dict/></plist>" % (len(own), own)), read_one("a.eml", own)
    assert (document.text, document.digest) == (alone.text, alone.digest)


def test_mailbox(read):
    reply = "> The boat is sold.\n>\nNo!\n\n> Only here.\nFrom here"
    box = b"".join(
        b"From a@x.org Tue May 14 10:00:00 2024\n" + bytes(own).replace(b"\nFrom here", b"\n>From here") + b"\n\n"
        for own in (message(Subject="One"), message(reply, Subject="Two"))
    )
    for name in ("a.mbox", "Inbox"):
        one, two = read(name, box + b"From b@x.org Wed May 15 10:00:00 2024\nSubject: x\n\nlast")[:2]
        assert (one.part, one.title, one.date) == ("message 1", "One", "2024-05-14")
        assert two.text.partition("\n\n")[2] == "No!\n\n> Only here.\nFrom here"


def test_long_messages_of_a_mailbox_are_skipped(read, monkeypatch):
    monkeypatch.setattr("mbc_engine.text.formats.mail.MOST_BYTES", 1 << 10)
    head = "From a@x.org Tue May 14 10:00:00 2024\nSubject: s\n\n"
    one, two, three = read("a.mbox", f"{head}a\n\n{head}{'long ' * 300}\n\n{head}c")
    assert (one.date, two.reason, three.part) == ("2024-05-14", "is larger than 0 MB", "message 3")
    assert two.source.endswith("#2")


@pytest.mark.parametrize(
    ("written", "text", "day"),
    [
        ("[14.03.24, 09:10:11] Ann Lee: Hi\nBo\n\u200e[14.03.24, 09:12:45] Bo: \u200ea.jpg (attached)\n",
         "Ann Lee, 2024-03-14 09:10: Hi\nBo\n\nBo, 2024-03-14 09:12: a.jpg (attached)", "2024-03-14"),
        ("12/03/2024, 18:22 - Encrypted.\n12/03/2024, 18:23 - Ann: At 8:30\n",
         "2024-03-12 18:22: Encrypted.\n\nAnn, 2024-03-12 18:23: At 8:30", "2024-03-12"),
        ("3/2/24, 6:22\u202fPM - Ann: Hi\n3/25/24, 6:23\u202fPM - Bo: No",
         "Ann, 2024-03-02 6:22 PM: Hi\n\nBo, 2024-03-25 6:23 PM: No", "2024-03-25"),
        ("3/2/24, 6:22 pm - Ann: Hi\n3/2/24, 6:23 pm - Bo: No", "Ann, 3/2/24 6:22 pm: Hi\n\nBo, 3/2/24 6:23 pm: No", None),
        ("25/3/24, 6:22 pm - Ann: Hi\n2/4/24, 6:23 pm - Bo: No", "Ann, 2024-03-25 6:22 pm: Hi\n\nBo, 2024-04-02 6:23 pm: No",
         "2024-04-02"),
        ("12/03/2024, 18:22 - Ann: one\n", "12/03/2024, 18:22 - Ann: one\n", None),
    ],
)  # fmt: skip
def test_chats_of_whatsapp(read_one, written, text, day):
    document = read_one("a.txt", written)
    assert document.text == text
    assert day is None or document.date == day
    assert not document.places or document.places[-1].line == written.rstrip().count("\n") + 1


def test_clippings_of_kindles(read):
    """A document for each, in any language; a note joins the passage that it is about."""

    def entry(about, text, book="Emma (Austen, Jane (ed.))"):
        return f"{book}\r\n- {about}\r\n\r\n{text}\r\n==========\r\n"

    bookmark = "Your Bookmark on page 2 | Location 40 | Added on Monday, July 31, 2017 11:35:31 PM"
    passage = "Ihre Markierung auf Seite 3 | Position 51-54 | Hinzugefügt am Montag, 31. Juli 2017 um 23:11:20 Uhr"
    note = passage.replace("Markierung", "Notiz").replace("51-54", "53")
    chinese = "您在第 12 页（位置 #345-347）的标注 | 添加于 2016年6月16日星期四 下午1:47:27"  # noqa: RUF001
    emma = entry(bookmark, "") + entry(passage, "She was happy.") + entry(note, "Really?")
    boats = entry(chinese, "Yes.", "Boats") + entry(note, "Of another book.", "Boats")
    documents = read("My Clippings.txt", f"\ufeff{emma}{boats}torn")
    assert [(document.part, document.title) for document in documents] == [
        *(("row 1", "Emma"), ("row 2", "Emma"), ("row 3", "Boats"), ("row 4", "Boats"), ("row 5", "")),
    ]
    assert documents[0].date == "2017-07-31"
    assert documents[1].text == (
        f"Emma (Austen, Jane (ed.))\n- {passage}\n\nShe was happy.\n\nIhre Notiz auf Seite 3: Really?"
    )
    assert documents[4].text == "torn"
    (before,) = read("a.txt", entry(note, "Really?") + entry(passage, "She was happy."))
    assert before.text == documents[1].text


def test_large_logs_like_chats_are_read_as_they_are(read, monkeypatch):
    monkeypatch.setattr("mbc_engine.text.formats.markup.MOST_BYTES", 500)
    log = "12/03/2024 18:22 - Disk: full\n" * 20
    assert [document.text for document in read("a.log", log)] == [log]


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.srt",
         ("1\n00:00:01,000 --> 00:00:02,000\n<i>The vault</i>\nis under\n\n2\n00:00:02,500 --> 00:00:04,000\n"
          "the stairs.\n\n3\n01:00:05,000 --> 01:00:06,000\n{\\an8}Go!\n"),
         "00:00:01 The vault is under the stairs.\n01:00:05 Go!"),
        ("a.vtt",
         ("WEBVTT\n\nSTYLE\n::cue {}\n\nintro\n00:01.000 --> 00:02.000 align:start\n<v Ann>Where &amp; when?</v>\n\n"
          "00:02.000 --> 00:03.000\nWhere & when?\nAt noon.\n\n00:04.000 --> 00:05.000\n<v Bo>Yes."),
         "00:01 Ann: Where & when?\n00:02 At noon.\n00:04 Bo: Yes."),
        ("a.vtt",
         "WEBVTT\n\n00:01.000 --> 00:02.000\nAnn Bo: We need\n\n00:02.000 --> 00:03.000\nAnn Bo: soil.\n\n00:04.000 --> 00:05.000\nCy: Why?",
         "00:01 Ann Bo: We need soil.\n00:04 Cy: Why?"),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nso\n<c>what</c>\n00:02.000 --> 00:03.000\nwhat\n now", "00:01 so what now"),
    ],
)  # fmt: skip
def test_subtitles(read_one, name, text, lines):
    assert read_one(name, text).text == lines


PACKAGE = (
    "<package xmlns='http://www.idpf.org/2007/opf' xmlns:dc='http://purl.org/dc/elements/1.1/'><metadata>"
    "<dc:title>The Salt Road</dc:title><dc:creator>Emil Thorsen</dc:creator><dc:date>2019-03-01</dc:date></metadata>"
    "<manifest><item id='b' href='text/b%20c.xhtml' media-type='application/xhtml+xml'/>"
    "<item id='a' href='text/a.xhtml' media-type='application/xhtml+xml'/>"
    "<item id='n' href='toc.ncx' media-type='application/x-dtbncx+xml'/></manifest>"
    "<spine><itemref idref='a'/><itemref idref='b'/></spine></package>"
)
CONTENTS = (
    "<ncx xmlns='http://www.daisy.org/z3986/2005/ncx/'><navMap><navPoint><navLabel><text>The ford</text></navLabel>"
    "<content src='text/a.xhtml'/></navPoint></navMap></ncx>"
)
BOOK = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": "<c><rootfiles><rootfile full-path='OEBPS/p.opf'/></rootfiles></c>",
    "OEBPS/p.opf": PACKAGE,
    "OEBPS/toc.ncx": CONTENTS,
    "OEBPS/text/a.xhtml": "<html><body><p>The salt got wet.</p></body></html>",
    "OEBPS/text/b c.xhtml": "<html><body><p>The end.</p></body></html>",
}


def test_book(read_one, reason):
    document = read_one("a.zip", zipped(BOOK))
    assert document.text == "The Salt Road by Emil Thorsen\n\nThe salt got wet.\n\nThe end."
    assert (document.title, document.date) == ("The Salt Road", "2019-03-01")
    assert document.sections[0] == (document.text.index("The salt got"), "The ford")
    protected = zipped(BOOK | {"META-INF/encryption.xml": "<e URI='OEBPS/text/a.xhtml'/>"})
    assert reason("a.epub", protected) == "is copy-protected"


def test_outlook(read, reason, monkeypatch):
    document, attached = read("a.msg", OUTLOOK)
    assert document.text == (
        'From: Jørgen Strøm <j@vik.example>\nTo: "Moe, Anne" <a@vik.example>\nDate: Tue, 07 May 2024 09:12:00 +0000\n'
        "Subject: Keys\nAttachment: fees.csv\n\nThey hang in the shed."
    )
    assert (document.title, document.date, attached.text) == ("Keys", "2024-05-07", "name: Kari; fee: 120")
    monkeypatch.setitem(sys.modules, "oxmsg", None)
    assert reason("b", OUTLOOK).endswith("or install mbc[outlook] to read it")
