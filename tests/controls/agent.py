"""The client: the official MCP SDK, one call in one session, as an agent that comes back has it.

A session counts its calls from the beginning, so a call that is made again even has the JSON-RPC id of the first.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


@dataclasses.dataclass(frozen=True)
class Told:
    """What a call came to, in the client's eyes."""

    ok: bool
    words: str
    content: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where tools are called, and with what token."""

    url: str
    token: str = ""

    async def call(self, tool: str, arguments: dict[str, Any], patience: float) -> Told:
        """The tool's answer, or the reason why there is none within `patience` seconds."""
        try:
            async with self._session(patience) as client:
                result = await client.call_tool(tool, arguments, read_timeout_seconds=patience)
        except Exception as failure:  # noqa: BLE001 - whatever it was, the agent has no answer
            return Told(False, _cause(failure))
        words = " ".join(getattr(part, "text", "") for part in result.content)
        return Told(not result.is_error, words, result.structured_content or {})

    async def tools(self) -> list[str]:
        """The names of the tools that it offers now; none while it can't be reached."""
        try:
            async with self._session(10) as client:
                return [tool.name for tool in (await client.list_tools()).tools]
        except Exception:  # noqa: BLE001 - not ready yet
            return []

    @contextlib.asynccontextmanager
    async def _session(self, patience: float) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with (
            asyncio.timeout(patience + 5),
            httpx2.AsyncClient(headers=headers, timeout=patience + 5, trust_env=False) as http,
            Client(streamable_http_client(self.url, http_client=http)) as client,
        ):
            yield client


def _cause(failure: BaseException) -> str:
    """The innermost failure, in a few words."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    words = str(failure).splitlines()
    return f"{type(failure).__name__}: {words[0][:120]}" if words else type(failure).__name__
