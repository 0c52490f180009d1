"""No gateway: the client calls the bank's tools themselves, and it is their server that dies."""

import sys
from importlib.metadata import version
from pathlib import Path

from agent import Endpoint
from gateways.gateway import Passthrough
from processes import Process, environment, free_port

UPSTREAM = Path(__file__).parent.parent / "upstream.py"


class NoGateway(Passthrough):
    """The bank's tool `pay`, or `pay_by_order`, called directly."""

    def __init__(self, folder: Path, ledger: str, tool: str, log: str = ""):
        self.tool, self.pays_once = tool, tool == "pay_by_order"
        self.name = "no gateway, a tool with a key" if self.pays_once else "no gateway"
        self.version, self.settings = f"mcp {version('mcp')}", "it is the tools' own server that is killed"
        port = free_port()
        serve = [sys.executable, str(UPSTREAM), str(port), ledger]
        self.process = Process(log or f"no-gateway-{tool}", serve, folder, environment())
        self.endpoint = Endpoint(f"http://127.0.0.1:{port}/mcp")
