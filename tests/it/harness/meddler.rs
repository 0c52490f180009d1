//! A forwarder of HTTP that meddles with single requests: it stands between the gateways and a service.
//!
//! What it took it carries out by itself: a caller that is gone stops nothing, as on a real network.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Fault {
    /// Nothing.
    Clean,
    /// It does not arrive.
    LoseRequest,
    /// It is done, and the answer does not arrive.
    LoseReply,
    /// It arrives so late that a lease is over.
    PastLease,
    /// It arrives three times, the last time late.
    Duplicate,
    /// It is done, and answered 500.
    FailAfter,
    /// It is done, and the answer says another amount.
    WrongAmount,
    /// It is done, and half the answer arrives.
    Truncate,
}

impl Fault {
    pub(crate) const ALL: [Self; 8] = [
        Self::Clean,
        Self::LoseRequest,
        Self::LoseReply,
        Self::PastLease,
        Self::Duplicate,
        Self::FailAfter,
        Self::WrongAmount,
        Self::Truncate,
    ];

    pub(crate) const fn says(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::LoseRequest => "request lost",
            Self::LoseReply => "reply lost",
            Self::PastLease => "delayed past the lease",
            Self::Duplicate => "duplicated",
            Self::FailAfter => "500 after success",
            Self::WrongAmount => "200 with a wrong amount",
            Self::Truncate => "truncated body",
        }
    }
}

/// What is done to one request.
#[derive(Debug, Clone)]
pub(crate) struct Trick {
    /// The end of its path: `/transfers`, `/payments`, `/notify`, `/cancel`.
    pub(crate) path_end: &'static str,
    pub(crate) fault: Fault,
    /// How long it is kept before it is passed on.
    pub(crate) before: Duration,
    /// How long its answer is kept.
    pub(crate) after: Duration,
}

#[derive(Debug)]
struct Desk {
    target: String,
    late: Duration,
    http: reqwest::Client,
    next: Mutex<Option<Trick>>,
}

/// The forwarder.
#[derive(Debug)]
pub(crate) struct Meddler {
    pub(crate) address: SocketAddr,
    desk: Arc<Desk>,
    task: JoinHandle<()>,
}

impl Meddler {
    /// Before `target`, a `host:port`; what is late is so late.
    pub(crate) async fn before(target: &str, late: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(0)
            .timeout(Duration::from_secs(10))
            .build()
            .unwrap();
        let desk = Arc::new(Desk { target: target.to_owned(), late, http, next: Mutex::default() });
        let router = Router::new().fallback(forward).with_state(Arc::clone(&desk));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, desk, task }
    }

    /// Meddles with the next POST that is meant, once. What was planned before and did not strike is given back.
    pub(crate) fn next(&self, trick: Option<Trick>) -> Option<Trick> {
        std::mem::replace(&mut *self.desk.next.lock().unwrap(), trick)
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request that can be made more than once.
#[derive(Debug, Clone)]
struct Letter {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Debug)]
struct Reply {
    status: StatusCode,
    kind: HeaderValue,
    body: Bytes,
}

async fn forward(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, 1 << 20).await else { return nothing() };
    let mut headers = parts.headers;
    headers.remove(header::HOST);
    headers.remove(header::CONTENT_LENGTH);
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let letter = Letter { method: parts.method, path, headers, body };
    let trick = {
        let mut next = desk.next.lock().unwrap();
        let meant = |trick: &Trick| letter.method == Method::POST && letter.path.ends_with(trick.path_end);
        if next.as_ref().is_some_and(meant) { next.take() } else { None }
    };
    // A task of its own: what was taken is carried out, whether or not the caller waits.
    tokio::spawn(async move { desk.carry(letter, trick).await }).await.unwrap_or_else(|_| nothing())
}

impl Desk {
    async fn carry(self: Arc<Self>, letter: Letter, trick: Option<Trick>) -> Response {
        let Some(trick) = trick else {
            return self.send(&letter).await.map_or_else(nothing, Reply::whole);
        };
        tokio::time::sleep(trick.before).await;
        let reply = match trick.fault {
            Fault::LoseRequest => None,
            Fault::PastLease => {
                tokio::time::sleep(self.late).await;
                self.send(&letter).await
            }
            Fault::Duplicate => {
                let (desk, again) = (Arc::clone(&self), letter.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(desk.late).await;
                    desk.send(&again).await
                });
                tokio::join!(self.send(&letter), self.send(&letter)).0
            }
            _ => self.send(&letter).await,
        };
        tokio::time::sleep(trick.after).await;
        match (trick.fault, reply) {
            (Fault::LoseReply, _) | (_, None) => nothing(),
            (Fault::FailAfter, Some(_)) => {
                let body = r#"{"error_code":"internal","error_message":"it was done, and this is not said"}"#;
                (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            (Fault::WrongAmount, Some(reply)) => reply.with_another_amount().whole(),
            (Fault::Truncate, Some(reply)) => reply.half(),
            (_, Some(reply)) => reply.whole(),
        }
    }

    /// Passes it on; `None` when no whole answer came.
    async fn send(&self, letter: &Letter) -> Option<Reply> {
        let url = format!("http://{}{}", self.target, letter.path);
        let request = self.http.request(letter.method.clone(), url).headers(letter.headers.clone());
        let answer = request.body(letter.body.clone()).send().await.ok()?;
        let kind = answer.headers().get(header::CONTENT_TYPE).cloned();
        Some(Reply {
            status: answer.status(),
            kind: kind.unwrap_or(HeaderValue::from_static("application/json")),
            body: answer.bytes().await.ok()?,
        })
    }
}

impl Reply {
    fn whole(self) -> Response {
        (self.status, [(header::CONTENT_TYPE, self.kind)], self.body).into_response()
    }

    fn half(self) -> Response {
        let length = self.body.len();
        let half = self.body.slice(..length / 2);
        // The pause lets the first half leave before the break.
        let broken = stream::once(async { Ok(half) }).chain(stream::once(async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            Err(cut())
        }));
        let head = [(header::CONTENT_TYPE, self.kind), (header::CONTENT_LENGTH, HeaderValue::from(length))];
        (self.status, head, Body::from_stream(broken)).into_response()
    }

    fn with_another_amount(mut self) -> Self {
        let text = String::from_utf8_lossy(&self.body);
        let another = text.replace(r#""amount_minor":"19900"#, r#""amount_minor":"19901"#);
        // Whoever waits for an answer gets none, and the caller of this wire learns why.
        assert_ne!(text, another, "the rail's answer has no amount where it is looked for");
        self.body = another.into();
        self
    }
}

/// The connection ends before a byte of an answer.
fn nothing() -> Response {
    Body::from_stream(stream::once(async { Err::<Bytes, _>(cut()) })).into_response()
}

fn cut() -> std::io::Error {
    std::io::Error::other("told to break off")
}
