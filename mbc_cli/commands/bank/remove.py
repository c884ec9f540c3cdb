"""`mbc bank remove`: documents out of a bank."""

from typing import Annotated

import typer

from mbc_cli.options import BankOption, JsonOption


def remove(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE", help="Paths, path#part, or digests.")],
    *,
    bank: BankOption,
    prove: Annotated[bool, typer.Option("--prove", help="Prove that nothing is left of them.")] = False,
    json: JsonOption = False,
) -> None:
    """Take documents out of a bank: all of them or, if one is not there, none. The files themselves stay.

    A path stands for all documents of its file; what was read elsewhere too stays
    for that. A digest, of which six digits are enough, takes a document out
    wherever it was read. --prove compares the bank with one made anew from all
    else, and searches the file for what was removed.

    \b
    Examples:
      mbc bank remove notes/old.txt
      mbc bank remove articles.jsonl#17 --prove
      mbc bank remove 3f9a02c1d5e8 --bank small.mbc
    """
    from mbc_cli.commands.bank.lookup import find
    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.bank.removal import removal_json, show_proof, show_removal
    from mbc_cli.render.consoles import print_json
    from mbc_engine.bank import MemoryBank, remove_with_proof
    from mbc_engine.errors import BankError

    proof = None
    with ending_with("Either all of them are gone or none; `mbc bank list` tells."), MemoryBank.open(bank) as memory:
        meant, before = find(memory, sources), memory.totals()
        if prove:
            proof = remove_with_proof(memory, meant.names, meant.digests)
        else:
            with memory.changing():
                memory.remove(meant.names)
                memory.remove_documents(meant.digests)
            memory.settle()
        after = memory.totals()
    if json:
        print_json(removal_json(memory.name, before, after, proof))
    else:
        show_removal(before, after)
        if proof:
            show_proof(proof)
    if proof and not proof.holds:
        raise BankError(
            f"It is not proved that nothing is left in {memory.name}.",
            hint="Close what else has the bank open or writes to it, and run `mbc bank compact`.",
        )
