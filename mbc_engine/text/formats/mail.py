"""Mail: messages, and mailboxes in which each message is a document; attached documents are read, too.

Of a message that is written twice, as text and as a page, the text is read, unless it only hints at the page. In a
mailbox, quoted lines that an earlier message holds are left out.
"""

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.policy import Policy
from email.utils import format_datetime, formataddr, parsedate
from typing import TYPE_CHECKING, Any, Final

from mbc_engine.text.decoding import MOST_BYTES, ByteStream, decode, detect, storable, stream_of
from mbc_engine.text.document import Content, Skipped, UnreadableFile, counted, damage_is_unreadable, day_of
from mbc_engine.text.formats.cards import read_cards
from mbc_engine.text.formats.rows import is_row_name, read_rows
from mbc_engine.text.formats.sniff import identify_data

if TYPE_CHECKING:
    from oxmsg import Message

_SHOWN: Final = ("From", "To", "Cc", "Date", "Subject")
_FOR_BROWSERS: Final = ("text/css", "text/javascript", "text/x-amp-html")  # of saved pages and newsletters
_MOST_READ: Final = 50  # attachments of a message
_DEEPEST: Final = 20
_MOST_PARTED: Final = 500
_PARTED: Final = re.compile(rb"multipart/|message/rfc822", re.IGNORECASE)
# Lines that quotations are compared with, some 100 bytes each.
_MOST_LINES: Final = 200_000
# A text with fewer words than this share of the page's only says that a program which shows pages is needed.
_HINT_SHARE: Final = 0.5
_FROM_LINE: Final = re.compile(rb"From \S+ .*\d\d:\d\d.* \d{4}")
# The line above a message that Apple Mail keeps; properties are below.
_APPLE_LENGTH: Final = re.compile(rb"(\d{1,9}) *\r?\n")
_FLOWED: Final = re.compile(r"(?<=[^\s-]) +\n(?=[^\s>])")
_LINE_BYTES: Final = 1 << 20


class _Message(EmailMessage):
    """A message that was read, each header of which is parsed once: parsing takes most of the time of a mailbox."""

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__(policy)
        self._parsed: dict[str, Any] = {}

    def get(self, name: str, failobj: Any = None) -> Any:
        if name not in self._parsed:
            self._parsed[name] = super().get(name)
        value = self._parsed[name]
        return failobj if value is None else value


def read_eml(stream: ByteStream) -> Iterator[Content]:
    """The message and its attachments."""
    data = stream.read_all()
    if length := _APPLE_LENGTH.match(data):
        data = data[length.end() :][: int(length[1])]
    with damage_is_unreadable():
        contents = list(_contents(_parsed(data), data))
    yield from contents


def read_msg(stream: ByteStream) -> Iterator[Content]:
    """A message as Outlook saves it, and its attachments."""
    data = stream.read_all()
    try:
        from oxmsg import Message
    except ImportError as error:
        reason = "is an Outlook message; save it as .eml, or install mbc[outlook] to read it"
        raise UnreadableFile(reason) from error
    with damage_is_unreadable():
        contents = list(_contents(_from_outlook(Message.load(data)), data))
    yield from contents


def _from_outlook(written: "Message") -> EmailMessage:
    message, headers = EmailMessage(), {name.lower(): value for name, value in written.message_headers.items()}
    to = ", ".join(formataddr((recipient.name, recipient.email_address)) for recipient in written.recipients)
    sent = format_datetime(written.sent_date) if written.sent_date else ""
    known = {"From": written.sender, "To": to, "Date": sent, "Subject": written.subject}
    for name in _SHOWN:
        if value := headers.get(name.lower()) or known.get(name):
            message[name] = " ".join(storable(value).split())
    if written.body:
        message.set_content(storable(written.body))
    else:
        message.set_content(storable(written.html_body or ""), subtype="html")
    for attachment in written.attachments:
        name = " ".join(storable(attachment.file_name or "").split())
        message.add_attachment(attachment.file_bytes or b"", "application", "octet-stream", filename=name or None)
    return message


