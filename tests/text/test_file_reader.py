"""Reading files, compressed files and streams: text and Markdown, encodings, damage, dates, digests."""

import errno
import gzip
import hashlib
import io
import itertools
import lzma
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest.mock import Mock

import pytest
from fuzz_samples import COMPRESSIONS, SAMPLES

from mbc_engine.text import Document, Part, Skipped, file_reader, read_file, read_parts, read_stream
from tests.archives import zipped


def test_document_fields(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("Zoë\r\nhere".encode())
    os.utime(path, (0, 86_400 * 365))
    (tmp_path / "link.txt").symlink_to(path)
    digest = hashlib.sha256("text\0Zoë\r\nhere".encode()).hexdigest()
    document = Document(str(path.resolve()), "", "Zoë\nhere", digest, size=10, date="1971-01-01")
    assert list(read_file(tmp_path / "link.txt")) == [document]


def test_digest(read_one):
    plain = read_one("a.txt", "# same")
    two = gzip.compress(b"# s") + gzip.compress(b"ame")
    for name, data in (("b.log", b"# same"), ("A.TXT.XZ", lzma.compress(b"# same")), ("two.txt.gz", two)):
        again = read_one(name, data)
        assert (again.text, again.digest, again.size) == (plain.text, plain.digest, plain.size)
    assert read_one("a.md", "# same").digest != plain.digest
    assert read_one("c.txt", "# some").digest != plain.digest
    assert read_one("d.html", "<p>a").digest == hashlib.sha256(b"html 4\0<p>a").hexdigest()  # the version that reads it


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("café \x81", "latin-1"),
        ("naïve “quote”", "cp1252"),
        ("Garçon, où étais-tu l'été ?", "latin-1"),
        ("Der große Bär läuft über die Straße", "latin-1"),
        ("Съешь же ещё этих мягких французских булок, да выпей чаю. Москва, столица России.", "cp1251"),
        ("Съешь же ещё этих мягких французских булок, да выпей чаю. Москва, столица России.", "koi8-r"),
        ("Příští schůze bude v Českém Krumlově.", "cp1250"),
        ("A következő gyűlés Győrben lesz, kérjük, jöjjön el.", "cp1250"),
        ("Zebranie odbędzie się w Łodzi, róża", "cp1250"),
        ("Zebranie odbędzie się w piątek w Łodzi", "iso8859-2"),
        ("İstanbul'da öğleden sonra görüşürüz, şimdi değil", "cp1254"),
        ("Le café de Besançon ferme à midi, près de la forêt.", "mac-roman"),
        ("吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。東京は日本の首都です。", "shift-jis"),
        ("a mark", "utf-8-sig"),
        *(("Zoë\nж", "utf-16"), ("Zoë\nж", "utf-16-be"), ("no mark", "utf-16-le"), ("Zoë\nж", "utf-32")),
    ],
)
def test_encodings(read_one, text, encoding):
    assert read_one("a.txt", text.encode(encoding)).text == text
    assert read_one("a.txt", f"{text}\r\n".encode(encoding)).text == f"{text}\n"


def test_a_bad_byte_among_good_ones(read_one):
    text = "many good " + "éàü" * 20 + " one bad "
    assert read_one("a.txt", text.encode() + b"\xff").text == f"{text}\ufffd"


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "data", [bytes(range(128, 256)) * 8192, b"\xe3\x81" * (1 << 19), b"a" * ((1 << 20) - 1) + b"\xe9"]
)
def test_decoding_time(read, data):
    assert sum(item.size for item in read("a.txt", data) if isinstance(item, Document)) == len(data)


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("2024-05-01", "2024-05-01"),
        ("'2024-05-01T01:00:00+02:00'  # local", "2024-04-30"),
        ("2024-05-01T10:00:00Z", "2024-05-01"),
        ("2024-05-01 10:00:00 +0200", "2024-05-01"),
        ("2024/05/01", "2024-05-01"),
        ("1 May 2024", "2024-05-01"),
        ("Wed, 01 May 2024 10:00:00 +0200", "2024-05-01"),
        ("26-FEB-1987 15:01:01.79", "1987-02-26"),
        ("31 February 1987", "1970-01-02"),
        ("0001-01-01T00:00:00+02:00", "0001-01-01"),
        ("soon", "1970-01-02"),
        ("", "1970-01-02"),
    ],
)
def test_dates(write, written, day):
    path = write("a.md", f"---\ntitle: t\ndate: {written}\n---\ntext")
    os.utime(path, (0, 86_400))
    (document,) = read_file(path)
    assert document.date == day


