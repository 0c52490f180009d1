//! A tool's arguments, read from their source text: every digit as it was written.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::domain::{Code, OrderId, PaymentId, Refusal};
use crate::journal::Selector;

/// The longest detached JWS that is read.
pub(super) const LONGEST_SIGNATURE: usize = 1_024;

/// The members of an arguments object that have not been read yet.
///
/// Take each by name, then call [`Arguments::done`]: what is left over is unknown and refused,
/// because an argument that is silently dropped becomes a confident wrong payment.
#[derive(Debug)]
pub struct Arguments {
    members: BTreeMap<String, Box<RawValue>>,
}

impl Arguments {
    /// Reads the source text of an arguments object. Absent arguments are an empty object.
    ///
    /// *Errors*: `INVALID_ARGUMENT` for anything but an object.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        // The protocol lets a call leave them out.
        let text = if text.trim() == "null" { "{}" } else { text };
        serde_json::from_str(text)
            .map(|members| Self { members })
            .map_err(|_| Refusal::invalid("arguments", "must be a JSON object"))
    }

    /// The arguments as they may be logged: ids and numbers; of everything else only that it was there.
    pub fn redacted(&self) -> String {
        const SHOWN: [&str; 9] =
            ["order_id", "payment_id", "amount", "currency", "signer_id", "notify", "wait_ms", "status", "decision"];
        let shown = |(name, raw): (&str, &RawValue)| {
            if SHOWN.contains(&name) {
                format!("{name}={}", raw.get().chars().filter(|c| !c.is_control()).take(80).collect::<String>())
            } else {
                format!("{}=…", name.chars().filter(|c| !c.is_control()).take(32).collect::<String>())
            }
        };
        self.members.iter().take(16).map(|(name, raw)| shown((name, raw))).collect::<Vec<_>>().join(" ")
    }

    /// A member's source text; `null` counts as absent.
    fn take(&mut self, name: &str) -> Option<Box<RawValue>> {
        self.members.remove(name).filter(|raw| raw.get() != "null")
    }

    /// An optional text.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, Refusal> {
        self.take(name)
            .map(|raw| serde_json::from_str(raw.get()).map_err(|_| Refusal::invalid(name, "must be a string")))
            .transpose()
    }

    /// A text that must be there.
    pub fn required_text(&mut self, name: &'static str) -> Result<String, Refusal> {
        self.text(name)?.ok_or_else(|| Refusal::invalid(name, "is required"))
    }

    /// An optional list of at most `most` texts.
    pub fn texts(&mut self, name: &'static str, most: usize) -> Result<Option<Vec<String>>, Refusal> {
        let Some(raw) = self.take(name) else {
            return Ok(None);
        };
        let texts: Vec<String> =
            serde_json::from_str(raw.get()).map_err(|_| Refusal::invalid(name, "must be a list of strings"))?;
        if texts.len() > most {
            return Err(Refusal::invalid(name, format_args!("must name at most {most}")));
        }
        Ok(Some(texts))
    }

    /// A detached JWS: its characters and length only, the rest is for whoever verifies it.
    pub fn signature(&mut self) -> Result<String, Refusal> {
        let text = self.required_text("signature")?;
        let form = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if (1..=LONGEST_SIGNATURE).contains(&text.len()) && text.chars().all(form) {
            Ok(text)
        } else {
            Err(Refusal::invalid("signature", "must be a detached JWS, header..signature, in base64url"))
        }
    }

    /// An optional yes or no.
    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Refusal> {
        self.take(name)
            .map(|raw| serde_json::from_str(raw.get()).map_err(|_| Refusal::invalid(name, "must be true or false")))
            .transpose()
    }

    /// An optional whole number of at most `most`.
    pub fn number(&mut self, name: &'static str, most: u64) -> Result<Option<u64>, Refusal> {
        let wrong = || Refusal::invalid(name, format_args!("must be a whole number from 0 to {most}"));
        self.take(name).map(|raw| raw.get().parse().ok().filter(|value| *value <= most).ok_or_else(wrong)).transpose()
    }

    /// An amount's digits: a string's content, or a number's own text, never through a float.
    pub fn amount(&mut self) -> Result<String, Refusal> {
        let raw = self.take("amount").ok_or_else(|| Refusal::of_field(Code::AmountInvalid, "amount", "is required"))?;
        let text = raw.get();
        if text.starts_with('"') {
            return serde_json::from_str(text)
                .map_err(|_| Refusal::of_field(Code::AmountInvalid, "amount", "must be a decimal"));
        }
        if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            return Ok(text.to_owned());
        }
        Err(Refusal::of_field(
            Code::AmountInvalid,
            "amount",
            "must be a decimal string such as \"199.00\", or a number",
        ))
    }

    /// The payment meant: `order_id` or `payment_id`, exactly one.
    pub fn selector(&mut self) -> Result<Selector, Refusal> {
        match (self.text("order_id")?, self.text("payment_id")?) {
            (Some(order), None) => Ok(Selector::Order(order.parse::<OrderId>()?)),
            (None, Some(payment)) => payment
                .parse::<PaymentId>()
                .map(Selector::Payment)
                .map_err(|_| Refusal::invalid("payment_id", "is not an id of the form pay_ and 26 characters")),
            (None, None) => Err(Refusal::invalid("order_id", "is required (or payment_id)")),
            (Some(_), Some(_)) => Err(Refusal::invalid("order_id", "and payment_id are both given; give one")),
        }
    }

    /// Where a page starts.
    pub fn cursor(&mut self) -> Result<Option<PaymentId>, Refusal> {
        self.text("cursor")?
            .map(|text| text.parse().map_err(|_| Refusal::invalid("cursor", "is not a next_cursor of an earlier page")))
            .transpose()
    }

    /// Refuses what was not read.
    pub fn done(mut self) -> Result<(), Refusal> {
        self.finish()
    }

    /// Refuses what was not read.
    pub fn finish(&mut self) -> Result<(), Refusal> {
        match std::mem::take(&mut self.members).into_keys().next() {
            None => Ok(()),
            Some(name) => {
                let name: String = name.chars().take(64).collect();
                // In quotes and escapes where it is not what it looks like.
                let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic());
                let name = if plain { name } else { format!("{name:?}") };
                Err(Refusal::new(
                    Code::InvalidArgument,
                    format!("{name}: is not an argument of this tool; tools/list shows which are"),
                ))
            }
        }
    }
}
