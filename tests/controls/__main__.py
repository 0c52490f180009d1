"""`just controls`: what becomes of a payment when a gateway dies, fails or is late, with others and with Countersign.

    python3 tests/controls          everything; writes the tables of docs/comparison.md
    python3 tests/controls --ours   installs no other gateway: Countersign, and tools called without a gateway

Python 3.11 or newer with venv and pip, cargo, and the registries of both; target/debug/countersign must be built.
This file installs what is missing (install.py), then hands over to play.py, in the environment of the client.

Exit 0: each control was made to pay more than once, and whoever promises one payment made one. 1: not so, and each
case is named. 2: it could not be installed or run.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import install


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/controls", description=__doc__.splitlines()[0])
    parser.add_argument("--ours", action="store_true", help="install and play no other gateway")
    ours = parser.parse_args().ours
    try:
        client = install.python("client")
        if not ours:
            install.python("contextforge")
            install.crate("mcp-proxy")
    except (OSError, subprocess.SubprocessError) as failure:
        print(f"could not be installed: {failure}", file=sys.stderr)
        return 2
    play = Path(__file__).with_name("play.py")
    os.execv(client, [str(client), str(play), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
