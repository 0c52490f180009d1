//! What moved: I1, I4, I5, I6.

use std::collections::{BTreeMap, BTreeSet};

use countersign::domain::{Bound, Limit, Money, Payment, Stage, Status};

use super::books::{Row, in_flight};
use super::{Books, Findings};

/// I1. Over all payments of an order, by the rail's own ledger.
pub(super) fn one_execution(books: &Books, found: &mut Findings<'_>) {
    let mut moved = BTreeMap::<(&str, &str), usize>::new();
    for transfer in &books.transfers {
        match books.payment(transfer.text("reference")) {
            Some(payment) => {
                *moved.entry((payment.terms.tenant.as_str(), payment.terms.order_id.as_str())).or_default() += 1;
            }
            None => found.note(transfer.text("reference"), "the rail moved money for a payment that is not here"),
        }
    }
    for ((tenant, order), times) in moved {
        found.unless(times == 1, format!("{tenant}/{order}"), || format!("executed {times} times"));
    }
    for id in &books.twice {
        found.note(id, "it is here and in the archive");
    }
    let mut standing = BTreeMap::<(&str, &str), usize>::new();
    let mut takes = BTreeSet::new();
    for payment in &books.payments {
        let terms = &payment.terms;
        if !payment.status.is_terminal() || payment.status == Status::Executed {
            *standing.entry((terms.tenant.as_str(), terms.order_id.as_str())).or_default() += 1;
            takes.insert([terms.tenant.to_string(), terms.order_id.to_string(), terms.payment_id.to_string()]);
        }
        let id = terms.payment_id.as_str();
        let asked: Vec<&Row> = books.requests.iter().filter(|row| row.text("reference") == id).collect();
        let keys: BTreeSet<&str> = asked.iter().map(|row| row.text("idempotency_key")).collect();
        let groups = usize::try_from(payment.execution.group).unwrap_or(0);
        found.unless(keys.len() <= groups, id, || format!("{groups} attempt groups used the keys {keys:?}"));
    }
    for [tenant, order, id] in takes.symmetric_difference(&books.taken) {
        let known = books.unreadable.iter().any(|(unread, _)| unread == id);
        let why = || "an order is taken by what is open or executed, and by nothing else".to_owned();
        found.unless(known, format!("{tenant}/{order}"), why);
    }
    for ((tenant, order), count) in standing {
        found.unless(count == 1, format!("{tenant}/{order}"), || format!("{count} open or executed payments"));
    }
}

/// I4. Money moved only where the payment says so, or may still come to say so.
pub(super) fn unpaid_ends_are_unpaid(books: &Books, found: &mut Findings<'_>) {
    for payment in &books.payments {
        let id = payment.terms.payment_id.as_str();
        let moved = books.transfers_of(id).count();
        let may_have_moved = payment.status == Status::Executed || in_flight(payment);
        found.unless(may_have_moved || moved == 0, id, || {
            format!("{} with phase {}, and executed", payment.status.as_str(), payment.execution.phase.as_str())
        });
    }
}

/// I5. The transfer is there, once, as asked, and both its sides are booked.
pub(super) fn executed_as_asked(books: &Books, found: &mut Findings<'_>) {
    for transfer in &books.transfers {
        let (id, amount) = (transfer.text("transfer_id"), transfer.text("amount_minor"));
        let sides = books.entries.iter().filter(|entry| entry.text("transfer_id") == id);
        let booked: BTreeSet<(&str, &str)> =
            sides.map(|entry| (entry.text("direction"), entry.text("amount_minor"))).collect();
        found.unless(booked == BTreeSet::from([("debit", amount), ("credit", amount)]), id, || {
            format!("the ledger does not balance: {booked:?}")
        });
    }
    for payment in books.payments.iter().filter(|payment| payment.status == Status::Executed) {
        let (id, terms) = (payment.terms.payment_id.as_str(), &payment.terms);
        if books.attested(id) {
            continue;
        }
        let moved: Vec<&Row> = books.transfers_of(id).collect();
        found.unless(moved.len() == 1, id, || format!("EXECUTED with {} transfers", moved.len()));
        for transfer in moved {
            let said = ["transfer_id", "amount_minor", "currency", "payee_account"].map(|column| transfer.text(column));
            let minor = terms.amount.minor().to_string();
            let asked = [
                &payment.execution.transfer_id,
                minor.as_str(),
                terms.amount.currency().code(),
                terms.payee_account.as_str(),
            ];
            found.unless(said == asked, id, || format!("the rail moved {said:?}, recorded is {asked:?}"));
        }
        let settled = books.effects_of(id, "rail.execute").any(|effect| effect.text("state") == "done");
        found.unless(settled, id, || "EXECUTED, and its side effect is not done".to_owned());
    }
}

