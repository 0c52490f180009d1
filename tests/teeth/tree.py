"""A copy of the tracked tree, to be changed and built without touching the tree itself.

It has a target folder of its own, which takes over what target/debug has built of others' crates. What the asked-for
tests do not need is left out of the copy: other tests, the program, rooms of src that nothing imports. That is most of
what a change costs to build; the tests of `domain` then compile it and nothing else.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
HERE = ROOT / "tests/it"
PROGRAM = "CARGO_BIN_EXE_countersign"


class Copy:
    """The copy in target/NAME."""

    def __init__(self, name):
        self.home = ROOT / "target" / name
        self.tree = self.home / "tree"
        self.build = self.home / "build"
        self.environment = os.environ | {
            "CARGO_TARGET_DIR": str(self.build),
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "CARGO_TERM_COLOR": "never",
            "RUST_BACKTRACE": "0",
        }

    def refresh(self):
        """Makes the copy what git sees, and touches only what differs; returns the files' paths."""
        seen = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
        )
        paths = sorted(path for path in seen.stdout.splitlines() if (ROOT / path).is_file())
        for path in paths:
            source, copy = ROOT / path, self.tree / path
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)
                shutil.copymode(source, copy)
        known = set(paths)
        for copy in [path for path in self.tree.rglob("*") if path.is_file()]:
            if str(copy.relative_to(self.tree)) not in known:
                copy.unlink()
        if not self.build.exists():
            self.seed()
        return paths

    def seed(self):
        """Takes over the crates that target/debug has built: as links, where links can be made."""
        for part in ["deps", "build", ".fingerprint"]:
            folder = ROOT / "target/debug" / part
            for source in folder.rglob("*"):
                inside = source.relative_to(folder)
                if re.match(r"(lib)?countersign-|it-", inside.parts[0]) or not source.is_file():
                    continue
                copy = self.build / "debug" / part / inside
                copy.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(source, copy)
                except OSError:
                    shutil.copy2(source, copy)

    def only(self, names):
        """Leaves out of the copy what the named modules of tests/it do not need, program and rooms of src included."""
        needed = files(names)
        for file in ["main.rs", "harness/mod.rs"]:
            folder = (HERE / file).parent
            self.keep(
                HERE / file, lambda name, folder=folder: {folder / f"{name}.rs", folder / name / "mod.rs"} & needed
            )
        text = "\n".join(file.read_text() for file in needed)
        self.rooms(None if PROGRAM in text else words(r"\bcountersign::", text))

    def rooms(self, names):
        """Leaves the other rooms of src out, and the program; leaves all in for `None`."""
        needed, asked = set(), set(names or [])
        while asked:
            name = asked.pop()
            needed.add(name)
            inside = [file for file in [SRC / f"{name}.rs", *(SRC / name).rglob("*.rs")] if file.exists()]
            for file in inside:
                asked |= words(r"\bcrate::", file.read_text()) - needed
        self.keep(SRC / "lib.rs", lambda name: names is None or name in needed)
        manifest = (ROOT / "Cargo.toml").read_text()
        self.environment.pop(PROGRAM, None)
        if names is not None:
            manifest = manifest.replace('[[bin]]\nname = "countersign"\ndoctest = false\n', "")
            manifest = manifest.replace('default-run = "countersign"\n', "autobins = false\n")
            self.environment[PROGRAM] = "/nonexistent"
        write(self.tree / "Cargo.toml", manifest)

    def keep(self, file, keeps):
        """Writes the copy's `file` with those of its modules that `keeps`."""
        module = r"^(?:pub |pub\(crate\) )?mod (\w+);\n"
        text = re.sub(module, lambda it: it[0] if keeps(it[1]) else "", file.read_text(), flags=re.M)
        text = text.replace("#![allow(\n", "#![allow(\n    dead_code,\n    unused_imports,\n", 1)
        write(self.tree / file_in_tree(file), text)


def words(before, text):
    """The names that follow, one or a list of them in braces."""
    found = re.findall(before + r"(?:(\w+)|\{([^}]*))", text)
    return {name for one, several in found for name in re.findall(r"(?:^|,)\s*(\w+)", one or several)}


def file_in_tree(path):
    return str(path.relative_to(ROOT))


def files(names):
    """The files of tests/it that these modules need, and those two that name all others."""
    needed, asked = {HERE / "main.rs", HERE / "harness/mod.rs"}, [(HERE, name) for name in names]
    seen = set()
    while asked:
        folder, name = asked.pop()
        if (folder, name) in seen:
            continue
        seen.add((folder, name))
        inside = [file for file in [folder / f"{name}.rs", *(folder / name).rglob("*.rs")] if file.exists()]
        needed |= set(inside)
        for text in [file.read_text() for file in inside]:
            asked += [(HERE, other) for other in re.findall(r"\bcrate::(\w+)", text) if other != "harness"]
            asked += [(HERE / "harness", other) for other in words(r"\bharness::", text)]
            if folder.name == "harness":
                asked += [(folder, other) for other in re.findall(r"\bsuper::(\w+)", text)]
    return needed


def write(path, text):
    """Leaves the file's time alone when it says that already."""
    if path.read_text() != text:
        path.write_text(text)
