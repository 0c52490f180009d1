//! Ways to tamper with a bundle, each with the step that must see it.
//!
//! Who tampers is able: digests are made anew, documents written in their form, and what can be signed with a key of
//! one's own is.

use countersign::domain::Timestamp;
use countersign::proof::{
    NoteSigner, RegistryEntry, SigningKey, b64url, decision_digest, jcs, key_id_of, payment_digest, sha256_hex,
    sign_detached, sign_entry, tagged_digest,
};
use serde_json::{Value, json};

use super::good::Good;
use super::vectors::Vector;
use super::{json, noter, root};

/// A bundle with a change.
pub(super) fn edit(text: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut bundle = json(text);
    change(&mut bundle);
    assert_ne!(bundle, json(text), "nothing was changed");
    bundle.to_string()
}

/// Changes a document that a member holds as text, and writes it in canonical form again.
pub(super) fn rewrite(member: &mut Value, change: impl FnOnce(&mut Value)) {
    let mut document = json(member.as_str().unwrap());
    change(&mut document);
    *member = json!(jcs(&document).unwrap());
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Changes P, and all that anybody can put right after it.
pub(super) fn payment(bundle: &mut Value, change: impl FnOnce(&mut Value)) {
    rewrite(&mut bundle["payment"]["document"], change);
    bundle["payment"]["digest"] = json!(payment_digest(text(&bundle["payment"]["document"])));
}

/// Changes a D, and all that anybody can put right after it.
pub(super) fn decision(bundle: &mut Value, at: usize, change: impl FnOnce(&mut Value)) {
    rewrite(&mut bundle["decisions"][at]["document"], change);
    bundle["decisions"][at]["digest"] = json!(decision_digest(text(&bundle["decisions"][at]["document"])));
}

/// Signs a decision with a key of one's own under the name it has.
pub(super) fn sign(bundle: &mut Value, at: usize, key: &SigningKey) {
    let decided = &bundle["decisions"][at];
    let jws = sign_detached(key, text(&decided["key_id"]), text(&decided["document"])).unwrap();
    bundle["decisions"][at]["proof"] = json!({"type": "jws", "value": jws});
}

/// Changes a registry entry and signs it with `by`.
fn entry(bundle: &mut Value, at: usize, by: &SigningKey, change: impl FnOnce(&mut Value)) {
    rewrite(&mut bundle["registry"][at]["entry"], change);
    let signature = sign_entry(by, text(&bundle["registry"][at]["entry"]));
    bundle["registry"][at]["signature"] = json!(signature);
}

/// Where an entry of this event is: its stretch and item.
fn place(bundle: &Value, event: &str) -> (usize, usize) {
    let named = format!("\"event\":\"{event}\"");
    let stretches = bundle["audit"].as_array().unwrap().iter().enumerate();
    let found = stretches.flat_map(|(at, stretch)| {
        stretch["items"].as_array().unwrap().iter().enumerate().map(move |(item, text)| (at, item, text))
    });
    let (at, item, _) = found.into_iter().find(|(_, _, item)| text(item).contains(&named)).unwrap();
    (at, item)
}

pub(super) fn item<'a>(bundle: &'a mut Value, event: &str) -> &'a mut Value {
    let (at, item) = place(bundle, event);
    &mut bundle["audit"][at]["items"][item]
}

/// The chain made anew after a change, under a checkpoint by `signer`.
fn rechain(bundle: &mut Value, signer: &NoteSigner) {
    for stretch in bundle["audit"].as_array_mut().unwrap() {
        let mut chain = text(&stretch["chain"]).to_owned();
        let items = stretch["items"].as_array().unwrap().clone();
        for item in &items {
            let item = text(item);
            let leaf = if item.starts_with('{') { countersign::proof::leaf(item) } else { item.to_owned() };
            let parts = [&[1][..], &bytes(&chain), &bytes(&leaf)].concat();
            chain = b64url(<sha2::Sha256 as sha2::Digest>::digest(parts));
        }
        let size = text(&stretch["after"]).parse::<i64>().unwrap() + i64::try_from(items.len()).unwrap();
        stretch["checkpoint"] = json!(signer.sign("default", size, &chain, Timestamp::from_micros(0)).unwrap());
    }
}

