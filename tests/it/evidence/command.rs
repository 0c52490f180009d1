//! `countersign verify evidence` and the root's commands, as a person runs them.

use std::process::Output;

use countersign::proof::{RegistryEntry, verify_entry};

use super::good::told;
use super::{json, noter, root, rooted};
use crate::harness::app::{App, each_with, only};
use crate::harness::database::TestEngine;
use crate::harness::desk::program;
use crate::harness::folder::Folder;
use crate::harness::people::registry;

/// Exit code, standard output and error.
async fn said(arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = program();
    command.args(arguments).envs(environment.iter().copied());
    let Output { status, stdout, stderr } = command.output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[tokio::test]
async fn the_command_says_of_each_step_what_it_came_to() {
    let folder = Folder::new("evidence");
    only(TestEngine::Sqlite, rooted(&folder), async |app: &mut App| {
        let good = told(app, &folder).await;
        let file = folder.write("good.json", &good.jws);
        let (key, key_file) = (noter().verifier().to_text(), folder.write("noter.pub", &noter().verifier().to_text()));
        let root_file = folder.place("root.pub.pem");
        let all = ["verify", "evidence", &file, "--root", &root_file, "--checkpoint-key", &key];
        let (code, out, err) = said(&all, &[]).await;
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert_eq!(out.matches("ok ").count(), 8, "{out}");
        assert!(out.ends_with("the evidence holds\n"), "{out}");

        let (code, out, err) = said(&["verify", "evidence", &file, "--checkpoint-key", &key_file], &[]).await;
        assert_eq!(code, 1, "{out}{err}");
        assert!(out.contains("not_checked  registry") && err.contains("not checked: registry"), "{out}{err}");
        let rootless = folder.write("rootless.json", &good.rootless);
        let (code, out, _) = said(&["verify", "evidence", &rootless], &[]).await;
        assert!(code == 1 && out.contains("no root signed it; whose it is, only the gateway says"), "{out}");

        let tampered =
            folder.write("tampered.json", &good.jws.replace("\"status\":\"EXECUTED\"", "\"status\":\"FAILED\""));
        let (code, out, err) =
            said(&["verify", "evidence", &tampered, "--root", &root_file, "--checkpoint-key", &key, "--json"], &[])
                .await;
        let report = json(&out);
        assert_eq!((code, &report["ok"], &report["verdict"]), (3, &false.into(), &"failed".into()));
        assert!(err.contains("does not hold: execution, audit"), "{err}");
        assert_eq!((&report["steps"][6]["step"], &report["steps"][6]["verdict"]), (&"audit".into(), &"failed".into()));

        let private = folder.write("root.pem", &root().to_pem().unwrap());
        let missing = folder.place("missing.json");
        for unusable in [
            vec!["verify", "evidence", &missing],
            vec!["verify", "evidence", &file, "--root", &private],
            vec!["verify", "evidence", &file, "--root", &file],
            vec!["verify", "evidence", &file, "--checkpoint-key", "x"],
        ] {
            let (code, out, err) = said(&unusable, &[]).await;
            assert_eq!((code, out.as_str()), (2, ""), "{err}");
            assert!(!err.contains("BEGIN"), "{err}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_root_signs_whose_key_is_whose() {
    let folder = Folder::new("root");
    each_with(rooted(&folder), async |app: &mut App| {
        let own = Folder::new("root");
        let file = own.place("root.pem");
        let (code, out, err) = said(&["keys", "root", &file], &[]).await;
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert_eq!(said(&["keys", "root", &file], &[]).await.0, 1, "a key is never overwritten");
        // The desk's own root, which its gateway knows.
        let (root_file, public) = (own.write("own.pem", &root().to_pem().unwrap()), own.place("f3.pub.pem"));
        own.write("f3.pub.pem", &app.key("finance-1").public().to_pem().unwrap());
        let at = [("COUNTERSIGN__DATABASE__URL", app.db.url())];
        let key_id = app.key_id("finance-1");
        let base = ["keys", "certify", "finance-1", &key_id, "--by", "ops-1"];
        let (code, _, err) = said(&base, &at).await;
        assert!(code == 2 && err.contains("--root-key"), "{err}");
        let (code, out, err) = said(&[&base[..], &["--root-key", &root_file]].concat(), &at).await;
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(out.contains(&format!("certified finance-1 {key_id} as active by the root ")), "{out}");
        let with_root = [at[0], ("COUNTERSIGN_ROOT_KEY_FILE", root_file.as_str())];
        let enrol = said(&["keys", "enrol", "finance-1", &public, "--by", "ops-1"], &with_root).await;
        assert!(enrol.0 == 0 && enrol.1.contains("already has") && enrol.1.contains("certified"), "{enrol:?}");
        app.awaiting("order-1").await;
        assert_eq!(app.sign("order-1").await.status(), "SIGNED");
        let revoke = said(&["keys", "revoke", "finance-1", &key_id, "--by", "ops-1"], &with_root).await;
        assert!(revoke.0 == 0 && revoke.1.contains("as revoked by the root"), "{revoke:?}");
        let pinned = registry("finance-1").pinned(app.db.store(), &key_id.parse().unwrap()).await.unwrap();
        assert_eq!(RegistryEntry::parse(&pinned.entry).unwrap().status, RegistryEntry::REVOKED);
        verify_entry(&root().public(), &pinned.entry, &pinned.entry_signature).unwrap();
    })
    .await;
}
