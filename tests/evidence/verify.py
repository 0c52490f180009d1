#!/usr/bin/env python3
"""Verifies evidence by docs/evidence.md alone. Needs Python 3.11 and the package cryptography.
    verify.py BUNDLE ROOT.pem|- [CHECKPOINTKEY]...    exit 0: holds, 1: incomplete, 3: does not hold
    verify.py --vectors FOLDER                        exit 0: every vector comes out as it says"""

import base64
import datetime
import functools
import hashlib
import json
import pathlib
import re
import sys
from types import SimpleNamespace as Record

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

FAULTS = (AttributeError, LookupError, RecursionError, TypeError, ValueError, InvalidSignature, UnsupportedAlgorithm)
MEMBERS = json.loads((pathlib.Path(__file__).parents[2] / "docs/evidence.members.json").read_text())
ed25519_key = ed25519.Ed25519PublicKey.from_public_bytes
def need(*conditions): return {True: None}[all(conditions)]
def parse(text):
    return json.loads(text, object_pairs_hook=lambda pairs: need(len(dict(pairs)) == len(pairs)) or dict(pairs))
def canonical(value): return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
def check(value, shape):
    need(type(value) is type(shape), not isinstance(shape, dict) or value.keys() == shape.keys())
    if isinstance(shape, str):
        need(re.fullmatch(MEMBERS["kinds"].get(shape, shape), value), type(value.encode()) is bytes)
        return shape != "time" or datetime.datetime.fromisoformat(value)
    return [check(value[n], shape[n]) for n in shape] if type(shape) is dict else [check(one, *shape) for one in value]
def document(text, kind):
    return check(value := parse(text), MEMBERS[kind]) and need(canonical(value) == text) or Record(**value)
def sha(*parts): return hashlib.sha256(b"".join(part.encode() if isinstance(part, str) else part for part in parts))
def b64(data): return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
def unb64(text): return need(b64(data := base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))) == text) or data
def documents(b):
    b.p = document(b.payment["document"], "payment")
    told, more = parse(b.policy["document"]), {"beneficiary": "", "confirmations": "1", "deputies": [], "persons": {}}
    b.rule = rule = Record(**more | told | {"levels": [level.get("groups", [level]) for level in told["levels"]]})
    check(vars(rule) | {"persons": [*rule.persons.values()]}, MEMBERS["policy"])
    used = {name: value for name, value in vars(rule).items() if value != more.get(name)}
    used["levels"] = [{"groups": level} if level[1:] else level[0] for level in rule.levels]
    lists = [of["signers"] for level in rule.levels for of in level] + [*rule.persons.values()]
    need(canonical(used) == b.policy["document"], rule.levels, all(names == sorted(set(names)) for names in lists))
    rule.who = lambda account: next((name for name, accounts in rule.persons.items() if account in accounts), account)
    asks = [b.p.requester_principal, f"sub:{b.p.requester_principal}"] * (rule.principal_may_sign == "no")
    rule.barred = {*map(rule.who, [b.p.requester_agent, rule.beneficiary or b.p.requester_agent, *asks])}
    b.r = [document(kept["entry"], f"registry {parse(kept['entry'])['status']}") for kept in b.registry]
    b.d = [Record(**each | vars(document(each["document"], "approval")), filed=each["key_id"]) for each in b.decisions]
    b.executed, b.counted = b.payment["status"] == "EXECUTED", [d for d in b.d if d.standing == "counted"]
    b.receipt = document(b.execution["receipt"], "receipt") if b.execution["receipt"] else None
    b.words = [word for word in b.execution["attestations"] if word["reference"] == b.execution["transfer_id"]]
    b.by_hand = b.executed and not b.receipt and b.words
    for tag, each in [("payment", b.payment), ("policy", b.policy)] + [("approval", each) for each in b.decisions]:
        need(each["digest"] == b64(sha(f"countersign/{tag}/v1\0", each["document"]).digest()))
