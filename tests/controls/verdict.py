"""What the rows say, and how docs/comparison.md shows them."""

import datetime
from pathlib import Path

from trials import FAULTS, Row

PAGE = Path(__file__).parent.parent.parent / "docs/comparison.md"
BEGIN, END = "<!-- written by `just controls` -->", "<!-- up to here -->"


def objection(row: Row) -> str:
    """Why a row is not as it must be; empty where it is."""
    if not row.gateway.pays_once:
        # A trial that can't make this one pay twice shows nothing about any other.
        return "" if row.paid >= 2 else "this control proves nothing"
    if row.paid != 1:
        return "not paid once"
    return "" if row.confirmed or not row.gateway.tells else f"the agent was told {row.told!r}"


def line(row: Row) -> str:
    """One row for a person who watches."""
    said = f"{row.gateway.name}: {row.fault.words}: paid {row.paid}, asked {row.calls}, at the ledger {row.requests}"
    return f"{said}: {objection(row) or 'as it must be'}"


def markdown(head: list[str], rows: list[list[object]], numbers: int) -> str:
    """A table, the last columns of which are numbers."""
    rules = ["---"] * (len(head) - numbers) + ["---:"] * numbers
    return "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in [head, rules, *rows])


def report(rows: list[Row]) -> str:
    """The part of the page that a run writes."""
    gateways = list(dict.fromkeys(row.gateway for row in rows))
    paid = {(row.gateway, row.fault): f"**{row.paid}**" if row.paid > 1 else row.paid for row in rows}
    sums = [[gateway.name, *(paid[gateway, fault] for fault in FAULTS)] for gateway in gateways]
    settings = [[gateway.name, gateway.version, gateway.settings] for gateway in gateways]
    told = {True: "yes", False: "no"}
    every = [
        [row.gateway.name, row.fault.words, told[row.confirmed], row.calls, row.requests, row.paid] for row in rows
    ]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    head = ["gateway", "what goes wrong", "told that it is paid", "calls", "requests at the ledger", "payments"]
    return "\n\n".join(
        [
            f"Run on {today}. Payments that the ledger made for one order:",
            markdown(["", *(fault.words for fault in FAULTS)], sums, len(FAULTS)),
            markdown(["gateway", "version", "settings"], settings, 0),
            "Row by row:",
            markdown(head, every, 3),
        ]
    )


def publish(rows: list[Row]) -> None:
    """Puts them into the page."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{report(rows)}\n\n{END}{after}")
