//! A loopback server in front of another that passes everything on and keeps what it saw.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::Value;

/// One request and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) status: u16,
    pub(crate) answer_headers: HeaderMap,
    pub(crate) answer: Bytes,
}

impl Exchange {
    /// The answer as JSON, or null.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.answer).unwrap_or(Value::Null)
    }

    /// The answer's media type without parameters.
    pub(crate) fn media(&self) -> String {
        media(&self.answer_headers)
    }
}

/// The media type that headers name, without parameters.
pub(crate) fn media(headers: &HeaderMap) -> String {
    let line = headers.get("content-type").and_then(|line| line.to_str().ok()).unwrap_or_default();
    line.split(';').next().unwrap_or_default().trim().to_owned()
}

/// The server.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Exchange>>>,
}

#[derive(Clone)]
struct Passing {
    target: String,
    http: reqwest::Client,
    seen: Arc<Mutex<Vec<Exchange>>>,
}

impl Recorder {
    /// A recorder in front of `target`, on a port of its own; it ends with the test's runtime.
    pub(crate) fn before(target: &str) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(0)
            .build()
            .unwrap();
        let passing = Passing { target: target.to_owned(), http, seen: Arc::clone(&seen) };
        let router = Router::new().fallback(pass).with_state(passing);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, seen }
    }

    /// What was seen so far.
    pub(crate) fn seen(&self) -> Vec<Exchange> {
        self.seen.lock().unwrap().clone()
    }
}

async fn pass(State(to): State<Passing>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut headers = parts.headers.clone();
    headers.remove("host");
    headers.remove("content-length");
    headers.remove("transfer-encoding");
    let sent = to.http.request(parts.method.clone(), format!("{}{target}", to.target));
    let answer = sent.headers(headers).body(body.clone()).send().await.unwrap();
    let (status, answer_headers) = (answer.status(), answer.headers().clone());
    let bytes = answer.bytes().await.unwrap();
    to.seen.lock().unwrap().push(Exchange {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body,
        status: status.as_u16(),
        answer_headers: answer_headers.clone(),
        answer: bytes.clone(),
    });
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    for (name, value) in &answer_headers {
        if name != "transfer-encoding" && name != "content-length" && name != "connection" {
            response.headers_mut().append(name.clone(), value.clone());
        }
    }
    response
}
