"""A bank on the terminal."""

from collections.abc import Sequence

from mbc_cli.render.consoles import print_facts, print_table
from mbc_cli.render.text import counted, near, plain, size
from mbc_engine.bank import BankHeader, BankSizes, StoredDocument


def show_info(name: str, header: BankHeader, documents: int, chunks: int, sizes: BankSizes) -> None:
    """What `mbc bank info` prints."""
    shape = header.shape
    books = "a book for each token" if shape.per_position else "one book for all"
    print_facts(
        [
            ("bank", name),
            ("made", header.created),
            ("model", f"{header.signature.name} ({header.signature.fingerprint})"),
            ("holds", f"{counted(documents, 'document')}, {counted(chunks, 'chunk')}"),
            ("a chunk", f"{shape.bits_per_chunk} bits: {code_layout(shape.tokens, shape.levels, shape.num_codes)}"),
            ("codebook", f"{books}, {header.dim} wide"),
            *size_facts(sizes, chunks),
        ]
    )


def code_layout(tokens: int, levels: int, num_codes: int) -> str:
    """How a chunk's codes are made up: `12 tokens x 2 levels of 512 codes`."""
    return f"{tokens} tokens" + (f" x {levels} levels" if levels > 1 else "") + f" of {num_codes} codes"


def size_facts(sizes: BankSizes, chunks: int) -> list[tuple[str, str]]:
    """The three sizes of a bank, in words."""
    each = f", {sizes.codes / chunks:.3g} bytes a chunk" if chunks else ""
    return [
        ("codes take", f"{size(sizes.codes)}{each}"),
        ("codebook takes", f"{size(sizes.codebook)}, once per model"),
        ("file takes", size(sizes.file)),
    ]


def show_documents(documents: Sequence[StoredDocument]) -> None:
    """What `mbc bank list` prints."""
    print_table(
        ("chunks", "bytes", "date", "document"),
        [(item.chunks, item.size, item.date or "", near(item.source)) for item in documents],
        right=("chunks", "bytes"),
    )


def short_sizes(sizes: BankSizes) -> str:
    """The three sizes of a bank on one line."""
    return plain(f"codes {size(sizes.codes)} · codebook {size(sizes.codebook)} · file {size(sizes.file)}")
