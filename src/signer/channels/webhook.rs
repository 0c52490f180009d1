//! A signed POST to a service that passes the message on: chat, SMS, whatever stands behind it.
//!
//! Signed as Standard Webhooks are. `webhook-id` is the message's id: a receiver that has seen it has the message.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook};

use super::{Channel, Item, Letter, Missed};
use crate::ambient::Clock;
use crate::config::{web_url, whsec};

/// The channel.
pub(super) struct Hook {
    url: SecretString,
    signer: Webhook,
    within: Duration,
    client: reqwest::Client,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook").field("within", &self.within).finish_non_exhaustive()
    }
}

impl Hook {
    pub(super) fn new(
        url: &SecretString,
        secret: &SecretString,
        within: Duration,
        client: reqwest::Client,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        web_url(url.expose_secret()).map_err(|why| format!("url {why}"))?;
        let key = whsec("secret", secret).map_err(|fault| fault.0)?;
        let signer = Webhook::from_bytes(key).map_err(|_| "secret can't be used".to_owned())?;
        Ok(Self { url: url.clone(), signer, within, client, clock })
    }

    async fn post(&self, to: &str, letter: &Letter) -> Result<(), Missed> {
        // The receiver judges the timestamp by the true time, so a clock that a test moved is moved back.
        let now = self.clock.now().plus_micros(self.clock.shift().saturating_neg());
        let body = json!({
            "type": "approval.wanted", "timestamp": now.rfc3339(), "text": letter.text,
            "data": {"signer_id": letter.signer_id, "to": to, "language": letter.language.as_str(),
                     "title": letter.title, "url": letter.url, "waiting": letter.waiting,
                     "payments": letter.items.iter().map(item).collect::<Vec<_>>()},
        })
        .to_string();
        let signature = self.signer.sign(&letter.id, now.seconds(), body.as_bytes()).map_err(|_| Missed::NotWritten)?;
        let answer = self
            .client
            .post(self.url.expose_secret())
            .timeout(self.within)
            .header("content-type", "application/json")
            .header(HEADER_WEBHOOK_ID, &letter.id)
            .header(HEADER_WEBHOOK_TIMESTAMP, now.seconds())
            .header(HEADER_WEBHOOK_SIGNATURE, signature)
            .body(body)
            .send()
            .await
            .map_err(|error| Missed::of_error(&error))?;
        if answer.status().is_success() { Ok(()) } else { Err(Missed::of_status(answer.status().as_u16())) }
    }
}

fn item(item: &Item) -> Value {
    json!({"payment_id": item.payment_id, "order_id": item.order_id, "requester": item.requester,
           "amount": item.amount, "payee": item.payee, "compare_code": item.code, "expires_at": item.expires_at,
           "url": item.url})
}

impl Channel for Hook {
    fn check(&self, to: &str) -> Result<(), &'static str> {
        if to.chars().count() > 256 || to.chars().any(char::is_control) {
            return Err("an address is at most 256 visible characters");
        }
        Ok(())
    }

    fn within(&self) -> Duration {
        self.within
    }

    fn send<'a>(&'a self, to: &'a str, letter: &'a Letter) -> BoxFuture<'a, Result<(), Missed>> {
        Box::pin(self.post(to, letter))
    }
}
