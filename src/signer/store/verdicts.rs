//! What the gateway told of a round's decisions.

use super::{KeptDecision, KeptPayment, Session, Stored, one_row};
use crate::domain::Timestamp;

/// A decision that did not come by this service.
#[derive(Debug)]
pub(in crate::signer) struct DecidedElsewhere<'a> {
    /// Who decided.
    pub(in crate::signer) signer_id: &'a str,
    /// `approve` or `reject`.
    pub(in crate::signer) decision: &'a str,
    /// `counted` or `surplus`.
    pub(in crate::signer) verdict: &'a str,
    /// When.
    pub(in crate::signer) decided_at: Timestamp,
}

impl Session {
    /// Everything that people said in the payment's current round, wherever they did, oldest first.
    pub(in crate::signer) async fn words(&mut self, payment: &KeptPayment) -> Stored<Vec<KeptDecision>> {
        Ok(sqlx::query_as(
            "SELECT decision_id, signer_id, decision, document, proof_type, proof, signed_by, verified, decided_at, \
             verdict, code FROM decisions WHERE payment_id = ?1 AND round = ?2 \
             UNION ALL SELECT '', signer_id, decision, '', '', '', 'elsewhere ' || place, 1, decided_at, verdict, '' \
             FROM decided_elsewhere WHERE payment_id = ?1 AND round = ?2 ORDER BY decided_at, decision_id",
        )
        .bind(&payment.id)
        .bind(payment.round)
        .fetch_all(self.db())
        .await?)
    }

    /// The digest of what was told last in the current round; empty before the first time.
    pub(in crate::signer) async fn told(&mut self, payment: &KeptPayment) -> Stored<String> {
        let told = sqlx::query_scalar("SELECT told FROM payments WHERE id = ?1").bind(&payment.id);
        Ok(told.fetch_one(self.db()).await?)
    }

    /// Notes what was told, in place of what was told before.
    pub(in crate::signer) async fn set_told(
        &mut self,
        payment: &KeptPayment,
        digest: &str,
        elsewhere: &[DecidedElsewhere<'_>],
    ) -> Stored<()> {
        let noted = sqlx::query("UPDATE payments SET told = ?2 WHERE id = ?1");
        let noted = noted.bind(&payment.id).bind(digest).execute(self.db()).await?;
        one_row(&noted, "the payment")?;
        sqlx::query("DELETE FROM decided_elsewhere WHERE payment_id = ?1").bind(&payment.id).execute(self.db()).await?;
        for (place, decided) in (1_i64..).zip(elsewhere) {
            sqlx::query(
                "INSERT INTO decided_elsewhere (payment_id, round, place, signer_id, decision, verdict, decided_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )
            .bind(&payment.id)
            .bind(payment.round)
            .bind(place)
            .bind(decided.signer_id)
            .bind(decided.decision)
            .bind(decided.verdict)
            .bind(decided.decided_at.micros())
            .execute(self.db())
            .await?;
        }
        Ok(())
    }

    /// Notes what became of a kept decision; of one that is not kept, nothing.
    pub(in crate::signer) async fn set_verdict(
        &mut self,
        payment: &KeptPayment,
        decision_id: &str,
        verdict: &str,
        code: &str,
    ) -> Stored<()> {
        sqlx::query(
            "UPDATE decisions SET verdict = ?4, code = ?5 WHERE payment_id = ?1 AND round = ?2 AND decision_id = ?3",
        )
        .bind(&payment.id)
        .bind(payment.round)
        .bind(decision_id)
        .bind(verdict)
        .bind(code)
        .execute(self.db())
        .await?;
        Ok(())
    }
}