def read_mbox(stream: ByteStream) -> Iterator[Content | Skipped]:
    """The messages, named "message 1" and so on, each before its attachments."""
    seen: set[int] = set()
    for number, (sent, data) in enumerate(_split(stream), 1):
        if data is None:
            yield Skipped(str(number), f"is larger than {MOST_BYTES >> 20} MB")
            continue
        try:
            with damage_is_unreadable():
                contents = list(_contents(_parsed(data), data, sent, seen, f"message {number}"))
        except UnreadableFile as error:
            yield Skipped(str(number), str(error))
        else:
            yield from contents


def _split(stream: ByteStream) -> Iterator[tuple[str, bytes | None]]:
    """The date in the line above each message, and the message; None if it is too long."""
    sent, lines, size = "", list[bytes](), 0
    is_start = True
    for line in iter(lambda: stream.readline(_LINE_BYTES), b""):
        if is_start and _FROM_LINE.match(line):
            if lines:
                yield sent, b"".join(lines) if size <= MOST_BYTES else None
            sent, lines, size = line.split(maxsplit=2)[2].decode("ascii", "replace"), [], 0
            continue
        is_start = not line.strip()
        size += len(line)
        if size <= MOST_BYTES:
            lines.append(re.sub(rb"^>(>*From )", rb"\1", line))
    if lines:
        yield sent, b"".join(lines) if size <= MOST_BYTES else None


def _parsed(data: bytes) -> EmailMessage:
    if len(_PARTED.findall(data)) > _MOST_PARTED:  # reading them takes the square of the time
        raise UnreadableFile("is made of too many parts")
    return message_from_bytes(data, _Message, policy=policy.default)


def _contents(
    message: EmailMessage, data: bytes, sent: str = "", seen: set[int] | None = None, part: str = ""
) -> Iterator[Content]:
    """The message, then its attached documents; of a mailbox, `seen` has the lines of the messages before."""
    attached: list[EmailMessage] = []
    text = "\n\n".join(filter(None, _texts(message, attached)))
    if seen is not None:
        text = _without_seen(text, seen)
    date = day_of(_header(message, "Date"))
    if not date and (parsed := parsedate(sent)):
        date = day_of(f"{parsed[0]:04}-{parsed[1]:02}-{parsed[2]:02}")
    unread, documents = 0, []
    for number, attachment in enumerate(attached, 1):
        named = ", ".join(filter(None, (part, f"attachment {number}")))
        document = _document(attachment, named, date) if number <= _MOST_READ else None
        unread += document is None
        documents += [document] if document else []
    names = [_name(attachment) for attachment in attached]
    shown = _shown(message) + "".join(f"\nAttachment: {name}" for name in names if name)
    written = f"{shown}\n\n{text}".strip()
    identity = written.encode("utf-8", "replace") if part else data
    losses = counted({"attachment": unread})
    yield Content(written, identity, date, part, title=_header(message, "Subject"), losses=losses)
    yield from documents


def _header(message: EmailMessage, name: str) -> str:
    with suppress(OSError, UnreadableFile), damage_is_unreadable():  # the parser raises what it likes
        return " ".join(str(message[name] or "").split())
    return ""


def _shown(message: EmailMessage) -> str:
    return "\n".join(f"{name}: {value}" for name in _SHOWN if (value := _header(message, name)))


def _texts(part: EmailMessage, attached: list[EmailMessage], depth: int = 0) -> Iterator[str]:
    """The texts of a message in order; its other parts go to `attached`."""
    kind = part.get_content_type()
    inner = [child for child in part.iter_parts() if isinstance(child, EmailMessage)] if part.is_multipart() else []
    if kind == "message/rfc822":
        for message in inner[: depth < _DEEPEST]:
            yield "\n\n".join(filter(None, (_shown(message), *_texts(message, attached, depth + 1))))
    elif kind == "multipart/alternative":
        parts = inner[:_DEEPEST]
        yield from _one_of([(one.get_content_type(), "\n\n".join(_texts(one, attached, depth + 1))) for one in parts])
    elif inner or part.get_content_maintype() == "multipart":
        shown = inner[:1] if kind == "multipart/signed" else inner  # without the signature
        for child in shown if depth < _DEEPEST else ():
            yield from _texts(child, attached, depth + 1)
    elif kind in _FOR_BROWSERS and not (part.is_attachment() or _name(part)):
        return
    elif part.is_attachment() or _name(part) or part.get_content_maintype() != "text":
        attached.append(part)
    else:
        yield _text(part)


