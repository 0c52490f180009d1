//! Attempts to reach people.

use super::{KeptPayment, Session, Stored};
use crate::domain::Timestamp;

/// An attempt that was made and what was answered.
#[derive(Debug, sqlx::FromRow)]
pub(in crate::signer) struct KeptNotification {
    /// Whom it was to reach, as a JSON list.
    pub(in crate::signer) signers: String,
    /// The JSON body that was answered; empty until it was.
    pub(in crate::signer) answer: String,
}

impl Session {
    /// The attempt of that number in the payment's current round.
    pub(in crate::signer) async fn notification(
        &mut self,
        payment: &KeptPayment,
        number: i64,
    ) -> Stored<Option<KeptNotification>> {
        Ok(sqlx::query_as(
            "SELECT signers, answer FROM notifications WHERE payment_id = ?1 AND round = ?2 AND number = ?3",
        )
        .bind(&payment.id)
        .bind(payment.round)
        .bind(number)
        .fetch_optional(self.db())
        .await?)
    }

    /// Keeps an attempt that is not answered yet.
    pub(in crate::signer) async fn add_notification(
        &mut self,
        payment: &KeptPayment,
        number: i64,
        signers: &str,
        now: Timestamp,
    ) -> Stored<()> {
        sqlx::query(
            "INSERT INTO notifications (payment_id, round, number, signers, answer, sent_at) \
             VALUES (?1, ?2, ?3, ?4, '', ?5)",
        )
        .bind(&payment.id)
        .bind(payment.round)
        .bind(number)
        .bind(signers)
        .bind(now.micros())
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// Keeps what an attempt was answered.
    pub(in crate::signer) async fn answer_notification(
        &mut self,
        payment: &KeptPayment,
        number: i64,
        answer: &str,
    ) -> Stored<()> {
        sqlx::query("UPDATE notifications SET answer = ?4 WHERE payment_id = ?1 AND round = ?2 AND number = ?3")
            .bind(&payment.id)
            .bind(payment.round)
            .bind(number)
            .bind(answer)
            .execute(self.db())
            .await?;
        Ok(())
    }
}