def old_office(stream):
    """The header and the directory of a file with this stream."""
    sizes = b"\x09\0\x06\0".rjust(10, b"\0")
    header = (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(22, b"\0") + sizes).ljust(512, b"\0")
    return header + stream.encode("utf-16-le")


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"PK\0\1", "looks binary"),
        ("a.txt", b"PK\0\1\2\0", "looks binary"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\0\0", "is a picture"),
        ("a.js", b"/*! a 1.0 */\n!function(){" + b"a(b);" * 500 + b"}();\n", "is a packed program"),
        ("a", b"\x7fELF\2\1\1\0\0", "is a program"),
        ("a.xyz", b"\0\1\2\3\4\5\6\7", "looks binary"),
        ("a.txt", b"\xef\xbb\xbf \n", "is empty"),
        ("a.txt.gz", gzip.compress(b"", mtime=0), "is empty"),
        ("a.md", b"---\n---\n<!-- -->", "is empty"),
        ("a.zip", zipped({"a.txt": b"text"}), "is an archive"),
        ("a.docx.xz", lzma.compress(zipped({"a.txt": b"text"})), "is an archive"),
        ("a.tar.gz", gzip.compress(b"a.txt".ljust(257, b"\0") + b"ustar\0"), "is an archive"),
        ("a.pdf.gz", gzip.compress(b"%PDF-1.4"), "is a compressed .pdf file; unpack it"),
        ("a.doc", old_office("WordDocument"), "is an old Word file; save it as .docx"),
        ("a.docx", old_office("EncryptedPackage"), "is password-protected"),
        ("id_rsa", b"-----BEGIN OPENSSH PRIVATE KEY-----", "holds a private key"),
        (os.fsdecode(b"caf\xe9.txt"), b"text", "has a name that is not UTF-8"),
    ],
    ids=itertools.count(),  # the processes must agree on the tests' names, and archives hold the time
)
def test_unreadable_files(write, name, data, reason):
    path = write(name, data)
    (skipped,) = read_file(path)
    assert skipped.reason == reason
    skipped.source.encode()


PAGE = "<!DOCTYPE html><p>The badger is shy.</p>"


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("README", "text", "text"),
        ("a.xyz", "text", "text"),
        ("a.gz", "text", "text"),
        ("notes", gzip.compress(b"text"), "text"),
        ("a.txt", lzma.compress(b"text"), "text"),
        ("a.pdf", "not a PDF at all", "not a PDF at all"),
        ("a.txt", PAGE, "The badger is shy."),
        ("a.docx", "\ufeff" + PAGE, "The badger is shy."),
        ("a.bin", PAGE.encode("utf-16"), "The badger is shy."),
        ("a.md", "<html> is a tag", "<html> is a tag"),
        ("a.xls", "name\tcost\nboat\t7", "name: boat; cost: 7"),
    ],
    ids=itertools.count(),
)
def test_names_do_not_decide(read_one, name, data, text):
    assert read_one(name, data).text == text


def test_pipes_and_missing_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    missing = "cannot be read: no such file or directory"
    for name, reason in {"pipe.txt": "is not a regular file", "gone.txt": missing}.items():
        assert list(read_file(tmp_path / name)) == [Skipped(str(tmp_path.resolve() / name), reason)]


def test_files_of_the_kernel_are_empty(tmp_path):
    (tmp_path / "version").symlink_to("/proc/version")
    assert list(read_file(tmp_path / "version")) == [Skipped("/proc/version", "is empty", is_empty_file=True)]