def keys_of(b, d): return [r for r in b.r if (r.signer_id, r.key_id) == (d.signer_id, d.filed)]
def jws(d, r):
    head, signature = d.proof["value"].split("..")
    need(parse(unb64(head)) == {"alg": "EdDSA", "kid": r.key_id, "typ": "countersign-approval+jws"})
    need(d.key_id == r.key_id, r.alg == "Ed25519", r.credential_id == r.rp_id == "")
    ed25519_key(unb64(r.public_key)).verify(unb64(signature), f"{head}.{b64(d.document.encode())}".encode())
def webauthn(d, r):
    said = document(d.proof["value"], "assertion")
    raw, data = unb64(said.client_data_json), unb64(said.authenticator_data)
    client, key = json.loads(raw, parse_int=str), serialization.load_der_public_key(unb64(r.public_key))
    need(d.key_id == "passkey", said.credential_id == r.credential_id, r.credential_id, r.rp_id, len(data) > 36)
    need(client["type"] == "webauthn.get", client["challenge"] == d.digest, client["origin"] in r.origins.split())
    need(client.get("crossOrigin", False) is False, client.get("topOrigin") is None, data[:32] == sha(r.rp_id).digest())
    kinds = {"ES256": (ec.EllipticCurvePublicKey, [ec.ECDSA(hashes.SHA256())]), "EdDSA": (ed25519.Ed25519PublicKey, [])}
    kind, how = (kinds | {"RS256": (rsa.RSAPublicKey, [padding.PKCS1v15(), hashes.SHA256()])})[r.alg]
    need(data[32] & 29 in (5, 13, 29), isinstance(key, kind), getattr(key, "curve", ec.SECP256R1).name == "secp256r1")
    key.verify(unb64(said.signature), data + sha(raw).digest(), *how)
def signatures(b):
    for d in b.d:
        need((d.round == b.p.round) is (d.payment_digest == b.payment["digest"]) is (d.standing != "void"))
        need(1 == sum(asked == {name: getattr(d, name) for name in asked} for asked in b.challenges))
        need(d.standing != "counted" or d.issued_at <= d.decided_at < d.challenge_expires_at)
        {"jws": jws, "webauthn": webauthn}[d.proof["type"]](d, *keys_of(b, d))
def registry(b):
    need(len({r.public_key for r in b.r}) == len({(r.public_key, r.signer_id) for r in b.r}))
    keys = [(d.decided_at, *keys_of(b, d)) for d in b.d]
    need(all(r.enrolled_at <= at < (r.revoked_at or "~") for at, r in keys), all(r.tenant == b.p.tenant for r in b.r))
    for kept in b.registry if b.root else []:
        b.root.verify(unb64(kept["signature"]), b"countersign/registry/v1\0" + kept["entry"].encode())
    return b.root or not b.registry
@functools.cache
def most(ways, room):
    rest, left = tuple(way for way in ways if way[0] != ways[0][0]), dict(room)
    fits = [(place, left | {seat: left[seat] - 1}) for _, place, seat, _ in ways[: len(ways) - len(rest)] if left[seat]]
    ahead = [(tuple(way for way in rest if way[1] != place), (*then.items(),)) for place, then in fits]
    return max([most(rest, room)] + [1 + most(*each) for each in ahead]) if ways else 0
