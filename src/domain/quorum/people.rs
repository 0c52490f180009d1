//! Who may not decide: the one who asks, and the one who is paid, through whatever account.

use crate::domain::id::SignerId;
use crate::domain::payment::Terms;
use crate::domain::policy::{Answer, ApprovalPolicy};
use crate::domain::time::Timestamp;

/// Whether `signer` is the agent that asked, or the person it asked for where that person may not sign; by whatever
/// account of theirs.
pub fn is_requester(policy: &ApprovalPolicy, terms: &Terms, signer: &SignerId) -> bool {
    asks(policy, terms, signer.as_str())
}

/// Whether `signer` may not decide, whatever groups they are in: they ask for the payment, or are paid by it.
pub fn is_barred(policy: &ApprovalPolicy, terms: &Terms, signer: &SignerId) -> bool {
    barred(policy, terms, signer.as_str())
}

/// Whether `signer` has a voice at `at`, or at whatever time: their own, or that of somebody whom they are deputy of, who may
/// decide. Nobody stands in for who may not.
pub fn has_voice(policy: &ApprovalPolicy, terms: &Terms, signer: &SignerId, at: Option<Timestamp>) -> bool {
    policy
        .voices(signer.as_str(), at)
        .any(|voice| policy.levels.iter().any(|level| level.has(voice)) && !barred(policy, terms, voice))
}

/// The same of an account.
pub(super) fn barred(policy: &ApprovalPolicy, terms: &Terms, account: &str) -> bool {
    let paid = !policy.beneficiary.is_empty() && policy.person(account) == policy.person(&policy.beneficiary);
    paid || asks(policy, terms, account)
}

fn asks(policy: &ApprovalPolicy, terms: &Terms, account: &str) -> bool {
    let person = policy.person(account);
    let subject = format!("sub:{}", terms.principal);
    let principal = person == policy.person(&terms.principal) || person == policy.person(&subject);
    person == policy.person(terms.agent.as_str()) || (principal && policy.principal_may_sign == Answer::No)
}
