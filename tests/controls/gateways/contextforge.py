"""ContextForge (IBM), from PyPI: a gateway that also makes MCP tools of REST endpoints, and repeats those by itself."""

import asyncio
import http.client
import json
from pathlib import Path

from agent import Endpoint
from gateways.gateway import Passthrough
from processes import Process, environment, free_port, told

PACKAGE = "mcp-contextforge-gateway"
SECRET, ADMIN = "A-secret-of-this-test-only-0123456789", "admin@example.com"

ARGUMENTS = ["order_id", "amount_minor", "currency", "payee_account"]
SCHEMA = {"type": "object", "properties": {name: {"type": "string"} for name in ARGUMENTS}, "required": ARGUMENTS}


class ContextForge(Passthrough):
    """Before the bank's tools, or with the ledger's own endpoint registered as a REST tool."""

    def __init__(self, python: Path, folder: Path, upstream: str, ledger: str, rest: bool):
        self.python = python
        self.folder = folder / ("contextforge-rest" if rest else "contextforge")
        self.folder.mkdir()
        if rest:
            self.name, self.tool = "ContextForge, a REST tool", "pay"
            self.settings = "defaults, loopback allowed; the ledger's own endpoint registered as a POST tool"
            tool = {"name": "pay", "url": f"{ledger}/api/v1/transfers", "integration_type": "REST"}
            tool |= {"request_type": "POST", "description": "Pay an order.", "input_schema": SCHEMA}
            self.catalogue = "/tools", {"tool": tool}
        else:
            self.name, self.tool = "ContextForge", "bank-pay"
            self.settings = "defaults, loopback allowed; the tools' server registered as a gateway"
            self.catalogue = "/gateways", {"name": "bank", "url": upstream, "transport": "STREAMABLEHTTP"}
        self.registered = False
        self.env = environment(
            DATABASE_URL=f"sqlite:///{self.folder}/mcp.db",
            JWT_SECRET_KEY=SECRET,
            AUTH_ENCRYPTION_SECRET=SECRET,
            BASIC_AUTH_PASSWORD=SECRET,
            PLATFORM_ADMIN_EMAIL=ADMIN,
            PLATFORM_ADMIN_PASSWORD=SECRET,
            # The bank is on loopback, which it would not call otherwise.
            SSRF_ALLOW_LOCALHOST="true",
        )
        self.version = self.run("-c", f"from importlib.metadata import version; print(version({PACKAGE!r}))")
        who = ["--username", ADMIN, "--exp", "60", "--secret", SECRET]
        token = self.run("-m", "mcpgateway.utils.create_jwt_token", *who)
        self.port = free_port()
        self.endpoint = Endpoint(f"http://127.0.0.1:{self.port}/mcp", token.splitlines()[-1])
        serve = [str(python), "-m", "mcpgateway.cli", "--host", "127.0.0.1", "--port", str(self.port)]
        self.process = Process(self.folder.name, serve, self.folder, self.env)

    def run(self, *arguments: str) -> str:
        """What its own Python prints."""
        return told([str(self.python), *arguments], self.folder, self.env)

    def register(self, path: str, what: dict) -> None:
        """Adds something to its catalogue."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        head = {"Authorization": f"Bearer {self.endpoint.token}", "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(what), head)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        connection.close()
        if answer.status >= 300:
            raise RuntimeError(f"ContextForge answered {answer.status} to {path}: {text[:300]}")

    async def start(self) -> None:
        self.process.start()
        await self.process.ready(self.port, "/health")
        if not self.registered:
            path, what = self.catalogue
            await asyncio.to_thread(self.register, path, what)
            self.registered = True
        await self.offered()
