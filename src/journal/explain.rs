//! Why a payment stands where it stands: an ordered list of checks, each with what was found.

use std::time::Duration;

use super::ports::{Arrival, Cause, Receipt};
use super::reading::is_open;
use super::{Journal, Selector};
use crate::domain::{Attention, Payment, Phase, Principal, Refusal, SignerId, Stage, Status, Timestamp, next_wake};
use crate::store::EffectKind;

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// Whether it stands in the way.
    pub good: bool,
    /// What was found.
    pub found: String,
    /// What to do about it; empty when there is nothing to do.
    pub next: &'static str,
}

/// The whole diagnosis.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// The payment.
    pub payment: Payment,
    /// The checks, in the order a person would make them.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// The first thing that stands in the way, if anything does.
    pub fn obstacle(&self) -> Option<&Finding> {
        self.findings.iter().find(|finding| !finding.good)
    }
}

fn finding(check: &'static str, good: bool, found: impl Into<String>, next: &'static str) -> Finding {
    Finding { check, good, found: found.into(), next: if good { "" } else { next } }
}

impl Journal {
    /// Looks at everything a payment can be stuck on, the outside included.
    pub async fn explain(&self, who: &Principal, selector: &Selector) -> Result<Diagnosis, Refusal> {
        let payment = self.status(who, selector).await?;
        let about = format!(
            "countersign {}, environment {}, {}",
            env!("CARGO_PKG_VERSION"),
            self.rules.environment,
            self.rules.node
        );
        let mut findings = vec![finding("process", true, about, "")];
        if payment.held_at.is_some() {
            findings.push(finding(
                "manual_hold",
                false,
                "an operator holds it to settle it by hand",
                "two operators release it (release_hold) or attest that it was paid (attest_executed)",
            ));
        }
        let parking = self.store.read().await?.parking(payment.terms.payment_id.as_str()).await?;
        if is_open(&payment) {
            let service = self.signer_service().await;
            let has_it = service.good && payment.notice.registered_round >= payment.round;
            findings.push(service);
            findings.push(registration(&payment));
            findings.push(attempts(&payment, self.rules.timing.notify.attempts));
            findings.push(self.receipt(&payment).await?);
            // What is parked may be so because of what the service says of it.
            if has_it && parking.is_none() {
                findings.extend(self.people(&payment).await?);
            }
            if has_it {
                findings.push(self.link(&payment).await);
            }
        }
        if payment.status.stage() == Stage::Signed {
            findings.push(self.rail().await);
            findings.push(execution(&payment));
        }
        findings.push(state(&payment));
        for reason in &payment.attention {
            findings.push(finding(
                "attention",
                false,
                reason.as_str(),
                match reason {
                    Attention::ContextBudgetSpent => {
                        "whoever runs the agent ends its loop; the payment goes on by itself"
                    }
                    Attention::InvariantBroken => {
                        "a fault of ours, or a row changed by hand: see the log line that names the invariant"
                    }
                    Attention::AttestationContradicted => {
                        "the two who attested and an operator look at the rail's statement: an attempt under each key may have paid"
                    }
                    Attention::IntegrityMismatch
                    | Attention::TerminalContradiction
                    | Attention::ResendWindowClosed
                    | Attention::RefusedWhileUnknown
                    | Attention::CancelWhileUnknown
                    | Attention::PaidAfterBackup => "an operator compares our records with the rail's",
                    Attention::PasskeyCounterBack => {
                        "an operator asks who signed when: two decisions that came out of their order, or a copy of the passkey, which is to be revoked"
                    }
                    Attention::SignedBeforeRestore => {
                        "an operator makes sure that it was neither called off, replaced nor paid by hand since the backup, before it is signed again (docs/restore.md)"
                    }
                },
            ));
        }
        if let Some(parking) = &parking {
            findings.push(finding(
                "parked",
                false,
                format!(
                    "its work fails ({}) since {}; it is tried once an hour",
                    parking.reason,
                    parking.since.rfc3339()
                ),
                "see the worker's log lines about this payment; it goes on by itself once that is mended",
            ));
        }
        // What is parked is not due when its state says so.
        if !payment.status.is_terminal() && parking.is_none() {
            let (_, now) = self.store.next_due().await?;
            findings.push(worker(&payment, now, self.rules.timing.lease));
        }
        findings.push(clocks(&payment));
        Ok(Diagnosis { payment, findings })
    }

