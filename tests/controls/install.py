"""What the tests need and the repository does not have: the client's SDK and the other gateways, each pinned.

Everything goes into target/controls and stays there; a second run finds it.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
HOME = ROOT / "target/controls"
REQUIREMENTS = Path(__file__).parent / "requirements"
CRATES = {"mcp-proxy": "0.6.0"}


def python(name: str) -> Path:
    """A virtual environment with the packages of requirements/NAME.txt; its interpreter."""
    wanted = (REQUIREMENTS / f"{name}.txt").read_text()
    folder = HOME / name
    mark = folder / "installed.txt"
    if not mark.exists() or mark.read_text() != wanted:
        print(f"installing {name} into {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=300)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        packages = ["--requirement", str(REQUIREMENTS / f"{name}.txt")]
        subprocess.run([*pip, *packages], check=True, timeout=1800)
        mark.write_text(wanted)
    return folder / "bin/python"


def crate(name: str) -> Path:
    """A program from crates.io, with the dependencies its author locked; unoptimised, which changes only its speed."""
    version = CRATES[name]
    folder = HOME / f"{name}-{version}"
    program = folder / "bin" / name
    if not program.exists():
        print(f"building {name} {version} into {folder}", flush=True)
        cargo = ["cargo", "install", "--quiet", "--locked", "--debug", "--jobs", "2", "--root", str(folder)]
        cargo += ["--target-dir", str(folder / "build"), f"{name}@{version}"]
        subprocess.run(["nice", *cargo], check=True, timeout=5400)
        shutil.rmtree(folder / "build", ignore_errors=True)
    return program
