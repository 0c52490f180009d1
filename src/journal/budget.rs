//! Judging a payment by the policy in force, beside what else counts.
//!
//! A new proposal takes its turn under every limit and every sum that it may be judged by, so that those
//! made at the same moment add up. A payment that was proposed earlier is judged in its own place: only
//! what was proposed up to then counts, never itself, so that its own reservation does not refuse it, and
//! a limit that was lowered meanwhile lets those through that came first.

use std::collections::BTreeSet;
use std::time::Duration;

use super::decide::can_be_approved;
use crate::domain::{ApprovalPolicy, Bound, Code, Counts, Facts, Limit, Payment, Policy, Refusal, Timestamp, Usage};
use crate::store::{Counted, StoreFault, Tx};

/// Judges a new proposal; the turns it took hold until the transaction ends.
///
/// *Errors*: what the policy says against it; `VELOCITY_EXCEEDED` with the time until every window has room.
pub(super) async fn judged_new(
    tx: &mut Tx,
    policy: &Policy,
    tenant: &str,
    facts: &Facts<'_>,
) -> Result<ApprovalPolicy, Refusal> {
    policy.permits(facts)?;
    let sums = policy.sums(facts);
    let mut turns: BTreeSet<String> =
        counting(policy, facts).map(|limit| counted_agent(limit, facts).to_owned()).collect();
    if !sums.is_empty() {
        // No agent is named so: names hold no spaces.
        turns.insert(format!("to {}", facts.payee));
    }
    tx.take_turns(tenant, &turns).await?;
    let place = Place { tenant, facts, at: tx.now(), until: Timestamp::from_micros(i64::MAX), except: "" };
    let mut counts = Counts::default();
    for span in sums {
        let others = tx.proposed_to(facts.payee.as_str(), place.counted("", span)).await?;
        counts.proposed.insert(span, others);
    }
    for limit in counting(policy, facts) {
        let mut usage = place.usage(tx, limit).await?;
        usage.open = tx.open_now(place.counted(counted_agent(limit, facts), Duration::ZERO)).await?;
        counts.used.insert(limit.id.clone(), usage);
    }
    match policy.judge(facts, &counts) {
        Err(refusal) if refusal.code == Code::VelocityExceeded => {
            Err(refusal.after_ms(place.wait_ms(tx, policy, &counts).await?))
        }
        judged => judged,
    }
}

/// The rule that the policy in force has for a payment that was proposed earlier, or what it denies it with.
pub(super) async fn judged_again(
    tx: &mut Tx,
    current: &Policy,
    payment: &Payment,
) -> Result<Result<ApprovalPolicy, Refusal>, StoreFault> {
    let (terms, facts) = (&payment.terms, payment.facts());
    let place = Place {
        tenant: terms.tenant.as_str(),
        facts: &facts,
        at: terms.created_at,
        until: terms.created_at,
        except: terms.payment_id.as_str(),
    };
    // Of those created in the same millisecond each counts under a limit, which all of them fitted; none
    // counts towards a sum, which may have asked more of the last of them than of the first.
    let before = Place { until: terms.created_at.plus_micros(-1), ..place };
    let mut counts = Counts { asked: Some(terms.policy.rule.clone()), ..Counts::default() };
    for span in current.sums(&facts) {
        let others = tx.proposed_to(terms.payee_account.as_str(), before.counted("", span)).await?;
        counts.proposed.insert(span, others);
    }
    for limit in counting(current, &facts) {
        // How many are open is a limit on proposing: carrying one out makes them fewer.
        counts.used.insert(limit.id.clone(), place.usage(tx, limit).await?);
    }
    Ok(current.judge(&facts, &counts).and_then(|rule| can_be_approved(&rule, terms).map(|()| rule)))
}

fn counting<'a>(policy: &'a Policy, facts: &'a Facts<'_>) -> impl Iterator<Item = &'a Limit> {
    policy.limits(facts).filter(|limit| limit.counts(facts.amount.currency()))
}

/// Whose payments a limit counts together: one agent's, or `""` for the whole tenant's.
fn counted_agent<'a>(limit: &Limit, facts: &Facts<'a>) -> &'a str {
    match limit.bound {
        Bound::Tenant => "",
        Bound::EachAgent | Bound::Agent(_) => facts.agent.as_str(),
    }
}

/// Where a payment stands among the others: which of them count.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    tenant: &'a str,
    facts: &'a Facts<'a>,
    /// The end of the spans that are looked back over.
    at: Timestamp,
    /// The latest creation that counts.
    until: Timestamp,
    /// The payment itself, once it is there.
    except: &'a str,
}

impl<'a> Place<'a> {
    fn counted(&self, agent: &'a str, span: Duration) -> Counted<'a> {
        let back = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Counted {
            tenant: self.tenant,
            agent,
            currency: self.facts.amount.currency().code(),
            since: self.at.plus_micros(0_i64.saturating_sub(back)),
            until: self.until,
            except: self.except,
        }
    }

    async fn usage(&self, tx: &mut Tx, limit: &Limit) -> Result<Usage, StoreFault> {
        match limit.window {
            Some(window) => tx.usage(self.counted(counted_agent(limit, self.facts), window.span)).await,
            None => Ok(Usage::default()),
        }
    }

    /// How long until enough has left every window for this payment to fit.
    async fn wait_ms(&self, tx: &mut Tx, policy: &Policy, counts: &Counts) -> Result<u64, StoreFault> {
        let mut longest = 0;
        for limit in counting(policy, self.facts) {
            let usage = counts.used.get(&limit.id).copied().unwrap_or_default();
            let (Some(window), Some(lack)) = (limit.window, limit.lack(self.facts.amount, usage)) else { continue };
            let counted = self.counted(counted_agent(limit, self.facts), window.span);
            // Nothing there to leave: the whole window, at most.
            let leaves = tx.leaves(counted, lack).await?.unwrap_or(self.at).plus(window.span);
            let millis = leaves.since(self.at).as_micros().div_ceil(1_000);
            longest = longest.max(u64::try_from(millis).unwrap_or(u64::MAX));
        }
        Ok(longest)
    }
}