    async fn signer_service(&self) -> Finding {
        let answer = self.signer.health().await;
        let breaker = self.signer.breaker();
        match answer {
            Ok(()) => finding("signer_service", true, answers(breaker), ""),
            Err(trouble) if trouble.cause == Cause::Unauthorized => finding(
                "signer_service",
                false,
                format!("refuses our key: {trouble}"),
                "mend signer.api_key and restart; then an operator calls resend_notification",
            ),
            Err(trouble) => finding(
                "signer_service",
                false,
                format!("does not work: {trouble}; {}", breaker_word(breaker)),
                "bring the signer service back; the gateway goes on trying, and after NEED_MANUAL resend_notification",
            ),
        }
    }

    /// What the signer service last said of an attempt to reach the signers.
    async fn receipt(&self, payment: &Payment) -> Result<Finding, Refusal> {
        let effects = self.store.read().await?.effects_of(payment.terms.payment_id.as_str()).await?;
        let told = effects
            .iter()
            .rfind(|effect| effect.kind == EffectKind::SignerNotify.as_str() && !effect.outcome.is_empty());
        let found = told.map_or_else(
            || "none yet".to_owned(),
            |told| {
                let at = Timestamp::from_micros(told.settled_at.unwrap_or(told.created_at));
                format!("{}: {}", at.rfc3339(), told.outcome)
            },
        );
        Ok(finding("receipt", true, found, ""))
    }

    /// What became of the last message to each person, and who looked: from here on it is a person's time that passes.
    async fn people(&self, payment: &Payment) -> Result<Option<Finding>, Refusal> {
        let Ok(status) = self.signer.status(&payment.notice.signer_ref).await else { return Ok(None) };
        if status.receipts.is_empty() {
            return Ok(None);
        }
        let each = status.receipts.iter().map(told).collect::<Vec<_>>().join("; ");
        let short = self.short_of(payment, &status).await?;
        if !short.is_empty() {
            let why = |(signer, reason): &(SignerId, String)| match reason.as_str() {
                "" => signer.to_string(),
                _ => format!("{signer} ({reason})"),
            };
            let missed: Vec<String> = short.iter().map(why).collect();
            let found = format!("not enough of them can be reached: not {}. {each}", missed.join(", not "));
            let next = "reach them another way; an operator may resend_notification or reassign_signer";
            return Ok(Some(finding("people", false, found, next)));
        }
        let has = |wanted: Arrival| status.receipts.iter().any(|receipt| receipt.outcome == wanted);
        let note = match (has(Arrival::Viewed), has(Arrival::Delivered), has(Arrival::Deferred)) {
            (true, ..) => "; seen and not decided: human delay, not a fault",
            (false, true, _) => "; told and not looked yet: human delay, not a fault",
            (false, false, true) => "; put off on purpose, by quiet hours or to be told with others: not a fault",
            (false, false, false) => "",
        };
        Ok(Some(finding("people", true, each + note, "")))
    }

    /// Whether a link to the sign page can be had, and how long it lasts. Those that were passed on are the signer
    /// service's own: its contract does not tell of them.
    async fn link(&self, payment: &Payment) -> Finding {
        match self.signer.sign_link(&payment.notice.signer_ref).await {
            Ok(link) => finding(
                "sign_link",
                true,
                format!("one asked for now lapses at {}; an older one may have", link.expires_at.rfc3339()),
                "",
            ),
            Err(trouble) if trouble.cause == Cause::RateLimited => {
                finding("sign_link", true, "enough were asked for lately; the last one may still lead there", "")
            }
            Err(trouble) => finding(
                "sign_link",
                false,
                format!("none can be had: {trouble}"),
                "see what the signer service logs; a signer needs no link to sign with countersign sign",
            ),
        }
    }

