#!/usr/bin/env python3
"""Verifies an evidence bundle (docs/evidence.md). Written from that page; it shares no code with Countersign.
    verify.py BUNDLE ROOT.pem|- [CHECKPOINTKEY]...    exit 0: holds, 1: incomplete, 3: does not hold
    verify.py --vectors FOLDER                        exit 0: every vector comes out as it says
Needs Python 3.11 and the package cryptography. No step says why: countersign verify evidence does.
"""

# fmt: off
import base64
import datetime
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
STEPS = "format documents signatures registry quorum execution audit checkpoint".split()
def need(*conditions):
    if not all(conditions):
        raise ValueError(conditions)
def parse(text):
    return json.loads(text, object_pairs_hook=lambda pairs: need(len(dict(pairs)) == len(pairs)) or dict(pairs))
def check(value, shape):
    need(type(value) is type(shape), not isinstance(shape, dict) or value.keys() == shape.keys())
    if isinstance(shape, str):
        need(re.fullmatch(MEMBERS["kinds"].get(shape, shape), value), type(value.encode()) is bytes)
        return datetime.datetime.fromisoformat(value) if shape == "time" else value
    parts = [(value[name], shape[name]) for name in shape] if isinstance(shape, dict) else []
    return [check(*part) for part in parts or [(each, shape[0]) for each in value]]
def document(text, kind):
    check(value := parse(text), MEMBERS[kind])
    need(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False) == text)
    return Record(**value)
def sha(*parts):
    return hashlib.sha256(b"".join(part.encode() if isinstance(part, str) else part for part in parts))
def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
def unb64(text):
    need(b64(data := base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))) == text)
    return data
def documents(b):
    b.p, b.rule = document(b.payment["document"], "payment"), document(b.policy["document"], "policy")
    need(all(level["signers"] == sorted(set(level["signers"])) for level in b.rule.levels))
    b.r = [document(kept["entry"], f"registry {parse(kept['entry'])['status']}") for kept in b.registry]
    b.d = [document(each["document"], "approval") for each in b.decisions]
    for d, each in zip(b.d, b.decisions, strict=True):
        vars(d).update(each | {"key_id": d.key_id, "filed": each["key_id"]})
    b.counted = [d for d in b.d if d.standing == "counted"]
    b.receipt = document(b.execution["receipt"], "receipt") if b.execution["receipt"] else None
    b.words = [word for word in b.execution["attestations"] if word["reference"] == b.execution["transfer_id"]]
    b.status, b.executed, b.by_hand = b.payment["status"], b.payment["status"] == "EXECUTED", not b.receipt and b.words
    for tag, each in [("payment", b.payment), ("policy", b.policy)] + [("approval", each) for each in b.decisions]:
        need(each["digest"] == b64(sha(f"countersign/{tag}/v1\0", each["document"]).digest()))
def key_of(b, d):
    need(1 == sum(named := [(r.signer_id, r.key_id) == (d.signer_id, d.filed) for r in b.r]))
    return b.r[named.index(True)]
def jws(d, r):
    head, signature = d.proof["value"].split("..")
    need(parse(unb64(head)) == {"alg": "EdDSA", "kid": r.key_id, "typ": "countersign-approval+jws"})
    need(d.key_id == r.key_id, r.alg == "Ed25519", r.credential_id == r.rp_id == "")
    ed25519_key(unb64(r.public_key)).verify(unb64(signature), f"{head}.{b64(d.document.encode())}".encode())
def webauthn(d, r):
    said = document(d.proof["value"], "assertion")
    raw, data = unb64(said.client_data_json), unb64(said.authenticator_data)
    client, key = json.loads(raw), serialization.load_der_public_key(unb64(r.public_key))
    need(d.key_id == "passkey", said.credential_id == r.credential_id, r.credential_id, r.rp_id, len(data) > 36)
    need(client["type"] == "webauthn.get", client["challenge"] == d.digest, client["origin"] in r.origins.split())
    need(client.get("crossOrigin", False) is False, client.get("topOrigin") is None, data[:32] == sha(r.rp_id).digest())
    kinds = {"ES256": (ec.EllipticCurvePublicKey, [ec.ECDSA(hashes.SHA256())]), "EdDSA": (ed25519.Ed25519PublicKey, [])}
    kind, how = (kinds | {"RS256": (rsa.RSAPublicKey, [padding.PKCS1v15(), hashes.SHA256()])})[r.alg]
    need(data[32] & 29 in (5, 13, 29), isinstance(key, kind), getattr(key, "curve", ec.SECP256R1).name == "secp256r1")
    key.verify(unb64(said.signature), data + sha(raw).digest(), *how)
