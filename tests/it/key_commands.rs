//! `countersign keys …` for passkeys, as an operator runs them.

use axum::Json;
use axum::http::StatusCode;
use countersign::domain::Choice;
use countersign::proof::{SigningKey, decision_digest, enrolment_digest};
use serde_json::{Value, json};

use crate::harness::app::{App, PEOPLE, SIGNER_API_KEY, Wishes, only};
use crate::harness::database::TestEngine;
use crate::harness::desk::program;
use crate::harness::folder::Folder;
use crate::harness::passkey::{Odd, SoftPasskey};
use crate::harness::people::registry;
use crate::passkeys::{decide, document, site};

/// The registry's root of every test here.
fn root() -> SigningKey {
    SigningKey::from_seed(&[11; 32])
}

/// An operator at a desk, with a configuration file of their own.
struct Operator<'a> {
    app: &'a App,
    folder: Folder,
}

impl<'a> Operator<'a> {
    /// Whose signer service is at `signer`.
    fn asking(app: &'a App, signer: &str) -> Self {
        let folder = Folder::new("operator");
        let site = site(app);
        let origins: Vec<&String> = site.origins.iter().collect();
        let config = format!(
            "[database]\nurl = {:?}\n[signer]\nurl = {signer:?}\napi_key_file = {:?}\n[passkeys]\nrp_id = {:?}\norigins = {origins:?}\n[registry]\nroot_public_key_file = {:?}\n",
            app.db.url(),
            folder.write("signer-api-key", SIGNER_API_KEY),
            site.id,
            app.config.registry.root_public_key_file
        );
        folder.write("countersign.toml", &config);
        Self { app, folder }
    }

    fn at(app: &'a App) -> Self {
        Self::asking(app, &app.signer.url())
    }

    /// Exit code, standard output and error of `keys …`; nothing of it moves a terminal's cursor.
    async fn keys(&self, arguments: &[&str]) -> (i32, String, String) {
        let config = self.folder.place("countersign.toml");
        let mut command = program();
        command.arg("keys").args(arguments).args(["--by", "ops-1", "--config", &config]);
        let output = command.output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        let odd = |c: char| c.is_control() && c != '\n';
        assert!(!out.contains(odd) && !err.contains(odd), "{out:?} {err:?}");
        (output.status.code().unwrap(), out, err)
    }

    /// Has `person` make a passkey by an invitation: the passkey, the invitation, the code.
    async fn made(&self, person: &str) -> (SoftPasskey, String, String) {
        let (code, out, err) = self.keys(&["invite", person]).await;
        assert_eq!(code, 0, "{err}");
        let invitation = out.lines().next().unwrap().to_owned();
        let link = out.split_whitespace().find(|word| word.contains("/enrol/")).unwrap().to_owned();
        let kept = format!("SELECT document FROM invitations WHERE invitation_id = '{invitation}'");
        let document = self.app.db.raw().await.texts(&kept).await.remove(0);
        let passkey = SoftPasskey::new(&site(self.app));
        let made = passkey.register(&enrolment_digest(&document), Odd::default());
        let made = json!({"label": "phone", "client_data_json": made.client_data_json,
            "attestation_object": made.attestation_object});
        let answered: Value = self.app.http.post(link).json(&made).send().await.unwrap().json().await.unwrap();
        (passkey, invitation, answered["code"].as_str().unwrap().to_owned())
    }

    /// What the signer service was told of passkeys.
    async fn told(&self) -> Vec<String> {
        let sql = "SELECT tenant || ' ' || signer_id || ' ' || state FROM passkeys ORDER BY changed_at";
        self.app.signer_db().await.texts(sql).await
    }
}

async fn alone(wishes: Wishes, test: impl AsyncFn(&mut App)) {
    only(TestEngine::Sqlite, wishes.browsed().patient(), test).await;
}

