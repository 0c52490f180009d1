//! Whether a tenant's chain is unbroken from its first entry to its head.

use super::keys::Keys;
use super::{AuditReport, Break, BreakKind, PAGE, Progress};
use crate::proof::{Flaw, FlawKind, Walk, shown};
use crate::store::{AuditHead, Session, StoreFault};

/// Walks the chain; what it tells of keys.
///
/// The head is read before the walk and after it: an entry is written with its head, so the walk
/// reaches at least the first and at most the second, however many are written meanwhile.
pub(super) async fn check(
    session: &mut Session,
    report: &mut AuditReport,
    progress: &mut Progress<'_>,
) -> Result<Keys, StoreFault> {
    let tenant = report.tenant.clone();
    let before = session.audit_head(&tenant).await?;
    let mut walk = Walk::new(&tenant);
    let mut keys = Keys::default();
    loop {
        let page = session.audit_lines(&tenant, walk.seq(), PAGE).await?;
        if page.is_empty() {
            break;
        }
        for line in page {
            let (facts, flaws) = walk.step(&line);
            for flaw in flaws {
                report.push(broken(flaw, &line.payment_id));
            }
            if let Some(facts) = &facts {
                keys.remember(facts);
            }
            if let Some(head) = before.as_ref().filter(|head| head.seq == line.seq && head.chain != line.chain) {
                report.push(head_disagrees(head, &line.payment_id, &line.chain));
            }
            report.entries = report.entries.saturating_add(1);
        }
        progress("entries", u64::try_from(report.entries).unwrap_or(0));
    }
    walk.chain().clone_into(&mut report.head);
    let last = walk.seq();
    keys.seen = last;
    let after = session.audit_head(&tenant).await?;
    match (&before, &after) {
        (Some(head), _) if head.seq > last => report.push(Break {
            kind: BreakKind::TailCut,
            seq: Some(last.saturating_add(1)),
            payment_id: String::new(),
            expected: format!(
                "{} entries, the last with chain value {}, as the head says",
                head.seq,
                shown(&head.chain)
            ),
            found: format!("{last} entries, the last with chain value {}", shown(walk.chain())),
        }),
        (_, Some(head)) if head.seq >= last => {}
        (_, head) if last > 0 => report.push(Break {
            kind: BreakKind::HeadDisagrees,
            seq: Some(last),
            payment_id: String::new(),
            expected: format!("a head at entry {last}"),
            found: head.as_ref().map_or("no head".to_owned(), |head| format!("a head at entry {}", head.seq)),
        }),
        _ => {}
    }
    Ok(keys)
}

fn head_disagrees(head: &AuditHead, payment_id: &str, chain: &str) -> Break {
    Break {
        kind: BreakKind::HeadDisagrees,
        seq: Some(head.seq),
        payment_id: payment_id.to_owned(),
        expected: format!("chain value {}, as the head says", shown(&head.chain)),
        found: format!("chain value {}", shown(chain)),
    }
}

fn broken(flaw: Flaw, payment_id: &str) -> Break {
    let kind = match flaw.kind {
        FlawKind::Missing => BreakKind::EntryMissing,
        FlawKind::Extra => BreakKind::EntryExtra,
        FlawKind::Unreadable => BreakKind::EntryUnreadable,
        FlawKind::Misplaced => BreakKind::EntryMisplaced,
        FlawKind::Edited => BreakKind::EntryEdited,
        FlawKind::Unlinked => BreakKind::EntryUnlinked,
        FlawKind::Misfiled => BreakKind::EntryMisfiled,
    };
    // Of what is missing, the entry that was found speaks for nobody.
    let payment_id = if kind == BreakKind::EntryMissing { "" } else { payment_id };
    Break { kind, seq: Some(flaw.seq), payment_id: payment_id.to_owned(), expected: flaw.expected, found: flaw.found }
}
