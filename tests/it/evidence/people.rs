//! Payments that several people decided, each in a way of their own, and their bundles.

use countersign::ambient::{Clock as _, SystemClock};
use countersign::domain::Choice;
use countersign::proof::{b64url, decision_digest, tagged_digest};
use serde_json::{Value, json};

use super::good::approve;
use super::tampered::{decision, edit, insider, item, payment, rewrite, sign, text};
use super::vectors::Vector;
use super::{bundle, certify, certify_all, checkpoints, json as parsed, registry, ruled};
use crate::harness::app::{App, Wishes};
use crate::harness::folder::Folder;
use crate::harness::passkey::{Odd, SoftPasskey};
use crate::passkeys::{decide, document, enrolled};
use crate::restore::marked_and_compared;

/// The bundles of one desk's payments.
#[derive(Clone)]
pub(super) struct Many {
    /// One of finance and one of legal at once; the one by key file is of both, the other by passkey.
    pub(super) both: String,
    /// A deputy decided in place of one of finance.
    pub(super) deputy: String,
    /// Two of finance; a third account is the second's person.
    pub(super) accounts: String,
    /// The payee's account belongs to one of finance, who was not asked.
    pub(super) owner: String,
    /// Confirmed with a key file and a passkey of the same person.
    pub(super) twice: String,
    /// One of finance, then one of the board.
    pub(super) levels: String,
    /// A no that does not end it by itself, and puts the quorum out of reach.
    pub(super) unreached: String,
    /// Signed, then asked anew after a restore, and signed again.
    pub(super) anew: String,
    /// Asked anew after a restore before anybody had decided.
    pub(super) waiting: String,
}

/// A desk where people are many things at once; the root's public half is in `folder`.
pub(super) fn peopled(folder: &Folder) -> Wishes {
    let bound = |hours: i64| SystemClock.now().plus_micros(hours * 3_600_000_000).rfc3339();
    let (from, until) = (bound(-1), bound(1));
    let rule = |id: &str, least: &str, rest: &str| {
        format!("[[rule]]\nid = \"{id}\"\ncurrency = \"USD\"\namount_at_least = \"{least}\"\n{rest}\n")
    };
    let two = "levels = [{ group = \"finance\", required = 2 }]";
    let one = "levels = [{ group = \"finance\", required = 1 }]";
    let rules = [
        rule("lenient", "6000.00", &format!("{two}\nany_reject = false")),
        rule(
            "both",
            "5000.00",
            "levels = [{ groups = [{ group = \"finance\", required = 1 }, { group = \"legal\", required = 1 }] }]",
        ),
        rule("two", "4000.00", two),
        rule("twice", "3000.00", &format!("{one}\nconfirmations = 2")),
        rule(
            "levels",
            "2000.00",
            "levels = [{ group = \"finance\", required = 1 }, { group = \"board\", required = 1 }]",
        ),
        rule("one", "1.00", one),
        format!("[[deputy]]\nof = \"finance-1\"\nsigner = \"stranger-1\"\nfrom = \"{from}\"\nuntil = \"{until}\"\n"),
        "[persons]\n\"j.doe\" = [\"finance-2\", \"finance-3\", \"sub:jd@example.org\"]\n".to_owned(),
        "[payees.beneficiaries]\nacct-2 = \"finance-2\"\n".to_owned(),
    ];
    let board = "board = [\"board-1\", \"board-2\"]";
    let policy = crate::desk_policy::policy(&rules.concat());
    ruled(folder, policy.replace(board, &format!("{board}\nlegal = [\"finance-1\", \"board-1\"]")))
}

async fn propose(app: &App, order: &str, amount: &str, payee: &str) {
    let asked = json!({"order_id": order, "amount": amount, "payee": payee, "notify": true});
    let asked = app.call(&app.agent(), "create_payment", asked).await;
    assert_eq!(asked.status(), "AWAITING_SIGNER", "{}", asked.body);
}