fn bytes(text: &str) -> Vec<u8> {
    countersign::proof::from_b64url(text).unwrap()
}

/// Somebody without a right to anything, and their key.
fn stranger() -> SigningKey {
    SigningKey::from_seed(&[99; 32])
}

/// `finance-1`'s own key: a signer who is in on it.
pub(super) fn insider() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

/// Everything that was thought of.
pub(super) fn all(good: &Good) -> Vec<Vector> {
    let mut vectors = form(good);
    vectors.extend(documents(good));
    vectors.extend(signatures(good));
    vectors.extend(passkeys(good));
    vectors.extend(keys(good));
    vectors.extend(quorum(good));
    vectors.extend(execution(good));
    vectors.extend(audit(good));
    vectors.extend(checkpoints(good));
    vectors
}

fn form(good: &Good) -> Vec<Vector> {
    let made = |name: &str, changed: &str, bundle: String| Vector::of(name, changed, "format", bundle);
    let change = |name: &str, changed: &str, change: &dyn Fn(&mut Value)| made(name, changed, edit(&good.jws, change));
    vec![
        change("format-other-version", "the format's version", &|b| b["format"] = json!("countersign/evidence/v2")),
        change("format-more", "a member that the format does not have", &|b| b["note"] = json!("trust me")),
        change("format-less", "the registry is left out", &|b| drop(b.as_object_mut().unwrap().remove("registry"))),
        made(
            "format-twice",
            "the status stands there twice, first the true one",
            good.jws.replace("\"status\":\"EXECUTED\"", "\"status\":\"EXECUTED\",\"status\":\"SIGNED\""),
        ),
        change("format-number", "a number that is no string", &|b| b["decisions"][0]["confirmation"] = json!(1)),
        change("format-number-spelled", "a number with a zero before it", &|b| {
            b["decisions"][0]["round"] = json!("01");
        }),
        change("format-time", "a time without its milliseconds", &|b| {
            b["decisions"][0]["decided_at"] = json!("2026-01-01T00:00:00Z");
        }),
        change("format-no-such-time", "the 30th of February", &|b| {
            b["generated_at"] = json!("2026-02-30T00:00:00.000Z");
        }),
        change("format-list", "a list of the values where an object belongs", &|b| {
            let policy = &b["policy"];
            b["policy"] = json!([policy["document"], policy["digest"]]);
        }),
        change("format-standing", "a standing that there is not", &|b| b["decisions"][0]["standing"] = json!("good")),
        made("format-cut", "the second half is missing", good.jws[..good.jws.len() / 2].to_owned()),
    ]
}

fn documents(good: &Good) -> Vec<Vector> {
    let change = |name: &str, changed: &str, change: &dyn Fn(&mut Value)| {
        Vector::of(name, changed, "documents", edit(&good.jws, change))
    };
    vec![
        change("documents-amount", "the amount in P, its digest left as it was", &|b| {
            rewrite(&mut b["payment"]["document"], |p| p["amount_minor"] = json!("19901"));
        }),
        change("documents-spelled", "P with a space in it", &|b| {
            let spaced = text(&b["payment"]["document"]).replacen(':', ": ", 1);
            b["payment"]["digest"] = json!(payment_digest(&spaced));
            b["payment"]["document"] = json!(spaced);
        }),
        change("documents-policy", "the policy asks for nobody in particular, its digest left as it was", &|b| {
            rewrite(&mut b["policy"]["document"], |p| p["any_reject"] = json!("no"));
        }),
        change("documents-decision-digest", "a decision's digest", &|b| {
            b["decisions"][0]["digest"] = json!(b64url([7; 32]));
        }),
        change("documents-kind", "a decision that is neither yes nor no", &|b| {
            decision(b, 0, |d| d["decision"] = json!("maybe"));
        }),
        change("documents-entry", "a registry entry that is active and revoked", &|b| {
            entry(b, 0, &root(), |r| r["revoked_at"] = json!("2026-01-01T00:00:00.000Z"));
        }),
        change("documents-receipt", "a receipt with a member more", &|b| {
            rewrite(&mut b["execution"]["receipt"], |r| r["fee"] = json!("0"));
        }),
    ]
}

