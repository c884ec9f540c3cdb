"""`mbc mcp`: a memory as a tool for assistants."""

import sys
from pathlib import Path
from typing import Annotated

import mbc_engine
from mbc_cli.engine import open_memory, require_model
from mbc_cli.options import BanksOption, DeviceOption, ModelOption, WeightsOption, option
from mbc_cli.render.terminal import notes
from mbc_engine.machine import require_extra

_ALLOW = "Let the assistant memorise files in this folder, into the first bank; can be repeated."


def mcp(
    *,
    bank: BanksOption,
    model: ModelOption,
    weight: WeightsOption = None,
    allow: Annotated[list[Path] | None, option(_ALLOW, metavar="FOLDER")] = None,
    device: DeviceOption = None,
) -> None:
    """Let an assistant ask, search and add to a memory: a Model Context Protocol (MCP) server on stdin and stdout.

    You don't run this yourself: add it to the assistant's settings, and the assistant starts and stops it.

    Examples:
      mbc mcp
      mbc mcp --bank ~/work.mbc --allow ~/notes
    """
    require_extra("mcp", "mcp", asked_by="`mbc mcp`")
    import anyio

    from mbc_cli.mcp import MemoryServer, allowed_folders
    from mbc_engine.bank.database import bytes_at

    require_model(model, device)
    for path in filter(bytes_at, bank):  # the others may be created while serving
        mbc_engine.MemoryBank.open(path, read_only=True).close()
    banks = [path.absolute() for path in bank]
    folders = allowed_folders(allow or [])
    memory = open_memory(banks, model, device, weights=weight)
    if sys.stdin.isatty():
        notes.print("Assistants talk to this server on stdin and stdout; see docs/mcp.md. Ctrl-D stops it.")
    anyio.run(MemoryServer(memory, folders).run)
