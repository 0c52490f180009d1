//! Pages of payments: whole, in order, and one tenant's only.

use countersign::domain::{Attention, Payment, Phase, Status};
use countersign::store::{Listing, Store, Stuck};

use super::sample::{at, bare, insert, of, payment, read};
use crate::harness::database::{TestDatabase, engines};

fn orders(payments: &[Payment]) -> Vec<&str> {
    payments.iter().map(|payment| payment.terms.order_id.as_str()).collect()
}

fn stuck(rows: &[Stuck]) -> Vec<&str> {
    rows.iter().map(|row| row.order_id.as_str()).collect()
}

/// Every page of a listing, read to its end.
async fn pages(store: &Store, tenant: &str, mut listing: Listing) -> Vec<Vec<Payment>> {
    let mut pages = Vec::new();
    loop {
        let page = store.read().await.unwrap().payments(tenant, &listing).await.unwrap();
        pages.push(page.payments);
        match page.next {
            Some(last) => listing.before = last,
            None => return pages,
        }
    }
}

#[tokio::test]
async fn a_list_is_paged_from_the_newest_without_loss_or_repetition() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        for number in 0..7 {
            let agent = if number % 2 == 0 { "even" } else { "odd" };
            let mut sample = of("acme", agent, &format!("o{number}"));
            if number >= 4 {
                sample.status = Status::Cancelled;
            }
            assert!(insert(db.store(), &sample).await);
            assert!(insert(db.store(), &of("other", agent, &format!("o{number}"))).await);
        }
        let list = async |agent: &str, status, limit| {
            let listing = Listing { agent: agent.to_owned(), status, limit, ..Listing::default() };
            let pages = pages(db.store(), "acme", listing).await;
            assert!(pages.iter().all(|page| page.len() <= usize::try_from(limit).unwrap()), "{engine}");
            let all = pages.concat();
            assert!(all.iter().all(|payment| payment.terms.tenant.as_str() == "acme"), "{engine}");
            orders(&all).join(" ")
        };
        assert_eq!(list("", None, 3).await, "o6 o5 o4 o3 o2 o1 o0", "{engine}");
        assert_eq!(list("", None, 7).await, "o6 o5 o4 o3 o2 o1 o0", "{engine}");
        assert_eq!(list("even", None, 2).await, "o6 o4 o2 o0", "{engine}");
        assert_eq!(list("odd", Some(Status::Cancelled), 1).await, "o5", "{engine}");
        assert_eq!(list("", Some(Status::Cancelled), 2).await, "o6 o5 o4", "{engine}");
        assert_eq!(list("", Some(Status::Created), 2).await, "o3 o2 o1 o0", "{engine}");
        assert_eq!(list("", Some(Status::Executed), 2).await, "", "{engine}");
        assert_eq!(list("nobody", None, 2).await, "", "{engine}");
    }
}

#[tokio::test]
async fn what_accepts_decisions_is_listed_from_the_oldest() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        for status in Status::ALL {
            let mut sample = payment(status.as_str());
            sample.status = status;
            sample.execution.phase = if status == Status::Executed { Phase::Confirmed } else { Phase::None };
            assert!(insert(db.store(), &sample).await);
        }
        assert!(insert(db.store(), &of("other", "a", "theirs")).await);
        let mut session = db.store().read().await.unwrap();
        let first = session.open_payments("acme", "", 3).await.unwrap();
        assert_eq!(orders(&first.payments), ["CREATED", "AWAITING_SIGNER", "SIGNER_UNREACHABLE"], "{engine}");
        let after = first.next.as_deref().unwrap();
        assert_eq!(
            orders(&session.open_payments("acme", after, 3).await.unwrap().payments),
            ["NEED_MANUAL"],
            "{engine}"
        );
        assert_eq!(orders(&session.open_payments("other", "", 3).await.unwrap().payments), ["theirs"], "{engine}");
    }
}

#[tokio::test]
async fn what_needs_a_person_is_listed_whatever_the_reason() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let mut manual = payment("manual");
        manual.status = Status::NeedManual;
        let mut contradicted = bare("contradicted");
        contradicted.attention = [Attention::TerminalContradiction].into();
        let mut unknown = payment("unknown");
        unknown.status = Status::Signed;
        unknown.execution.phase = Phase::Unknown;
        unknown.execution.next_at = Some(at(1));
        let mut theirs = of("other", "a", "theirs");
        theirs.status = Status::NeedManual;
        for sample in [&manual, &payment("calm"), &contradicted, &bare("paid"), &unknown, &theirs] {
            assert!(insert(db.store(), sample).await);
        }
        let mut session = db.store().read().await.unwrap();
        let first = session.attention("acme", "", 2).await.unwrap();
        assert_eq!(stuck(&first), ["manual", "contradicted"], "{engine}");
        let after = first[1].payment_id.as_str();
        assert_eq!(stuck(&session.attention("acme", after, 2).await.unwrap()), ["unknown"], "{engine}");
        assert_eq!(stuck(&session.attention("other", "", 9).await.unwrap()), ["theirs"], "{engine}");
    }
}

#[tokio::test]
async fn a_tenant_never_sees_anothers_payment() {
    for engine in engines() {
        let db = TestDatabase::new(engine).await;
        let ours = payment("o");
        let theirs = of("other", "agent-7", "o");
        assert!(insert(db.store(), &ours).await && insert(db.store(), &theirs).await);
        assert_eq!(read(db.store(), &theirs).await.as_ref(), Some(&theirs), "{engine}");
        let mut session = db.store().read().await.unwrap();
        for stranger in ["acme", "ACME", "", "othe", "other%"] {
            let seen = session.payment(stranger, &theirs.terms.payment_id).await.unwrap();
            assert_eq!(seen, None, "{engine}: {stranger:?}");
        }
        assert_eq!(session.payment_by_order("acme", "o").await.unwrap(), Some(ours), "{engine}");
        assert_eq!(session.payment_by_order("other", "o").await.unwrap().as_ref(), Some(&theirs), "{engine}");
        let work = session.payment_for_work(theirs.terms.payment_id.as_str()).await.unwrap();
        assert_eq!(work, Some(theirs), "{engine}: the worker serves every tenant");
    }
}