fn signatures(good: &Good) -> Vec<Vector> {
    let made = |name: &str, changed: &str, bundle: String| Vector::of(name, changed, "signatures", bundle);
    let change = |name: &str, changed: &str, change: &dyn Fn(&mut Value)| made(name, changed, edit(&good.jws, change));
    let foreign = json(&good.two)["decisions"][0].clone();
    vec![
        change("signatures-amount", "the amount in P, its digest, the request and the receipt", &|b| {
            let more = |document: &mut Value| document["amount_minor"] = json!("99900");
            payment(b, more);
            rewrite(&mut b["execution"]["requests"][0]["body"], more);
            rewrite(&mut b["execution"]["receipt"], more);
        }),
        change("signatures-payee", "the payee, also in the decision that nobody signed anew", &|b| {
            payment(b, |p| p["payee_account"] = json!("mine"));
            let digest = b["payment"]["digest"].clone();
            decision(b, 0, |d| d["payment_digest"] = digest);
        }),
        change("signatures-bit", "one bit of the signature", &|b| {
            let jws = text(&b["decisions"][0]["proof"]["value"]).to_owned();
            let (head, signature) = jws.split_once("..").unwrap();
            let mut raw = bytes(signature);
            raw[40] ^= 1;
            b["decisions"][0]["proof"]["value"] = json!(format!("{head}..{}", b64url(raw)));
        }),
        made(
            "signatures-no-to-yes",
            "a rejection reads as an approval",
            edit(&good.rejected, |b| {
                decision(b, 0, |d| d["decision"] = json!("approve"));
                b["payment"]["status"] = json!("SIGNED");
            }),
        ),
        change("signatures-other-payment", "the decision of another payment", &|b| {
            b["decisions"][0] = foreign.clone();
        }),
        change("signatures-stranger", "the signature is a stranger's under the signer's name", &|b| {
            sign(b, 0, &stranger());
        }),
        change("signatures-unasked", "the challenge was never asked", &|b| {
            b["challenges"].as_array_mut().unwrap().retain(|asked| asked["signer_id"] != "finance-1");
        }),
        change("signatures-late", "the decision came after its challenge had ended", &|b| {
            b["decisions"][0]["decided_at"] = json!("2199-01-01T00:00:00.000Z");
        }),
        change("signatures-header", "another algorithm in the signature's header", &|b| {
            let jws = text(&b["decisions"][0]["proof"]["value"]).to_owned();
            let (head, signature) = jws.split_once("..").unwrap();
            let head = String::from_utf8(bytes(head)).unwrap().replace("EdDSA", "none");
            b["decisions"][0]["proof"]["value"] = json!(format!("{}..{signature}", b64url(head)));
        }),
        change("signatures-form", "the proof is called by another form's name", &|b| {
            b["decisions"][0]["proof"]["type"] = json!("webauthn");
        }),
        made(
            "signatures-old-round",
            "a signature of an earlier round counts as one of this",
            edit(&good.again, |b| {
                b["decisions"][0]["standing"] = json!("counted");
                b["decisions"][0]["round"] = json!("2");
            }),
        ),
        change("signatures-no-entry", "the registry entry of the key is missing", &|b| b["registry"] = json!([])),
    ]
}

