"""Clients of MCP servers in this process."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult

from mbc_cli.mcp import MemoryServer, allowed_folders
from tests.cli.stub_memory import StubMemory


@pytest.fixture
def stub(home: Path) -> StubMemory:
    """A stub memory whose bank exists."""
    (home / "memory.mbc").touch()
    return StubMemory([home / "memory.mbc"])


@pytest.fixture
def serving(stub: StubMemory) -> Callable[..., Any]:
    """Clients of servers in this process, of the stub unless another memory is given."""

    @asynccontextmanager
    async def client(*allowed: Path, memory: Any = stub) -> AsyncIterator[Client]:
        server = MemoryServer(memory, allowed_folders(allowed))
        try:
            async with Client(server.server) as connected:
                yield connected
        finally:
            server._service.close()

    return client


def text_of(result: CallToolResult) -> str:
    """The text of a result."""
    (content,) = result.content
    assert content.type == "text"
    return content.text
