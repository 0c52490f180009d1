"""What every gateway is to the tests: started, killed, and asked to pay an order."""

import abc
import asyncio
import time

from agent import Endpoint, Told
from processes import Process

AMOUNT, AMOUNT_MINOR, CURRENCY, PAYEE = "199.00", "19900", "USD", "acct-supplier"


class Gateway(abc.ABC):
    """A gateway with one set of settings."""

    name: str
    version: str
    settings: str
    """What was set, beside addresses and secrets."""
    pays_once = False
    """What is expected of it: one payment, whatever happens; or, of a control, more than one."""
    tells = False
    """Whether it is also expected to confirm that payment to the agent in the end."""
    keyless = False
    """Whether its orders are paid by a ledger that knows no keys."""

    @abc.abstractmethod
    async def start(self) -> None:
        """Starts it, the first time or after `kill`, and waits until it can be asked."""

    @abc.abstractmethod
    def kill(self) -> None:
        """SIGKILL."""

    @abc.abstractmethod
    async def pay(self, order: str, patience: float) -> Told:
        """Has an agent ask for a payment; what the agent knows after at most `patience` seconds without an answer."""


class Passthrough(Gateway):
    """One that hands a call of the bank's tool on."""

    tool: str
    """The name under which it offers the tool."""
    endpoint: Endpoint
    process: Process

    async def start(self) -> None:
        self.process.start()
        await self.offered()

    def kill(self) -> None:
        self.process.kill()

    async def pay(self, order: str, patience: float) -> Told:
        arguments = {"order_id": order, "amount_minor": AMOUNT_MINOR, "currency": CURRENCY, "payee_account": PAYEE}
        return await self.endpoint.call(self.tool, arguments, patience)

    async def offered(self, patience: float = 90.0) -> None:
        """Waits until the tool is on the list."""
        deadline = time.monotonic() + patience
        while self.tool not in (tools := await self.endpoint.tools()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} does not offer {self.tool}, but {tools}")
            await asyncio.sleep(0.1)
