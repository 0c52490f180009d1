//! The load of chaos: agents that propose, people who decide, and what each of them was answered.
//!
//! Every answer is looked at, and an answer is a promise: what was proposed, approved, rejected or called off
//! must be so at the end.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign::domain::Role;
use futures::future::join_all;
use serde_json::json;

use super::{roll, waits_for_a_person};
use crate::harness::desk::{Callers, LARGE, OrderRow, SMALL};
use crate::harness::rpc::Answer;

/// Whose order it is, and how many must approve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// One person approves.
    Small,
    /// Two people must.
    Large,
    /// Of an agent that may have two orders open at once.
    Few,
    /// Of an agent with a purse for two orders, none of which is ever paid.
    Purse,
}

impl Kind {
    const fn agent(self) -> &'static str {
        match self {
            Self::Small | Self::Large => "agent-1",
            Self::Few => "agent-few",
            Self::Purse => "agent-purse",
        }
    }

    const fn amount(self) -> &'static str {
        if matches!(self, Self::Large) { LARGE } else { SMALL }
    }

    const fn people(self) -> &'static [&'static str] {
        if matches!(self, Self::Large) { &["finance-1", "finance-2"] } else { &["finance-1"] }
    }

    /// What its limit refuses with.
    const fn limit(self) -> Option<&'static str> {
        match self {
            Self::Small | Self::Large => None,
            Self::Few => Some("MANDATE_EXCEEDED"),
            Self::Purse => Some("VELOCITY_EXCEEDED"),
        }
    }
}

/// What the last answer about an order says of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Promise {
    /// A limit refused it: there is no such payment.
    Refused,
    /// It is there, and nobody has decided.
    Open,
    Approved,
    Rejected,
    CalledOff,
    /// Called off when it may have been on its way.
    CancelPending,
}

impl Promise {
    fn is_kept(self, at_the_end: Option<&OrderRow>) -> bool {
        let Some(order) = at_the_end else { return self == Self::Refused };
        match self {
            Self::Refused => false,
            Self::Open | Self::Approved => order.status == "EXECUTED",
            Self::Rejected => order.status == "REJECTED",
            Self::CalledOff => order.status == "CANCELLED",
            Self::CancelPending => {
                matches!(order.status.as_str(), "EXECUTED" | "CANCELLED") || waits_for_a_person(order)
            }
        }
    }
}

/// What was promised, by order.
#[derive(Default)]
pub(super) struct Load {
    promises: Mutex<BTreeMap<String, (Kind, Promise)>>,
    over: AtomicBool,
}

