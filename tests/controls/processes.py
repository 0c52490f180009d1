"""Child processes on loopback: started, waited for, killed; none outlives the run."""

import asyncio
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

_ALL: list["Process"] = []


def free_port() -> int:
    """A port of loopback that nobody listens at now."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def environment(**more: str) -> dict[str, str]:
    """What a child is told: where programs are, and `more`; no setting of whoever runs this."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return kept | more


def told(arguments: list[str], folder: Path, env: dict[str, str], patience: float = 120.0) -> str:
    """What a command prints that ends by itself, and well."""
    ended = subprocess.run(
        arguments,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )
    if ended.returncode != 0:
        raise RuntimeError(f"{Path(arguments[0]).name} {arguments[1]}: {ended.stderr.strip()}")
    return ended.stdout.strip()


class Process:
    """A program that can be killed and started again, at the same place."""

    def __init__(self, name: str, arguments: list[str], folder: Path, env: dict[str, str]):
        self.name, self.arguments, self.folder, self.env = name, arguments, folder, env
        self.log = folder / f"{name}.log"
        self.child: subprocess.Popen | None = None
        _ALL.append(self)

    def start(self) -> None:
        if self.child is not None:
            raise RuntimeError(f"{self.name} runs already")
        with self.log.open("ab") as log:
            # A group of its own, so that what it starts itself goes with it.
            self.child = subprocess.Popen(
                self.arguments,
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """SIGKILL, to it and to what it started; gone when this returns."""
        if self.child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()
            self.child = None

    def runs(self) -> bool:
        return self.child is not None and self.child.poll() is None

    async def ready(self, port: int, path: str, patience: float = 240.0) -> None:
        """Waits until a page answers 200."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not self.runs():
                break
            if await asyncio.to_thread(_status, port, path) == 200:
                return
            await asyncio.sleep(0.05)
        raise RuntimeError(f"{self.name} is not ready; the end of what it said:\n{self.said()}")

    def said(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])


def _status(port: int, path: str) -> int:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0


def kill_all() -> None:
    """Kills every child that there is."""
    for process in _ALL:
        process.kill()
