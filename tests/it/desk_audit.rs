//! What is read: why a payment is stuck, what proves it, who may see it, and the form of every tool.

use std::collections::BTreeSet;
use std::process::Output;
use std::time::Duration;

use countersign::domain::Role;
use countersign::proof::{Step, Trust, Verdict, verify};
use countersign::tools::TOOLS;
use serde_json::{Value, json};

use crate::desk_policy::{each, policy};
use crate::harness::app::{App, PEOPLE, POLICY, Wishes, each_with};
use crate::harness::desk::program;
use crate::harness::peer::Weather;
use crate::harness::rpc::Answer;

async fn explain(app: &App, order: &str) -> Answer {
    app.call(&app.operator(), "explain_payment", json!({"order_id": order})).await
}

/// The obstacle, what was found, and what to do.
fn obstacle(answer: &Answer) -> (String, String, String) {
    let name = answer.text("obstacle").to_owned();
    let checks = answer.body["checks"].as_array().unwrap();
    let failing = checks.iter().find(|check| check["ok"] == false);
    assert_eq!(failing.map_or("", |check| check["check"].as_str().unwrap()), name, "{}", answer.body);
    let text = |key: &str| failing.map_or("", |check| check[key].as_str().unwrap()).to_owned();
    for check in checks {
        let next = check["next"].as_str().unwrap();
        assert_eq!(next.is_empty(), check["ok"] == true, "a next step exactly where something is wrong: {check}");
    }
    if !name.is_empty() {
        assert!(answer.text("message").starts_with(&name) && answer.text("message").contains(&text("next")));
    }
    (name, text("found"), text("next"))
}

/// Holds that `order` is stuck on `check`, that what was found says `found`, and the next step `next`.
async fn stuck(app: &App, order: &str, check: &str, found: &str, next: &str) {
    let answer = explain(app, order).await;
    let (name, said, step) = obstacle(&answer);
    assert_eq!(name, check, "{order}: {}", answer.body);
    assert!(said.contains(found), "{order}: {said}");
    assert!(step.contains(next), "{order}: {step}");
    assert!(!answer.body.to_string().contains("SECRET"), "{}", answer.body);
}

