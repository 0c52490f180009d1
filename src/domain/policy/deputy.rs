//! Deputies: who may stand in for whom, and when.

use serde::{Deserialize, Serialize};

use crate::domain::time::Timestamp;

/// Whose word counts in place of another's for a while; never beside it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deputy {
    /// In whose place.
    pub of: String,
    /// Who.
    pub signer: String,
    /// From when on, RFC 3339.
    pub from: String,
    /// Up to when, and not at that moment any more, RFC 3339.
    pub until: String,
}

impl Deputy {
    /// Whether `at` lies in its time. One that can't be read never began.
    pub fn is_in_force(&self, at: Timestamp) -> bool {
        let bound = |text: &str| Timestamp::parse_rfc3339(text);
        bound(&self.from).is_some_and(|from| from <= at) && bound(&self.until).is_some_and(|until| at < until)
    }
}