def signatures(b):
    for d in b.d:
        this = d.standing != "void"
        need((d.round == b.p.round) is this, (d.payment_digest == b.payment["digest"]) is this)
        need(1 == sum(asked == {name: getattr(d, name) for name in asked} for asked in b.challenges))
        need(d.standing != "counted" or d.issued_at <= d.decided_at < d.challenge_expires_at)
        {"jws": jws, "webauthn": webauthn}[d.proof["type"]](d, key_of(b, d))
def registry(b):
    owners = {(r.public_key, r.signer_id) for r in b.r}
    need(len({key for key, _ in owners}) == len(owners), all(r.tenant == b.p.tenant for r in b.r))
    for d, r in [(d, key_of(b, d)) for d in b.d]:
        need(r.enrolled_at <= d.decided_at, r.revoked_at == "" or d.decided_at < r.revoked_at)
    for kept in b.registry if b.root else []:
        b.root.verify(unb64(kept["signature"]), b"countersign/registry/v1\0" + kept["entry"].encode())
    return b.root or not b.registry
def evaluate(rule, requesters, votes):
    at, here, heard, wanted = 0, 0, set(requesters), [max(int(level["required"]), 1) for level in rule.levels]
    for who, choice in votes:
        if at < len(wanted) and who in rule.levels[at]["signers"] and (who not in heard or choice == "reject"):
            if choice == "reject" and rule.any_reject == "yes":
                return "rejected"
            here += heard.add(who) or choice == "approve"
            at, here = (at + 1, 0) if here >= wanted[at] else (at, here)
    lacks = [w - len(set(level["signers"]) - heard) for w, level in zip(wanted, rule.levels, strict=True)][at:] or [0]
    return "complete" if at == len(wanted) else "rejected" if max([lacks[0] - here] + lacks[1:]) > 0 else "pending"
def quorum(b):
    text = ", then ".join(f"{level['required']} of {level['group']}" for level in b.rule.levels)
    need(b.p.policy_digest == b.policy["digest"], b.p.policy_id == b.rule.id, b.p.policy_version == b.rule.version)
    requesters = [b.p.requester_agent] + [b.p.requester_principal] * (b.rule.principal_may_sign == "no")
    need(b.p.required == text, not any(d.signer_id in requesters for d in b.counted))
    need(len({(d.signer_id, d.confirmation) for d in b.counted}) == len(b.counted))
    found = evaluate(b.rule, requesters, [(d.signer_id, d.decision) for d in b.counted])
    holds = found == {"SIGNED": "complete", "EXECUTED": "complete", "REJECTED": "rejected"}.get(b.status, found)
    return need(holds or b.executed and b.by_hand) or holds
def execution(b):
    transfer, own = b.execution["transfer_id"], {name: getattr(b.p, name) for name in MEMBERS["request"]}
    need(all(parse(sent["body"]) == own | {"reference": b.p.payment_id} for sent in b.execution["requests"]))
    need(all(sent["key"].startswith(b.p.payment_id + ":rail.execute:g") for sent in b.execution["requests"]))
    need(b.executed or not b.receipt and transfer == "")
    people = {(w["episode"], w["person"]) for w in b.words if w["person"] != b.p.requester_principal}
    need(not b.executed or not b.by_hand or len(people) > len({episode for episode, _ in people}))
    if b.receipt:
        need(b.receipt.reference == b.p.payment_id, b.receipt.transfer_id == transfer, b.execution["requests"])
        need(all(getattr(b.receipt, name) == own[name] for name in ("amount_minor", "currency", "payee_account")))
    return not b.executed or b.receipt or b.by_hand
def walk(b):
    b.entries, b.ends, at = [], [], 0
    for stretch in b.audit:
        reached, at, chain = at, int(stretch["after"]), unb64(stretch["chain"])
        need(len(chain) == (32 if at else 0), at >= reached, stretch["items"])
        for item in stretch["items"]:
            at, own = at + 1, item.startswith("{")
            b.entries += [(at, document(item, "entry"))] if own else []
            leaf = sha(b"\0", item).digest() if own else unb64(item)
            need(len(leaf) == 32)
            chain = sha(b"\1", chain, leaf).digest()
        b.ends.append([str(at), chain])
    need(all((e.seq, e.tenant, e.payment_id) == (str(at), b.p.tenant, b.p.payment_id) for at, e in b.entries))
