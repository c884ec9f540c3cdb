"""What a file is: its first bytes decide, then its name."""

import io
import re
from typing import BinaryIO, Final

from mbc_engine.text.decoding import OPENERS, ByteStream, decode, detect, split_suffixes
from mbc_engine.text.document import UnreadableFile, damage_is_unreadable
from mbc_engine.text.formats import SUFFIXES, TEXT, Format

_HEAD_BYTES: Final = 4096
_COMPRESSIONS: Final = ((b"\x1f\x8b\x08", ".gz"), (b"\xfd7zXZ\0", ".xz"))
_ZIP: Final = (b"PK\3\4", b"PK\5\6")
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# How files begin whose directory says what they are, which may be at their end.
DIRECTORY_MARKS: Final = (*_ZIP, _OLE)

# What a file that cannot be read is, by its first bytes. Only files that are no text are compared.
_KINDS: Final = {
    "a picture": rb"\x89PNG|\xff\xd8\xff|GIF8|BM|II\*\0|MM\0\*|RIFF....WEBP|....ftyp(?:hei|avi|mif)|8BPS|\0\0[\x01\x02]\0",
    "a sound": rb"ID3|\xff[\xe2-\xfb]|OggS|fLaC|RIFF....WAVE|MThd|FORM....AIF|....ftypM4A|#!AMR",
    "a video": rb"....(?:ftyp|moov|mdat)|\x1aE\xdf\xa3|RIFF....AVI|FLV\x01|\0\0\x01[\xb3\xba]",
    "an archive": rb"7z\xbc\xaf|Rar!|BZh|\x28\xb5\x2f\xfd|\x1f\x8b|\xfd7zXZ|\x04\x22\x4d\x18|MSCF|.{257}ustar|!<arch>",
    "a program": rb"\x7fELF|MZ|\xfe\xed\xfa[\xce\xcf]|[\xce\xcf]\xfa\xed\xfe|\xca\xfe\xba\xbe|\0asm|dex\n",
    "a database": rb"SQLite format 3|.{4}Standard (?:Jet|ACE) DB",
    "a font": rb"\0\x01\0\0\0|OTTO|wOF[F2]|ttcf",
    "a table of numbers": rb"PAR1|\x89HDF|\x93NUMPY|ARROW1|CDF[\x01\x02]",
}

# The suffix of the format that each kind of document is read as, by what its declared type or root holds.
_OFFICE: Final = (
    (re.compile(rb"wordprocessingml\.\w+\.main|ms-word\.\w+\.macroEnabled\w*\.main"), ".docx"),
    (re.compile(rb"presentationml\.\w+\.main|ms-powerpoint\.\w+\.macroEnabled\w*\.main"), ".pptx"),
    (re.compile(rb"spreadsheetml\.\w+\.main|ms-excel\.\w+\.macroEnabled\w*\.main"), ".xlsx"),
    (re.compile(rb"ms-excel\.sheet\.binary"), ".xlsb"),
)
_PACKAGES: Final = (
    (b"application/epub+zip", ".epub"),
    (b"application/vnd.oasis.opendocument.text", ".odt"),
    (b"application/vnd.oasis.opendocument.spreadsheet", ".ods"),
    (b"application/vnd.oasis.opendocument.presentation", ".odp"),
)
# The names of streams in old Office files.
_STREAMS: Final = {
    "EncryptedPackage": "",
    "__properties_version1.0": ".msg",
    "WordDocument": ".doc",
    "PowerPoint Document": ".ppt",
    "Workbook": ".xls",
    "Book": ".xls",
}
_INSTEAD: Final = {
    ".doc": "is an old Word file; save it as .docx",
    ".ppt": "is an old PowerPoint file; save it as .pptx",
    ".xls": "is an old Excel file; save it as .xlsx",
    ".xlsb": "is a binary Excel file; save it as .xlsx",
}

_HTML: Final = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)
_SVG: Final = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*(?:<!DOCTYPE svg[^>]*>\s*)?<svg\b", re.DOTALL)
_MBOX: Final = re.compile(r"From \S+ .*\d{4}.*\n>?[\w-]+:")
_HEADER: Final = re.compile(r"([\w-]+):.*(?:\n[ \t].*)*\n")
_MAIL_HEADERS: Final = frozenset(
    ("from", "to", "subject", "date", "received", "return-path", "message-id", "mime-version")
)
# The first line of a text without a telling name, and the suffix whose format it is read as.
_OPENINGS: Final = (
    (_HTML, ".html"),
    (_MBOX, ".mbox"),
    (re.compile(r"\s*<\?xml\b[^>]*>\s*<office:document\s[^>]*opendocument\.(?:text|presentation)\""), ".odt"),
    (re.compile(r"\s*<\?xml\b[^>]*>\s*<office:document\s[^>]*opendocument\.spreadsheet\""), ".ods"),
    (re.compile(r"\s*<\?xml\b"), ".xml"),
    (re.compile("WEBVTT"), ".vtt"),
    (re.compile("#!"), ".sh"),
    (re.compile(r"\s*(?:\[\s*)?\{\s*\"[^\"\n]*\"\s*:"), ".json"),
    (re.compile(r"\s*(?:['.]\\\"|\.(?:TH|Dd)[ \t]+\S)"), ".man"),
    (re.compile(r"(?:%.*\n|\s)*\\documentclass\b"), ".tex"),
)


def is_known(name: str) -> bool:
    """Whether a file's name alone says that it may be read."""
    return split_suffixes(name)[0] in SUFFIXES


