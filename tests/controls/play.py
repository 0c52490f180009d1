"""The run: every trial with every gateway, judged by one ledger. Started by __main__.py."""

import asyncio
import shutil
import signal
import sys
import time
import traceback

import install
from gateways.contextforge import ContextForge
from gateways.countersign import Countersign
from gateways.gateway import Gateway
from gateways.mcp_proxy import McpProxy
from gateways.none import NoGateway
from judge import Ledger
from processes import kill_all
from trials import FAULTS, play
from verdict import line, objection, publish

# The whole run, in seconds. Nothing in it waits without an end of its own either.
LONGEST = 1800


async def run(ours: bool) -> int:
    """The exit code."""
    folder = install.HOME / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ledger = Ledger(folder)
    await ledger.start()
    gateways: list[Gateway] = [NoGateway(folder, ledger.url, "pay"), NoGateway(folder, ledger.url, "pay_by_order")]
    if not ours:
        bank = NoGateway(folder, ledger.url, "pay", "bank")
        await bank.start()
        tools = bank.endpoint.url
        proxy, forge = install.crate("mcp-proxy"), install.python("contextforge")
        gateways += [
            McpProxy(proxy, folder, tools),
            McpProxy(proxy, folder, tools, retry=True),
            McpProxy(proxy, folder, tools, retry=True, tool="pay_by_order"),
            ContextForge(forge, folder, tools, ledger.url, rest=False),
            ContextForge(forge, folder, tools, ledger.url, rest=True),
        ]
    gateways += [Countersign(folder, ledger.url, keyless=False), Countersign(folder, ledger.url, keyless=True)]
    rows = []
    for number, gateway in enumerate(gateways, 1):
        await gateway.start()
        for fault in FAULTS:
            begun = time.monotonic()
            rows.append(row := (await play(gateway, fault, ledger, number)).counted(ledger))
            print(f"{line(row)} ({time.monotonic() - begun:.0f} s)", flush=True)
        gateway.kill()
    # Again, now that nobody runs who could still pay.
    rows = [row.counted(ledger) for row in rows]
    objections = [line(row) for row in rows if objection(row)]
    if not objections and not ours:
        publish(rows)
    print("\n".join(["", *objections, f"{len(rows)} orders, {len(objections)} not as they must be"]))
    return 1 if objections else 0


def main() -> int:
    def over(number: int, _: object) -> None:
        print(f"ended by {signal.Signals(number).name}", file=sys.stderr)
        raise SystemExit(2)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, over)
    signal.alarm(LONGEST)
    try:
        return asyncio.run(run("--ours" in sys.argv))
    except Exception:  # noqa: BLE001 - 1 is a verdict; this is none
        traceback.print_exc()
        return 2
    finally:
        kill_all()


if __name__ == "__main__":
    sys.exit(main())
