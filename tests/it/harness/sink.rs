//! A receiver of webhooks on a loopback port, which answers as it is told and keeps what it got.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// How an event is answered.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// With this status.
    Status(u16),
    /// With this status and a `Location`.
    To(u16, String),
    /// With this status and a `Retry-After`, in seconds.
    Later(u16, u64),
    /// 204, after a while of true time.
    Slowly(Duration),
    /// Not at all.
    Hang,
    /// 200, and 50 MB.
    Flood,
}

/// One event as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> String {
        self.headers[name].to_str().unwrap().to_owned()
    }

    pub(crate) fn id(&self) -> String {
        self.header("webhook-id")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Debug)]
struct Desk {
    next: Mutex<VecDeque<Reply>>,
    lasting: Mutex<Reply>,
    seen: Mutex<Vec<Seen>>,
    flooded: Arc<AtomicUsize>,
}

/// The receiver.
#[derive(Debug)]
pub(crate) struct Sink {
    address: SocketAddr,
    desk: Arc<Desk>,
    task: JoinHandle<()>,
}

impl Sink {
    /// One that answers 204.
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let desk = Arc::new(Desk {
            next: Mutex::default(),
            lasting: Mutex::new(Reply::Status(204)),
            seen: Mutex::default(),
            flooded: Arc::default(),
        });
        let router = Router::new().fallback(take).with_state(Arc::clone(&desk));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, desk, task }
    }

    /// Its URL, with a path.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/hooks", self.address)
    }

    /// As `webhooks.allow_private` names it.
    pub(crate) fn place(&self) -> String {
        self.address.to_string()
    }

    /// The next events are answered so, one each.
    pub(crate) fn next(&self, replies: impl IntoIterator<Item = Reply>) {
        self.desk.next.lock().unwrap().extend(replies);
    }

    /// From now on every event is answered so.
    pub(crate) fn always(&self, reply: Reply) {
        *self.desk.lasting.lock().unwrap() = reply;
    }

    /// What it got, in order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.desk.seen.lock().unwrap().clone()
    }

    /// How many bytes of a flood were taken.
    pub(crate) fn flooded(&self) -> usize {
        self.desk.flooded.load(Ordering::SeqCst)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Bytes) -> Response {
    desk.seen.lock().unwrap().push(Seen { headers, body });
    let planned = desk.next.lock().unwrap().pop_front();
    let reply = planned.unwrap_or_else(|| desk.lasting.lock().unwrap().clone());
    match reply {
        Reply::Status(status) => status_of(status).into_response(),
        Reply::To(status, location) => (status_of(status), [("location", location)]).into_response(),
        Reply::Later(status, seconds) => {
            (status_of(status), [("retry-after", seconds.to_string())], "SECRET-UPSTREAM-BODY").into_response()
        }
        Reply::Slowly(time) => {
            tokio::time::sleep(time).await;
            StatusCode::NO_CONTENT.into_response()
        }
        Reply::Hang => std::future::pending().await,
        Reply::Flood => {
            const CHUNK: usize = 64 * 1024;
            let count = Arc::clone(&desk.flooded);
            let chunks = (0..50 * 1024 * 1024 / CHUNK).map(move |_| {
                count.fetch_add(CHUNK, Ordering::SeqCst);
                Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; CHUNK]))
            });
            Body::from_stream(futures::stream::iter(chunks)).into_response()
        }
    }
}

fn status_of(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap()
}