#[tokio::test]
async fn under_a_root_a_passkey_is_offered_once_the_root_has_signed_it() {
    let folder = Folder::new("root");
    let public = folder.write("root.pub.pem", &root().public().to_pem().unwrap());
    let (own, wrong) = (
        folder.write("root.pem", &root().to_pem().unwrap()),
        folder.write("wrong.pem", &SigningKey::from_seed(&[12; 32]).to_pem().unwrap()),
    );
    let wishes = Wishes::default().config(move |config| config.registry.root_public_key_file.clone_from(&public));
    alone(wishes, async |app: &mut App| {
        let operator = Operator::at(app);
        let (passkey, invitation, code) = operator.made("finance-1").await;
        // The wrong root is found out before anything is written.
        let pin = ["pin", "finance-1", &invitation, &code];
        let (exit, out, err) = operator.keys(&[&pin[..], &["--root-key", &wrong]].concat()).await;
        assert!(exit == 2 && out.is_empty() && err.contains("another key than the root"), "{out}{err}");
        assert_eq!(app.audited_events("signer_key.enrolled").await, PEOPLE.len());

        // Without the root's key at hand it is pinned, and said to count for nothing; no page offers it.
        let (exit, out, err) = operator.keys(&pin).await;
        assert!(exit == 0 && out.contains("finance-1 enrolled passkey-"), "{out}{err}");
        let key_id = out.split_whitespace().find(|word| word.starts_with("passkey-")).unwrap();
        let certify = ["certify", "finance-1", key_id];
        assert!(err.contains("counts for nothing yet") && err.contains(&certify.join(" ")), "{err}");
        assert_eq!(operator.told().await, [""; 0]);
        let (exit, _, err) = operator.keys(&[&certify[..], &["--root-key", &wrong]].concat()).await;
        assert!(exit == 2 && err.contains("another key than the root"), "{err}");
        let (exit, out, err) = operator.keys(&[&certify[..], &["--root-key", &own]].concat()).await;
        assert!(exit == 0 && err.is_empty() && out.contains("as active by the root"), "{out}{err}");
        assert_eq!(operator.told().await, ["default finance-1 active"]);
        app.awaiting("order-1").await;
        // The document is asked for as a key file's owner asks for it.
        let own_key = app.key_id("finance-1").parse().unwrap();
        let public = app.key("finance-1").public().to_b64url();
        registry("finance-1").certify(app.db.store(), &own_key, &public, &root()).await.unwrap();
        let text = document(app, "finance-1", "order-1", Choice::Approve).await;
        let assertion = passkey.sign(&decision_digest(&text), Odd::default());
        assert_eq!(decide(app, "order-1", &text, &assertion).await, (200, String::new()));
        let told = app.call(&app.agent(), "check_sign_status", json!({"order_id": "order-1"})).await;
        assert_eq!(told.status(), "SIGNED", "{}", told.body);
        // Pinned again, as after a service that could not be told: it counts, and nothing is warned of.
        let (exit, _, err) = operator.keys(&pin).await;
        assert_eq!((exit, err.as_str()), (0, ""));

        // With the root's key at hand it is one step.
        let (_, invitation, code) = operator.made("finance-2").await;
        let (exit, out, err) = operator.keys(&["pin", "finance-2", &invitation, &code, "--root-key", &own]).await;
        assert!(exit == 0 && err.is_empty() && out.contains("as active by the root"), "{out}{err}");
        assert!(operator.told().await.contains(&"default finance-2 active".to_owned()));

        // A key file is warned of alike.
        let file = operator.folder.write("new.pub.pem", &SigningKey::from_seed(&[13; 32]).public().to_pem().unwrap());
        let (exit, out, err) = operator.keys(&["enrol", "finance-1", &file]).await;
        assert!(exit == 0 && out.contains("enrolled") && err.contains("counts for nothing yet"), "{out}{err}");
        let (exit, _, err) = operator.keys(&["enrol", "finance-1", &file, "--root-key", &own]).await;
        assert_eq!((exit, err.as_str()), (0, ""));
    })
    .await;
}

