//! The agent's context budget: answers are counted, and past the budget they say stop.

use serde_json::{Map, Value, json};

use super::Desk;
use super::reply::fit;
use crate::domain::{Attention, Principal, Role, Status};

impl Desk {
    /// Counts an answer about a payment that an agent is about to get; past the budget it says stop.
    ///
    /// What the answer tells of the payment stays, and so does an ended payment's whole answer.
    pub async fn charge(&self, who: &Principal, body: &mut Map<String, Value>) {
        let Some(payment_id) = body.get("payment_id").and_then(Value::as_str).filter(|_| who.is(Role::Agent)) else {
            return;
        };
        let used_up = self.journal.count_context(payment_id, super::reply::bytes(body)).await;
        let status = body.get("status").and_then(Value::as_str).and_then(Status::from_name);
        if status.is_some_and(Status::is_terminal) || !(used_up || told_before(body)) {
            return;
        }
        let status = status.map_or("open", Status::as_str);
        let mut message = format!(
            "Stop calling about this payment: too many calls. It goes on by itself. Tell your user it is {status}, then end your turn."
        );
        if let Some(fault) = body.get("error_message").and_then(Value::as_str) {
            message = format!("{fault}. {message}");
            body.insert("next_actions".to_owned(), json!([STOP]));
        }
        body.insert("message".to_owned(), json!(message));
        body.insert("next_action".to_owned(), json!(STOP));
        body.remove("retry_after_ms");
        fit(body);
    }
}

/// What an agent whose budget is used up is to do.
const STOP: &str = "stop_polling";

/// Whether the payment itself says so: another replica may have counted.
fn told_before(body: &Map<String, Value>) -> bool {
    let reasons = body.get("attention").and_then(Value::as_array);
    reasons.is_some_and(|reasons| reasons.contains(&json!(Attention::ContextBudgetSpent.as_str())))
}
