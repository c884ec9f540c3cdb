"""`mbc bank`: what a bank holds. Needs no model."""

import os
from dataclasses import asdict
from typing import Annotated

import typer

from mbc_cli.options import BankOption, JsonOption


def info(*, bank: BankOption, json: JsonOption = False) -> None:
    """Show what a bank holds, what it weighs and which model wrote it.

    \b
    Examples:
      mbc bank info
      mbc bank info --bank work.mbc --json
    """
    from mbc_cli.render.bank import show_info
    from mbc_cli.render.consoles import print_json
    from mbc_engine.bank import MemoryBank

    with MemoryBank.open(bank, read_only=True) as memory, memory.snapshot():
        documents, chunks, sizes, header = memory.num_documents, memory.num_chunks, memory.sizes(), memory.header
    if not json:
        show_info(memory.name, header, documents, chunks, sizes)
        return
    print_json(
        {
            "path": memory.name,
            "created": header.created,
            "model": {**asdict(header.signature), "fingerprint": header.signature.fingerprint},
            "codes": {**asdict(header.shape), "dim": header.dim, "bits_per_chunk": header.shape.bits_per_chunk},
            "documents": documents,
            "chunks": chunks,
            "sizes": asdict(sizes),
        }
    )


def list_documents(*, bank: BankOption, json: JsonOption = False) -> None:
    """List the documents of a bank: chunks, size, date and path; tab-separated in a pipe.

    \b
    Examples:
      mbc bank list
      mbc bank list | cut -f4
    """
    from mbc_cli.render.bank import show_documents
    from mbc_cli.render.consoles import print_json
    from mbc_engine.bank import MemoryBank

    with MemoryBank.open(bank, read_only=True) as memory:
        documents = list(memory.documents())
    if json:
        print_json([asdict(document) for document in documents])
    else:
        show_documents(documents)


def remove(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE...", help="Paths as `mbc bank list` shows them.")],
    *,
    bank: BankOption,
    json: JsonOption = False,
) -> None:
    """Take documents out of a bank. The files themselves stay.

    \b
    Examples:
      mbc bank remove notes/old.txt
    """
    from mbc_cli.render.consoles import out, print_json
    from mbc_cli.render.text import counted
    from mbc_engine.bank import MemoryBank
    from mbc_engine.errors import BankError

    with MemoryBank.open(bank) as memory:
        # A bank knows real paths. One that was typed relative, or through a link, means the same file.
        wanted = [source if memory.digest_of(source) else os.path.realpath(source) for source in sources]
        for typed, source in zip(sources, wanted, strict=True):
            if memory.digest_of(source) is None:
                raise BankError(f"{memory.name} does not hold {typed}.", hint="`mbc bank list` shows what it holds.")
        removed = [source for source in wanted if memory.remove(source)]
        left = memory.num_documents
    if json:
        print_json({"removed": removed, "documents": left})
    else:
        out.print(f"Removed {counted(len(removed), 'document')}; the bank holds {left:,}.")
