#!/usr/bin/env python3
"""Checks an exported audit chain, and its signed checkpoints, with nothing but Python's standard library.

    countersign audit export --tenant default > audit.jsonl
    python3 verify_audit.py audit.jsonl [default.checkpoints PUBLICKEY]

It shares no code with Countersign. Exit 0: whole. 1: broken; each break is a line. 2: not called as above.
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


def chain(path, broken):
    """Recomputes the chain; the value after each entry, in order."""
    before, values = b"", []
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        row = json.loads(line)
        facts = json.loads(row["entry"])
        canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        if canonical != row["entry"] or facts["seq"] != str(number) or row["seq"] != number:
            broken(f"entry {number}: not entry {number} in its canonical form")
        leaf = hashlib.sha256(b"\0" + row["entry"].encode()).digest()
        before = hashlib.sha256(b"\1" + before + leaf).digest()
        if base64.urlsafe_b64encode(before).decode().rstrip("=") != row["chain"]:
            broken(f"entry {number}: does not follow from what stands before it")
            before = base64.urlsafe_b64decode(row["chain"] + "=")
        values.append(before)
    return values


def checkpoints(path, public, values, broken):
    """Compares the chain with its checkpoints; up to which entry they vouch for it."""
    name, number, key = public.split("+", 2)
    key = base64.b64decode(key)
    if hashlib.sha256(name.encode() + b"\n" + key).hexdigest()[:8] != number or key[0] != 1:
        broken("the public key is not one")
    covered = 0
    # What a cut-off write left is closed by "#"; of the rest each note ends with an empty line.
    parts = open(path, encoding="utf-8").read().split("\n#\n")
    for last, part in enumerate(parts, 1 - len(parts)):
        lines = part.lstrip("\n").split("\n")
        while len(lines) >= 7:
            (first, size, head, at, _, mark, _), lines = lines[:7], lines[7:]
            text = f"{first}\n{size}\n{head}\n{at}\n".encode()
            dash, signer, blob = mark.split(" ")
            blob = base64.b64decode(blob)
            if (dash, signer, blob[:4].hex()) != ("\u2014", name, number) or not signed(key[1:], text, blob[4:]):
                broken(f"the checkpoint of {at} is not signed by this key")
            elif int(size) > len(values):
                broken(f"the chain ends at entry {len(values)}; {size} were signed at {at}")
            elif values[int(size) - 1] != base64.b64decode(head):
                broken(f"entry {size}: not as signed at {at}")
            else:
                covered = max(covered, int(size))
        if last == 0 and lines != [""]:
            broken("the file ends in the middle of a checkpoint")
    return covered


def main(arguments):
    if len(arguments) not in (1, 3):
        print(__doc__, file=sys.stderr)
        return 2
    breaks = []
    values = chain(arguments[0], breaks.append)
    covered = checkpoints(arguments[1], arguments[2], values, breaks.append) if len(arguments) == 3 else 0
    for found in breaks:
        print(found)
    if not breaks:
        print(f"whole: {len(values)} entries, checkpoints vouch for {covered}")
    return 1 if breaks else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
