//! A real HTTP peer on a loopback port that can be taken down, or told to misbehave on the wire.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use countersign::http::serve::{Serving, serve};
use futures::StreamExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ports::port;

/// How a peer answers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Weather {
    /// As it should.
    Fair,
    /// With this status and a JSON error, having done nothing.
    Status(u16),
    /// With this status, type and body, having done nothing.
    Answer(u16, &'static str, &'static str),
    /// Not at all.
    Hang,
    /// 200 and a page for people, having done nothing.
    Garbage,
    /// 200 and half an answer, having done nothing.
    Truncated,
    /// 302 to another host, having done nothing.
    Redirect,
    /// 302 to where it was asked, having done nothing.
    RedirectToItself,
    /// 429, to be asked again after so many seconds, having done nothing.
    Busy(u64),
    /// It does what it was asked, and the answer is lost.
    LoseReply,
    /// It does what it was asked, and answers so many milliseconds later.
    Slow(u64),
}

#[derive(Debug)]
struct Sky {
    lasting: Weather,
    next: VecDeque<(String, Weather)>,
    seen: Vec<String>,
}

/// A peer.
#[derive(Debug)]
pub(crate) struct Peer {
    address: SocketAddr,
    router: Router,
    sky: Arc<Mutex<Sky>>,
    serving: Mutex<Option<(CancellationToken, JoinHandle<()>)>>,
}

impl Peer {
    /// A peer on this port whose pages come later, by [`Peer::serve`].
    ///
    /// The port is nobody's but this peer's: who was down for a while finds it free.
    pub(crate) async fn bind() -> (TcpListener, SocketAddr) {
        loop {
            // Some program that is no test may listen there.
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", port())).await {
                let address = listener.local_addr().unwrap();
                return (listener, address);
            }
        }
    }

    /// Serves `router` on `listener`.
    pub(crate) fn serve(listener: TcpListener, router: Router) -> Self {
        let sky = Arc::new(Mutex::new(Sky { lasting: Weather::Fair, next: VecDeque::new(), seen: Vec::new() }));
        let router = router.layer(from_fn_with_state(Arc::clone(&sky), under));
        let peer = Self { address: listener.local_addr().unwrap(), router, sky, serving: Mutex::default() };
        peer.open(listener);
        peer
    }

    fn open(&self, listener: TcpListener) {
        let serving =
            Serving { patience: Duration::from_secs(5), max_connections: 256, drain: Duration::from_millis(50) };
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(listener, self.router.clone(), serving, stop.clone()));
        *self.serving.lock().unwrap() = Some((stop, task));
    }

    /// Where it listens, or would.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on connections are refused.
    pub(crate) async fn down(&self) {
        let serving = self.serving.lock().unwrap().take();
        if let Some((stop, task)) = serving {
            stop.cancel();
            task.await.unwrap();
        }
    }

    /// It listens again, on the same port, and answers as it should.
    pub(crate) async fn up(&self) {
        self.set(Weather::Fair);
        self.sky.lock().unwrap().next.clear();
        if self.serving.lock().unwrap().is_none() {
            self.open(TcpListener::bind(self.address).await.unwrap());
        }
    }

    /// From now on every answer is like this.
    pub(crate) fn set(&self, weather: Weather) {
        self.sky.lock().unwrap().lasting = weather;
    }

    /// The next request whose method and path end like this is answered so, once.
    pub(crate) fn once(&self, request: &str, weather: Weather) {
        self.sky.lock().unwrap().next.push_back((request.to_owned(), weather));
    }

    /// How many requests had a method and path like this: `POST` … `/notify`.
    pub(crate) fn count(&self, method: &str, path_end: &str) -> usize {
        let sky = self.sky.lock().unwrap();
        sky.seen.iter().filter(|line| line.starts_with(method) && line.ends_with(path_end)).count()
    }
}

async fn under(State(sky): State<Arc<Mutex<Sky>>>, request: Request, next: Next) -> Response {
    let line = format!("{} {}", request.method(), request.uri().path());
    let weather = {
        let mut sky = sky.lock().unwrap();
        let planned = sky.next.iter().position(|(end, _)| line.ends_with(end.as_str()));
        let planned = planned.and_then(|at| sky.next.remove(at)).map(|(_, weather)| weather);
        sky.seen.push(line);
        planned.unwrap_or(sky.lasting)
    };
    match weather {
        Weather::Fair => next.run(request).await,
        Weather::Status(status) => {
            let status = StatusCode::from_u16(status).unwrap();
            let body = r#"{"error_code":"told_to_fail","error_message":"SECRET-UPSTREAM-BODY"}"#;
            (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Weather::Answer(status, kind, body) => {
            (StatusCode::from_u16(status).unwrap(), [(header::CONTENT_TYPE, kind)], body).into_response()
        }
        Weather::Hang => std::future::pending().await,
        Weather::Garbage => {
            ([(header::CONTENT_TYPE, "text/html")], "<html>SECRET-UPSTREAM-BODY</html>").into_response()
        }
        Weather::Truncated => {
            let half = futures::stream::iter([Ok(Bytes::from_static(b"{\"id\":\"half")), Err(lost())]);
            ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(half)).into_response()
        }
        Weather::Redirect => (StatusCode::FOUND, [(header::LOCATION, "http://198.51.100.1/")], "").into_response(),
        Weather::RedirectToItself => {
            let own = request.uri().path().to_owned();
            (StatusCode::FOUND, [(header::LOCATION, own)], "").into_response()
        }
        Weather::Busy(seconds) => {
            (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, seconds.to_string())], "").into_response()
        }
        Weather::Slow(millis) => {
            let answer = next.run(request).await;
            tokio::time::sleep(Duration::from_millis(millis)).await;
            answer
        }
        Weather::LoseReply => {
            let answer = next.run(request).await;
            let mut body = answer.into_body().into_data_stream();
            while body.next().await.is_some() {}
            Body::from_stream(futures::stream::iter([Err::<Bytes, _>(lost())])).into_response()
        }
    }
}

fn lost() -> std::io::Error {
    std::io::Error::other("the answer is lost")
}