def evaluate(rule, votes):
    at, past, here, spent, refused, levels, who = 0, set(), [], set(), set(), rule.levels, rule.who
    def ways(a, n, ts=None):
        voices = [a] + [d["of"] for d in rule.deputies if d["signer"] == a and (not ts or d["from"] <= ts < d["until"])]
        seats = [(v, (n, k)) for v in voices for k, of in enumerate(levels[n]) if v in of["signers"]]
        return [(who(a), who(v), seat, v) for v, seat in seats if not rule.barred & {who(a), who(v)}]
    def whole(given, last):
        given = past | {way for way in given if way[0] not in spent | refused and way[1] not in refused}
        room = {(n, k): int(of["required"]) for n, level in enumerate(levels[: last + 1]) for k, of in enumerate(level)}
        return given if most((*sorted(given),), (*room.items(),)) == sum(room.values()) else None
    for account, choice, key, ts in votes:
        if at < len(levels) and ways(account, at, ts):
            here.append((account, key, ts)) if choice == "approve" else refused.add(who(account))
            keys = [(a, way) for a, _, way in {(a, k, way) for a, k, t in here for way in ways(a, at, t)}]
            if given := whole({way for a, way in keys if keys.count((a, way)) >= int(rule.confirmations)}, at):
                at, past, spent, here = at + 1, given, spent | {who(a) for a, _, _ in here}, []
    every = {a for level in levels for of in level for a in of["signers"]} | {d["signer"] for d in rule.deputies}
    spoke = {who(a) for a, _, _ in here}
    could = {way for a in every for n in range(at, len(levels)) if n == at or who(a) not in spoke for way in ways(a, n)}
    ended = "rejected" if refused and rule.any_reject == "yes" else "complete" if at == len(levels) else ""
    return ended or ("pending" if whole(could, len(levels)) else "rejected")
def quorum(b):
    text = ", then ".join(" and ".join(f"{of['required']} of {of['group']}" for of in level) for level in b.rule.levels)
    text += f"; each with {b.rule.confirmations} keys" * (b.rule.confirmations != "1")
    need(b.p.policy_digest == b.policy["digest"], b.p.policy_id == b.rule.id, b.p.policy_version == b.rule.version)
    need(b.p.required == text, not b.rule.barred & {b.rule.who(d.signer_id) for d in b.counted})
    need(len({(d.signer_id, d.confirmation) for d in b.counted}) == len(b.counted))
    found = evaluate(b.rule, [(d.signer_id, d.decision, d.filed, d.decided_at) for d in b.counted])
    wanted = {"SIGNED": "complete", "EXECUTED": "complete", "REJECTED": "rejected"}.get(b.payment["status"], found)
    return need(found == wanted or b.by_hand) or found == wanted
def execution(b):
    transfer, own = b.execution["transfer_id"], {name: getattr(b.p, name) for name in MEMBERS["request"]}
    need(all(parse(sent["body"]) == own | {"reference": b.p.payment_id} for sent in b.execution["requests"]))
    need(all(sent["key"].startswith(b.p.payment_id + ":rail.execute:g") for sent in b.execution["requests"]))
    people = {(w["episode"], w["person"]) for w in b.words if w["person"] != b.p.requester_principal}
    need(b.executed or not (b.receipt or transfer), not b.by_hand or len(people) > len({each for each, _ in people}))
    known = own | {"reference": b.p.payment_id, "transfer_id": transfer, "typ": b.receipt and b.receipt.typ}
    need(not b.receipt or b.execution["requests"] and vars(b.receipt).items() <= known.items())
    return not b.executed or b.receipt or b.by_hand
def walk(b):
    b.entries, b.ends, at = [], [], 0
    for stretch in b.audit:
        reached, at, chain = at, int(stretch["after"]), unb64(stretch["chain"])
        need(len(chain) == (32 if at else 0), at >= reached, stretch["items"])
        for item in stretch["items"]:
            at, leaf = at + 1, sha(b"\0", item).digest() if item.startswith("{") else unb64(item)
            b.entries += [(at, document(item, "entry"))] if item.startswith("{") else []
            chain = sha(b"\1", chain, need(len(leaf) == 32) or leaf).digest()
        b.ends.append([str(at), chain])
    need(all((e.seq, e.tenant, e.payment_id) == (str(at), b.p.tenant, b.p.payment_id) for at, e in b.entries))