/// What a browser and an authenticator vouched for, edited.
fn passkeys(good: &Good) -> Vec<Vector> {
    let change = |name: &str, changed: &str, member: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let bundle = edit(&good.passkey, |b| {
            rewrite(&mut b["decisions"][0]["proof"]["value"], |said| {
                let mut raw = bytes(text(&said[member]));
                change(&mut raw);
                said[member] = json!(b64url(raw));
            });
        });
        Vector::of(name, changed, "signatures", bundle)
    };
    let swap = |raw: &mut Vec<u8>, from: &str, to: &str| {
        *raw = String::from_utf8(raw.clone()).unwrap().replacen(from, to, 1).into_bytes();
    };
    let mut vectors = vec![
        change("passkey-origin", "the page that asked is another", "client_data_json", &|raw| {
            swap(raw, "http://127.0.0.1", "http://evil.test");
        }),
        change("passkey-ceremony", "the passkey was made, not used", "client_data_json", &|raw| {
            swap(raw, "webauthn.get", "webauthn.create");
        }),
        change("passkey-framed", "the page was in another's frame", "client_data_json", &|raw| {
            swap(raw, "\"crossOrigin\":false", "\"crossOrigin\":true");
        }),
        change("passkey-site", "the passkey is of another site", "authenticator_data", &|raw| raw[0] ^= 1),
        change("passkey-unverified", "the device did not verify its user", "authenticator_data", &|raw| raw[32] &= !4),
        change("passkey-counter", "the counter, which is signed as well", "authenticator_data", &|raw| raw[36] ^= 1),
        change("passkey-signature", "one bit of the signature", "signature", &|raw| *raw.last_mut().unwrap() ^= 1),
    ];
    let challenge = json(&good.two)["decisions"][1]["proof"].clone();
    vectors.push(Vector::of(
        "passkey-replayed",
        "the same passkey's answer to another payment",
        "signatures",
        edit(&good.passkey, |b| b["decisions"][0]["proof"] = challenge),
    ));
    vectors
}

fn keys(good: &Good) -> Vec<Vector> {
    let change = |name: &str, changed: &str, change: &dyn Fn(&mut Value)| {
        Vector::of(name, changed, "registry", edit(&good.jws, change))
    };
    let told = json(&good.two)["registry"][0]["signature"].clone();
    let other = json(&good.passkey)["registry"][0]["signature"].clone();
    vec![
        change("registry-own-key", "a stranger's key and signature, under a root of their own", &|b| {
            let key = stranger();
            let name = key_id_of(&key.public());
            entry(b, 0, &key, |r| {
                r["public_key"] = json!(key.public().to_b64url());
                r["key_id"] = json!(name);
            });
            decision(b, 0, |d| d["key_id"] = json!(name));
            b["decisions"][0]["key_id"] = json!(name);
            sign(b, 0, &key);
        }),
        change("registry-unsigned", "the root's signature is left out", &|b| b["registry"][0]["signature"] = json!("")),
        change("registry-other-entry", "the root's signature is of another entry", &|b| {
            let another = if b["registry"][0]["signature"] == told { &other } else { &told };
            b["registry"][0]["signature"] = another.clone();
        }),
        change("registry-revoked", "the key had been revoked when it signed, as the root says", &|b| {
            let at = b["decisions"][0]["decided_at"].clone();
            entry(b, 0, &root(), |r| {
                r["status"] = json!(RegistryEntry::REVOKED);
                r["revoked_at"] = at;
            });
        }),
        change("registry-later", "the key was enrolled after it signed, as the root says", &|b| {
            entry(b, 0, &root(), |r| r["enrolled_at"] = json!("2199-01-01T00:00:00.000Z"));
        }),
        change("registry-tenant", "the key is another tenant's, as the root says", &|b| {
            entry(b, 0, &root(), |r| r["tenant"] = json!("another"));
        }),
        Vector::of(
            "registry-two-people",
            "one key is that of two people, as the root says",
            "registry",
            edit(&good.two, |b| {
                let own = json(text(&b["registry"][0]["entry"]))["public_key"].clone();
                entry(b, 2, &root(), |r| r["public_key"] = own);
            }),
        ),
    ]
}

fn quorum(good: &Good) -> Vec<Vector> {
    let made = |name: &str, changed: &str, bundle: String| Vector::of(name, changed, "quorum", bundle);
    vec![
        made(
            "quorum-policy",
            "a policy that asks for one where two were asked, with its own digest",
            edit(&good.two, |b| {
                rewrite(&mut b["policy"]["document"], |p| p["levels"][0]["required"] = json!("1"));
                let digest = tagged_digest("countersign/policy/v1", text(&b["policy"]["document"]));
                b["policy"]["digest"] = json!(b64url(digest));
            }),
        ),
        made(
            "quorum-one-missing",
            "one of the two approvals is left out",
            edit(&good.two, |b| drop(b["decisions"].as_array_mut().unwrap().remove(1))),
        ),
        made(
            "quorum-twice",
            "one approval stands for two",
            edit(&good.two, |b| b["decisions"][1] = b["decisions"][0].clone()),
        ),
        made(
            "quorum-requester",
            "the signer asked for the payment, and signed that anew",
            edit(&good.jws, |b| {
                payment(b, |p| p["requester_principal"] = json!("finance-1"));
                let digest = b["payment"]["digest"].clone();
                decision(b, 0, |d| d["payment_digest"] = digest);
                sign(b, 0, &insider());
            }),
        ),
        made(
            "quorum-nobody",
            "a payment that nobody approved is executed",
            edit(&good.open, |b| b["payment"]["status"] = json!("EXECUTED")),
        ),
        made(
            "quorum-no-one-refused",
            "a payment that nobody refused is rejected",
            edit(&good.open, |b| b["payment"]["status"] = json!("REJECTED")),
        ),
    ]
}