#[tokio::test]
async fn an_invitation_that_was_withdrawn_pins_nothing() {
    alone(Wishes::default(), async |app: &mut App| {
        let operator = Operator::at(app);
        let (_, invitation, code) = operator.made("finance-1").await;
        let (exit, _, err) = operator.keys(&["uninvite", "finance-2", &invitation]).await;
        assert!(exit == 1 && err.contains("no such invitation"), "{err}");
        let (exit, out, err) = operator.keys(&["uninvite", "finance-1", &invitation]).await;
        assert!(exit == 0 && out.contains("is withdrawn"), "{out}{err}");
        let (exit, out, err) = operator.keys(&["pin", "finance-1", &invitation, &code]).await;
        assert!(exit == 1 && out.is_empty() && err.contains("withdrawn"), "{out}{err}");
        let (exit, ..) = operator.keys(&["uninvite", "finance-1", &invitation]).await;
        assert_eq!(exit, 1, "once is enough");
        assert_eq!(app.audited("signer_key.uninvited", &format!("finance-1 {invitation}")).await, 1);
        assert_eq!(
            (app.audited_events("signer_key.enrolled").await, operator.told().await),
            (PEOPLE.len(), Vec::new())
        );

        // A passkey that was pinned is not withdrawn by it.
        let (_, invitation, code) = operator.made("finance-1").await;
        assert_eq!(operator.keys(&["pin", "finance-1", &invitation, &code]).await.0, 0);
        let (exit, _, err) = operator.keys(&["uninvite", "finance-1", &invitation]).await;
        assert!(exit == 1 && err.contains("keys revoke"), "{err}");
        assert_eq!(operator.told().await, ["default finance-1 active"]);
    })
    .await;
}

#[tokio::test]
async fn what_the_signer_service_says_is_neither_pinned_nor_printed_as_it_is() {
    alone(Wishes::default(), async |app: &mut App| {
        let operator = Operator::at(app);
        let (_, invitation, code) = operator.made("finance-1").await;
        let pin = ["pin", "finance-1", &invitation, &code];
        for label in
            ["'a' || char(27) || '[2Jb'", "'a' || char(10) || 'b'", "'a' || char(8238) || 'b'", "printf('%.65c', 'x')"]
        {
            let sql = format!("UPDATE invitations SET label = {label}");
            app.signer_db().await.execute(&sql).await.unwrap();
            let (exit, out, err) = operator.keys(&pin).await;
            assert!(exit == 1 && out.is_empty(), "{label}: {out}");
            assert!(err.contains("at most 64 plain characters") && err.contains("look at the signer service"), "{err}");
        }
        assert_eq!(app.rows("signer_keys").await, PEOPLE.len(), "nothing was pinned beside the keys of everyone");
        app.signer_db().await.execute("UPDATE invitations SET label = printf('%.64c', 'x')").await.unwrap();
        assert_eq!(operator.keys(&pin).await.0, 0);

        // A service in other hands says what it likes in every answer.
        let refused = axum::Router::new().fallback(async || {
            (StatusCode::BAD_GATEWAY, Json(json!({"error_code": "x", "error_message": "\u{1b}]0;owned\u{7}"})))
        });
        let lying = axum::Router::new().fallback(async || {
            let state = json!({"state": "\u{1b}[31m", "label": "", "registration": null});
            let mut answer = json!({"invitation_id": "inv_1", "url": "javascript:\u{1b}[2J"});
            answer.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
            (StatusCode::OK, Json(answer))
        });
        for (router, invites, pins) in [
            (refused, "a reason that is no plain text", "a reason that is no plain text"),
            (lying, "no link", "no passkey was made for it yet"),
        ] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let serving = tokio::spawn(async move { axum::serve(listener, router).await });
            let operator = Operator::asking(app, &url);
            let (exit, out, err) = operator.keys(&["invite", "finance-1"]).await;
            assert!(exit == 1 && out.is_empty() && err.contains(invites), "{out}{err}");
            let (exit, out, err) = operator.keys(&["pin", "finance-1", "inv_1", "x"]).await;
            assert!(exit == 1 && out.is_empty() && err.contains(pins), "{out}{err}");
            serving.abort();
        }
    })
    .await;
}
