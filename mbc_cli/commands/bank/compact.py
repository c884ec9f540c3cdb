"""`mbc bank compact`: a bank as small as it can be."""

from mbc_cli.options import BankOption, JsonOption


def compact(*, bank: BankOption, json: JsonOption = False) -> None:
    """Free the disk space that removed documents left behind. What the bank holds does not change.

    \b
    Examples:
      mbc bank compact
      mbc bank compact --bank work.mbc
    """
    from dataclasses import asdict

    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.bank.facts import show_compacted
    from mbc_cli.render.consoles import print_json, working
    from mbc_engine.bank import MemoryBank

    with MemoryBank.open(bank) as memory:
        before = memory.sizes()
        with ending_with("The bank is intact."), working("Compacting"):
            memory.compact()
        after = memory.sizes()
    if json:
        print_json({"path": memory.name, "before": asdict(before), "after": asdict(after)})
    else:
        show_compacted(memory.name, before, after)
