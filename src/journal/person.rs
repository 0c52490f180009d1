//! What people ask for: call off, and what is written down of refused attempts.

use super::ports::Cause;
use super::{Act, Journal, Selector, again};
use crate::crash::{self, Point};
use crate::domain::{Code, Event, Payment, Principal, Refusal, SignerId};
use crate::store::AuditNote;

impl Journal {
    /// Audits an attempt to use a tool that the caller's roles do not grant.
    pub async fn audit_forbidden(&self, who: &Principal, tool: &str) -> Result<(), Refusal> {
        let mut tx = self.store.begin().await?;
        tx.audit(AuditNote {
            tenant: who.tenant.to_string(),
            node: self.rules.node.clone(),
            actor: who.actor(),
            event: "tool.forbidden".to_owned(),
            reason: tool.to_owned(),
            ..AuditNote::default()
        });
        Ok(tx.commit().await?)
    }

    /// Calls a payment off, or asks for it when that can no longer be promised.
    ///
    /// *Errors*: `PAYMENT_TERMINAL` when it has ended otherwise; calling off twice is answered alike.
    #[tracing::instrument(name = "journal.payment.cancel", skip_all, fields(payment.id))]
    pub async fn cancel(&self, who: &Principal, selector: &Selector) -> Result<Payment, Refusal> {
        again(|| self.try_cancel(who, selector)).await
    }

    async fn try_cancel(&self, who: &Principal, selector: &Selector) -> Result<Payment, Refusal> {
        let mut tx = self.store.begin().await?;
        let payment = Self::select(&mut tx, who, selector).await?;
        tracing::Span::current().record("payment.id", payment.terms.payment_id.as_str());
        let actor = who.actor();
        let applied = self.change(&mut tx, &payment, Event::Cancel, Act::new(&actor, "payment.cancel")).await?;
        crash::at(Point::CancelBeforeCommit);
        tx.commit().await?;
        crash::at(Point::CancelAfterCommit);
        self.announce(&applied);
        Ok(applied.payment)
    }

    /// Sets whether a signer can be reached, in the dev profile.
    pub async fn set_presence(&self, signer: &SignerId, online: bool) -> Result<(), Refusal> {
        let port = self
            .presence
            .as_ref()
            .ok_or_else(|| Refusal::new(Code::ForbiddenTool, "this tool exists in the dev profile only"))?;
        port.set_online(signer.as_str(), online).await.map_err(|trouble| {
            if trouble.cause == Cause::NotFound {
                return Refusal::invalid("signer_id", "is not in the reference signer service's directory");
            }
            Refusal::new(Code::SignerServiceUnavailable, format!("the reference signer service said: {trouble}"))
        })
    }

    /// Whether the dev profile's presence switch is wired.
    pub fn has_presence_switch(&self) -> bool {
        self.presence.is_some()
    }
}
