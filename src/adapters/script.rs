//! A server for tests that misbehaves on the wire, byte by byte, and counts what reached it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use secrecy::SecretString;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::breaker::BreakerPlan;
use super::http::Endpoint;

/// What the server does once it has read a whole request. The last step repeats.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Sends these bytes and keeps the connection.
    Say(String),
    /// Sends these bytes and closes.
    SayClose(String),
    /// Sends these bytes and resets the connection.
    SayReset(String),
    /// Answers nothing for a long time.
    Hang,
    /// Sends these bytes, then nothing for a long time.
    SayHang(String),
    /// Sends these bytes, then one byte every 100 ms for a long time: never silent, never done.
    Drip(String),
    /// Answers, then closes in the instant the next request on the connection has been read.
    SayThenDropNext(String),
}

/// The server.
#[derive(Debug)]
pub(super) struct Script {
    /// Its base URL.
    pub(super) url: String,
    /// Every whole request it read, in order.
    pub(super) requests: Arc<Mutex<Vec<String>>>,
    /// Every connection it accepted.
    pub(super) connections: Arc<Mutex<usize>>,
}

impl Script {
    /// Listens, and plays `steps`, one a request.
    pub(super) async fn play(steps: impl IntoIterator<Item = Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let steps = Arc::new(Mutex::new(VecDeque::from_iter(steps)));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let (log, count) = (requests.clone(), connections.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                tokio::spawn(serve(stream, steps.clone(), log.clone()));
            }
        });
        Self { url, requests, connections }
    }

    /// How many whole requests arrived.
    pub(super) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

/// An endpoint with short times.
pub(super) fn endpoint(url: &str) -> Endpoint {
    Endpoint {
        name: "script",
        url: url.to_owned(),
        api_key: SecretString::from("key-for-tests-0001"),
        connect: Duration::from_millis(300),
        read: Duration::from_millis(400),
        total: Duration::from_millis(900),
        breaker: BreakerPlan { failures: 0, wait: Duration::ZERO },
    }
}

/// An address where nobody listens.
pub(super) async fn refused() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A whole HTTP answer with a JSON body.
pub(super) fn http(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// [`http`], as a step.
pub(super) fn says(status: u16, body: &str) -> Step {
    Step::Say(http(status, body))
}

async fn serve(mut stream: TcpStream, steps: Arc<Mutex<VecDeque<Step>>>, log: Arc<Mutex<Vec<String>>>) {
    let mut drop_next = false;
    while let Some(request) = read_request(&mut stream).await {
        log.lock().unwrap().push(request);
        if drop_next {
            return;
        }
        let step = {
            let mut steps = steps.lock().unwrap();
            if steps.len() > 1 { steps.pop_front() } else { steps.front().cloned() }
        };
        match step.unwrap() {
            Step::Say(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            Step::SayClose(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                return;
            }
            Step::SayReset(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                stream.set_zero_linger().unwrap();
                return;
            }
            Step::Hang => tokio::time::sleep(Duration::from_mins(1)).await,
            Step::SayHang(text) => {
                stream.write_all(text.as_bytes()).await.unwrap();
                tokio::time::sleep(Duration::from_mins(1)).await;
            }
            Step::Drip(text) => {
                stream.write_all(text.as_bytes()).await.unwrap();
                while stream.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                return;
            }
            Step::SayThenDropNext(text) => {
                stream.write_all(text.as_bytes()).await.unwrap();
                drop_next = true;
            }
        }
    }
}

/// One request, head and body; `None` when the connection ends before it is whole.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned))
                .map_or(0, |value| value.trim().parse::<usize>().unwrap());
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend(chunk.iter().take(n)),
        }
    }
}
