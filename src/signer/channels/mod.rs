//! The ways to reach a person, behind one trait; each attempt ends in a word for its receipt.
//!
//! A channel makes one attempt and never repeats by itself: what an attempt that got no answer came to is not
//! known, and the next thing to try is the person's next channel. What is said to have been delivered was taken by
//! the server that stands for the person; whether they looked is told by the sign page alone.

mod hours;
mod letter;
mod local;
mod ntfy;
mod settings;
mod smtp;
mod webhook;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

pub(super) use hours::Hours;
pub use letter::Language;
pub(super) use letter::{Item, Letter, Wording};
pub use settings::{ChannelSettings, Digest, Mail, MailTls, Reaching, Way};

use super::settings::SignerFault;
use crate::ambient::Clock;

/// Why an attempt did not reach anybody, in the receipt's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missed {
    /// There is nobody at this address.
    Bounced,
    /// The other side does not take it.
    Refused,
    /// The other side does not take our word for who we are.
    LoginRefused,
    /// The other side asks to be left alone for now, or fails.
    NotNow,
    /// It was never reached, or not safely.
    NoConnection,
    /// No answer in time: it may have arrived.
    Timeout,
    /// It could not be written down here.
    NotWritten,
}

impl Missed {
    /// The stable word.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Bounced => "bounced",
            Self::Refused => "refused",
            Self::LoginRefused => "login_refused",
            Self::NotNow => "not_now",
            Self::NoConnection => "no_connection",
            Self::Timeout => "timeout",
            Self::NotWritten => "not_written",
        }
    }

    /// What an HTTP status that is no success says.
    fn of_status(status: u16) -> Self {
        match status {
            404 | 410 => Self::Bounced,
            401 | 403 => Self::LoginRefused,
            408 | 425 | 429 | 500..=599 => Self::NotNow,
            _ => Self::Refused,
        }
    }

    /// What a request that got no answer says.
    fn of_error(error: &reqwest::Error) -> Self {
        if error.is_connect() {
            Self::NoConnection
        } else if error.is_timeout() {
            Self::Timeout
        } else {
            // A connection that broke off: as with silence, it may have arrived.
            Self::Timeout
        }
    }
}

/// A way to reach people.
pub(super) trait Channel: Send + Sync + fmt::Debug {
    /// Why it can't send to `to`, if it can't.
    fn check(&self, to: &str) -> Result<(), &'static str>;

    /// How long one attempt may take in all.
    fn within(&self) -> Duration;

    /// Makes one attempt to hand over `letter` for `to`.
    fn send<'a>(&'a self, to: &'a str, letter: &'a Letter) -> BoxFuture<'a, Result<(), Missed>>;
}

/// The name that the channel has which needs no settings.
pub(super) const CONSOLE: &str = "console";

/// Every channel, by name.
#[derive(Debug)]
pub(super) struct Channels(BTreeMap<String, Arc<dyn Channel>>);

impl Channels {
    /// Opens what is configured, and the console beside it.
    pub(super) fn open(
        settings: &BTreeMap<String, ChannelSettings>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, SignerFault> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| SignerFault::setting("channels", format!("no HTTP client: {error}")))?;
        let mut all: BTreeMap<String, Arc<dyn Channel>> = BTreeMap::new();
        all.insert(CONSOLE.to_owned(), Arc::new(local::Console));
        for (name, channel) in settings {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if !(1..=64).contains(&name.len()) || !name.chars().all(plain) {
                return Err(SignerFault::setting("channels", format!("{name:?}: a name is 1 to 64 of a-z 0-9 _")));
            }
            let unusable = |why: String| SignerFault::setting(&format!("channels.{name}"), why);
            let opened: Arc<dyn Channel> = match channel {
                ChannelSettings::Console => Arc::new(local::Console),
                ChannelSettings::File { path } => Arc::new(local::File::new(path.clone())),
                ChannelSettings::Smtp(mail) => Arc::new(smtp::Smtp::new(mail).map_err(unusable)?),
                ChannelSettings::Webhook { url, secret, within } => Arc::new(
                    webhook::Hook::new(url, secret, *within, client.clone(), Arc::clone(clock)).map_err(unusable)?,
                ),
                ChannelSettings::Ntfy { url, token, within } => {
                    Arc::new(ntfy::Ntfy::new(url, token.clone(), *within, client.clone()).map_err(unusable)?)
                }
            };
            if opened.within().is_zero() || opened.within() > LONGEST {
                return Err(unusable(format!("its time-out must be 1 ms to {} s", LONGEST.as_secs())));
            }
            all.insert(name.clone(), opened);
        }
        Ok(Self(all))
    }

    /// The channel of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Arc<dyn Channel>> {
        self.0.get(name)
    }
}

/// How long an attempt may take at most: what the lease of a message allows for.
pub(super) const LONGEST: Duration = Duration::from_mins(1);
