"""`mbc bank info`: a bank at a glance."""

from mbc_cli.options import BankOption, JsonOption


def info(*, bank: BankOption, json: JsonOption = False) -> None:
    """Show what a bank holds, its size and the model that wrote it.

    \b
    Examples:
      mbc bank info
      mbc bank info --bank work.mbc --json
    """
    from mbc_cli.render.bank.facts import info_json, show_info
    from mbc_cli.render.consoles import print_json
    from mbc_engine.bank import MemoryBank

    with MemoryBank.open(bank, read_only=True) as memory, memory.snapshot():
        totals, sizes = memory.totals(), memory.sizes()
    if json:
        print_json(info_json(memory.name, memory.header, totals, sizes))
    else:
        show_info(memory.name, memory.header, totals, sizes)
