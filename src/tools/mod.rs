//! What agents, signers and operators can do, as tools: arguments in, structured results out.
//!
//! To add a tool: a row in `catalogue`, a handler beside its kind, an arm in [`Desk::call`], and its
//! name in `config/policy.toml`. Handlers get a verified [`Principal`] and the journal, nothing else.
//! Business states are successes; a [`Refusal`] is an error result with a stable code.

mod agent;
mod arguments;
mod auditor;
mod budget;
mod catalogue;
mod operator;
mod reply;
mod signer;

use std::sync::Arc;

pub use arguments::Arguments;
pub use catalogue::{Impact, TOOLS, ToolSpec, find, names};
pub use reply::{Reply, STATUS_BYTES, error_object};

use crate::domain::{Code, Principal, Refusal};
use crate::journal::{Journal, Selector};
use crate::proof::Bundle;

/// The tools over one journal.
#[derive(Debug, Clone)]
pub struct Desk {
    journal: Arc<Journal>,
}

impl Desk {
    /// The tools over `journal`.
    pub const fn new(journal: Arc<Journal>) -> Self {
        Self { journal }
    }

    /// The tools that `who` may use, by name.
    pub fn granted(&self, who: &Principal) -> Vec<&'static ToolSpec> {
        let policy = self.journal.policy();
        TOOLS.iter().filter(|tool| self.exists(tool) && policy.grants(&who.roles, tool.name)).collect()
    }

    /// The tool of that exact name, if this deployment has it.
    pub fn tool(&self, name: &str) -> Option<&'static ToolSpec> {
        find(name).filter(|tool| self.exists(tool))
    }

    fn exists(&self, tool: &ToolSpec) -> bool {
        !tool.dev_only || self.journal.has_presence_switch()
    }

    /// The evidence of one payment, for whoever may call `get_evidence`, whatever its size.
    pub async fn evidence(&self, who: &Principal, payment_id: &str) -> Result<Bundle, Refusal> {
        self.granted_or_audited(who, "get_evidence").await?;
        let selector = Selector::Payment(payment_id.parse()?);
        Ok(Box::pin(self.journal.evidence(who, &selector)).await?.bundle)
    }

    async fn granted_or_audited(&self, who: &Principal, tool: &str) -> Result<(), Refusal> {
        if self.journal.policy().grants(&who.roles, tool) {
            return Ok(());
        }
        self.journal.audit_forbidden(who, tool).await?;
        Err(Refusal::new(
            Code::ForbiddenTool,
            format!("your role does not grant {tool}; tools/list shows what it grants"),
        ))
    }

    /// Carries out one call.
    ///
    /// The grant is judged here, on the tool that is really called, whatever a list or a header said.
    pub async fn call(
        &self,
        who: &Principal,
        tool: &ToolSpec,
        arguments: Result<Arguments, Refusal>,
    ) -> Result<Reply, Refusal> {
        self.granted_or_audited(who, tool.name).await?;
        let arguments = arguments?;
        let journal = &self.journal;
        match tool.name {
            "create_payment" => Box::pin(agent::create_payment(journal, who, arguments)).await,
            "notify_signer" => Box::pin(agent::notify_signer(journal, who, arguments)).await,
            "get_payment_status" => Box::pin(agent::get_payment_status(journal, who, arguments)).await,
            "get_sign_link" => Box::pin(agent::get_sign_link(journal, who, arguments)).await,
            "check_sign_status" => Box::pin(agent::check_sign_status(journal, who, arguments)).await,
            "cancel_payment" => Box::pin(agent::cancel_payment(journal, who, arguments)).await,
            "list_payments" => Box::pin(agent::list_payments(journal, who, arguments)).await,
            "list_approvals" => Box::pin(signer::list_approvals(journal, who, arguments)).await,
            "get_approval" => Box::pin(signer::get_approval(journal, who, arguments)).await,
            "confirm_signing" => Box::pin(signer::confirm_signing(journal, who, arguments)).await,
            "reject_signing" => Box::pin(signer::reject_signing(journal, who, arguments)).await,
            "list_attention" => Box::pin(operator::list_attention(journal, who, arguments)).await,
            "resend_notification" => Box::pin(operator::resend_notification(journal, who, arguments)).await,
            "explain_payment" => Box::pin(auditor::explain_payment(journal, who, arguments)).await,
            "reassign_signer" => Box::pin(operator::reassign_signer(journal, who, arguments)).await,
            "hold_payment" => Box::pin(operator::hold_payment(journal, who, arguments)).await,
            "release_hold" => Box::pin(operator::release_hold(journal, who, arguments)).await,
            "attest_executed" => Box::pin(operator::attest_executed(journal, who, arguments)).await,
            "attest_not_executed" => Box::pin(operator::attest_not_executed(journal, who, arguments)).await,
            "get_evidence" => Box::pin(auditor::get_evidence(journal, who, arguments)).await,
            "list_audit" => Box::pin(auditor::list_audit(journal, who, arguments)).await,
            "simulate_signer_online" => Box::pin(operator::simulate_signer_online(journal, arguments)).await,
            _ => Err(Refusal::new(Code::Internal, "the tool has no handler")),
        }
    }
}
