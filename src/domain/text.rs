//! Texts that people read and sign: one spelling each, nothing hidden.

use std::fmt;

use unicode_normalization::is_nfc;

use super::refusal::{Code, Refusal};

/// Checks a text that will be shown and signed: NFC, no control, bidi or invisible characters.
fn canonical(field: &'static str, text: &str, max_chars: usize) -> Result<(), Refusal> {
    if text.chars().count() > max_chars {
        return Err(Refusal::invalid(field, format_args!("longer than {max_chars} characters")));
    }
    let hidden = |c: char| {
        c.is_control()
            || matches!(c,
                '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    if text.chars().any(hidden) {
        return Err(Refusal::of_field(
            Code::TextNotCanonical,
            field,
            "holds control, bidirectional or invisible characters; send plain text",
        ));
    }
    if !is_nfc(text) {
        return Err(Refusal::of_field(Code::TextNotCanonical, field, "is not in Unicode normal form C"));
    }
    if text.trim() != text {
        return Err(Refusal::of_field(Code::TextNotCanonical, field, "starts or ends with white space"));
    }
    Ok(())
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $max:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name(String);

        impl $name {
            /// Checks `text`, which came in as `field`.
            pub fn parse(field: &'static str, text: &str) -> Result<Self, Refusal> {
                canonical(field, text, $max)?;
                Ok(Self(text.to_owned()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text!(
    /// What a payment is for, in the requester's words; at most 256 characters.
    Memo, 256
);
text!(
    /// Why a person decided as they did; at most 512 characters.
    Reason, 512
);
text!(
    /// The name of a payer or payee; at most 128 characters.
    PartyName, 128
);
text!(
    /// What a person calls a key of theirs; at most 64 characters.
    KeyLabel, 64
);

/// An account that pays or is paid: an IBAN, or the rail's own name for one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account(String);

impl Account {
    /// Checks `text`, which came in as `field`: 1 to 64 of `A-Z a-z 0-9 . _ : / -`.
    pub fn parse(field: &'static str, text: &str) -> Result<Self, Refusal> {
        let fits =
            (1..=64).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || "._:/-".contains(c));
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(Refusal::invalid(field, "must be 1 to 64 of A-Z a-z 0-9 and ._:/-"))
        }
    }

    /// The account as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