    async fn rail(&self) -> Finding {
        let answer = self.rail.health().await;
        let breaker = self.rail.breaker();
        match answer {
            Ok(()) => finding("rail", true, answers(breaker), ""),
            Err(trouble) if trouble.cause == Cause::Unauthorized => {
                finding("rail", false, format!("refuses our key: {trouble}"), "mend rail.api_key and restart")
            }
            Err(trouble) => finding(
                "rail",
                false,
                format!("does not work: {trouble}; {}", breaker_word(breaker)),
                "bring the rail back; the gateway goes on by itself. Never pay this another way meanwhile",
            ),
        }
    }
}

/// What became of one message, and when.
fn told(receipt: &Receipt) -> String {
    let when = if receipt.outcome == Arrival::Deferred { "until" } else { "at" };
    receipt.at.map_or_else(|| receipt.to_string(), |at| format!("{receipt} {when} {}", at.rfc3339()))
}

fn answers(breaker: &str) -> String {
    format!("answers, and accepts our key; {}", breaker_word(breaker))
}

/// A worker in a process of its own judges for itself.
fn breaker_word(breaker: &str) -> String {
    format!("breaker of this process {breaker}")
}

fn state(payment: &Payment) -> Finding {
    let reason = if payment.reason.is_empty() { String::new() } else { format!(": {}", payment.reason) };
    let found = format!(
        "{}{reason}; {} of {} approvals",
        payment.status.as_str(),
        payment.approvals,
        payment.terms.policy.required()
    );
    finding(
        "state",
        payment.status != Status::NeedManual,
        found,
        "an operator resends (resend_notification), asks another (reassign_signer) or calls it off; a late signature still counts",
    )
}

/// Whether somebody does what is due.
fn worker(payment: &Payment, now: Timestamp, lease: Duration) -> Finding {
    let Some(due) = next_wake(payment) else {
        return finding("worker", true, "nothing is due until a person acts", "");
    };
    // A row whose holder died is due again when its lease ends.
    let late = now.since(due) > lease.saturating_mul(2);
    finding(
        "worker",
        !late,
        format!("{} {}", if late { "nobody has done what was due at" } else { "next due at" }, due.rfc3339()),
        "see that a worker runs (countersign serve, or countersign worker) and what it logs",
    )
}

fn registration(payment: &Payment) -> Finding {
    // Before the first attempt that is as it should be.
    let tried = payment.notice.attempts > 0 || payment.notice.settled > 0;
    let known = payment.notice.registered_round >= payment.round;
    let found = if known {
        format!("round {} is registered", payment.round)
    } else {
        format!("round {} is not registered yet", payment.round)
    };
    finding("registration", known || !tried, found, "the gateway registers it with the next attempt")
}

fn attempts(payment: &Payment, most: u32) -> Finding {
    let last = if payment.notice.last.is_empty() { "none made" } else { &payment.notice.last };
    let next = payment.notice.next_at.map_or_else(|| "none planned".to_owned(), Timestamp::rfc3339);
    let found = format!("{} of {most} used, last: {last}, next: {next}", payment.notice.attempts);
    let good = matches!(payment.notice.last.as_str(), "reached" | "under_way" | "");
    finding(
        "notification",
        good,
        found,
        "reach the signer another way; an operator may resend_notification or reassign_signer",
    )
}

fn execution(payment: &Payment) -> Finding {
    let Payment { execution, .. } = payment;
    let next = execution.next_at.map_or_else(|| "none planned".to_owned(), Timestamp::rfc3339);
    let found = format!(
        "phase {}, group {}, {} sent of which {} provably not, {} look-ups, next step: {next}",
        execution.phase.as_str(),
        execution.group,
        execution.sends,
        execution.not_sent,
        execution.queries
    );
    finding(
        "execution",
        execution.phase != Phase::Unknown,
        found,
        "the gateway asks the rail; if it never can say, two operators attest with evidence once the key's lifetime has passed",
    )
}

fn clocks(payment: &Payment) -> Finding {
    let found = format!(
        "decide before {}, start before {}",
        payment.terms.expires_at.rfc3339(),
        payment.terms.execute_by.rfc3339()
    );
    finding("clocks", true, found, "")
}
