//! A passkey's counter, when a decision by it is taken in.

use crate::domain::{Code, Payment, Refusal, SignerId};
use crate::store::{Counter, Tx};

/// What the passkey's counter says of the decision with this digest; one that stood there at another is refused.
pub(super) async fn take_counter(
    tx: &mut Tx,
    payment: &Payment,
    (key_id, counter): (&str, u32),
    signer: &SignerId,
    digest: &str,
) -> Result<Counter, Refusal> {
    let whose = (payment.terms.tenant.as_str(), signer.as_str(), key_id);
    let counter = tx.take_counter(whose, counter.into(), digest).await?;
    if counter == Counter::Used {
        return Err(Refusal::of_field(
            Code::SignatureInvalid,
            "signature",
            "the passkey's counter stood just there at another decision: there is a copy of it; an operator must revoke it",
        )
        .about(payment.reference()));
    }
    Ok(counter)
}
