"""The MCP server that a gateway is put before: a bank's tools, of this test only.

    python upstream.py PORT LEDGER_URL

`pay` moves money at the ledger with a fresh idempotency key for each call, as toolkits do that make the key
themselves. `pay_by_order` uses the order as the key: what a tool can do by itself. Both report a failure as the
JSON-RPC error -32603 (internal error).
"""

import sys
import uuid

import httpx2
from mcp import MCPError
from mcp.server import MCPServer
from mcp_types import INTERNAL_ERROR, ToolAnnotations

# Longer than anything the ledger is told to do.
PATIENCE = 60.0

server = MCPServer("bank", log_level="WARNING")
ledger = ""


async def transfer(order_id: str, amount_minor: str, currency: str, payee_account: str, key: str) -> dict[str, str]:
    """One request to the ledger; nothing is repeated here."""
    body = {"order_id": order_id, "amount_minor": amount_minor, "currency": currency, "payee_account": payee_account}
    try:
        async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False) as http:
            headers = {"Idempotency-Key": key}
            answer = await http.post(f"{ledger}/api/v1/transfers", json=body, headers=headers)
            answer.raise_for_status()
            return answer.json()
    except httpx2.HTTPError as err:
        raise MCPError(INTERNAL_ERROR, f"the ledger did not confirm the payment: {type(err).__name__}") from err


# Said as it is, so that whoever goes by hints knows.
NOT_IDEMPOTENT = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False)
IDEMPOTENT = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True)


@server.tool(annotations=NOT_IDEMPOTENT)
async def pay(order_id: str, amount_minor: str, currency: str, payee_account: str) -> dict[str, str]:
    """Pay an order."""
    return await transfer(order_id, amount_minor, currency, payee_account, str(uuid.uuid4()))


@server.tool(annotations=IDEMPOTENT)
async def pay_by_order(order_id: str, amount_minor: str, currency: str, payee_account: str) -> dict[str, str]:
    """Pay an order; paying it again changes nothing."""
    return await transfer(order_id, amount_minor, currency, payee_account, order_id)


def main() -> None:
    global ledger
    port, ledger = sys.argv[1:]
    server.run(transport="streamable-http", host="127.0.0.1", port=int(port))


if __name__ == "__main__":
    main()
