//! The wrong clocks of chaos are wrong, or their process does not run.

use std::time::Duration;

use countersign::domain::Role;
use serde_json::json;

use crate::harness::database::TestEngine;
use crate::harness::desk::{Desk, Part, Plan};
use crate::harness::rpc::Miss;

/// Sets a process's clock wrong by so many milliseconds.
pub(super) const ERROR: &str = "COUNTERSIGN_CLOCK_ERROR_MS";

#[tokio::test]
async fn a_clock_that_is_set_wrong_is_wrong_and_an_error_that_cannot_be_read_stops_the_process() {
    let mut desk = Desk::prepare(Plan::new(TestEngine::Sqlite)).await;
    let gateway = Part::Serve(0);
    let list = async |desk: &Desk| {
        // Good for an hour from now, by the right clock.
        let token = desk.token("agent-1", Role::Agent);
        desk.rpc(0).try_call(&token, "list_payments", json!({})).await.map(|answer| answer.is_error)
    };
    for (error, answer) in [("0", Ok(false)), ("7200000", Err(Miss::Status(401))), ("-7200000", Ok(false))] {
        desk.launch(gateway, &[(ERROR, error.to_owned())]);
        assert!(desk.ready(gateway, Duration::from_secs(20)).await, "{}", desk.said(gateway));
        assert_eq!(list(&desk).await, answer, "{error}");
        desk.stop(gateway).await;
    }
    for error in ["", "2s", "1.5", "99999999999999999999"] {
        desk.launch(gateway, &[(ERROR, error.to_owned())]);
        let ended = desk.part(gateway).ended(Duration::from_secs(20)).await;
        assert!(ended.is_some_and(|status| !status.success()), "{error:?} is taken for a number: {ended:?}");
        assert!(desk.said(gateway).contains(ERROR), "{}", desk.said(gateway));
    }
}