fn execution(good: &Good) -> Vec<Vector> {
    let made = |name: &str, changed: &str, bundle: String| Vector::of(name, changed, "execution", bundle);
    let change = |name: &str, changed: &str, change: &dyn Fn(&mut Value)| made(name, changed, edit(&good.jws, change));
    let receipt = |name: &str, changed: &str, member: &'static str, value: &'static str| {
        change(name, changed, &|b| rewrite(&mut b["execution"]["receipt"], |r| r[member] = json!(value)))
    };
    vec![
        receipt("execution-amount", "the rail moved another amount", "amount_minor", "19800"),
        receipt("execution-payee", "the rail paid somebody else", "payee_account", "another"),
        receipt("execution-reference", "the rail's word is of another payment", "reference", "pay_0"),
        receipt("execution-transfer", "the receipt is of another transfer", "transfer_id", "tr_0"),
        change("execution-no-receipt", "the receipt is left out", &|b| b["execution"]["receipt"] = json!("")),
        change("execution-request", "another payee was sent to the rail", &|b| {
            rewrite(&mut b["execution"]["requests"][0]["body"], |sent| sent["payee_account"] = json!("mine"));
        }),
        change("execution-more", "the request says more than the payment", &|b| {
            rewrite(&mut b["execution"]["requests"][0]["body"], |sent| sent["split_to"] = json!("mine"));
        }),
        change("execution-request-twice", "the request names two payees, of which a reader takes one", &|b| {
            let body = text(&b["execution"]["requests"][0]["body"]).to_owned();
            b["execution"]["requests"][0]["body"] = json!(body.replacen('{', "{\"payee_account\":\"mine\",", 1));
        }),
        made(
            "execution-one-person",
            "one person gave both words",
            edit(&good.by_hand, |b| b["execution"]["attestations"][1]["person"] = json!("operator-1")),
        ),
        made(
            "execution-unfinished",
            "there is a transfer for a payment that is open",
            edit(&good.open, |b| b["execution"]["transfer_id"] = json!("tr_1")),
        ),
    ]
}

