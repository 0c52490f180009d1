//! Mail: one connection a message, and the server's own word for what became of it.
//!
//! The dialogue is driven here and not by a pool: one that ran out of time must not go back among the connections
//! that the next message uses, or the late answer to the one would be taken for the answer to the other.

use std::time::Duration;

use futures::future::BoxFuture;
use lettre::Address;
use lettre::address::Envelope;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use secrecy::{ExposeSecret as _, SecretString};

use super::{Channel, Letter, Mail, MailTls, Missed};

/// How long a server gets to say good-bye; nobody waits for it.
const GOODBYE: Duration = Duration::from_secs(2);

/// The channel.
pub(super) struct Smtp {
    host: String,
    port: u16,
    tls: MailTls,
    parameters: Option<TlsParameters>,
    from: Mailbox,
    hello: ClientId,
    login: Option<(String, SecretString)>,
    within: Duration,
}

impl std::fmt::Debug for Smtp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Smtp").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Smtp {
    pub(super) fn new(mail: &Mail) -> Result<Self, String> {
        let from: Mailbox = mail.from.parse().map_err(|_| "from is no mail address".to_owned())?;
        if mail.host.is_empty() || !mail.host.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("server must be a host name and a port".to_owned());
        }
        if mail.tls == MailTls::None && mail.login.is_some() {
            return Err("tls = \"none\" would send the password in the clear".to_owned());
        }
        let parameters = match mail.tls {
            MailTls::None => None,
            MailTls::Starttls | MailTls::Implicit => Some(parameters(mail)?),
        };
        Ok(Self {
            host: mail.host.clone(),
            port: mail.port,
            tls: mail.tls,
            parameters,
            hello: ClientId::Domain(from.email.domain().to_owned()),
            from,
            login: mail.login.clone(),
            within: mail.within,
        })
    }

    /// The message, in the bytes that are sent.
    fn message(&self, to: Mailbox, letter: &Letter) -> Result<(Envelope, Vec<u8>), Missed> {
        let message = Message::builder()
            .from(self.from.clone())
            .to(to)
            .subject(letter.title.as_str())
            // The same at every look at the same message, so that a mailbox can tell a second copy from a second message.
            .message_id(Some(format!("<{}@{}>", letter.id, self.from.email.domain())))
            .raw_header(HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned()))
            .header(ContentType::TEXT_PLAIN)
            .body(letter.text.clone())
            .map_err(|_| Missed::NotWritten)?;
        Ok((message.envelope().clone(), message.formatted()))
    }

    async fn deliver(&self, to: &str, letter: &Letter) -> Result<(), Missed> {
        let to: Address = to.parse().map_err(|_| Missed::Bounced)?;
        let (envelope, text) = self.message(Mailbox::new(None, to), letter)?;
        let mut connection = self.connect().await.map_err(|error| missed(&error))?;
        let sent = connection.send(&envelope, &text).await;
        // What is said from here on changes nothing about the message.
        tokio::spawn(async move { tokio::time::timeout(GOODBYE, connection.abort()).await });
        sent.map(drop).map_err(|error| missed(&error))
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, Error> {
        let wrapped = self.parameters.clone().filter(|_| self.tls == MailTls::Implicit);
        let place = (self.host.as_str(), self.port);
        let mut connection =
            AsyncSmtpConnection::connect_tokio1(place, Some(self.within), &self.hello, wrapped, None).await?;
        if let (MailTls::Starttls, Some(parameters)) = (self.tls, &self.parameters) {
            connection.starttls(parameters.clone(), &self.hello).await?;
        }
        if let Some((user, password)) = &self.login {
            let credentials = Credentials::new(user.clone(), password.expose_secret().to_owned());
            connection.auth(&[Mechanism::Plain, Mechanism::Login], &credentials).await?;
        }
        Ok(connection)
    }
}

fn parameters(mail: &Mail) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(mail.host.clone());
    if let Some(pem) = &mail.ca_pem {
        let certificate =
            Certificate::from_pem(pem.as_bytes()).map_err(|_| "ca_file is no certificate in PEM".to_owned())?;
        builder = builder.add_root_certificate(certificate);
    }
    builder.build().map_err(|error| format!("TLS can't be set up: {error}"))
}

/// What an error says of the message, in the receipt's words; the server's own are not passed on.
fn missed(error: &Error) -> Missed {
    if error.is_permanent() {
        let code = error.status().map(|code| code.to_string()).unwrap_or_default();
        return match code.as_str() {
            "530" | "534" | "535" | "538" => Missed::LoginRefused,
            "502" | "503" | "504" | "521" => Missed::Refused,
            _ => Missed::Bounced,
        };
    }
    if error.is_transient() {
        Missed::NotNow
    } else if error.is_timeout() {
        Missed::Timeout
    } else if error.is_client() || error.is_response() {
        Missed::Refused
    } else {
        Missed::NoConnection
    }
}

impl Channel for Smtp {
    fn check(&self, to: &str) -> Result<(), &'static str> {
        to.parse::<Address>().map(drop).map_err(|_| "an address is a mail address")
    }

    fn within(&self) -> Duration {
        self.within
    }

    fn send<'a>(&'a self, to: &'a str, letter: &'a Letter) -> BoxFuture<'a, Result<(), Missed>> {
        Box::pin(self.deliver(to, letter))
    }
}
