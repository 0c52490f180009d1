//! A desk of real processes: proposed, countersigned, executed, told, whoever is killed meanwhile.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;

use crate::harness::database::{TestEngine, engines};
use crate::harness::desk::{Desk, Link, Part, Plan};
use crate::harness::wire::Wire;

const REST: Duration = Duration::from_secs(30);

#[tokio::test]
async fn processes_that_are_killed_frozen_and_stopped_pay_once_and_tell_everything() {
    join_all(engines().into_iter().map(async |engine| {
        let shared = engine == TestEngine::Postgres;
        let plan = Plan::new(engine);
        let mut desk = Desk::open(if shared { plan.processes(2, 2) } else { plan }).await;
        desk.propose("order-1").await;
        desk.kill(Part::Serve(0)).await;
        if !shared {
            desk.start(Part::Serve(0)).await;
        }
        desk.propose("order-2").await;
        desk.countersign("order-1").await;
        if shared {
            desk.freeze(Part::Worker(0));
            desk.kill(Part::Worker(1)).await;
            desk.start(Part::Serve(0)).await;
            desk.start(Part::Worker(1)).await;
        }
        desk.countersign("order-2").await;
        desk.kill(Part::Rail).await;
        desk.kill(Part::Signer).await;
        desk.propose("order-3").await;
        desk.start(Part::Signer).await;
        desk.countersign("order-3").await;
        desk.start(Part::Rail).await;
        if shared {
            desk.thaw(Part::Worker(0));
            desk.stop(Part::Worker(0)).await;
        }
        assert_eq!(desk.comes_to_rest(REST).await, [], "{engine}");
        let moved = desk.rail_book().await.texts("SELECT reference FROM transfers").await;
        assert_eq!(moved.len(), 3, "{engine}: {moved:?}");
        desk.finish().await;
    }))
    .await;
}

#[tokio::test]
async fn processes_whose_wires_are_cut_and_mended_pay_once_and_tell_everything() {
    join_all(engines().into_iter().map(async |engine| {
        let mut desk = Desk::prepare(Plan::new(engine).set("RAIL__READ_TIMEOUT_MS", 300)).await;
        let wires = [
            (Link::Signer, Wire::to(desk.at.signer.clone()).await),
            (Link::Rail, Wire::to(desk.at.rail.clone()).await),
            (Link::Sink, Wire::to(desk.at.sink.clone()).await),
        ];
        for (link, wire) in &wires {
            desk.through(*link, wire.address);
        }
        desk.start_all().await;
        for person in ["finance-1", "finance-2"] {
            desk.presence(person, false).await;
        }
        desk.propose("order-1").await;
        for (_, wire) in &wires {
            wire.cut();
        }
        desk.propose("order-2").await;
        desk.countersign("order-1").await;
        desk.faults(json!({"next": [{"kind": "drop_reply"}]})).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        for (_, wire) in &wires {
            wire.mend();
        }
        desk.presence("finance-1", true).await;
        desk.countersign("order-2").await;
        assert_eq!(desk.comes_to_rest(REST).await, [], "{engine}");
        let moved = desk.rail_book().await.texts("SELECT reference FROM transfers").await;
        assert_eq!(moved.len(), 2, "{engine}: {moved:?}");
        desk.finish().await;
    }))
    .await;
}
