"""The trials: what goes wrong while a payment is made, and what the ledger says afterwards.

An agent asks; something dies, fails or is late; the agent, which has no answer, asks again with the same arguments.
Of whom exactly one payment is expected is asked again in any case.
"""

import asyncio
import dataclasses
from typing import Literal

from gateways.gateway import Gateway
from judge import Ledger
from ledger import KEYLESS, Plan

ALWAYS = 99


@dataclasses.dataclass(frozen=True)
class Fault:
    """One way for a payment to go wrong."""

    name: str
    words: str
    plan: Plan
    killed: Literal["", "asked", "paid"] = ""
    """The gateway is killed as soon as the ledger's book has such a line."""
    patience: float = 30.0
    """How long the agent waits the first time, in seconds."""


FAULTS = [
    Fault("killed-before", "gateway killed before the ledger has paid", Plan(wait=8), killed="asked"),
    Fault("killed-after", "gateway killed after the ledger has paid", Plan(hold=4), killed="paid"),
    Fault("fails-once", "the ledger pays, then answers 503, once", Plan(then="503")),
    Fault("fails", "the ledger pays, then answers 503, each time", Plan(then="503", times=ALWAYS)),
    Fault("hangs-up", "the ledger pays, then hangs up, once", Plan(then="hang up")),
    Fault("late", "the ledger pays, and answers when nobody waits any more", Plan(hold=6), patience=3.0),
    Fault("dies", "the ledger pays, then is killed", Plan(hold=1, then="die")),
]


@dataclasses.dataclass(frozen=True)
class Row:
    """What became of one order."""

    gateway: Gateway
    fault: Fault
    order: str
    calls: int
    """Times the agent asked."""
    told: str
    """What it was told last."""
    confirmed: bool
    """Whether that was that it is paid."""
    requests: int = 0
    """Requests that reached the ledger."""
    paid: int = 0
    """Payments that it made."""

    def counted(self, ledger: Ledger) -> "Row":
        """With the ledger's word, at the end of everything."""
        return dataclasses.replace(
            self, requests=ledger.count(self.order, "asked"), paid=ledger.count(self.order, "paid")
        )


async def play(gateway: Gateway, fault: Fault, ledger: Ledger, number: int) -> Row:
    """One order, from the first question to the last answer."""
    order = f"{KEYLESS if gateway.keyless else ''}{fault.name}-{number}"
    ledger.plan(order, fault.plan)
    first = asyncio.create_task(gateway.pay(order, fault.patience))
    try:
        if fault.killed:
            await ledger.saw(order, fault.killed)
            gateway.kill()
            if ledger.count(order, "answer"):
                raise RuntimeError(f"{order}: the gateway was killed too late")
        if fault.plan.then == "die":
            await ledger.saw(order, "die")
            await ledger.start()
        told = await first
    finally:
        first.cancel()
    if fault.killed:
        await gateway.start()
    calls = 1
    if not told.ok or gateway.pays_once:
        told, calls = await gateway.pay(order, 60.0), 2
    await ledger.idle(order)
    if not ledger.count(order, fault.plan.then):
        raise RuntimeError(f"{order}: nothing went wrong, so nothing was tried")
    return Row(gateway, fault, order, calls, told.words, told.ok)
