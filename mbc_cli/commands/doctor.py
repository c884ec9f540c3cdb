"""`mbc doctor`: what works on this machine."""

from typing import Annotated

import typer

from mbc_cli.options import BankOption, JsonOption, ModelOption, RunsOption


def doctor(
    ctx: typer.Context,
    *,
    bank: BankOption,
    model: ModelOption,
    runs: RunsOption,
    offline: Annotated[bool, typer.Option("--offline", help="Do not check whether the hub can be reached.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what is installed, available hardware, file locations and which features work.

    The exit code is 4 if --model cannot be used here.

    \b
    Examples:
      mbc doctor
      mbc doctor --offline --json
    """
    from mbc_cli.checkup import check
    from mbc_cli.engine import loading
    from mbc_cli.program import config_error
    from mbc_cli.render.consoles import print_json
    from mbc_cli.render.doctor import show_checkup
    from mbc_engine.errors import ModelError

    with loading("torch"):
        found = check(bank, runs, model, may_ask_hub=not offline)
    error = config_error(ctx)
    told = error.message if error else None
    if json:
        print_json({**found.to_json(), "config_error": told})
    else:
        show_checkup(found, told)
    if not found.is_fit:
        raise typer.Exit(ModelError.exit_code)
