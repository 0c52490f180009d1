//! What an auditor reads of the chain.

use super::Journal;
use crate::domain::{Principal, Refusal};
use crate::store::AuditRow;

/// Audit entries in a page.
const PAGE: i64 = 50;

impl Journal {
    /// A page of the tenant's audit after position `after`, and where the next one starts.
    pub async fn audit_page(&self, who: &Principal, after: i64) -> Result<(Vec<AuditRow>, Option<i64>), Refusal> {
        let entries = self.store.read().await?.audit_entries(who.tenant.as_str(), after, PAGE).await?;
        let full = i64::try_from(entries.len()).is_ok_and(|count| count >= PAGE);
        let next = if full { entries.last().map(|entry| entry.seq) } else { None };
        Ok((entries, next))
    }
}