impl Load {
    /// No client begins anything more.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn promised(&self, kind: Kind, order: &str, promise: Promise) {
        self.promises.lock().unwrap().insert(order.to_owned(), (kind, promise));
    }

    /// How often what was promised.
    pub(super) fn counts(&self) -> BTreeMap<(Kind, Promise), usize> {
        let mut counts = BTreeMap::new();
        for promise in self.promises.lock().unwrap().values() {
            *counts.entry(*promise).or_default() += 1;
        }
        counts
    }

    /// One client: an agent, and the people it then meets.
    pub(super) async fn client(&self, callers: &Callers, client: usize) {
        for number in 0.. {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let order = format!("order-{client}-{number}");
            match (client + number) % 6 {
                0 | 3 => self.story(callers, Kind::Large, &order).await,
                1 => self.rush(callers, Kind::Few, &order).await,
                4 => self.rush(callers, Kind::Purse, &order).await,
                _ => self.story(callers, Kind::Small, &order).await,
            }
        }
    }

    /// An order, and whoever comes.
    async fn story(&self, callers: &Callers, kind: Kind, order: &str) {
        assert!(self.propose(callers, kind, order).await);
        match roll(10) {
            0 => self.call_off(callers, kind, order).await,
            1 => self.reject(callers, kind, order).await,
            // Nobody comes before the end.
            2 => {}
            _ => {
                self.approve(callers, kind, order).await;
                if roll(5) == 0 {
                    self.call_off(callers, kind, order).await;
                }
            }
        }
    }

    /// Three orders at the same moment, of an agent whose limit lets two through.
    async fn rush(&self, callers: &Callers, kind: Kind, order: &str) {
        let orders: Vec<String> = (0..3).map(|number| format!("{order}-{number}")).collect();
        let fit = join_all(orders.iter().map(|order| self.propose(callers, kind, order))).await;
        for (order, _) in orders.iter().zip(fit).filter(|(_, fits)| *fits) {
            match kind {
                Kind::Purse if roll(2) == 0 => self.reject(callers, kind, order).await,
                Kind::Purse => self.call_off(callers, kind, order).await,
                Kind::Small | Kind::Large | Kind::Few => self.approve(callers, kind, order).await,
            }
        }
    }

    /// Proposes it, twice now and then; whether it was taken.
    async fn propose(&self, callers: &Callers, kind: Kind, order: &str) -> bool {
        let answer = callers.propose_of(kind.agent(), order, kind.amount()).await;
        if answer.is_error {
            assert_eq!(Some(answer.code().as_str()), kind.limit(), "{order}: {}", answer.body);
            self.promised(kind, order, Promise::Refused);
            return false;
        }
        self.promised(kind, order, Promise::Open);
        if roll(4) == 0 {
            let again = callers.propose_of(kind.agent(), order, kind.amount()).await;
            assert_eq!(again.text("payment_id"), answer.text("payment_id"), "the same call is the same payment");
            assert_eq!(again.body["idempotent_replayed"], true, "{order}: {}", again.body);
        }
        true
    }

    /// All who must, at the same moment; again now and then.
    pub(super) async fn approve(&self, callers: &Callers, kind: Kind, order: &str) {
        let approvals = || kind.people().iter().map(|person| callers.countersign_as(person, order));
        for answer in join_all(approvals()).await {
            assert!(!answer.is_error, "{order}: {}", answer.body);
        }
        self.promised(kind, order, Promise::Approved);
        if roll(3) == 0 {
            for answer in join_all(approvals()).await {
                let known = !answer.is_error && answer.body["idempotent_replayed"] == true;
                assert!(known, "{order}: the same decision again: {}", answer.body);
            }
        }
        let wait = if roll(3) == 0 { 1_000 } else { 0 };
        let status = self.status(callers, kind, order, wait).await;
        assert!(matches!(status.status().as_str(), "SIGNED" | "EXECUTED"), "{order}: {}", status.body);
    }

    async fn reject(&self, callers: &Callers, kind: Kind, order: &str) {
        let answer = callers.reject(order).await;
        assert_eq!(answer.status(), "REJECTED", "{order}: {}", answer.body);
        self.promised(kind, order, Promise::Rejected);
        assert_eq!(self.status(callers, kind, order, 0).await.status(), "REJECTED");
    }

    /// Its agent calls it off: at once while nothing is signed, else as far as it can be promised.
    async fn call_off(&self, callers: &Callers, kind: Kind, order: &str) {
        let signed = self.promises.lock().unwrap()[order].1 == Promise::Approved;
        let agent = callers.token(kind.agent(), Role::Agent);
        let answer = callers.insist(&agent, "cancel_payment", json!({"order_id": order})).await;
        let promise = match (answer.status().as_str(), answer.text("cancel")) {
            ("CANCELLED", "") => Promise::CalledOff,
            ("SIGNED", "CANCEL_PENDING") if signed => Promise::CancelPending,
            // It was faster.
            ("(PAYMENT_TERMINAL)", _) if signed => Promise::Approved,
            _ => panic!("{order}: calling it off is answered {}", answer.body),
        };
        self.promised(kind, order, promise);
    }

    async fn status(&self, callers: &Callers, kind: Kind, order: &str, wait_ms: u64) -> Answer {
        let agent = callers.token(kind.agent(), Role::Agent);
        callers.insist(&agent, "get_payment_status", json!({"order_id": order, "wait_ms": wait_ms})).await
    }

    /// An ordinary payment: proposed and approved now; its id.
    pub(super) async fn ordinary(&self, callers: &Callers, order: &str) -> String {
        assert!(self.propose(callers, Kind::Small, order).await);
        self.approve(callers, Kind::Small, order).await;
        self.status(callers, Kind::Small, order, 0).await.text("payment_id").to_owned()
    }

    /// The people who did not come, come now.
    pub(super) async fn late(&self, callers: &Callers) {
        let open = self.promises.lock().unwrap().clone();
        for (order, (kind, _)) in open.iter().filter(|(_, (_, promise))| *promise == Promise::Open) {
            self.approve(callers, *kind, order).await;
        }
    }

    /// Holds every answer that was given against what has come of it; how many payments there must be.
    pub(super) async fn was_kept(&self, callers: &Callers) -> usize {
        let orders: BTreeMap<String, OrderRow> =
            callers.orders("TRUE").await.into_iter().map(|order| (order.order.clone(), order)).collect();
        let promises = self.promises.lock().unwrap().clone();
        for (order, (kind, promise)) in &promises {
            let end = orders.get(order);
            assert!(promise.is_kept(end), "{order} ({kind:?}) was promised to be {promise:?}, and is {end:?}");
        }
        let strangers: Vec<&String> = orders.keys().filter(|order| !promises.contains_key(*order)).collect();
        assert!(strangers.is_empty(), "nobody was told of {strangers:?}");
        orders.len()
    }
}