def audit(b):
    changes = walk(b) or [e for _, e in b.entries if e.version]
    need([e.version for e in changes] == [str(n + 1) for n in range(len(changes))])
    need([getattr(e, "from") for e in changes] + [b.payment["status"]] == [""] + [e.to for e in changes])
    begun, made = ([(0, b.entries[0][1])] + [(at, e) for at, e in b.entries if e.event in MEMBERS["new round"]])[-1]
    need(begun or made.event == "payment.created", made.digest_of_details == sha(b.payment["document"]).hexdigest())
    counted, told = [begun], [(at, e) for at, e in b.entries if e.event in MEMBERS["decision"]]
    for d in b.d:
        kinds = [(f"decision.{d.decision}", True)] * (d.standing != "surplus")
        kinds += [("decision.surplus", False)] * (d.standing != "counted")
        same = (f"signer:{d.signer_id}", d.decided_at, sha(d.digest).hexdigest())
        own = [(at, e) for at, e in told if (e.event, bool(e.version)) in kinds]
        told.remove(own := [(at, e) for at, e in own if (e.actor, e.ts, e.digest_of_details) == same][0])
        counted += [own[0]] * (d.standing == "counted")
    intents = [(at, e.digest_of_details) for at, e in b.entries if e.event == "rail.execute.intended"]
    bodies = {sha(sent["body"]).hexdigest() for sent in b.execution["requests"]}
    need(not any(begun < at <= counted[-1] for at, _ in intents), {body for _, body in intents} == bodies)
    need(not told, counted == sorted(set(counted)))
    done = [(at, e) for at, e in b.entries if e.to == "EXECUTED" != getattr(e, "from")]
    need(len(done) == b.executed)
    for at, e in done:
        need(e.digest_of_details == sha(b.execution["transfer_id"]).hexdigest())
        first = [f for n, f in b.entries if n < at and f.event == "attest_executed.first" and f.actor != e.actor]
        second = e.event == "attest_executed.second" and e.digest_of_details in [f.digest_of_details for f in first]
        need(second if b.by_hand else any(begun < n < at for n, _ in intents))
def checkpoint(b):
    need(walk(b) is None, b.ends)
    known = {(n, i): ed25519_key(base64.b64decode(key)[1:]) for n, i, key in (key.split("+", 2) for key in b.keys)}
    for stretch, end in [pair for pair in zip(b.audit, b.ends, strict=True) if b.keys and pair[0]["checkpoint"]]:
        text, origin, tenant, size, head, name, signed = re.fullmatch(MEMBERS["note"], stretch["checkpoint"]).groups()
        known[name, (signed := base64.b64decode(signed, validate=True))[:4].hex()].verify(signed[4:], text.encode())
        need((origin, tenant) == (name, b.p.tenant), [size, base64.b64decode(head, validate=True)] == end)
    return b.keys and all(stretch["checkpoint"] for stretch in b.audit)
def form(b): need(len(b.data) <= 1 << 25) or vars(b).update(check(v := parse(b.data.decode()), MEMBERS["bundle"]) and v)
STEPS = dict(zip("format documents signatures registry quorum execution audit checkpoint".split(), [
    form, documents, signatures, registry, quorum, execution, audit, checkpoint], strict=True))
def verify(data, root, keys):
    b = Record(data=data, root=root and serialization.load_pem_public_key(root.encode()), keys=keys)
    verdicts = dict.fromkeys(STEPS, "not_checked")
    for step, run in STEPS.items():
        try:
            verdicts[step] = "ok" if (told := run(b)) is None or told else "not_checked"
        except FAULTS:
            verdicts[step] = "failed"
            if run in (form, documents):
                break
    return verdicts
def main(option, *rest):
    if option == "--vectors":
        cases = [json.loads(path.read_text()) for path in pathlib.Path(rest[0]).glob("*.json")]
        ran = [(v["name"], v["verdicts"], verify(v["bundle"].encode(), v["root"], v["checkpoint_keys"])) for v in cases]
        wrong = [f"{name}: {found}" for name, wanted, found in ran if found != wanted]
        return print("\n".join(wrong) or f"{len(cases)} vectors agree") or int(bool(wrong) or not cases)
    found = verify(pathlib.Path(option).read_bytes(), rest[0] != "-" and pathlib.Path(rest[0]).read_text(), rest[1:])
    return print(json.dumps(found)) or (3 if "failed" in found.values() else int("not_checked" in found.values()))
if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