/// What a check of the diagnosis found.
async fn found(app: &App, order: &str, check: &str) -> String {
    let answer = explain(app, order).await;
    let checks = answer.body["checks"].as_array().unwrap();
    let row = checks.iter().find(|row| row["check"] == check).unwrap_or_else(|| panic!("no {check}: {}", answer.body));
    row["found"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn explain_payment_tells_the_last_receipt_and_how_long_a_link_lasts() {
    each(async |app: &mut App| {
        app.create("order-1").await;
        assert_eq!(found(app, "order-1", "receipt").await, "none yet");
        app.notify("order-1").await;
        let told = found(app, "order-1", "receipt").await;
        assert!(told.starts_with("20") && told.ends_with("Z: done; finance-1 by console: delivered"), "{told}");
        let link = found(app, "order-1", "sign_link").await;
        let lapses = link.strip_prefix("one asked for now lapses at ").unwrap().split(';').next().unwrap().to_owned();
        let fresh = app.call(&app.agent(), "get_sign_link", json!({"order_id": "order-1"})).await;
        assert!(lapses.as_str() <= fresh.text("link_expires_at"), "{lapses} {}", fresh.body);

        app.signer_online(false).await;
        app.create("offline").await;
        app.notify("offline").await;
        let told = found(app, "offline", "receipt").await;
        assert!(told.ends_with("unreachable: offline; finance-1 by console: unreachable (offline)"), "{told}");
        app.signer_online(true).await;

        app.signer.set(Weather::Status(401));
        app.create("closed").await;
        app.notify("closed").await;
        assert_eq!(found(app, "closed", "receipt").await, "none yet");
        app.signer.set(Weather::Fair);
    })
    .await;
}

#[tokio::test]
async fn explain_payment_names_what_is_in_the_way_and_what_to_do() {
    each(async |app: &mut App| {
        let good = (String::new(), String::new(), String::new());
        app.create("order-1").await;
        assert_eq!(obstacle(&explain(app, "order-1").await), good, "nothing was tried yet");
        app.notify("order-1").await;
        assert_eq!(obstacle(&explain(app, "order-1").await), good, "the signers are at it");

        app.signer_online(false).await;
        app.create("offline").await;
        app.notify("offline").await;
        stuck(app, "offline", "notification", "last: signer_unreachable", "reassign_signer").await;
        app.until("offline", "NEED_MANUAL").await;
        stuck(app, "offline", "notification", "6 of 6 used", "resend_notification").await;
        app.signer_online(true).await;

        app.create("down").await;
        app.signer.down().await;
        app.notify("down").await;
        stuck(app, "down", "signer_service", "does not work", "bring the signer service back").await;
        app.signer.up().await;
        stuck(app, "down", "registration", "not registered", "next attempt").await;
        app.signer.set(Weather::Status(401));
        stuck(app, "down", "signer_service", "refuses our key", "signer.api_key").await;
        app.signer.set(Weather::Fair);
        app.until("down", "AWAITING_SIGNER").await;
        assert_eq!(obstacle(&explain(app, "down").await), good);

        app.signed("rail").await;
        app.rail.down().await;
        app.settle().await;
        stuck(app, "rail", "rail", "does not work", "bring the rail back").await;
        app.rail.up().await;
        app.rail.set(Weather::Status(403));
        stuck(app, "rail", "rail", "refuses our key", "rail.api_key").await;
        app.rail.set(Weather::Fair);
        app.until("rail", "EXECUTED").await;
        assert_eq!(obstacle(&explain(app, "rail").await), good, "an end is no obstacle");

        app.signed("doubt").await;
        app.faults(json!({"next": [{"kind": "drop_reply"}], "standing": {"lookup_down": true}})).await;
        app.settle().await;
        stuck(app, "doubt", "rail", "does not work", "Never pay this another way").await;
        app.faults(json!({"standing": {"lookup_down": false}})).await;
        stuck(app, "doubt", "execution", "phase unknown", "two operators attest").await;
        app.until("doubt", "EXECUTED").await;

        app.awaiting("held").await;
        app.call(&app.operator(), "hold_payment", json!({"order_id": "held", "reason": "by hand"})).await;
        stuck(app, "held", "manual_hold", "an operator holds it", "release_hold").await;

        app.signed("wrong").await;
        app.next_fault("wrong_amount").await;
        app.settle().await;
        app.until("wrong", "EXECUTED").await;
        stuck(app, "wrong", "attention", "INTEGRITY_MISMATCH", "rail's").await;

        // Nobody works.
        app.awaiting("idle").await;
        app.clock.advance(3_600 * 1_000_000);
        stuck(app, "idle", "worker", "nobody has done", "countersign worker").await;
        let agent = app.call(&app.agent(), "explain_payment", json!({"order_id": "idle"})).await;
        assert_eq!(agent.text("obstacle"), "worker", "an agent may ask of its own");
    })
    .await;
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}"))
}

#[tokio::test]
async fn the_evidence_of_a_payment_verifies_by_itself() {
    let rules = "[[rule]]\nid = \"two\"\ncurrency = \"USD\"\nlevels = [{ group = \"finance\", required = 2 }, \
        { group = \"board\", required = 1 }]\n";
    each_with(Wishes::default().patient().policy(policy(rules)), async |app: &mut App| {
        app.create("another").await;
        let id = app.awaiting("order-1").await;
        for person in ["finance-1", "finance-3", "finance-2", "board-1"] {
            app.sign_as(person, "order-1").await;
        }
        app.settle().await;
        assert_eq!(app.status("order-1").await.status(), "EXECUTED");
        let answer = app.call(&app.auditor(), "get_evidence", json!({"order_id": "order-1"})).await;
        let mut evidence = answer.body["evidence"].clone();
        assert_eq!(evidence["decisions"].as_array().unwrap().len(), 4, "the one too many is kept, and does not count");
        // No root and no checkpoint here: nothing else is left open.
        let report = verify(evidence.to_string().as_bytes(), &Trust::default());
        let open: Vec<Step> =
            report.steps.iter().filter(|checked| checked.verdict != Verdict::Ok).map(|checked| checked.step).collect();
        assert_eq!((report.verdict(), open), (Verdict::NotChecked, vec![Step::Registry, Step::Checkpoint]));
        // The keys are those that the people are known by.
        for kept in evidence["registry"].as_array().unwrap() {
            let entry: Value = serde_json::from_str(text(kept, "entry")).unwrap();
            let person = PEOPLE.iter().find(|person| **person == text(&entry, "signer_id")).unwrap();
            assert_eq!(text(&entry, "public_key"), app.key(person).public().to_b64url());
        }
        let ledger = app.ledger(&id).await;
        assert_eq!(evidence["execution"]["transfer_id"], ledger["entries"][0]["transfer_id"]);
        for secret in ["whsec_", "Bearer", "api-key", "nonce-"] {
            assert!(!answer.body.to_string().contains(secret), "{secret}");
        }
        let by_id = app.call(&app.auditor(), "get_evidence", json!({"payment_id": id})).await;
        evidence["generated_at"] = by_id.body["evidence"]["generated_at"].clone();
        assert_eq!(by_id.body["evidence"], evidence);
        // Before anything was signed there is little, and it is told all the same.
        let little = app.call(&app.auditor(), "get_evidence", json!({"order_id": "another"})).await;
        assert_eq!((little.status().as_str(), &little.body["evidence"]["decisions"]), ("CREATED", &json!([])));
    })
    .await;
}

#[tokio::test]
async fn list_audit_pages_through_the_whole_chain_and_ends() {
    each(async |app: &mut App| {
        for n in 0..40 {
            app.create(&format!("order-{n}")).await;
            app.cancel(&format!("order-{n}")).await;
        }
        let elsewhere = app.token("other-tenant", "agent-1", "agent-1", &[Role::Agent]);
        app.call(&elsewhere, "create_payment", json!({"order_id": "theirs", "amount": "1.00"})).await;
        let (mut seen, mut arguments, mut pages) = (Vec::new(), json!({}), 0);
        loop {
            let page = app.call(&app.auditor(), "list_audit", arguments).await;
            assert_eq!(page.status(), "OK", "{}", page.body);
            let entries = page.body["entries"].as_array().unwrap();
            assert!(entries.len() <= 50);
            seen.extend(entries.clone());
            pages += 1;
            let Some(cursor) = page.body["next_cursor"].as_str() else { break };
            arguments = json!({"cursor": cursor});
        }
        let stored = app.audit().await;
        assert!(stored.len() > 50 && pages >= 2);
        assert_eq!(seen.len(), stored.len());
        let mut before = "";
        for (number, entry) in (1_i64..).zip(&seen) {
            assert_eq!((entry["seq"].as_i64(), text(entry, "previous")), (Some(number), before), "unbroken");
            assert!(
                !text(entry, "entry").contains("theirs") && text(entry, "entry").contains("\"tenant\":\"default\"")
            );
            before = text(entry, "chain");
        }
        for bad in ["-1", "x", "1.5", "99999999999999999999"] {
            let refused = app.call(&app.auditor(), "list_audit", json!({"cursor": bad})).await;
            assert_eq!((refused.code().as_str(), refused.text("field")), ("INVALID_ARGUMENT", "cursor"), "{bad}");
        }
        let past = app.call(&app.auditor(), "list_audit", json!({"cursor": "1000000"})).await;
        assert_eq!((&past.body["entries"], past.body["next_cursor"].is_null()), (&json!([]), true));
    })
    .await;
}

/// Good arguments of every tool that speaks of one payment, but for the payment.
fn rest_of(tool: &str) -> Value {
    match tool {
        "confirm_signing" => json!({"signature": "x"}),
        "reject_signing" => json!({"signature": "x", "reason": "no"}),
        "reassign_signer" => json!({"signer_id": "finance-2"}),
        "hold_payment" => json!({"reason": "x"}),
        "release_hold" | "attest_not_executed" => json!({"evidence": "x"}),
        "attest_executed" => json!({"evidence": "x", "reference": "x"}),
        _ => json!({}),
    }
}

#[tokio::test]
async fn no_tool_shows_or_moves_another_tenants_or_agents_payment() {
    each(async |app: &mut App| {
        let id = app.awaiting("order-1").await;
        let before = app.payment("order-1").await;
        let roles = [
            (Role::Agent, "agent-1"),
            (Role::Signer, "finance-1"),
            (Role::Operator, "operator-1"),
            (Role::Auditor, "auditor-1"),
        ];
        let mut called = BTreeSet::new();
        for (role, person) in roles {
            let stranger = app.token("other-tenant", person, person, &[role]);
            let granted = app.rpc().tools(&stranger).await;
            for tool in TOOLS.iter().filter(|tool| granted.iter().any(|name| name == tool.name)) {
                let takes_one = tool.input_schema()["properties"].get("payment_id").is_some();
                let callers = if role == Role::Agent {
                    vec![stranger.clone(), app.other_agent()]
                } else {
                    vec![stranger.clone()]
                };
                for (token, selector) in callers.iter().flat_map(|token| {
                    [json!({"order_id": "order-1"}), json!({"payment_id": id})].map(|selector| (token, selector))
                }) {
                    if !takes_one {
                        continue;
                    }
                    let mut arguments = selector;
                    arguments.as_object_mut().unwrap().extend(rest_of(tool.name).as_object().unwrap().clone());
                    let answer = app.call(token, tool.name, arguments).await;
                    assert_eq!(answer.code(), "PAYMENT_NOT_FOUND", "{}: {}", tool.name, answer.body);
                    assert!(!answer.body.to_string().contains("AWAITING"), "{}", answer.body);
                    called.insert(tool.name);
                }
                if tool.name.starts_with("list_") {
                    let answer = app.call(&stranger, tool.name, json!({})).await;
                    assert!(!answer.body.to_string().contains(&id), "{}: {}", tool.name, answer.body);
                    called.insert(tool.name);
                }
            }
        }
        let rest: Vec<&str> = TOOLS.iter().map(|tool| tool.name).filter(|name| !called.contains(name)).collect();
        assert_eq!(rest, ["create_payment", "simulate_signer_online"], "every other tool was tried");
        assert_eq!(app.payment("order-1").await, before);
    })
    .await;
}

#[tokio::test]
async fn every_tool_publishes_its_schemas_and_answers_by_them() {
    each(async |app: &mut App| {
        let everybody = app.token("default", "finance-1", "finance-1", &[Role::Signer, Role::Operator, Role::Auditor]);
        app.awaiting("order-1").await;
        let mut seen = BTreeSet::new();
        for token in [app.agent(), everybody] {
            let list = app.rpc().request(&token, "tools/list", json!({})).await.json();
            for tool in list["result"]["tools"].as_array().unwrap() {
                let name = text(tool, "name");
                seen.insert(name.to_owned());
                assert!(text(tool, "description").len() > 40, "{name}");
                let (input, output) = (&tool["inputSchema"], &tool["outputSchema"]);
                assert_eq!(
                    (&input["type"], &input["additionalProperties"]),
                    (&json!("object"), &json!(false)),
                    "{name}"
                );
                assert_eq!((&output["type"], output["oneOf"].as_array().map(Vec::len)), (&json!("object"), Some(2)));
                let properties = input["properties"].as_object().unwrap();
                let required = input["required"].as_array().unwrap();
                let nullable =
                    |schema: &Value| schema["type"].as_array().is_some_and(|types| types.contains(&json!("null")));
                for (argument, schema) in properties {
                    assert!(schema["type"].is_string() || schema["type"].is_array(), "{name}.{argument}");
                    assert_eq!(nullable(schema), !required.contains(&json!(argument)), "{name}.{argument}");
                }
                assert!(required.iter().all(|argument| properties.contains_key(argument.as_str().unwrap())), "{name}");
                // What the schema forbids is refused, and says which argument it was.
                let unknown = app.call(&token, name, json!({"surprise": 1})).await;
                assert_eq!(unknown.code(), "INVALID_ARGUMENT", "{name}: {}", unknown.body);
                for argument in required {
                    let mut arguments = rest_of(name);
                    if properties.contains_key("payment_id") || name == "create_payment" {
                        arguments["order_id"] = json!("order-1");
                    }
                    if name == "create_payment" {
                        arguments["amount"] = json!("1.00");
                    }
                    if name == "simulate_signer_online" {
                        arguments = json!({"signer_id": "finance-1", "online": true});
                    }
                    arguments.as_object_mut().unwrap().remove(argument.as_str().unwrap());
                    let missing = app.call(&token, name, arguments).await;
                    assert!(missing.is_error, "{name} without {argument}: {}", missing.body);
                    assert_eq!(missing.body["field"], *argument, "{name}: {}", missing.body);
                }
            }
        }
        let known: BTreeSet<String> = TOOLS.iter().map(|tool| tool.name.to_owned()).collect();
        assert_eq!(seen, known, "all were seen");
    })
    .await;
}

/// Runs `countersign doctor` against the desk.
async fn doctor(app: &App, token: &str, arguments: &[&str]) -> Output {
    let url = format!("{}/mcp", app.config.server.public_url);
    let mut command = program();
    command.arg("doctor").args(arguments).args(["--url", &url]);
    let command = command.env("COUNTERSIGN_TOKEN", token).output();
    tokio::time::timeout(Duration::from_secs(20), command).await.unwrap().unwrap()
}

#[tokio::test]
async fn doctor_says_to_a_person_and_to_a_program_what_is_in_the_way() {
    each(async |app: &mut App| {
        let id = app.awaiting("order-1").await;
        let well = doctor(app, &app.operator(), &["order-1"]).await;
        let said = String::from_utf8(well.stdout).unwrap();
        assert_eq!(well.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&well.stderr));
        assert!(said.starts_with(&format!("order-1  {id}  AWAITING_SIGNER\n")) && !said.contains("NOT"), "{said}");

        app.call(&app.operator(), "hold_payment", json!({"order_id": "order-1", "reason": "by hand"})).await;
        let ill = doctor(app, &app.operator(), &[&id]).await;
        let (said, why) = (String::from_utf8(ill.stdout).unwrap(), String::from_utf8(ill.stderr).unwrap());
        assert_eq!((ill.status.code(), why.trim()), (Some(1), "countersign: manual_hold stands in the way"));
        assert!(said.contains("NOT  manual_hold") && said.contains("-> two operators release it"), "{said}");
        let ill = doctor(app, &app.auditor(), &["order-1", "--json"]).await;
        let body: Value = serde_json::from_slice(&ill.stdout).unwrap();
        assert_eq!((ill.status.code(), &body["obstacle"]), (Some(1), &json!("manual_hold")));
        assert!(body["checks"].as_array().unwrap().len() > 3, "{body}");

        let none = doctor(app, &app.operator(), &["order-0"]).await;
        assert_eq!(none.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&none.stderr).contains("PAYMENT_NOT_FOUND"));
    })
    .await;
}

#[tokio::test]
async fn a_policy_that_lets_agents_see_what_needs_a_person_shows_them_their_own() {
    let text = POLICY.replace("\"create_payment\", ", "\"create_payment\", \"list_attention\", ");
    each_with(Wishes::default().policy(text), async |app: &mut App| {
        app.create("order-1").await;
        let sql = "UPDATE payments SET attention = 'CONTEXT_BUDGET_SPENT'";
        app.db.raw().await.execute(sql).await.unwrap();
        for (token, shown) in [(app.agent(), 1), (app.other_agent(), 0), (app.operator(), 1)] {
            let listed = app.call(&token, "list_attention", json!({})).await;
            assert_eq!(listed.body["payments"].as_array().unwrap().len(), shown, "{}", listed.body);
        }
    })
    .await;
}
