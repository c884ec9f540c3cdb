"""Zip files that hold a document, as Office, OpenDocument and EPUB write them, read within limits.

Whatever is parsed as XML counts as XML, not what is named or declared so: a parsed tree takes some twenty times the
bytes that it is read from.
"""

import io
import posixpath
import re
import zipfile
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import IO, TYPE_CHECKING, BinaryIO, Final, NamedTuple, cast
from urllib.parse import unquote

from mbc_engine.text.decoding import MOST_BINARY_BYTES, ByteStream, storable
from mbc_engine.text.document import UnreadableFile, day_of

if TYPE_CHECKING:
    from lxml import etree

# A thousand pages of text are about 10 MB of XML.
MOST_XML_BYTES: Final = 64 << 20
# A directory of 80,000 files. Python reads all of it, whatever its size, and takes some ten times as much memory.
_MOST_DIRECTORY_BYTES: Final = 8 << 20
_BLOCK_BYTES: Final = 1 << 20

# The namespaces that a program may write instead ("Strict Open XML").
_STRICT: Final = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
_ENCRYPTED: Final = 1


_ESCAPED: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")


class _Bounded:
    """A file of which nobody reads much at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def read(self, size: int = -1) -> bytes:
        if size > _MOST_DIRECTORY_BYTES:
            raise UnreadableFile("is too large when unpacked")
        return self._file.read(size)


class Link(NamedTuple):
    """What a part of an Office document refers to."""

    kind: str  # the last part of its type, such as "footnotes"
    target: str  # the name of a member, or a URL


# When the templates of python-docx and python-pptx were made, which their documents keep.
_TEMPLATES: Final = ("2013-12-23T23:15:00Z", "2013-01-27T09:14:16Z")


class Archive:
    """A zip file that declares at most `MOST_BINARY_BYTES`, and its members. No member holds more than it declares.

    Raises UnreadableFile if it is too large or encrypted; other errors are zipfile's.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(cast("IO[bytes]", _Bounded(file)))
        self._left = MOST_XML_BYTES
        members = self._zip.infolist()
        if sum(member.file_size for member in members) > MOST_BINARY_BYTES:
            raise UnreadableFile("is too large when unpacked")
        if any(member.flag_bits & _ENCRYPTED for member in members):
            raise UnreadableFile("is password-protected")
        self.names: Final = frozenset(member.filename for member in members)

    def read(self, name: str) -> bytes:
        """A member that is to be parsed; counts towards the limit of all of them together."""
        if self._zip.getinfo(name).file_size > self._left:
            raise UnreadableFile("is too large when unpacked")
        with self._zip.open(name) as member:
            data = b"".join(iter(lambda: member.read(_BLOCK_BYTES), b""))
        self._left -= len(data)
        return data

    def xml(self, name: str) -> "etree._Element":
        """The root element of a member."""
        return parse_xml(_STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/\2", self.read(name)))

    # The parts of an Office document refer to each other by ids.

    def links(self, part: str) -> dict[str, Link]:
        """What a part refers to, by id; `part` is "" for the whole document."""
        folder, name = posixpath.split(part)
        where = posixpath.join(folder, "_rels", f"{name}.rels")
        if where not in self.names:
            return {}
        links = {}
        for link in self.xml(where):
            target = link.get("Target", "")
            if link.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
            links[link.get("Id", "")] = Link(link.get("Type", "").rpartition("/")[2], target)
        return links

    def linked(self, part: str, kind: str) -> Iterator[str]:
        """The members of a kind that a part refers to."""
        return (link.target for link in self.links(part).values() if link.kind == kind and link.target in self.names)

    def linked_xml(self, part: str, kind: str) -> "Iterator[etree._Element]":
        """The root elements of these members."""
        return map(self.xml, self.linked(part, kind))

    @cached_property
    def properties(self) -> tuple[str, str | None]:
        """The title, "" if there is none, and the day on which the document was last modified, else created."""
        written = {}
        for root in self.linked_xml("", "core-properties"):
            written = _fields(root)
        days = (day_of(on) for name in ("modified", "created") if (on := written.get(name)) not in _TEMPLATES)
        return written.get("title", ""), next(filter(None, days), None)


class FlatDocument:
    """A file of OpenDocument without an archive, whose parts are all in one XML."""

    names: Final = frozenset(("content.xml", "meta.xml"))

    def __init__(self, data: bytes) -> None:
        self._root = parse_xml(data)

    def xml(self, name: str) -> "etree._Element":
        about = self._root.find("{*}meta") if name == "meta.xml" else None
        return self._root if about is None else about


def read_open_document(stream: ByteStream) -> tuple[bytes, Archive | FlatDocument]:
    """All bytes of a stream, and the document with them."""
    if stream.peek(2).startswith(b"PK"):
        return read_archive(stream)
    data = stream.read_all()
    return data, FlatDocument(data)


def open_document_properties(archive: Archive | FlatDocument) -> tuple[str, str | None]:
    """The title and the day of a file of OpenDocument, as `Archive.properties` are of Office's."""
    written = _fields(archive.xml("meta.xml").iter()) if "meta.xml" in archive.names else {}
    return written.get("title", ""), day_of(written.get("date")) or day_of(written.get("creation-date"))


def _fields(elements: "Iterable[etree._Element]") -> dict[str, str]:
    """Texts on one line by the names of their elements."""
    return {local_name(element): " ".join((element.text or "").split()) for element in elements}


def parse_xml(data: bytes) -> "etree._Element":
    """The root element, without comments; entities are not expanded."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    return etree.fromstring(data, parser)


def unescaped(text: str) -> str:
    """A text of Excel or PowerPoint, which write control characters, as those of line ends, as "_x000D_"."""
    text = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text
    return storable(text.replace("\r\n", "\n").replace("\r", "\n"))


def local_name(element: "etree._Element") -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def read_archive(stream: ByteStream) -> tuple[bytes, Archive]:
    """All bytes of a stream, and the zip file with them."""
    data = stream.read_all(MOST_BINARY_BYTES)
    return data, Archive(io.BytesIO(data))
