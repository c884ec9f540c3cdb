"""`mbc bank verify`: is a bank intact?"""

from mbc_cli.options import BankOption, JsonOption


def verify(*, bank: BankOption, json: JsonOption = False) -> None:
    """Check a bank for corruption. The exit code is 5 if there is any.

    \b
    Examples:
      mbc bank verify
      mbc bank verify --bank work.mbc --json
    """
    from mbc_cli.render.bank.verification import VerifyView
    from mbc_cli.render.consoles import print_json
    from mbc_engine.bank import verify as check

    with VerifyView(str(bank), as_json=json) as view:
        for event in check(bank):
            view.show(event)
    if json:
        print_json(view.verdict_json())
    else:
        view.show_verdict()
    view.require_whole()