fn audit(good: &Good) -> Vec<Vector> {
    let made = |name: &str, changed: &str, bundle: String| Vector::of(name, changed, "audit", bundle);
    let change = |name: &str, changed: &str, change: &dyn Fn(&mut Value)| made(name, changed, edit(&good.jws, change));
    let hide = |b: &mut Value, event: &str| {
        let entry = item(b, event);
        *entry = json!(countersign::proof::leaf(text(entry)));
    };
    vec![
        change("audit-hidden", "an entry is given as another's, by its hash", &|b| hide(b, "rail.execute.intended")),
        change("audit-hidden-decision", "the entry of the approval is hidden", &|b| hide(b, "decision.approve")),
        change("audit-decided-at", "the approval is an hour older", &|b| {
            let at = Timestamp::parse_rfc3339(text(&b["decisions"][0]["decided_at"])).unwrap();
            b["decisions"][0]["decided_at"] = json!(at.plus_micros(1_000).rfc3339());
        }),
        change("audit-swapped", "the intent stands before the approval, all of it chained and signed anew", &|b| {
            let (one, two) = (place(b, "decision.approve"), place(b, "rail.execute.intended"));
            let first = b["audit"][one.0]["items"][one.1].clone();
            b["audit"][one.0]["items"][one.1] = b["audit"][two.0]["items"][two.1].clone();
            b["audit"][two.0]["items"][two.1] = first;
            let mut numbered = |(stretch, at): (usize, usize)| {
                let after: usize = text(&b["audit"][stretch]["after"]).parse().unwrap();
                let seq = (after + at + 1).to_string();
                rewrite(&mut b["audit"][stretch]["items"][at], |entry| entry["seq"] = json!(seq));
            };
            numbered(one);
            numbered(two);
            rechain(b, &noter());
        }),
        change("audit-status", "the payment is told to be further than it is", &|b| {
            b["payment"]["status"] = json!("CANCELLED");
        }),
        change("audit-transfer", "another transfer, in the receipt too", &|b| {
            b["execution"]["transfer_id"] = json!("tr_0");
            rewrite(&mut b["execution"]["receipt"], |r| r["transfer_id"] = json!("tr_0"));
        }),
        made(
            "audit-decision-left-out",
            "the approval that was one too many is left out",
            edit(&good.two, |b| drop(b["decisions"].as_array_mut().unwrap().remove(2))),
        ),
        made(
            "audit-surplus-counts",
            "the approval that was one too many counts",
            edit(&good.two, |b| b["decisions"][2]["standing"] = json!("counted")),
        ),
        change("audit-foreign-entry", "an entry of another payment, chained and signed anew", &|b| {
            rewrite(item(b, "payment.created"), |entry| entry["payment_id"] = json!("pay_0"));
            rechain(b, &noter());
        }),
        change("audit-document", "the entry that made the payment tells of another document, signed anew", &|b| {
            rewrite(item(b, "payment.created"), |entry| entry["digest_of_details"] = json!(sha256_hex("other")));
            rechain(b, &noter());
        }),
        made(
            "audit-one-word",
            "the first of two people's words is the second's own, signed anew",
            edit(&good.by_hand, |b| {
                let second = json(text(item(b, "attest_executed.second")))["actor"].clone();
                rewrite(item(b, "attest_executed.first"), |entry| entry["actor"] = second);
                rechain(b, &noter());
            }),
        ),
        made(
            "audit-overlap",
            "two stretches are of one place",
            edit(&good.apart, |b| {
                let first = b["audit"][0].clone();
                b["audit"].as_array_mut().unwrap().push(first);
            }),
        ),
    ]
}

fn checkpoints(good: &Good) -> Vec<Vector> {
    let change = |name: &str, changed: &str, change: &dyn Fn(&mut Value)| {
        Vector::of(name, changed, "checkpoint", edit(&good.jws, change))
    };
    vec![
        change("checkpoint-entry", "an entry names another actor", &|b| {
            rewrite(item(b, "payment.created"), |entry| entry["actor"] = json!("agent:another"));
        }),
        change("checkpoint-hash", "another entry's hash", &|b| {
            let items = b["audit"][0]["items"].as_array_mut().unwrap();
            let other = items.iter_mut().find(|item| !text(item).starts_with('{')).unwrap();
            *other = json!(b64url([5; 32]));
        }),
        change("checkpoint-beginning", "another beginning", &|b| b["audit"][0]["chain"] = json!(b64url([5; 32]))),
        change("checkpoint-position", "all of it one position later", &|b| {
            let after: i64 = text(&b["audit"][0]["after"]).parse().unwrap();
            b["audit"][0]["after"] = json!((after + 1).to_string());
        }),
        change("checkpoint-stranger", "made up as a whole, under a stranger's key of the same name", &|b| {
            rewrite(item(b, "payment.created"), |entry| entry["actor"] = json!("agent:another"));
            rechain(b, &NoteSigner::from_seed("pay.example", &[99; 32]).unwrap());
        }),
        change("checkpoint-edited", "the note says that the chain is longer", &|b| {
            let note = text(&b["audit"][0]["checkpoint"]).to_owned();
            let size = note.lines().nth(1).unwrap();
            b["audit"][0]["checkpoint"] = json!(note.replacen(&format!("\n{size}\n"), &format!("\n1{size}\n"), 1));
        }),
        change("checkpoint-missing", "the note is left out", &|b| b["audit"][0]["checkpoint"] = json!("")),
        change("checkpoint-no-audit", "the audit is left out", &|b| b["audit"] = json!([])),
    ]
}
