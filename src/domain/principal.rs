//! Who is calling: what a verified token grants.

use std::collections::BTreeSet;
use std::fmt;

use super::id::{AgentId, SignerId, TenantId};

/// What a caller may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Proposes payments and follows them; never signs.
    Agent,
    /// Approves or rejects.
    Signer,
    /// Unblocks what machines can't.
    Operator,
    /// Reads everything, changes nothing.
    Auditor,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Agent, Self::Signer, Self::Operator, Self::Auditor];

    /// The role's name, as tokens and the policy file spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Signer => "signer",
            Self::Operator => "operator",
            Self::Auditor => "auditor",
        }
    }

    /// The role of that exact name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A caller whose token was verified.
///
/// *Invariant*: `roles` holds `Agent` alone or no `Agent` at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Whose data the caller may see.
    pub tenant: TenantId,
    /// The client that calls (`client_id`, else `azp`, else `sub`): the agent, for an agent.
    pub client: AgentId,
    /// The person or service the token speaks for (`sub`).
    pub subject: String,
    /// What the caller may be.
    pub roles: BTreeSet<Role>,
    /// The OAuth scopes the token carries.
    pub scopes: BTreeSet<String>,
}

impl Principal {
    /// Whether the caller holds `role`.
    pub fn is(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// The signer this caller is, when its subject is a signer's name.
    pub fn signer(&self) -> Option<SignerId> {
        self.is(Role::Signer).then(|| self.subject.parse().ok()).flatten()
    }

    /// How the audit names the caller: role and identity.
    pub fn actor(&self) -> String {
        let role = self.roles.first().map_or("none", |role| role.as_str());
        if self.is(Role::Agent) { format!("{role}:{}", self.client) } else { format!("{role}:{}", self.subject) }
    }
}
