"""Clients of MCP servers in this process."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult

from mbc_cli.mcp import MemoryServer, allowed_folders
from mbc_engine.memory import Memory

Serving = Callable[..., Any]


@pytest.fixture
def serving(model: Path, home: Path) -> Iterator[Serving]:
    """Clients of servers in this process, of a memory in `memory.mbc` unless another one is given."""
    with ExitStack() as memories:

        @asynccontextmanager
        async def client(*allowed: Path, memory: Memory | None = None) -> AsyncIterator[Client]:
            memory = memory or Memory([home / "memory.mbc"], str(model))
            memories.callback(memory.close)
            async with Client(MemoryServer(memory, allowed_folders(allowed)).server) as connected:
                yield connected

        yield client


def text_of(result: CallToolResult) -> str:
    """The text of a result."""
    (content,) = result.content
    assert content.type == "text"
    return content.text
