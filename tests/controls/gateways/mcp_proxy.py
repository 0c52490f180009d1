"""mcp-proxy, from crates.io: a gateway built of tower's layers. Its documentation offers retries for each backend."""

from pathlib import Path

from agent import Endpoint
from gateways.gateway import Passthrough
from install import CRATES
from processes import Process, environment, free_port

SETTINGS = """
[proxy]
name = "controls"
listen = {{ host = "127.0.0.1", port = {port} }}

[[backends]]
name = "bank"
transport = "http"
url = "{upstream}"
"""

RETRY = """
[backends.retry]
max_retries = 3
"""


class McpProxy(Passthrough):
    """As it comes, or with its retries on; before the tool `pay`, or `pay_by_order`."""

    def __init__(self, program: Path, folder: Path, upstream: str, tool: str = "pay", retry: bool = False):
        self.version, self.tool, self.pays_once = CRATES["mcp-proxy"], f"bank/{tool}", tool == "pay_by_order"
        self.name = "mcp-proxy, retries on" if retry else "mcp-proxy"
        self.name += ", a tool with a key" if self.pays_once else ""
        self.settings = "`[backends.retry] max_retries = 3`" if retry else "one HTTP backend, nothing else"
        port = free_port()
        name = f"mcp-proxy-{tool}{'-retry' if retry else ''}"
        settings = folder / f"{name}.toml"
        settings.write_text(SETTINGS.format(port=port, upstream=upstream) + (RETRY if retry else ""))
        self.process = Process(name, [str(program), "--config", str(settings)], folder, environment())
        self.endpoint = Endpoint(f"http://127.0.0.1:{port}/")
