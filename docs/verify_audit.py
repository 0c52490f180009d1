#!/usr/bin/env python3
"""Checks an exported audit chain, and its signed checkpoints, with nothing but Python's standard library.

    countersign audit export --tenant default > audit.jsonl
    python3 verify_audit.py audit.jsonl [default.checkpoints PUBLICKEY]

It shares no code with Countersign. Exit 0: whole. 1: broken; each break is a line. 2: not called as
above, or a file can't be read.
"""

import base64
import hashlib
import json
import sys

# Ed25519, RFC 8032 section 6: slow and plain.
P, Q = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def add(a, b):
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = f - e, h - g, h + g, f + e
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(s, point):
    result = (0, 1, 1, 0)
    while s:
        if s & 1:
            result = add(result, point)
        point, s = add(point, point), s >> 1
    return result


def x_of(y, sign):
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - x2) % P or (x == 0 and sign):
        return None
    return P - x if x & 1 != sign else x


def point(octets):
    y = int.from_bytes(octets, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    x = x_of(y, sign)
    return None if x is None else (x, y, 1, x * y % P)


BASE = (x_of(4 * pow(5, P - 2, P) % P, 0), 4 * pow(5, P - 2, P) % P)
BASE = (*BASE, 1, BASE[0] * BASE[1] % P)


def signed(public, text, signature):
    a, r, s = point(public), point(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= Q:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + text).digest(), "little") % Q
    left, right = times(s, BASE), add(r, times(k, a))
    return not ((left[0] * right[2] - right[0] * left[2]) % P or (left[1] * right[2] - right[1] * left[2]) % P)


def octets_of(path):
    """The file's bytes, as they are: a line end that was converted is a change."""
    with open(path, "rb") as file:
        return file.read()


def shown(text):
    """A text of a stranger's, safe to print."""
    return text if text.isascii() and text.isprintable() else ascii(text)[:80]


def entry(line, number):
    """An exported line: its text, its chain value, and whether the text is entry `number` in canonical form."""
    if line.endswith(b"\r"):
        raise ValueError("a converted line end")
    row = json.loads(line.decode())
    facts = json.loads(row["entry"])
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    right = canonical == row["entry"] and facts["seq"] == str(number) and row["seq"] == number
    return row["entry"].encode(), base64.urlsafe_b64decode(row["chain"] + "="), row["chain"], right


def chain(path, broken):
    """Recomputes the chain; the value after each entry, in order."""
    before, values = b"", []
    lines = octets_of(path).split(b"\n")
    for number, line in enumerate(lines if lines[-1] else lines[:-1], 1):
        try:
            text, stored, value, right = entry(line, number)
        except (ValueError, KeyError, TypeError, RecursionError):
            broken(f"entry {number}: not a line of an export")
            values.append(before)
            continue
        if not right:
            broken(f"entry {number}: not entry {number} in its canonical form")
        leaf = hashlib.sha256(b"\0" + text).digest()
        before = hashlib.sha256(b"\1" + before + leaf).digest()
        if base64.urlsafe_b64encode(before).decode().rstrip("=") != value:
            broken(f"entry {number}: does not follow from what stands before it")
            before = stored
        values.append(before)
    return values


def note(lines):
    """A checkpoint of seven lines: its text, size, head, time, and who signed it with what."""
    first, size, head, at, _, mark, _ = lines
    dash, signer, blob = mark.split(" ")
    text = f"{first}\n{size}\n{head}\n{at}\n".encode()
    return text, int(size), base64.b64decode(head), at, (dash, signer), base64.b64decode(blob)


def key_of(public):
    """The public key of a checkpoint key's text: its name, number and octets; nothing if it is not one."""
    try:
        name, number, key = public.split("+", 2)
        key = base64.b64decode(key)
    except ValueError:
        return None
    right = hashlib.sha256(name.encode("utf-8", "replace") + b"\n" + key).hexdigest()[:8] == number
    return (name, number, key[1:]) if right and len(key) == 33 and key[0] == 1 else None


def checkpoints(path, public, values, broken):
    """Compares the chain with its checkpoints; up to which entry they vouch for it."""
    # What is no UTF-8 becomes a text that nobody signed.
    text = octets_of(path).decode(errors="replace")
    known = key_of(public)
    if known is None:
        broken("the public key is not one")
        return 0
    name, number, key = known
    covered = seen = 0
    # What a cut-off write left is closed by "#"; of the rest each note ends with an empty line.
    parts = text.split("\n#\n")
    for last, part in enumerate(parts, 1 - len(parts)):
        lines = part.lstrip("\n").split("\n")
        while len(lines) >= 7:
            seen += 1
            try:
                signed_text, size, head, at, by, blob = note(lines[:7])
            except ValueError:
                broken("a part of the file is no checkpoint")
                lines = [""]
                break
            lines = lines[7:]
            if by != ("\u2014", name) or blob[:4].hex() != number or not signed(key, signed_text, blob[4:]):
                broken(f"the checkpoint of {shown(at)} is not signed by this key")
            elif size > len(values):
                broken(f"the chain ends at entry {len(values)}; {size} were signed at {at}")
            elif size < 1 or values[size - 1] != head:
                broken(f"entry {size}: not as signed at {at}")
            else:
                covered = max(covered, size)
        if last == 0 and lines != [""]:
            broken("the file ends in the middle of a checkpoint")
        elif last == 0 and values and not seen:
            broken("there is no checkpoint in the file")
    return covered


def main(arguments):
    if len(arguments) not in (1, 3):
        print(__doc__, file=sys.stderr)
        return 2
    breaks = []
    try:
        values = chain(arguments[0], breaks.append)
        covered = checkpoints(arguments[1], arguments[2], values, breaks.append) if len(arguments) == 3 else 0
    except OSError as fault:
        print(f"{shown(str(fault.filename))}: can't be read: {fault.strerror}", file=sys.stderr)
        return 2
    for found in breaks:
        print(found)
    if not breaks:
        print(f"whole: {len(values)} entries, checkpoints vouch for {covered}")
    return 1 if breaks else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
