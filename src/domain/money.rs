//! Money as whole minor units of one currency; exact or refused.

use std::fmt;
use std::str::FromStr;

use iso_currency::Currency as Iso;

use super::refusal::{Code, Refusal};

/// The largest amount, in minor units: 10^15.
pub const MAX_MINOR: i64 = 1_000_000_000_000_000;

/// Withdrawn codes that the currency table still lists.
const WITHDRAWN: [&str; 8] = ["HRK", "BGN", "ANG", "CUC", "SLL", "ZWL", "VEF", "MRO"];

/// An ISO 4217 currency with a minor unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency(Iso);

impl Currency {
    /// The alpha-3 code.
    pub fn code(self) -> &'static str {
        self.0.code()
    }

    /// The English name, such as `United States dollar`.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Fraction digits of the minor unit.
    pub fn exponent(self) -> u32 {
        self.0.exponent().map_or(0, u32::from)
    }
}

impl FromStr for Currency {
    type Err = Refusal;

    /// Reads an upper-case alpha-3 code. Withdrawn codes and those without a minor unit are refused.
    fn from_str(code: &str) -> Result<Self, Refusal> {
        let known = Iso::from_code(code)
            .filter(|iso| iso.code() == code && iso.exponent().is_some() && !WITHDRAWN.contains(&code));
        known.map(Self).ok_or_else(|| {
            Refusal::of_field(
                Code::CurrencyUnsupported,
                "currency",
                "is not a current ISO 4217 code in upper case, such as \"USD\"",
            )
        })
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A positive amount of one currency.
///
/// *Invariant*: 1 ≤ minor ≤ [`MAX_MINOR`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Money {
    minor: i64,
    currency: Currency,
}

impl Money {
    /// An amount in minor units.
    ///
    /// *Errors*: `AMOUNT_INVALID` outside 1 to [`MAX_MINOR`].
    pub fn from_minor(minor: i64, currency: Currency) -> Result<Self, Refusal> {
        if (1..=MAX_MINOR).contains(&minor) {
            Ok(Self { minor, currency })
        } else {
            Err(Refusal::of_field(
                Code::AmountInvalid,
                "amount",
                format_args!("must be more than zero and at most {MAX_MINOR} minor units"),
            ))
        }
    }

    /// Reads a decimal such as `199.00`, from the digits as they were written.
    ///
    /// *Errors*: `AMOUNT_PRECISION` for more fraction digits than the currency has (even zeros),
    /// `AMOUNT_INVALID` for anything but plain digits and one point, for zero, and past the limit.
    pub fn parse(text: &str, currency: Currency) -> Result<Self, Refusal> {
        let invalid = || {
            Refusal::of_field(
                Code::AmountInvalid,
                "amount",
                "must be a positive decimal in plain digits, such as \"199.00\"",
            )
        };
        let (whole, fraction) = match text.split_once('.') {
            Some((_, "")) => return Err(invalid()),
            Some((whole, fraction)) => (whole, fraction),
            None => (text, ""),
        };
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if whole.is_empty() || whole.len() > 16 || leading_zero || !digits(whole) || !digits(fraction) {
            return Err(invalid());
        }
        let exponent = currency.exponent();
        let written = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
        if written > exponent {
            return Err(Refusal::of_field(
                Code::AmountPrecision,
                "amount",
                format_args!("has more than {exponent} fraction digits, which {currency} does not have"),
            ));
        }
        let scale = |value: i64, by: u32| 10_i64.checked_pow(by).and_then(|p| value.checked_mul(p));
        let number = |part: &str| if part.is_empty() { Ok(0) } else { part.parse::<i64>() };
        let whole = number(whole).map_err(|_| invalid())?;
        let fraction = number(fraction).map_err(|_| invalid())?;
        let minor = scale(whole, exponent)
            .zip(scale(fraction, exponent.saturating_sub(written)))
            .and_then(|(whole, fraction)| whole.checked_add(fraction))
            .ok_or_else(invalid)?;
        Self::from_minor(minor, currency)
    }

    /// The amount in minor units.
    pub const fn minor(self) -> i64 {
        self.minor
    }

    /// The currency.
    pub const fn currency(self) -> Currency {
        self.currency
    }

    /// The amount as a decimal with all the currency's fraction digits: `199.00`.
    pub fn decimal(self) -> String {
        let exponent = self.currency.exponent();
        let Some(unit) = 10_i64.checked_pow(exponent).filter(|unit| *unit > 1) else {
            return self.minor.to_string();
        };
        let (whole, fraction) = (self.minor.div_euclid(unit), self.minor.rem_euclid(unit));
        format!("{whole}.{fraction:0width$}", width = usize::try_from(exponent).unwrap_or(0))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.decimal(), self.currency)
    }
}