@pytest.mark.parametrize("swapped", ["a/b/ada.txt", "a/b", "a"])
def test_a_link_that_takes_a_files_place_is_not_followed(tmp_path, swapped):
    path, outside = tmp_path.resolve() / "a/b/ada.txt", tmp_path / "outside"
    for folder in (path.parent, outside / "b", outside / "b/b"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ada.txt").write_text("Ada moved.")
    (found,) = read_file(path, follow_links=False)
    assert isinstance(found, Document) and found.text == "Ada moved."
    (tmp_path / swapped).rename(tmp_path / "away")
    (tmp_path / swapped).symlink_to(outside / Path(swapped).relative_to("a"))
    (skipped,) = read_file(path, follow_links=False)
    assert isinstance(skipped, Skipped) and (skipped.source, skipped.reason) == (str(path), "is reached by a link")


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_damaged_compression(read, suffix):
    digests = (hashlib.sha256(b"%d" % number).hexdigest() for number in range(2000))
    rows = "\n".join(f'{{"text": "row {number} {digest}"}}' for number, digest in enumerate(digests))
    packed = {".gz": gzip.compress, ".xz": lzma.compress}[suffix](rows.encode())
    *good, last = read(f"a.jsonl{suffix}", packed[: len(packed) // 2])
    assert last.source.endswith(f"a.jsonl{suffix}")
    assert last.reason.startswith("is damaged: ")
    texts = [item.text for item in good if isinstance(item, Document)]
    assert len(texts) > 400
    assert all(text.startswith(f"row {number} ") for number, text in enumerate(texts))


def test_read_parts_again(write):
    for path in (write("a.txt", "whole"), write("a.jsonl", '{"text": "a"}\n\n{"id": "x", "text": "b"}\n{bad')):
        documents = [item for item in read_file(path) if isinstance(item, Document)]
        parts = [part for part in read_parts(path) if isinstance(part, Part)]
        assert [part.find(part.name) for part in parts] == documents
        assert [part.find("y") for part in parts] == [None] * len(parts)


def test_stream():
    stream = io.BytesIO(b"piped text")
    (document,) = read_stream(stream)
    assert (document.part, document.text, document.date) == ("", "piped text", None)
    assert not stream.closed
    assert list(read_stream(io.BytesIO(b" \n"))) == [Skipped("stdin", "is empty")]
    assert list(read_stream(io.BytesIO(b"\0\1\2"))) == [Skipped("stdin", "looks binary")]


@pytest.mark.parametrize("kind", SAMPLES)
def test_stream_is_read_as_a_file_without_a_telling_name(read, kind):
    def without_origin(item):
        dated = {"date": None} if isinstance(item, Document) else {}  # a file's may be that of its last change
        return replace(item, source=item.source.partition("#")[2], **dated)

    data = SAMPLES[kind](Random(0))
    for compress in (bytes, *COMPRESSIONS.values()):
        items = list(read_stream(io.BytesIO(compress(data))))
        assert [*map(without_origin, items)] == [*map(without_origin, read("file", compress(data)))]
        for item in items:
            is_skipped = isinstance(item, Skipped)
            assert is_skipped or item.source.partition("#")[0] == f"stdin:{item.digest[:12]}"


def test_streams_that_begin_alike_do_not_replace_each_other():
    mail = "From a@b.example Mon Jan  1 00:00:00 2024\nSubject: S\n\n{}\n\n"
    streams = [mail.format("Welcome.") + mail.format(text) for text in ("The crane.", "The ferry.")]
    one, other = ([item.source for item in read_stream(io.BytesIO(stream.encode()))] for stream in streams)
    assert [len(one), len(other), len({*one, *other})] == [2, 2, 3]


@pytest.mark.parametrize("start", [b"", b"PK\3\4", b"A text"])
def test_stream_that_fails(start):
    error = OSError(errno.EIO, "Input/output error")
    *_, last = read_stream(Mock(read=Mock(side_effect=[start, error] if start else error)))
    assert last.reason == "cannot be read: input/output error"


def test_stream_that_ends_is_read_no_further():
    (document,) = read_stream(Mock(read=Mock(side_effect=[b"typed", b"", b" after Ctrl-D"])))
    assert document.text == "typed"


def test_stream_is_limited_as_a_file(monkeypatch):
    monkeypatch.setattr(file_reader, "MOST_BINARY_BYTES", 1 << 20)
    assert list(read_stream(io.BytesIO(b"PK\3\4" + bytes(2 << 20)))) == [Skipped("stdin", "is larger than 1 MB")]


def test_light_import():
    heavy = "{'bs4', 'charset_normalizer', 'docx', 'lxml', 'numpy', 'markdown_it', 'pathspec', 'pypdfium2', 'torch'}"
    program = f"import sys, mbc_engine.text; sys.exit(', '.join({heavy} & set(sys.modules)) or None)"
    subprocess.run([sys.executable, "-c", program], check=True)