/// A passkey of a person's, under the root.
async fn passkey_of(app: &App, person: &str) -> SoftPasskey {
    let (passkey, key_id) = enrolled(app, person).await;
    let pinned = registry(person).pinned(app.db.store(), &key_id.parse().unwrap()).await.unwrap();
    certify(app, person, &key_id, &pinned.public_key).await;
    passkey
}

/// Lets it all happen.
pub(super) async fn happened(app: &mut App, folder: &Folder) -> Many {
    app.did.rewind = true;
    let checkpoints = checkpoints(app, folder).await;
    certify_all(app).await;
    let passkey = passkey_of(app, "finance-2").await;
    let second = passkey_of(app, "finance-1").await;
    for (order, amount) in [
        ("unreached", "6000.00"),
        ("both", "5000.00"),
        ("deputy", "4000.00"),
        ("accounts", "4000.00"),
        ("twice", "3000.00"),
        ("levels", "2000.00"),
    ] {
        propose(app, order, amount, "acct-1").await;
    }
    propose(app, "owner", "10.00", "acct-2").await;
    app.sign_as("finance-1", "both").await;
    approve(app, &passkey, "finance-2", "both").await;
    app.sign_as("stranger-1", "deputy").await;
    approve(app, &passkey, "finance-2", "deputy").await;
    approve(app, &passkey, "finance-2", "accounts").await;
    app.sign_as("finance-3", "accounts").await;
    app.sign_as("finance-1", "accounts").await;
    app.sign_as("finance-1", "owner").await;
    let words = document(app, "finance-1", "twice", Choice::Approve).await;
    app.sign_as("finance-1", "twice").await;
    let assertion = second.sign(&decision_digest(&words), Odd::default());
    assert_eq!(decide(app, "twice", &words, &assertion).await, (200, String::new()));
    app.deliver_callbacks().await;
    app.sign_as("stranger-1", "levels").await;
    app.sign_as("board-2", "levels").await;
    app.reject("finance-1", "unreached", "not ours").await;
    app.settle().await;
    for order in ["both", "deputy", "accounts", "owner", "twice", "levels"] {
        assert_eq!(app.payment(order).await.status.as_str(), "EXECUTED", "{order}");
    }
    assert_eq!(app.payment("unreached").await.status.as_str(), "REJECTED");
    for order in ["anew", "waiting"] {
        propose(app, order, "20.00", "acct-1").await;
    }
    app.sign_as("finance-1", "anew").await;
    marked_and_compared(app, "told").await;
    app.settle().await;
    app.sign_as("finance-3", "anew").await;
    app.settle().await;
    assert_eq!(app.payment("anew").await.status.as_str(), "EXECUTED");
    checkpoints.write_all().await.unwrap();
    Many {
        both: bundle(app, "both").await,
        deputy: bundle(app, "deputy").await,
        accounts: bundle(app, "accounts").await,
        owner: bundle(app, "owner").await,
        twice: bundle(app, "twice").await,
        levels: bundle(app, "levels").await,
        unreached: bundle(app, "unreached").await,
        anew: bundle(app, "anew").await,
        waiting: bundle(app, "waiting").await,
    }
}

/// The good ones, by their names.
pub(super) fn good(many: &Many) -> Vec<(&'static str, &String)> {
    vec![
        ("good-two-groups", &many.both),
        ("good-deputy", &many.deputy),
        ("good-accounts-of-one", &many.accounts),
        ("good-beneficiary-not-asked", &many.owner),
        ("good-two-keys", &many.twice),
        ("good-two-levels", &many.levels),
        ("good-out-of-reach", &many.unreached),
        ("good-asked-anew", &many.anew),
        ("good-asked-anew-open", &many.waiting),
    ]
}

