"""A bank and its documents, on the terminal or as JSON."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from mbc_cli.formatting import display_path, format_bytes_per_chunk, format_size, pluralise, sanitise
from mbc_cli.render.terminal import out, print_facts, print_json, print_json_lines, print_rows
from mbc_engine.errors import ModelError
from mbc_engine.sources import Files, text_model

if TYPE_CHECKING:
    from mbc_engine.answer import State
    from mbc_engine.bank import BankSizes, BankTotals, CodeShape, MemoryBank, Origin, StoredDocument, TextState
    from mbc_engine.events import IngestFinished

EMPTY_BANK_BYTES: Final = 28_672  # the file of a bank without documents
_LOOKED_AT: Final = 1000  # origins of a document


def show_info(bank: "MemoryBank") -> None:
    header, totals, sizes, texts = bank.header, bank.totals(), bank.sizes(), bank.text_state()
    shape, floats = header.shape, header.float_bytes(totals.chunks)
    times = f"{floats / sizes.codes:,.0f}" if floats > 10 * sizes.codes else f"{floats / max(sizes.codes, 1):.2g}"
    print_facts(
        ("bank", bank.name),
        ("made", header.created),
        ("model", f"{header.signature.name} ({header.signature.fingerprint})"),
        ("holds", content_summary(totals)),
        ("sources", None if header.keeps_origins else "not kept"),
        ("text", None if header.keeps_text else "not kept"),
        ("a chunk", f"{shape.bits_per_chunk} bits: {code_layout(shape)}"),
        ("vectors", f"{header.dim} wide, {codebooks(shape)}"),
        *size_facts(sizes, totals.chunks)[:-2],
        *document_facts(sizes, totals.documents, bank.mean_size()),
        *_codec_facts(texts, totals.chunks),
        ("as float32", floats > 0 and f"the vectors would take {format_size(floats)}, {times} times the codes"),
    )


def _codec_facts(texts: "TextState", chunks: int) -> list[tuple[str, str]]:
    """How the texts are compressed, and what to do if their language model is not available."""
    if not texts.bytes:
        return []
    zstd = f"{chunks - texts.lm_texts:,} with zstd"
    if not texts.lm_texts:
        return [("text codecs", zstd)]
    size = format_bytes_per_chunk(texts.lm_bytes, texts.lm_texts)
    facts = [("text codecs", f"{texts.lm_texts:,} with language model {texts.lm} ({size}), {zstd}")]
    from mbc_engine.lm.packaged import require_text_model

    try:
        require_text_model(texts.lm)
    except ModelError as error:
        facts += [("", str(error)), ("", str(error.hint))]
    return facts


def print_info_json(bank: "MemoryBank") -> None:
    header, totals, texts = bank.header, bank.totals(), bank.text_state()
    print_json(
        {
            "path": bank.name,
            "created": header.created,
            "model": {**asdict(header.signature), "fingerprint": header.signature.fingerprint},
            "codes": {**asdict(header.shape), "dim": header.dim, "bits_per_chunk": header.shape.bits_per_chunk},
            "keeps_sources": header.keeps_origins,
            "keeps_text": header.keeps_text,
            "text_model": texts.lm if texts.lm_texts else None,
            "text_codecs": {
                "lm": {"texts": texts.lm_texts, "bytes": texts.lm_bytes},
                "zstd": {"texts": totals.chunks - texts.lm_texts if header.keeps_text else 0},
            },
            **asdict(totals),
            "sizes": bank.sizes(),
            "mean_size": bank.mean_size(),
            "float32_bytes": header.float_bytes(totals.chunks),
        }
    )


def code_layout(shape: "CodeShape") -> str:
    """How a chunk's codes are made up: `12 tokens x 2 levels of 512 codes`."""
    levels = f" x {shape.levels} levels" if shape.levels > 1 else ""
    return f"{shape.tokens} tokens{levels} of {shape.num_codes} codes"


def codebooks(shape: "CodeShape") -> str:
    return "one codebook for each token" if shape.per_position else "one codebook for all"


def content_summary(totals: "BankTotals") -> str:
    """How much a bank holds; origins only if documents were read from several places."""
    is_plain = totals.origins in (0, totals.documents)
    origins = "" if is_plain else f" from {pluralise(totals.origins, 'origin')}"
    return f"{pluralise(totals.documents, 'document')}{origins}, {pluralise(totals.chunks, 'chunk')}"


def holdings(end: "IngestFinished") -> "tuple[BankTotals, BankSizes]":
    """What the bank held when an ingest ended."""
    from mbc_engine.bank import BankSizes, BankTotals

    totals = BankTotals(end.bank_documents, end.bank_origins, end.bank_chunks)
    return totals, BankSizes(end.code_bytes, end.word_bytes, end.text_bytes, end.codebook_bytes, end.file_bytes)


def size_facts(sizes: "BankSizes", chunks: int) -> list[tuple[str, str]]:
    def each(count: int) -> str:
        return f", {format_bytes_per_chunk(count, chunks)}" if chunks else ""

    parts = {"codes": sizes.codes, "words": sizes.words, "text": sizes.texts}
    return [
        *((name, f"{format_size(size)}{each(size)}") for name, size in parts.items() if size or name == "codes"),
        ("index", format_size(sizes.file - sizes.codes - sizes.words - sizes.texts)),
        ("file on disk", f"{format_size(sizes.file)}{each(sizes.file)}"),
        ("codebook", f"{format_size(sizes.codebook)}, in the model"),
    ]


