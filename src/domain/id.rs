//! Identifiers, checked where they enter and never again.

use std::fmt;
use std::str::FromStr;

use ulid::Ulid;

use super::refusal::{Code, Refusal};
use super::time::Timestamp;

/// An id that we mint: a prefix and a ULID.
macro_rules! minted {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Mints an id from the time and 128 random bits.
            pub fn mint(at: Timestamp, random: u128) -> Self {
                let millis = u64::try_from(at.micros().div_euclid(1_000)).unwrap_or(0);
                Self(format!(concat!($prefix, "{}"), Ulid::from_parts(millis, random)))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Refusal;
            fn from_str(text: &str) -> Result<Self, Refusal> {
                let id = text.strip_prefix($prefix).and_then(|rest| {
                    Ulid::from_string(rest).ok().filter(|ulid| ulid.to_string() == rest)
                });
                match id {
                    Some(_) => Ok(Self(text.to_owned())),
                    None => Err(Refusal::new(
                        Code::InvalidArgument,
                        concat!("not an id of the form ", $prefix, "<26 characters>"),
                    )),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// A name that others choose: checked characters, checked length.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $field:literal, $min:literal..=$max:literal, $extra:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Refusal;
            fn from_str(text: &str) -> Result<Self, Refusal> {
                let fits = ($min..=$max).contains(&text.len())
                    && text.chars().all(|c| c.is_ascii_alphanumeric() || $extra.contains(c));
                if fits {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(Refusal::invalid($field, concat!(
                        "must be ", $min, " to ", $max, " of A-Z a-z 0-9 and ", $extra
                    )))
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

minted!(
    /// A payment.
    PaymentId, "pay_"
);
minted!(
    /// One recorded external side effect.
    EffectId, "eff_"
);
minted!(
    /// An event for webhooks.
    EventId, "evt_"
);
minted!(
    /// A restored backup that is compared with the rail.
    RestoreId, "rst_"
);
minted!(
    /// A signer's decision.
    DecisionId, "dec_"
);
minted!(
    /// One claim of a lease; the fence that every write under it names.
    LeaseToken, "lse_"
);
named!(
    /// The caller's business key for what is being paid. Case matters.
    OrderId, "order_id", 1..=64, "._:/#-"
);
named!(
    /// A person entitled to approve, as the policy and the signer service name them.
    SignerId, "signer_id", 1..=64, "._@+-"
);
named!(
    /// A tenant: the wall that nothing is seen across.
    TenantId, "tenant", 1..=64, "._-"
);
named!(
    /// The agent's own identity, from its token.
    AgentId, "agent", 1..=128, "._:@|/+-"
);
named!(
    /// A signer's registered key.
    KeyId, "key_id", 1..=64, "._:-"
);
named!(
    /// A caller's idempotency key.
    IdempotencyKey, "idempotency_key", 16..=255, "._:-"
);
