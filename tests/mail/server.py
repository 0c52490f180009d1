"""A mail server for the tests: takes what it is sent, or does what a recipient's name says.

Says its port on the first line, then one JSON line for each message it has taken. Ends with its input.
`bounce@` is nobody, `later@` is asked to be tried later, `hang@` gets no answer to the message.
"""

import argparse
import asyncio
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


class Box:
    async def handle_RCPT(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list) -> str:
        match address.partition("@")[0]:
            case "bounce":
                return "550 5.1.1 nobody here by that name"
            case "later":
                return "451 4.3.0 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if any(address.startswith("hang@") for address in envelope.rcpt_tos):
            await asyncio.sleep(3600)
        taken = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "tls": server.transport.get_extra_info("ssl_object") is not None,
        }
        taken |= {"login": session.authenticated, "text": envelope.content.decode()}
        print(json.dumps(taken), flush=True)
        return "250 taken"


def login(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: LoginPassword) -> AuthResult:
    return AuthResult(success=data.login == b"desk" and data.password == b"right password", handled=False)


async def serve(certificate: str | None, implicit: bool) -> None:
    context = None
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
    wrapped = context if implicit else None

    def session() -> SMTP:
        offered = None if implicit else context
        return SMTP(
            Box(),
            hostname="localhost",
            tls_context=offered,
            require_starttls=offered is not None,
            authenticator=login,
            auth_required=context is not None,
            auth_require_tls=not implicit,
            enable_SMTPUTF8=True,
        )

    server = await asyncio.get_running_loop().create_server(session, "127.0.0.1", 0, ssl=wrapped)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


arguments = argparse.ArgumentParser()
arguments.add_argument("--certificate")
arguments.add_argument("--implicit", action="store_true")
given = arguments.parse_args()
asyncio.run(serve(given.certificate, given.implicit))
