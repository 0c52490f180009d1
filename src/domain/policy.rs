//! The policy file: which role may use which tool, and who must approve.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::id::SignerId;
use super::principal::Role;

/// A policy file that can't be used: where and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy: {0}")]
pub struct PolicyFault(String);

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyText {
    id: String,
    version: String,
    roles: BTreeMap<String, BTreeSet<String>>,
    groups: BTreeMap<String, BTreeSet<String>>,
    approval: ApprovalText,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalText {
    group: String,
    required: u32,
}

/// A checked policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    roles: BTreeMap<Role, BTreeSet<String>>,
    approval: ApprovalPolicy,
}

/// Who must approve a payment: the part that is snapshotted with it and signed by digest.
///
/// Its JSON form is canonical: strings, and a sorted list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalPolicy {
    /// The policy's name.
    pub id: String,
    /// Its version, as the file's author counts it.
    pub version: String,
    /// The group that approves.
    pub group: String,
    /// How many distinct people of the group must approve.
    pub required: String,
    /// The people in the group.
    pub signers: BTreeSet<String>,
}

impl ApprovalPolicy {
    /// How many distinct people must approve. Never zero.
    pub fn required(&self) -> u32 {
        self.required.parse().unwrap_or(u32::MAX).max(1)
    }

    /// Whether `signer` may decide.
    pub fn is_eligible(&self, signer: &SignerId) -> bool {
        self.signers.contains(signer.as_str())
    }
}

impl Policy {
    /// Reads and checks a policy file.
    ///
    /// *Errors*: the line and reason of the first fault: syntax, an unknown key, an unknown role or
    /// group, an agent that could sign, a quorum that can't be reached.
    pub fn parse(text: &str, tools: &[&str]) -> Result<Self, PolicyFault> {
        let file: PolicyText = toml::from_str(text).map_err(|err| {
            let line =
                err.span().and_then(|span| text.get(..span.start)).map_or(1, |head| head.matches('\n').count() + 1);
            PolicyFault(format!("line {line}: {}", err.message()))
        })?;
        let fault = |why: String| Err(PolicyFault(why));
        let mut roles = BTreeMap::new();
        for (name, granted) in file.roles {
            let Some(role) = Role::from_name(&name) else {
                return fault(format!("[roles] {name}: is not a role (agent, signer, operator, auditor)"));
            };
            if let Some(tool) = granted.iter().find(|tool| !tools.contains(&tool.as_str())) {
                return fault(format!("[roles] {name}: {tool:?} is not a tool"));
            }
            let signs = granted.iter().find(|tool| role == Role::Agent && AGENT_NEVER.contains(&tool.as_str()));
            if let Some(tool) = signs {
                return fault(format!("[roles] agent: {tool:?} can never be granted to an agent"));
            }
            roles.insert(role, granted);
        }
        for (group, people) in &file.groups {
            if let Some(person) = people.iter().find(|person| person.parse::<SignerId>().is_err()) {
                return fault(format!("[groups] {group}: {person:?} is not a signer's name"));
            }
        }
        let Some(signers) = file.groups.get(&file.approval.group) else {
            return fault(format!("[approval] group: there is no group {:?}", file.approval.group));
        };
        let people = u32::try_from(signers.len()).unwrap_or(u32::MAX);
        if file.approval.required == 0 || file.approval.required > people {
            return fault(format!(
                "[approval] required: must be 1 to {people}, the people in {:?}",
                file.approval.group
            ));
        }
        Ok(Self {
            roles,
            approval: ApprovalPolicy {
                id: file.id,
                version: file.version,
                group: file.approval.group,
                required: file.approval.required.to_string(),
                signers: signers.clone(),
            },
        })
    }

    /// Whether any of `roles` may use `tool`. Deny by default.
    pub fn grants(&self, roles: &BTreeSet<Role>, tool: &str) -> bool {
        roles.iter().any(|role| self.roles.get(role).is_some_and(|tools| tools.contains(tool)))
    }

    /// Who must approve a payment that is created now.
    pub const fn approval(&self) -> &ApprovalPolicy {
        &self.approval
    }
}

/// Tools that no policy file can give an agent: those that make or mimic an approval.
const AGENT_NEVER: [&str; 6] = [
    "list_approvals",
    "get_approval",
    "confirm_signing",
    "reject_signing",
    "simulate_signer_online",
    "resend_notification",
];

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "id = \"p\"\nversion = \"1\"\n[roles]\nagent = [\"create_payment\"]\nsigner = [\"confirm_signing\"]\n[groups]\nfinance = [\"a\", \"b\"]\n[approval]\ngroup = \"finance\"\nrequired = 2\n";
    const TOOLS: [&str; 2] = ["create_payment", "confirm_signing"];

    #[test]
    fn a_good_file_is_read_and_denies_by_default() {
        let policy = Policy::parse(GOOD, &TOOLS).unwrap();
        assert!(policy.grants(&[Role::Agent].into(), "create_payment"));
        assert!(!policy.grants(&[Role::Agent].into(), "confirm_signing"));
        assert!(!policy.grants(&BTreeSet::new(), "create_payment"));
        assert_eq!(policy.approval().required(), 2);
    }

    #[test]
    fn a_bad_file_is_refused_with_a_place_and_a_reason() {
        let cases = [
            ("agent = [\"create_payment\"]", "agent = [\"create_payment\", \"confirm_signing\"]", "never be granted"),
            ("agent = [", "robot = [", "not a role"),
            ("\"create_payment\"", "\"make_payment\"", "not a tool"),
            ("required = 2", "required = 3", "required"),
            ("required = 2", "required = 0", "required"),
            ("group = \"finance\"", "group = \"boss\"", "no group"),
            ("\"a\", \"b\"", "\"a b\"", "not a signer"),
            ("version = \"1\"", "version = \"1\"\nversoin = \"2\"", "line 3"),
        ];
        for (from, to, expected) in cases {
            let fault = Policy::parse(&GOOD.replacen(from, to, 1), &TOOLS).unwrap_err().to_string();
            assert!(fault.contains(expected), "{to}: {fault}");
        }
    }
}
