"""Countersign: the agent proposes, a person countersigns, the gateway pays at the same ledger, as its rail."""

import asyncio
import time
from pathlib import Path

from agent import Endpoint, Told
from gateways.gateway import AMOUNT, CURRENCY, PAYEE, Gateway
from processes import Process, environment, free_port, told

ROOT = Path(__file__).parent.parent.parent.parent
PROGRAM = ROOT / "target/debug/countersign"
ISSUER = "https://idp.example"

DIRECTORY = """
[[signer]]
signer_id = "finance-1"
name = "Finance, first"
public_key_file = "finance-1.pub.pem"

[[signer]]
signer_id = "finance-2"
name = "Finance, second"
"""

# Shorter than the defaults, in their proportions, so that a run does not wait for long: a call to the rail is given
# up after 2 s, and what a killed process was at is taken up 4 s later.
SETTINGS = """
[server]
listen = "127.0.0.1:{port}"
public_url = "http://127.0.0.1:{port}"

[database]
url = "sqlite://{folder}/gateway.db"

[auth]
issuer = "{issuer}"
jwks_file = "{folder}/issuer.jwks.json"

[policy]
file = "{root}/config/policy.toml"

[worker]
lease_ms = 4000

[signer]
url = "http://127.0.0.1:{signer}"
api_key_file = "{folder}/secrets/signer-api-key"
callback_secret_file = "{folder}/secrets/callback-secret"
read_timeout_ms = 1500
total_timeout_ms = 2000

[rail]
url = "{ledger}"
api_key_file = "{folder}/secrets/rail-api-key"
read_timeout_ms = 1500
total_timeout_ms = 2000
dedup = "{dedup}"
"""

ENDED = ("EXECUTED", "REJECTED", "EXPIRED", "CANCELLED", "FAILED")


class Countersign(Gateway):
    """`countersign serve`, gateway and worker in one process, with the reference signer service."""

    pays_once = tells = True

    def __init__(self, folder: Path, ledger: str, keyless: bool):
        self.folder = folder / ("countersign-keyless" if keyless else "countersign")
        self.folder.mkdir()
        self.keyless = keyless
        self.version = self.run("--version").split()[-1]
        self.name = "Countersign, a ledger without keys" if keyless else "Countersign"
        self.settings = "waits shortened: calls to the rail end after 2 s, a lease after 4 s"
        self.settings += '; `rail.dedup = "none"`' if keyless else ""
        self.port, self.signer_port = free_port(), free_port()
        words = dict(folder=self.folder, root=ROOT, port=self.port, signer=self.signer_port, issuer=ISSUER)
        words |= dict(ledger=ledger, dedup="none" if keyless else "86400")
        (self.folder / "countersign.toml").write_text(SETTINGS.format(**words))
        (self.folder / "signers.toml").write_text(DIRECTORY)
        self.set_up()
        signer = f"signer --listen 127.0.0.1:{self.signer_port} --public-url http://127.0.0.1:{self.signer_port}"
        signer += " --directory signers.toml --database signer.db --api-key-file secrets/signer-api-key"
        signer += " --callback-secret-file secrets/callback-secret"
        self.signer = Process("signer", [str(PROGRAM), *signer.split()], self.folder, environment())
        serve = [str(PROGRAM), "serve", "--config", "countersign.toml"]
        self.serve = Process("serve", serve, self.folder, environment())

    def run(self, *arguments: str) -> str:
        """A command of the program; what it printed."""
        return told([str(PROGRAM), *arguments], self.folder, environment(COUNTERSIGN_CONFIG="countersign.toml"))

    def set_up(self) -> None:
        """Keys, database and tokens, as the README has it."""
        self.run("keys", "init", "secrets")
        self.run("keys", "new", "finance-1.pem")
        self.run("keys", "issuer", "issuer.pem")
        self.run("migrate")
        self.run("keys", "enrol", "finance-1", "finance-1.pub.pem", "--by", "ops: controls")
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.agent = Endpoint(self.url, self.token("agent", "agent-1"))
        (self.folder / "token").write_text(self.token("signer", "finance-1"))

    def token(self, role: str, subject: str) -> str:
        who = ["--role", role, "--subject", subject]
        return self.run("token", "--key", "issuer.pem", *who, "--issuer", ISSUER, "--audience", self.url)

    async def start(self) -> None:
        if not self.signer.runs():
            self.signer.start()
            await self.signer.ready(self.signer_port, "/healthz")
        self.serve.start()
        await self.serve.ready(self.port, "/readyz")

    def kill(self) -> None:
        self.serve.kill()

    async def pay(self, order: str, patience: float) -> Told:
        """The agent proposes and follows; the person approves what waits for them, as often as they are asked."""
        arguments = {"order_id": order, "amount": AMOUNT, "currency": CURRENCY, "payee": PAYEE}
        deadline = time.monotonic() + patience
        told = await self.agent.call("create_payment", arguments | {"notify": True}, patience)
        while told.ok and told.content.get("status") not in ENDED and time.monotonic() < deadline:
            if told.content["status"] in ("AWAITING_SIGNER", "CREATED", "SIGNER_UNREACHABLE", "NEED_MANUAL"):
                await asyncio.to_thread(self.countersign, order)
            told = await self.agent.call("get_payment_status", {"order_id": order, "wait_ms": 1000}, patience)
        status = told.content.get("status", told.words)
        return Told(status == "EXECUTED", status, told.content)

    def countersign(self, order: str) -> None:
        """The person signs, unless there is nothing to sign any more."""
        who = ["--url", self.url, "--token-file", "token", "--key", "finance-1.pem"]
        try:
            self.run("sign", order, "--yes", *who)
        except RuntimeError as refused:
            print(f"    not signed: {refused}", flush=True)
