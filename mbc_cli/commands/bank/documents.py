"""`mbc bank list` and `mbc bank show`: the documents of a bank."""

from typing import Annotated

import typer

from mbc_cli.options import BankOption, JsonOption


def list_documents(*, bank: BankOption, json: JsonOption = False) -> None:
    """List a bank's documents: chunks, bytes, date and source; tab-separated in a pipe.

    A document found in several files has a line for each. A bank without sources
    lists digests instead. With --json each document is
    one line of JSON, with its digest and all its origins.

    \b
    Examples:
      mbc bank list
      mbc bank list | cut -f4
      mbc bank list --json | jq -r .digest
    """
    from mbc_cli.render.bank.documents import list_json, show_list
    from mbc_engine.bank import MemoryBank

    with MemoryBank.open(bank, read_only=True) as memory:
        (list_json if json else show_list)(memory.documents())


def show(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A path, path#part, or the start of a digest.")],
    *,
    bank: BankOption,
    codes: Annotated[bool, typer.Option("--codes", help="Show the codes of every chunk.")] = False,
    json: JsonOption = False,
) -> None:
    """Show everything a bank stores about a document, and whether its file has changed.

    A path stands for all documents of its file, path#part for one of them. Six or
    more digits of a digest stand for all documents whose digest starts with them. With --json each
    document is one line of JSON, codes included.

    \b
    Examples:
      mbc bank show notes/ada.txt
      mbc bank show articles.jsonl#17 --codes
      mbc bank show 3f9a02c1
    """
    from mbc_cli.commands.bank.lookup import documents
    from mbc_cli.render.bank.documents import documents_json, show_documents
    from mbc_engine.bank import MemoryBank

    with MemoryBank.open(bank, read_only=True) as memory:
        found, shape = documents(memory, source), memory.header.shape
        if json:
            documents_json(found, shape)
        else:
            show_documents(found, shape, with_codes=codes)