def document_facts(sizes: "BankSizes", documents: int, read: float | None) -> list[tuple[str, str]]:
    """Bytes per document against the mean source size `read`, a bank's fixed bytes, and the break-even point."""
    codebook = f"the codebook, {format_size(sizes.codebook)}, is in the model"
    fixed = ("fixed part", f"{format_size(EMPTY_BANK_BYTES)}; {codebook}")
    file = format_size(sizes.file)
    if not documents:
        return [fixed, ("on disk", file)]
    parts = {"codes": sizes.codes, "words": sizes.words, "text": sizes.texts}
    each = max(sum(parts.values()), sizes.file - EMPTY_BANK_BYTES) / documents
    parts["index"] = round(each * documents) - sum(parts.values())
    split = ", ".join(f"{name} {count / documents:,.0f}" for name, count in parts.items() if count)
    facts = [("a document", f"{each:,.0f} bytes: {split}")]
    if read is not None:
        facts.append(("", f"read from {read:,.0f} bytes on average"))
        file += f", originals {format_size(round(read * documents))}"
        if each < read:
            file += f"; smaller from {pluralise(math.ceil(EMPTY_BANK_BYTES / (read - each)), 'document')} on"
    return [*facts, fixed, ("on disk", file)]


def print_bank_summary(bank: "MemoryBank", extra: dict[str, Any] | None = None) -> None:
    """Print a bank after a change: as JSON with `extra` fields, or as text if `extra` is None."""
    totals, sizes = bank.totals(), bank.sizes()
    if extra is None:
        print_facts(("bank", bank.name), ("holds", content_summary(totals)), *size_facts(sizes, totals.chunks))
    else:
        result = {"path": bank.name, **asdict(totals), "sizes": sizes}
        print_json({**extra, "bank": result} if extra else result)


def show_list(documents: "Iterable[StoredDocument]", *, as_json: bool) -> None:
    """Print a line per origin, or per document if the bank keeps no origins; as JSON always per document."""
    if as_json:
        print_json_lines(map(_object, documents))
        return

    def rows() -> Iterator[tuple[object, ...]]:
        for document in documents:
            if not document.origins:
                yield document.chunks, "", "", document.digest
            for origin in document.origins:
                yield document.chunks, document.size, origin.date or "", display_path(origin.name)

    print_rows((("chunks", ">6"), ("bytes", ">10"), ("date", "<10"), ("document", "")), rows())


def show_documents(documents: "Iterable[StoredDocument]", bank: "MemoryBank", *, with_codes: bool) -> None:
    """Print what a bank has of looked-up documents.

    If codes are wanted, they are in place of the text: a line per chunk, its number, then each token's codes by level.
    """
    files, shape = Files(), bank.header.shape
    for number, document in enumerate(documents):
        if number:
            out.print()
        text, losses = _text_and_losses(document, bank, files)
        looked_at = islice(_looked_at(document, files), _LOOKED_AT)
        places = [", ".join(filter(None, (display_path(at.name), at.date, state))) for at, state in looked_at]
        more = len(document.origins) - _LOOKED_AT
        print_facts(
            *(("" if at else "read from", place) for at, place in enumerate(places)),
            ("", more > 0 and f"and {more:,} more, which --json lists"),
            ("title", document.outline.title or None),
            ("digest", document.digest),
            ("bytes", None if document.size is None else f"{document.size:,}"),
            ("not kept", ", ".join(losses) if losses else None),
            ("chunks", f"{document.chunks:,}, {pluralise(shape.bytes_of(document.chunks), 'byte')} of codes"),
        )
        if with_codes:
            assert document.codes is not None
            for ordinal, chunk in enumerate(document.codes.tolist(), 1):
                print(f"{ordinal:>6}  {' '.join('.'.join(map(str, levels)) for levels in chunk)}")
        elif text is not None:
            print("", *map(sanitise, text.split("\n")), sep="\n")


def _looked_at(document: "StoredDocument", files: Files) -> "Iterator[tuple[Origin, State]]":
    """The origins of a document and their states; many are only counted, so that a crafted bank cannot take minutes."""
    for at, origin in enumerate(document.origins):
        yield origin, files.look(origin, document.digest)[0] if at < _LOOKED_AT else "unknown"


def _text_and_losses(
    document: "StoredDocument", bank: "MemoryBank", files: Files
) -> tuple[str | None, tuple[str, ...] | None]:
    """The stored text of a looked-up document, and what could not be kept of its file; None if that is not known."""
    from mbc_engine.bank.text_codec import joined_text

    if in_file := files.first_unchanged(document)[2]:  # the same text, without decoding it
        return in_file.text, in_file.losses
    texts: Any = document.texts
    return joined_text(texts, bank.name, text_model) if texts else None, None


def documents_json(documents: "Iterable[StoredDocument]", bank: "MemoryBank") -> None:
    """Print a line of JSON per document; codes are [chunks][tokens][levels]."""
    files, shape = Files(), bank.header.shape
    print_json_lines(
        {
            **_object(document),
            "code_bytes": shape.bytes_of(document.chunks),
            "origins": [{**origin._asdict(), "state": state} for origin, state in _looked_at(document, files)],
            "title": document.outline.title,
            **dict(zip(("text", "losses"), _text_and_losses(document, bank, files), strict=True)),
            "codes": None if document.codes is None else document.codes.tolist(),
        }
        for document in documents
    )


def _object(document: "StoredDocument") -> dict[str, Any]:
    return {
        "digest": document.digest,
        "chunks": document.chunks,
        "size": document.size,
        "origins": [origin._asdict() for origin in document.origins],
    }
