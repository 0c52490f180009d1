"""The ledger as the tests see it: its process, what it is told to do, and what its book says."""

import asyncio
import dataclasses
import http.client
import json
import sys
import time
from pathlib import Path

from ledger import Plan
from processes import Process, environment, free_port

LEDGER = Path(__file__).parent / "ledger.py"


class Ledger:
    """The one ledger of a run. Its book is read from the file, whether it lives or not."""

    def __init__(self, folder: Path):
        self.book = folder / "book.jsonl"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = Process(
            "ledger", [sys.executable, str(LEDGER), str(self.port), str(self.book)], folder, environment()
        )

    async def start(self) -> None:
        self.process.kill()
        self.process.start()
        await self.process.ready(self.port, "/healthz")

    def plan(self, order: str, plan: Plan) -> None:
        """Says how the next requests for an order go."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("PUT", f"/plans/{order}", body=json.dumps(dataclasses.asdict(plan)))
        if connection.getresponse().status != 200:
            raise RuntimeError("the ledger takes no plan")
        connection.close()

    def count(self, order: str, what: str) -> int:
        """How many lines of a kind the book has for an order."""
        if not self.book.exists():
            return 0
        entries = (json.loads(line) for line in self.book.read_text().splitlines() if line.endswith("}"))
        return sum(entry["order"] == order and entry["what"] == what for entry in entries)

    async def saw(self, order: str, what: str, patience: float = 60.0) -> None:
        """Waits until the book has a first line of a kind."""
        deadline = time.monotonic() + patience
        while self.count(order, what) == 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the ledger has no {what!r} for {order} after {patience:.0f} s")
            await asyncio.sleep(0.02)

    async def idle(self, order: str, patience: float = 30.0) -> None:
        """Waits until every request for an order has come to its end."""
        deadline = time.monotonic() + patience
        ends = ("answer", "503", "hang up", "die")
        while self.count(order, "asked") > sum(self.count(order, end) for end in ends):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the ledger is not done with {order} after {patience:.0f} s")
            await asyncio.sleep(0.1)
