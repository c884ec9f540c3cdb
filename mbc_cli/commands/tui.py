"""`mbc tui`: the dashboard."""

import gc
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mbc_cli.command_line import origin_of
from mbc_cli.options import (
    BankOption,
    DeviceOption,
    LanguageModelOption,
    ModelOption,
    RunsOption,
    complete_runs,
    option,
)
from mbc_cli.paths import resolve_name
from mbc_engine.errors import ConfigError
from mbc_engine.machine import require_extra

if TYPE_CHECKING:
    from mbc_cli.tui.state import DashboardOptions

View = Literal["ask", "documents", "ingest", "overview", "codes", "train"]
_RUN = "Open with this training run: its name in --runs, or its folder."
_WEB = "Serve it to a browser on this machine instead, and print the address."
_PORT = "The port for --web, on this machine only."


def tui(
    ctx: typer.Context,
    *,
    bank: BankOption,
    model: ModelOption,
    runs: RunsOption,
    run: Annotated[str | None, option(_RUN, metavar="NAME|PATH", completion=complete_runs)] = None,
    device: DeviceOption = None,
    llm: LanguageModelOption = None,
    view: Annotated[View | None, option("Open with this view.", show_default="ask, or train with --run")] = None,
    web: Annotated[bool, option(_WEB, "--web")] = False,
    port: Annotated[int, option(_PORT, min=0, max=65535, show_default="a free one")] = 0,
) -> None:
    """Open the dashboard: browse documents and their codes, follow training and ingests, ask questions.

    It updates as other processes change the bank and the training runs. It reopens with the last bank and theme,
    unless options say otherwise.

    Examples:
      mbc tui
      mbc tui --bank work.mbc --view documents
      mbc tui --run smollm2-135m-3
      mbc tui --web
    """
    from mbc_cli.tui.jobs import read_settings
    from mbc_cli.tui.state import DashboardOptions

    settings = read_settings()
    if origin_of(ctx, "bank") == "default" and os.path.isfile(last := str(settings.get("bank"))):
        bank = Path(last)
    options = DashboardOptions(
        bank.absolute(), model, runs.absolute(), None if run is None else resolve_name(run, runs), device, llm
    )
    view = view or ("ask" if run is None else "train")
    if web:
        require_extra("web", "textual_serve", asked_by="`mbc tui --web`")
        from mbc_cli.tui.web import DashboardServer

        DashboardServer(["tui", *options.arguments(), "--view", view], port).serve()
        return
    reads, writes, may_write = (
        stream is not None and stream.isatty() for stream in (sys.__stdin__, sys.__stderr__, sys.__stdout__)
    )
    if "TEXTUAL_DRIVER" not in os.environ and not (reads and (writes or may_write)):
        hint = "Start it in one, or serve it to a browser with --web."
        raise ConfigError("The dashboard needs a terminal.", hint=hint)
    if may_write and not writes:
        sys.__stderr__ = sys.__stdout__  # type: ignore[misc]  # where Textual draws
    _show(options, view, settings)


def _show(options: "DashboardOptions", view: View, settings: dict[str, Any]) -> None:
    from mbc_cli.tui.app import Dashboard
    from mbc_cli.tui.jobs import save_settings

    # The events of a long log are not garbage; scanning them took a tenth of the time to open one.
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    stdin = None if sys.__stdin__ is None else sys.__stdin__.fileno()
    while True:
        dashboard = Dashboard(options, view, stdin, settings)
        other = dashboard.run()
        settings = dashboard.settings
        save_settings(settings)
        if other is None:
            break
        options, view = replace(options, bank=other), "ask"
    if dashboard.error is not None:
        raise dashboard.error
    code = dashboard.return_code or 0
    # A thread still loading a model cannot be stopped, and would make Python abort at exit.
    if any(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        os._exit(code)
    raise typer.Exit(code)