def audit(b):
    walk(b)
    changes = [e for _, e in b.entries if e.version]
    need([e.version for e in changes] == [str(n + 1) for n in range(len(changes))])
    need([getattr(e, "from") for e in changes] + [b.status] == [""] + [e.to for e in changes])
    begun, made = ([(0, b.entries[0][1])] + [(at, e) for at, e in b.entries if e.event == "execution.quorum_lost"])[-1]
    need(begun or made.event == "payment.created", made.digest_of_details == sha(b.payment["document"]).hexdigest())
    told, last = [(at, e) for at, e in b.entries if re.fullmatch("decision.(approve|reject|surplus)", e.event)], begun
    for d in b.d:
        kinds = [(f"decision.{d.decision}", True)] * (d.standing != "surplus")
        kinds += [("decision.surplus", False)] * (d.standing != "counted")
        same = (f"signer:{d.signer_id}", d.decided_at, sha(d.digest).hexdigest())
        own = [(at, e) for at, e in told if (e.event, bool(e.version)) in kinds]
        told.remove(own := [(at, e) for at, e in own if (e.actor, e.ts, e.digest_of_details) == same][0])
        need(d.standing != "counted" or own[0] > last)
        last = own[0] if d.standing == "counted" else last
    intents = [(at, e.digest_of_details) for at, e in b.entries if e.event == "rail.execute.intended"]
    bodies = {sha(sent["body"]).hexdigest() for sent in b.execution["requests"]}
    need(not told, not any(begun < at <= last for at, _ in intents), {body for _, body in intents} == bodies)
    done = [(at, e) for at, e in b.entries if e.to == "EXECUTED" != getattr(e, "from")]
    need(len(done) == b.executed)
    for at, e in done:
        need(e.digest_of_details == sha(b.execution["transfer_id"]).hexdigest())
        first = [f for n, f in b.entries if n < at and f.event == "attest_executed.first" and f.actor != e.actor]
        second = e.event == "attest_executed.second" and e.digest_of_details in [f.digest_of_details for f in first]
        need(second if b.by_hand else any(begun < n < at for n, _ in intents))
def checkpoint(b):
    need(walk(b) is None, b.ends)
    known = [key.split("+", 2) for key in b.keys]
    known = {(name, i): ed25519_key(base64.b64decode(key)[1:]) for name, i, key in known}
    for stretch, end in zip(b.audit, b.ends, strict=True):
        if b.keys and stretch["checkpoint"]:
            form = "((.*)/countersign-audit-v1/(.*)\n(.*)\n(.*)\n.*\n)\n\u2014 (.*) (.*)\n"
            text, origin, tenant, size, head, name, signed = re.fullmatch(form, stretch["checkpoint"]).groups()
            known[name, (signed := base64.b64decode(signed, validate=True))[:4].hex()].verify(signed[4:], text.encode())
            need((origin, tenant) == (name, b.p.tenant), [size, base64.b64decode(head, validate=True)] == end)
    return b.keys and all(stretch["checkpoint"] for stretch in b.audit)
def verify(data, root, keys):
    verdicts, b = {}, Record(root=root and serialization.load_pem_public_key(root.encode()), keys=keys)
    def form(b):
        vars(b).update(check(value := parse(data.decode()), MEMBERS["bundle"]) and value)
    for run in [form, documents, signatures, registry, quorum, execution, audit, checkpoint]:
        step = STEPS[len(verdicts)]
        try:
            verdicts[step] = "ok" if (told := run(b)) is None or told else "not_checked"
        except FAULTS:
            verdicts[step] = "failed"
            if run in (form, documents):
                return dict.fromkeys(STEPS, "not_checked") | verdicts
    return verdicts
def main(option, *rest):
    if option != "--vectors":
        root = rest[0] != "-" and pathlib.Path(rest[0]).read_text()
        print(json.dumps(verdicts := verify(pathlib.Path(option).read_bytes(), root, rest[1:])))
        return 3 if "failed" in verdicts.values() else int("not_checked" in verdicts.values())
    vectors = [json.loads(path.read_text()) for path in sorted(pathlib.Path(rest[0]).glob("*.json"))]
    found = [(v, verify(v["bundle"].encode(), v["root"], v["checkpoint_keys"])) for v in vectors]
    wrong = [f"{v['name']}: {verdicts}" for v, verdicts in found if verdicts != v["verdicts"]]
    print("\n".join(wrong) or f"{len(vectors)} vectors agree")
    return int(bool(wrong) or not vectors)
if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