/// Another policy, which P names and everybody who approved with a key file signs anew.
fn under(bundle: &mut Value, change: impl FnOnce(&mut Value)) {
    rewrite(&mut bundle["policy"]["document"], change);
    let digest = b64url(tagged_digest("countersign/policy/v1", text(&bundle["policy"]["document"])));
    bundle["policy"]["digest"] = json!(digest);
    payment(bundle, |p| p["policy_digest"] = json!(digest));
    let digest = bundle["payment"]["digest"].clone();
    for at in 0..bundle["decisions"].as_array().unwrap().len() {
        decision(bundle, at, |d| d["payment_digest"] = digest.clone());
        sign(bundle, at, &insider());
    }
}

/// Ways to tamper with them, each with the step that must see it.
pub(super) fn tampered(many: &Many) -> Vec<Vector> {
    [stood_in(many), counted(many), written(many), anew(many)].concat()
}

/// A bundle without one of its decisions.
fn without(text: &str, at: usize) -> String {
    edit(text, |b| drop(b["decisions"].as_array_mut().unwrap().remove(at)))
}

fn quorum(name: &str, changed: &str, bundle: String) -> Vector {
    Vector::of(name, changed, "quorum", bundle)
}

/// Who is who, and who stands in for whom.
fn stood_in(many: &Many) -> Vec<Vector> {
    vec![
        quorum("quorum-one-of-two-groups", "who is of both groups stands for both", without(&many.both, 1)),
        quorum(
            "quorum-deputy-late",
            "the deputy's time was over",
            edit(&many.deputy, |b| {
                b["decisions"][0]["decided_at"] = json!("2199-01-01T00:00:00.000Z");
            }),
        ),
        quorum(
            "quorum-deputy-early",
            "the deputy's time had not begun",
            edit(&many.deputy, |b| b["decisions"][0]["decided_at"] = json!("2001-01-01T00:00:00.000Z")),
        ),
        quorum(
            "quorum-deputy-of-two",
            "one deputy stands in for two people at once",
            edit(&many.deputy, |b| {
                under(b, |p| {
                    let mut other = p["deputies"][0].clone();
                    other["of"] = json!("finance-2");
                    p["deputies"].as_array_mut().unwrap().push(other);
                });
                b["decisions"].as_array_mut().unwrap().remove(1);
            }),
        ),
        quorum(
            "quorum-deputy-of-the-paid",
            "a deputy stands in for the one who is paid",
            edit(&many.deputy, |b| under(b, |p| p["beneficiary"] = json!("finance-1"))),
        ),
        quorum(
            "quorum-requester-elsewhere",
            "the signer asked for it, by another name",
            edit(&many.accounts, |b| payment(b, |p| p["requester_principal"] = json!("jd@example.org"))),
        ),
        quorum(
            "quorum-deputy-beside",
            "a deputy and whom they stand in for",
            edit(&many.accounts, |b| {
                under(b, |p| p["deputies"][0]["of"] = json!("finance-2"));
                b["decisions"].as_array_mut().unwrap().remove(2);
                decision(b, 1, |d| d["signer_id"] = json!("stranger-1"));
                b["decisions"][1]["standing"] = json!("counted");
            }),
        ),
        quorum(
            "quorum-two-accounts",
            "two accounts of one person stand for two people",
            edit(&many.accounts, |b| {
                b["decisions"].as_array_mut().unwrap().remove(1);
                b["decisions"][1]["standing"] = json!("counted");
            }),
        ),
    ]
}

/// Who is paid, how often somebody confirmed, whose turn it was.
fn counted(many: &Many) -> Vec<Vector> {
    vec![
        quorum(
            "quorum-beneficiary",
            "the signer is paid, and signed that anew",
            edit(&many.owner, |b| {
                under(b, |p| p["beneficiary"] = json!("finance-1"));
            }),
        ),
        quorum(
            "quorum-beneficiary-beside",
            "one who is paid signs as well, where another was enough",
            edit(&many.deputy, |b| {
                payment(b, |p| p["required"] = json!("1 of finance"));
                under(b, |p| {
                    p["levels"][0]["required"] = json!("1");
                    p["beneficiary"] = json!("finance-3");
                });
            }),
        ),
        quorum(
            "quorum-one-key-twice",
            "both confirmations are with one key",
            edit(&many.twice, |b| {
                let first = b["decisions"][0].clone();
                for member in ["document", "digest", "key_id", "proof"] {
                    b["decisions"][1][member] = first[member].clone();
                }
            }),
        ),
        quorum("quorum-half", "the second confirmation is left out", without(&many.twice, 1)),
        quorum(
            "quorum-levels-swapped",
            "the second level approved first",
            edit(&many.levels, |b| {
                b["decisions"].as_array_mut().unwrap().swap(0, 1);
            }),
        ),
        quorum("quorum-in-reach", "nobody said the no that put it out of reach", without(&many.unreached, 0)),
        quorum(
            "quorum-fewer-keys",
            "a policy that asks for one key, with its own digest",
            edit(&many.twice, |b| {
                under(b, |p| drop(p.as_object_mut().unwrap().remove("confirmations")));
            }),
        ),
    ]
}

