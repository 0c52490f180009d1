"""The judge: one ledger that moves the money for every gateway and writes down what it moved.

It speaks docs/rail-contract.md, and keeps one book: a line of JSON for each request, payment and answer, on the disk
before anything else happens. What a payment is, is decided here alone: a line with `"what": "paid"`.

    python ledger.py PORT BOOK

A repeated Idempotency-Key is answered with the payment there is, whoever sends it. An order whose name begins with
`keyless-` is paid by a ledger that knows no keys. `PUT /plans/ORDER` says how the next requests for an order go wrong
(`Plan`); a plan is forgotten with the process.
"""

import dataclasses
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KEYLESS = "keyless-"


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a request goes: wait, pay, hold, and then `then`."""

    wait: float = 0.0
    """Seconds before it pays."""
    hold: float = 0.0
    """Seconds between paying and answering."""
    then: str = "answer"
    """`answer`, `503`, `hang up` (no byte) or `die` (SIGKILL to itself)."""
    times: int = 1
    """For so many requests."""


class Book:
    """The lines, and what follows from them."""

    def __init__(self, path: Path):
        self.turn = threading.RLock()
        self.paid: list[dict] = []
        self.file = path.open("a+")
        self.file.seek(0)
        for line in self.file:
            if (entry := json.loads(line))["what"] == "paid":
                self.paid.append(entry)

    def write(self, what: str, order: str, **more: object) -> dict:
        """Puts a line on the disk."""
        entry = {"at": round(time.time(), 3), "what": what, "order": order, **more}
        with self.turn:
            self.file.write(json.dumps(entry) + "\n")
            self.file.flush()
            os.fsync(self.file.fileno())
        return entry

    def pay(self, order: str, key: str, transfer: dict) -> dict:
        """Moves the money, unless this key has moved it already."""
        with self.turn:
            known = key and not order.startswith(KEYLESS)
            for entry in self.paid:
                if known and entry["key"] == key:
                    return entry["transfer"]
            self.paid.append(self.write("paid", order, key=key, transfer=transfer))
            return transfer


class Plans:
    """What is to go wrong, by order."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.left: dict[str, Plan] = {}

    def put(self, order: str, plan: Plan) -> None:
        with self.turn:
            self.left[order] = plan

    def take(self, order: str) -> Plan:
        with self.turn:
            plan = self.left.pop(order, Plan())
            if plan.times > 1:
                self.left[order] = dataclasses.replace(plan, times=plan.times - 1)
            return plan


class Pages(BaseHTTPRequestHandler):
    """The ledger's pages. What it has begun it finishes, whether or not the caller still waits."""

    protocol_version = "HTTP/1.1"
    book: Book
    plans: Plans

    def do_POST(self) -> None:
        """A transfer."""
        asked = self.body()
        order, key = asked["order_id"], self.headers.get("Idempotency-Key", "")
        transfer = {
            "transfer_id": f"tr-{uuid.uuid4()}",
            "reference": asked.get("reference") or f"ref-{uuid.uuid4()}",
            "status": "settled",
            "amount_minor": asked["amount_minor"],
            "currency": asked["currency"],
            "payee_account": asked["payee_account"],
            "failure_code": "",
        }
        plan = self.plans.take(order)
        self.book.write("asked", order, key=key)
        time.sleep(plan.wait)
        transfer = self.book.pay(order, key, transfer)
        time.sleep(plan.hold)
        self.book.write(plan.then, order)
        match plan.then:
            case "answer":
                self.answer(201, transfer)
            case "503":
                self.answer(503, {"error_code": "unavailable", "error_message": "try again later"})
            case "hang up":
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)

    def do_GET(self) -> None:
        """A look-up by reference, or the health page."""
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/healthz":
            self.answer(200, {"status": "ok"})
            return
        [reference] = urllib.parse.parse_qs(url.query)["reference"]
        found = [entry["transfer"] for entry in self.book.paid if entry["transfer"]["reference"] == reference]
        self.answer(200, {"transfers": found})

    def do_PUT(self) -> None:
        """A plan."""
        self.plans.put(urllib.parse.unquote(self.path.rpartition("/")[2]), Plan(**self.body()))
        self.answer(200, {})

    def body(self) -> dict:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, status: int, page: dict) -> None:
        text = json.dumps(page).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except OSError:
            # Nobody waits any more.
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """The book is the log."""


def main() -> None:
    port, book = sys.argv[1:]
    Pages.book, Pages.plans = Book(Path(book)), Plans()
    ThreadingHTTPServer(("127.0.0.1", int(port)), Pages).serve_forever()


if __name__ == "__main__":
    main()