def identify(file: io.BufferedReader, name: str) -> tuple[Format, str]:
    """The format of an open file with this name, and its compression: a key of `OPENERS`.

    Raises UnreadableFile with the reason if it is nothing that can be read, and OSError.
    """
    head = file.read(_HEAD_BYTES)
    suffix, _ = split_suffixes(name)
    compression = next((ending for mark, ending in _COMPRESSIONS if head.startswith(mark)), "")
    if not compression:
        return _format(suffix, head, file), ""
    file.seek(0)
    with OPENERS[compression](file) as unpacked:
        stream = ByteStream(unpacked.read1)
        inner = stream.peek()[:_HEAD_BYTES]
    if not inner:
        stream.require_undamaged()
    format = _format(suffix, inner, None)
    if not format.may_be_compressed:
        raise UnreadableFile(f"is a compressed {format.suffixes[0]} file; unpack it")
    return format, compression


def identify_data(name: str, file: BinaryIO) -> Format:
    """The format of an uncompressed file with this name. Raises UnreadableFile if it is nothing that can be read."""
    head = file.read(_HEAD_BYTES)
    return _format(split_suffixes(name)[0], head, file)


def _format(suffix: str, head: bytes, file: BinaryIO | None) -> Format:
    named = SUFFIXES.get(suffix)
    if not head:
        return named or TEXT
    if suffix_by_mark := _marked(head, file):
        if suffix_by_mark in _INSTEAD:
            raise UnreadableFile(_INSTEAD[suffix_by_mark])
        return SUFFIXES[suffix_by_mark]
    text = _as_text(head)
    if text is None or b"\0" in head or not head[:1].isascii():
        for kind, pattern in _KINDS.items():
            if re.match(pattern, head, re.DOTALL):
                raise UnreadableFile(f"is {kind}")
    if text is None:
        if named is None:
            raise UnreadableFile("looks binary")
        return named
    return _of_text(text, suffix, named)


def _marked(head: bytes, file: BinaryIO | None) -> str:
    """The suffix of a format whose files begin with a mark of it, or ""."""
    if head.startswith(_ZIP):
        return _zipped(file)
    if head.startswith(_OLE):
        return _ole(file)
    if head.startswith(b"{\\rtf"):
        return ".rtf"
    return ".pdf" if re.match(rb"(?:\xef\xbb\xbf)?\s*%PDF-", head) else ""


def _zipped(file: BinaryIO | None) -> str:
    from mbc_engine.text.formats.archives import Archive

    if file is None:
        raise UnreadableFile("is an archive")
    with damage_is_unreadable():
        archive = Archive(file)
        if "[Content_Types].xml" in archive.names:
            types = archive.read("[Content_Types].xml")
            for pattern, suffix in _OFFICE:
                if pattern.search(types):
                    return suffix
        declared = archive.read("mimetype") if "mimetype" in archive.names else b""
        for type, suffix in _PACKAGES:
            if declared.startswith(type):
                return suffix
    if "META-INF/container.xml" in archive.names:
        return ".epub"
    if "Index/Document.iwa" in archive.names:
        raise UnreadableFile("is an Apple document; export it as .docx, .xlsx or .pptx")
    raise UnreadableFile("is an archive")


def _ole(file: BinaryIO | None) -> str:
    """The kind of an old Office file, by the names of its streams."""
    directory = b""
    if file is not None:
        file.seek(0)
        header = file.read(512)
        sector = 1 << min(int.from_bytes(header[30:32], "little"), 12)
        file.seek((int.from_bytes(header[48:52], "little") + 1) * sector)
        directory = file.read(1 << 16)
    for stream, suffix in _STREAMS.items():
        if stream.encode("utf-16-le") in directory:
            if not suffix:
                raise UnreadableFile("is password-protected")
            return suffix
    raise UnreadableFile("is an old Office file; save it as .docx, .xlsx or .pptx")


# Bytes that no text holds; escape codes and form feeds do occur.
_CONTROLS: Final = bytes({*range(32)} - {*b"\t\n\r\f\b\x1b"})
_MOST_CONTROLS: Final = 0.02


def _as_text(head: bytes) -> str | None:
    """The beginning of a text, None if it looks binary. Only characters of ASCII count, so no encoding is guessed."""
    if b"\0" in head or head.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        try:
            return decode(head, detect(head, is_whole=False)).removeprefix("\ufeff")
        except UnreadableFile:
            return None
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return None if controls > _MOST_CONTROLS * len(head) else decode(head, "latin-1")


# Programs whose white space is taken out for browsers; a person writes no such lines.
_PACKABLE: Final = (".js", ".mjs", ".cjs", ".css")
_LONGEST_LINE: Final = _HEAD_BYTES // 2
_ARCHIVED: Final = "window.YTD."  # before the JSON of a Twitter archive


def _of_text(text: str, suffix: str, named: Format | None) -> Format:
    if _SVG.match(text):
        raise UnreadableFile("is a picture")
    if suffix in _PACKABLE and max(map(len, text.split("\n"))) > _LONGEST_LINE and not text.startswith(_ARCHIVED):
        raise UnreadableFile("is a packed program")
    # A name of a text is believed, except of a page that was saved as something else.
    if named is not None and named.may_be_compressed and not (named is TEXT and _HTML.match(text)):
        return SUFFIXES[".json"] if suffix == ".js" and text.startswith(_ARCHIVED) else named
    if "-----BEGIN" in text and "PRIVATE KEY-----" in text:
        raise UnreadableFile("holds a private key")
    if suffix in (".xls", ".xlsx", ".xlsm", ".ods") and not _HTML.match(text):
        return SUFFIXES[".csv"]
    for pattern, other in _OPENINGS:
        if pattern.match(text):
            return SUFFIXES[other]
    headers, position = set(), 0
    while match := _HEADER.match(text, position):
        headers.add(match[1].lower())
        position = match.end()
    return SUFFIXES[".eml"] if len(headers & _MAIL_HEADERS) > 2 else TEXT