/// I6. At the commit of each payment, in the order of the audit, by what counted then.
pub(super) fn within_limits(books: &Books, found: &mut Findings<'_>) {
    let Some(policy) = &books.policy else { return };
    let lives: Vec<Life<'_>> = books.payments.iter().filter_map(|payment| Life::of(books, payment)).collect();
    for life in &lives {
        let id = life.payment.terms.payment_id.as_str();
        for limit in policy.limits(&life.payment.facts()) {
            if let Err(why) = admitted(limit, life, &lives) {
                found.note(id, format!("limit {:?} was exceeded when it was created: {why}", limit.id));
            }
        }
    }
}

/// A payment's life in its tenant's audit: where it began, stopped being open, and stopped counting.
struct Life<'a> {
    payment: &'a Payment,
    created: i64,
    closed: Option<i64>,
    unpaid: Option<i64>,
}

impl<'a> Life<'a> {
    fn of(books: &'a Books, payment: &'a Payment) -> Option<Self> {
        let mut changes = books.changes(payment.terms.payment_id.as_str());
        let created = changes.next()?.seq.parse().ok()?;
        let ended = changes.find_map(|facts| {
            let status = Status::from_name(&facts.to).filter(|status| status.is_terminal())?;
            Some((facts.seq.parse::<i64>().ok()?, status))
        });
        let closed = ended.map(|(seq, _)| seq);
        let unpaid = ended.filter(|(_, status)| *status != Status::Executed).map(|(seq, _)| seq);
        Some(Self { payment, created, closed, unpaid })
    }
}

fn admitted(limit: &Limit, life: &Life<'_>, lives: &[Life<'_>]) -> Result<(), String> {
    let terms = &life.payment.terms;
    if limit.currency.is_some_and(|currency| currency != terms.amount.currency()) {
        return Ok(());
    }
    let most = |cap: Option<i64>, sum: i64, what: &str| match cap {
        Some(cap) if sum > cap => Err(format!("{what} {sum} of {cap}")),
        _ => Ok(()),
    };
    most(limit.per_payment.map(Money::minor), terms.amount.minor(), "amount")?;
    let counted = |other: &&Life<'_>| {
        let its = &other.payment.terms;
        its.tenant == terms.tenant
            && (limit.bound == Bound::Tenant || its.agent == terms.agent)
            && its.amount.currency() == terms.amount.currency()
            && other.created <= life.created
    };
    let open = lives.iter().filter(counted).filter(|other| other.closed.is_none_or(|end| end > life.created));
    most(limit.open.map(i64::from), i64::try_from(open.count()).unwrap(), "open payments")?;
    let Some(window) = limit.window else { return Ok(()) };
    // Whole milliseconds are stored of the time that decided: what may have been on the edge is left out.
    let since = terms.created_at.micros() + 1_000 - i64::try_from(window.span.as_micros()).unwrap_or(i64::MAX);
    let within: Vec<i64> = lives
        .iter()
        .filter(counted)
        .filter(|other| other.unpaid.is_none_or(|end| end > life.created))
        .filter(|other| other.payment.terms.created_at.micros() > since)
        .map(|other| other.payment.terms.amount.minor())
        .collect();
    most(window.amount.map(Money::minor), within.iter().sum(), "amount in the window")?;
    most(window.count.map(i64::from), i64::try_from(within.len()).unwrap(), "payments in the window")
}

/// Whether nothing more will happen to a payment by itself.
pub(super) fn has_ended(payment: &Payment) -> bool {
    payment.status.stage() == Stage::Ended
}
