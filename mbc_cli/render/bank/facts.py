"""What a bank is, holds and weighs."""

from dataclasses import asdict
from typing import Any

from mbc_cli.render.consoles import out, print_facts
from mbc_cli.text import counted, per_chunk, plain, size
from mbc_engine.bank import BankHeader, BankSizes, BankTotals


def show_info(name: str, header: BankHeader, totals: BankTotals, sizes: BankSizes) -> None:
    """What `mbc bank info` prints."""
    shape = header.shape
    books = "a book for each token" if shape.per_position else "one book for all"
    print_facts(
        [
            ("bank", name),
            ("made", header.created),
            ("model", f"{header.signature.name} ({header.signature.fingerprint})"),
            ("holds", holdings(totals)),
            *([] if header.keeps_origins else [("sources", "not kept")]),
            *([] if header.keeps_text else [("text", "not kept")]),
            ("a chunk", f"{shape.bits_per_chunk} bits: {code_layout(shape.tokens, shape.levels, shape.num_codes)}"),
            ("vectors", f"{header.dim} wide, {books}"),
            *size_facts(sizes, totals.chunks),
            *_comparison(header.float_bytes(totals.chunks), sizes.codes),
        ]
    )


def info_json(name: str, header: BankHeader, totals: BankTotals, sizes: BankSizes) -> dict[str, Any]:
    """The same as JSON; sizes in bytes."""
    return {
        "path": name,
        "created": header.created,
        "model": {**asdict(header.signature), "fingerprint": header.signature.fingerprint},
        "codes": {**asdict(header.shape), "dim": header.dim, "bits_per_chunk": header.shape.bits_per_chunk},
        "keeps_sources": header.keeps_origins,
        "keeps_text": header.keeps_text,
        **asdict(totals),
        "sizes": asdict(sizes),
        "float32_bytes": header.float_bytes(totals.chunks),
    }


def code_layout(tokens: int, levels: int, num_codes: int) -> str:
    """How a chunk's codes are made up: `12 tokens x 2 levels of 512 codes`."""
    return f"{tokens} tokens" + (f" x {levels} levels" if levels > 1 else "") + f" of {num_codes} codes"


def holdings(totals: BankTotals) -> str:
    """How much a bank holds; origins only where documents were read from several places."""
    is_plain = totals.origins in (0, totals.documents)
    origins = "" if is_plain else f" from {counted(totals.origins, 'origin')}"
    return f"{counted(totals.documents, 'document')}{origins}, {counted(totals.chunks, 'chunk')}"


def size_facts(sizes: BankSizes, chunks: int) -> list[tuple[str, str]]:
    """What the file of a bank is made of, and the codebook, which is the model's."""

    def each(count: int) -> str:
        return f", {per_chunk(count, chunks)}" if chunks else ""

    return [
        ("codes", f"{size(sizes.codes)}{each(sizes.codes)}"),
        *([("text", f"{size(sizes.texts)}{each(sizes.texts)}")] if sizes.texts else []),
        ("index", size(sizes.file - sizes.codes - sizes.texts)),
        ("file on disk", f"{size(sizes.file)}{each(sizes.file)}"),
        ("codebook", f"{size(sizes.codebook)}, in the model"),
    ]


def _comparison(floats: int, codes: int) -> list[tuple[str, str]]:
    """What the same vectors would take without codes; nothing to say of an empty bank."""
    if not floats:
        return []
    times = f"{floats / codes:,.0f}" if floats > 10 * codes else f"{floats / codes:.2g}"
    return [("as float32", f"the vectors would take {size(floats)}, {times} times the codes")]


def holdings_json(name: str, totals: BankTotals, sizes: BankSizes) -> dict[str, Any]:
    """A bank after something was done to it; sizes in bytes."""
    return {"path": name, **asdict(totals), "sizes": asdict(sizes)}


def show_holdings(name: str, totals: BankTotals, sizes: BankSizes) -> None:
    """The same for people."""
    print_facts([("bank", name), ("holds", holdings(totals)), *size_facts(sizes, totals.chunks)])


def show_compacted(name: str, before: BankSizes, after: BankSizes) -> None:
    """What `mbc bank compact` prints."""
    out.print(f"{plain(name)} now takes {size(after.file)}, {size(before.file)} before.")


def show_upgraded(name: str, is_upgraded: bool) -> None:
    """What `mbc bank upgrade` prints."""
    if is_upgraded:
        out.print(f"{plain(name)} is now up to date.")
        # Formats 1 and 2 are of versions that cut pieces of 64 KB.
        out.print("Long files are now split into smaller parts, so the next `mbc ingest` reads them again.")
    else:
        out.print(f"{plain(name)} is already up to date.")
