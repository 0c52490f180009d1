//! How people are reached: what the service is told of it when it starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

/// How people are reached.
#[derive(Debug, Clone)]
pub struct Reaching {
    /// The channels, by name. `console` is there beside them.
    pub channels: BTreeMap<String, ChannelSettings>,
    /// When single messages become one.
    pub digest: Digest,
    /// How long `notify` waits for channels before it answers with what is known; well below the caller's time-out.
    pub answer_within: Duration,
    /// How many links to one payment are issued on request within [`Self::links_within`].
    pub links: u32,
    /// The window over which they are counted.
    pub links_within: Duration,
    /// How long a link in a message leads anywhere: people come to it later than an agent to the one it asked for.
    pub message_links: Duration,
}

impl Default for Reaching {
    fn default() -> Self {
        Self {
            channels: BTreeMap::new(),
            digest: Digest::default(),
            answer_within: Duration::from_secs(4),
            links: 30,
            links_within: Duration::from_mins(10),
            message_links: Duration::from_hours(6),
        }
    }
}

/// Above `most` messages to one person within `within`, what comes is gathered into one.
#[derive(Debug, Clone, Copy)]
pub struct Digest {
    /// How many messages a person gets within the window.
    pub most: u32,
    /// The window.
    pub within: Duration,
}

impl Default for Digest {
    fn default() -> Self {
        Self { most: 3, within: Duration::from_mins(10) }
    }
}

/// A channel of a person's, and their address there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The channel's name.
    pub channel: String,
    /// Where the person is found; what it is depends on the channel.
    pub to: String,
}

/// One channel.
#[derive(Debug, Clone)]
pub enum ChannelSettings {
    /// A line in the service's log.
    Console,
    /// A line of JSON at the end of a file.
    File {
        /// The file.
        path: PathBuf,
    },
    /// Mail.
    Smtp(Mail),
    /// A signed POST (Standard Webhooks) to a service that passes it on.
    Webhook {
        /// Where; a secret, as some services' URLs are.
        url: SecretString,
        /// `whsec_` and base64.
        secret: SecretString,
        /// How long one attempt may take.
        within: Duration,
    },
    /// Push by an ntfy server, or one that speaks its protocol.
    Ntfy {
        /// The server, such as `https://ntfy.example`; a person's address is a topic there.
        url: String,
        /// The access token, where the server wants one.
        token: Option<SecretString>,
        /// How long one attempt may take.
        within: Duration,
    },
}

/// A mail server that takes our mail.
#[derive(Debug, Clone)]
pub struct Mail {
    /// Its host name, which its certificate must name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is protected.
    pub tls: MailTls,
    /// A certificate to trust beside the system's, in PEM.
    pub ca_pem: Option<String>,
    /// The sender, such as `Countersign <pay@example.com>`.
    pub from: String,
    /// User name and password, where the server wants them.
    pub login: Option<(String, SecretString)>,
    /// How long one attempt may take, from the connection to the server's word.
    pub within: Duration,
}

/// How a connection to a mail server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailTls {
    /// STARTTLS, demanded.
    Starttls,
    /// TLS from the first byte.
    Implicit,
    /// Not at all; refused together with a login.
    None,
}