def _one_of(versions: list[tuple[str, str]]) -> Iterator[str]:
    """Of a message that is written twice the text, unless it only hints at the page; and its invitation."""
    written = [(kind, text) for kind, text in versions if text.strip()]
    invitations = [text for kind, text in written if kind == "text/calendar"]
    plain = [text for kind, text in written if kind == "text/plain"]
    pages = [text for kind, text in written if kind == "text/html" or kind.startswith("multipart/")]
    said, shown = ({*" ".join(texts).split()} for texts in (plain[:1], pages[-1:]))
    is_hint = len(said) < _HINT_SHARE * len(shown)
    yield from (pages[-1:] if is_hint else plain or [text for _, text in written if text not in invitations])[:1]
    yield from invitations


def _text(part: EmailMessage) -> str:
    data = _data(part)
    if part.get_content_type() == "text/calendar":
        rows = read_rows(read_cards(stream_of(data)))
        return "\n\n".join(row.text for row in rows if isinstance(row, Content))
    if part.get_content_type() == "text/html":
        from mbc_engine.text.formats.html import read_html

        return next(read_html(stream_of(data))).text if data.strip() else ""
    charset = part.get_content_charset() or "ascii"
    if charset in ("ascii", "us-ascii") and not data.isascii():
        charset = detect(data, is_whole=True)
    try:
        text = decode(data, charset)
    except (LookupError, UnicodeError):  # UnicodeError from codecs that decode no text
        text = decode(data, detect(data, is_whole=True))
    if part.get_param("format", "") == "flowed":
        text = _FLOWED.sub(" ", text)
    return text.strip()


def _data(part: EmailMessage) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _name(part: EmailMessage) -> str:
    with suppress(OSError, UnreadableFile), damage_is_unreadable():
        return " ".join((part.get_filename() or "").split())
    return ""


def _document(part: EmailMessage, named: str, date: str | None) -> Content | None:
    """An attached document, also named by its file; None if it cannot be read, or is a message itself."""
    name, data = _name(part), _data(part)
    with suppress(OSError, UnreadableFile):
        format = identify_data(name, io.BytesIO(data))
        if format.name in ("eml", "mbox"):
            return None
        rows = read_rows(format.read(stream_of(data)))
        contents = [content for content in rows if isinstance(content, Content)]
        text = "\n\n".join(content.text for content in contents)
        if text.strip():
            first, with_file = contents[0], f"{named}: {name}"
            part_name = with_file if name and is_row_name(with_file) else named
            sections = first.sections if len(contents) == 1 else ()
            losses = tuple(loss for content in contents for loss in content.losses)
            identity = f"{format.name}\0".encode() + data
            title = first.title or name
            return Content(text, identity, first.date or date, part_name, len(data), title, sections, losses)
    return None


def _without_seen(text: str, seen: set[int]) -> str:
    """The text without quoted passages of which every line was seen; its own lines count as seen from now on."""
    left: list[str] = []
    hashes: list[int] = []
    quoted: list[str] = []
    for line in (*text.split("\n"), ""):
        if line.startswith(">"):
            quoted.append(line)
            continue
        if not set(_hashes(quoted)) <= seen:
            left += quoted
            hashes += _hashes(quoted)
        quoted = []
        left.append(line)
        hashes += _hashes([line])
    if len(seen) + len(hashes) <= _MOST_LINES:
        seen.update(hashes)
    return "\n".join(left).strip()


def _hashes(lines: Iterable[str]) -> list[int]:
    return [hash(bare) for line in lines if (bare := " ".join(line.lstrip("> ").split()))]
