"""The documents of a bank, one by one."""

from collections.abc import Iterable, Iterator
from typing import Any

from mbc_cli.render.consoles import out, print_facts, print_json_lines, print_rows
from mbc_cli.text import counted, near, plain
from mbc_engine.bank import Codes, CodeShape, StoredDocument
from mbc_engine.serving.file_state import Files


def show_list(documents: Iterable[StoredDocument]) -> None:
    """A line an origin, or a line a document where the bank keeps no origins."""
    columns = (("chunks", ">6"), ("bytes", ">10"), ("date", "<10"), ("document", ""))
    print_rows(columns, (row for document in documents for row in _rows(document)))


def list_json(documents: Iterable[StoredDocument]) -> None:
    """A JSON object a document, a line each."""
    print_json_lines(map(_object, documents))


def show_documents(items: Iterable[tuple[StoredDocument, Codes]], shape: CodeShape, *, with_codes: bool) -> None:
    """All that the bank knows of documents, and whether their files are still the same."""
    files = Files()
    for number, (document, codes) in enumerate(items):
        if number:
            out.print()
        sizes = [] if document.size is None else [("bytes", f"{document.size:,}")]
        print_facts(
            [
                *_origins(document, files),
                ("digest", document.digest),
                *sizes,
                ("chunks", f"{document.chunks:,}, {counted(_code_bytes(document, shape), 'byte')} of codes"),
            ]
        )
        for ordinal, chunk in enumerate(codes.tolist() if with_codes else [], 1):
            print(f"{ordinal:>6}  {' '.join('.'.join(map(str, levels)) for levels in chunk)}")


def documents_json(items: Iterable[tuple[StoredDocument, Codes]], shape: CodeShape) -> None:
    """The same as JSON, a line a document; codes are [chunks][tokens][levels]."""
    files = Files()
    print_json_lines(
        {
            **_object(document),
            "code_bytes": _code_bytes(document, shape),
            "origins": [
                {**origin._asdict(), "state": files.look(origin, document.digest).state} for origin in document.origins
            ],
            "codes": codes.tolist(),
        }
        for document, codes in items
    )


def _rows(document: StoredDocument) -> Iterator[tuple[object, ...]]:
    if not document.origins:
        yield document.chunks, "", "", document.digest
    for origin in document.origins:
        yield document.chunks, document.size, origin.date or "", near(origin.name)


def _object(document: StoredDocument) -> dict[str, Any]:
    return {
        "digest": document.digest,
        "chunks": document.chunks,
        "size": document.size,
        "origins": [origin._asdict() for origin in document.origins],
    }


def _origins(document: StoredDocument, files: Files) -> Iterator[tuple[str, str]]:
    for number, origin in enumerate(document.origins):
        date = f", {origin.date}" if origin.date else ""
        state = files.look(origin, document.digest).state
        yield "" if number else "read from", plain(f"{near(origin.name)}{date}, {state}")


def _code_bytes(document: StoredDocument, shape: CodeShape) -> int:
    return -(-document.chunks * shape.bits_per_chunk // 8)