/// Policies in another form than the one.
fn written(many: &Many) -> Vec<Vector> {
    let documents = |name: &str, changed: &str, change: &dyn Fn(&mut Value)| {
        Vector::of(name, changed, "documents", edit(&many.twice, |b| under(b, change)))
    };
    vec![
        documents("documents-one-confirmation", "a policy that says what goes without saying", &|p| {
            p["confirmations"] = json!("1");
        }),
        documents("documents-no-deputies", "a policy with an empty list", &|p| p["deputies"] = json!([])),
        documents("documents-no-level", "a policy that asks nobody", &|p| p["levels"] = json!([])),
        documents("documents-no-group", "a policy with a level of no group", &|p| {
            p["levels"] = json!([{"groups": []}]);
        }),
        documents("documents-one-group", "a policy with a list of one group", &|p| {
            p["levels"] = json!([{"groups": [p["levels"][0].clone()]}]);
        }),
        documents("documents-number", "a policy that asks for +1", &|p| p["levels"][0]["required"] = json!("+1")),
        documents("documents-deputys-time", "a policy with a time in another form", &|p| {
            p["deputies"][0]["from"] = json!("2026-01-01T00:00:00Z");
        }),
    ]
}

/// A round that a restore began.
fn anew(many: &Many) -> Vec<Vector> {
    vec![
        Vector::of(
            "signatures-before-the-restore",
            "a signature of before the restore counts",
            "signatures",
            edit(&many.anew, |b| {
                b["decisions"][0]["standing"] = json!("counted");
                b["decisions"][0]["round"] = json!("2");
            }),
        ),
        Vector::of(
            "audit-asked-anew-hidden",
            "that everybody was asked anew is hidden",
            "audit",
            edit(&many.anew, |b| {
                let entry = item(b, "restore.asked_anew");
                *entry = json!(countersign::proof::leaf(text(entry)));
            }),
        ),
        Vector::of(
            "audit-asked-anew-elsewhere",
            "it was asked anew about another document",
            "audit",
            edit(&many.anew, |b| {
                rewrite(item(b, "restore.asked_anew"), |entry| {
                    entry["digest_of_details"] = json!(countersign::proof::sha256_hex("other"));
                });
            }),
        ),
    ]
}

/// Holds what these payments are vectors of.
pub(super) fn as_meant(many: &Many) {
    let told = |text: &str, member: &str| {
        let bundle = parsed(text);
        let all = bundle["decisions"].as_array().unwrap();
        all.iter().map(|each| each[member].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(told(&many.accounts, "standing"), ["counted", "counted", "surplus"]);
    assert_eq!(told(&many.twice, "confirmation"), ["1", "2"]);
    assert_eq!(told(&many.anew, "standing"), ["void", "counted"]);
    for mixed in [&many.both, &many.twice] {
        let forms: Vec<Value> =
            parsed(mixed)["decisions"].as_array().unwrap().iter().map(|each| each["proof"]["type"].clone()).collect();
        assert_eq!(forms, ["jws", "webauthn"]);
    }
    for anew in [&many.anew, &many.waiting] {
        assert!(anew.contains("restore.asked_anew"));
    }
}
