//! Serving a router on a socket: bounded connections, bounded waiting, an orderly end.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::traffic::{GRACE, Traffic, Verdict};
use crate::config::{self, ConfigFault, ms};

/// How a listener treats its connections.
#[derive(Debug, Clone, Copy)]
pub struct Serving {
    /// How long a client may take: for a request's head, for its body, from one request to the next,
    /// and to take an answer.
    pub patience: Duration,
    /// How many connections are open at once; more wait in the kernel's queue.
    pub max_connections: usize,
    /// How long calls in flight may take to end once told to stop.
    pub drain: Duration,
}

impl From<&config::Server> for Serving {
    fn from(server: &config::Server) -> Self {
        Self {
            patience: ms(server.header_timeout_ms),
            max_connections: server.max_connections.max(1),
            drain: ms(server.drain_ms),
        }
    }
}

/// Listens on `address`, which `setting` names.
///
/// *Errors*: one line that says what to do.
pub async fn bind(setting: &str, address: &str) -> Result<TcpListener, ConfigFault> {
    TcpListener::bind(address).await.map_err(|err| {
        ConfigFault(match err.kind() {
            ErrorKind::AddrInUse => {
                format!("{setting}: {address} is in use; stop the process that listens there or choose another port")
            }
            ErrorKind::PermissionDenied => {
                format!("{setting}: {address} needs a right this process has not; choose a port above 1023")
            }
            ErrorKind::AddrNotAvailable => format!("{setting}: {address} is not an address of this machine"),
            kind => format!("{setting}: can't listen on {address}: {kind}; it must be an address and a port"),
        })
    })
}

/// Serves `router` until `stop` turns and the calls in flight have ended or `drain` is over.
pub async fn serve(listener: TcpListener, router: Router, serving: Serving, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let seats = Arc::new(Semaphore::new(serving.max_connections));
    let kill = CancellationToken::new();
    let attend = |seat: OwnedSemaphorePermit, socket: TcpStream| {
        let connection = Connection { router: router.clone(), serving, stop: stop.clone() };
        let kill = kill.clone();
        connections.spawn(async move {
            tokio::select! {
                () = connection.run(socket) => {}
                () = kill.cancelled() => {}
            }
            drop(seat);
        });
    };
    loop {
        // The seat comes first: a connection that can't be served is better left in the kernel's queue.
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = async {
                let seat = Arc::clone(&seats).acquire_owned().await;
                (seat, listener.accept().await)
            } => accepted,
        };
        let (Ok(seat), socket) = accepted else { break };
        match socket {
            Ok((socket, _)) => attend(seat, socket),
            Err(err) => {
                // Out of file handles, or the peer is gone already; neither is a reason to end.
                tracing::warn!(error = %err, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    // Whoever is in the kernel's queue has connected, and would be cut off with the listener.
    if let Ok(listener) = listener.into_std() {
        while let Ok(seat) = Arc::clone(&seats).try_acquire_owned()
            && let Ok((socket, _)) = listener.accept()
        {
            if socket.set_nonblocking(true).is_ok()
                && let Ok(socket) = TcpStream::from_std(socket)
            {
                attend(seat, socket);
            }
        }
    }
    connections.close();
    if tokio::time::timeout(serving.drain, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "calls in flight did not end in time and are cut off");
        kill.cancel();
        connections.wait().await;
    }
}

struct Connection {
    router: Router,
    serving: Serving,
    stop: CancellationToken,
}

impl Connection {
    async fn run(self, socket: TcpStream) {
        // Without it a small answer may wait for the peer's delayed acknowledgement.
        let _ = socket.set_nodelay(true);
        let traffic = Traffic::new(self.serving.patience);
        let service = {
            let (traffic, router) = (Arc::clone(&traffic), self.router);
            hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
                Arc::clone(&traffic).serve(router.clone(), request)
            })
        };
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.serving.patience);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(100)
            .keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(10));
        let connection = builder.serve_connection(TokioIo::new(socket), service);
        tokio::pin!(connection);
        // The first look comes as late as hyper's own on a head: it starts once it knows the protocol, and
        // a client that sends nothing, or half a preface, would hold its seat for ever.
        let look = tokio::time::sleep(self.serving.patience);
        tokio::pin!(look);
        let (mut stopping, mut told) = (false, false);
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(err) = ended {
                        tracing::debug!(error = %err, "a connection ended early");
                    }
                    return;
                }
                () = look.as_mut(), if stopping == told => match traffic.verdict() {
                    Verdict::Wait(until) => look.as_mut().reset(until),
                    Verdict::Leave => {
                        connection.as_mut().graceful_shutdown();
                        look.as_mut().reset(Instant::now() + GRACE);
                    }
                    Verdict::Cut => return,
                },
                () = tokio::time::sleep(GRACE), if stopping && !told => {
                    told = true;
                    connection.as_mut().graceful_shutdown();
                    look.as_mut().reset(Instant::now());
                }
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    traffic.stop();
                    // A client that has just connected is about to ask: hyper would cut it off unheard.
                    told = !traffic.is_fresh();
                    if told {
                        connection.as_mut().graceful_shutdown();
                        look.as_mut().reset(Instant::now() + GRACE);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn quick() -> Serving {
        Serving { patience: Duration::from_millis(200), max_connections: 8, drain: Duration::from_millis(600) }
    }

    async fn start(serving: Serving) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let listener = bind("server.listen", "127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "hello" })).route(
            "/slow/{millis}",
            get(|axum::extract::Path(millis): axum::extract::Path<u64>| async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                "done"
            }),
        );
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, router, serving, stop.clone()));
        (address, stop, server)
    }

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = socket.read_to_string(&mut answer).await;
        answer
    }

    #[tokio::test]
    async fn a_taken_port_is_told_in_one_line() {
        let listener = bind("server.listen", "127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let fault = bind("server.listen", &address).await.unwrap_err().to_string();
        assert!(fault.contains("server.listen") && fault.contains("is in use") && !fault.contains('\n'), "{fault}");
    }

    #[tokio::test]
    async fn a_call_in_flight_ends_and_new_ones_are_refused() {
        let (address, stop, server) = start(quick()).await;
        assert!(ask(address, "/").await.ends_with("hello"));
        let call = tokio::spawn(async move { ask(address, "/slow/300").await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        stop.cancel();
        assert!(call.await.unwrap().ends_with("done"));
        server.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn whoever_has_connected_when_it_stops_is_answered() {
        for round in 0..10 {
            let (address, stop, server) = start(quick()).await;
            let mut accepted = TcpStream::connect(address).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            // Nothing else runs between this and the stop: it is in the kernel's queue.
            let queued = std::net::TcpStream::connect(address).unwrap();
            stop.cancel();
            queued.set_nonblocking(true).unwrap();
            let mut queued = TcpStream::from_std(queued).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            for (which, socket) in [("accepted", &mut accepted), ("queued", &mut queued)] {
                let _ = socket.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
                let mut answer = String::new();
                let _ = socket.read_to_string(&mut answer).await;
                assert!(answer.ends_with("hello"), "{round}: {which}: {answer:?}");
            }
            server.await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_idle_connection_does_not_hold_the_stop() {
        let patient = Duration::from_secs(20);
        let (address, stop, server) = start(Serving { patience: patient, drain: patient, ..quick() }).await;
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let _ = socket.read(&mut [0; 1_024]).await.unwrap();
        stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), server).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_call_that_never_ends_holds_the_stop_no_longer_than_the_drain() {
        let (address, stop, server) = start(quick()).await;
        let call = tokio::spawn(async move { ask(address, "/slow/60000").await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let begun = Instant::now();
        stop.cancel();
        server.await.unwrap();
        assert!((500..3_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
        assert_eq!(call.await.unwrap(), "");
    }

    #[tokio::test]
    async fn a_client_that_sends_nothing_or_half_a_head_is_let_go() {
        let (address, _stop, _server) = start(quick()).await;
        for start in ["", "P", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nhost: loc"] {
            let mut socket = TcpStream::connect(address).await.unwrap();
            socket.write_all(start.as_bytes()).await.unwrap();
            let mut rest = Vec::new();
            let ended = tokio::time::timeout(Duration::from_secs(3), socket.read_to_end(&mut rest)).await;
            assert!(ended.is_ok(), "{start:?} still holds its connection");
        }
    }

    #[tokio::test]
    async fn connections_over_the_cap_wait_for_a_seat() {
        let (address, _stop, _server) = start(Serving { max_connections: 1, ..quick() }).await;
        let first = tokio::spawn(async move { ask(address, "/slow/300").await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let begun = Instant::now();
        assert!(ask(address, "/").await.ends_with("hello"));
        assert!(begun.elapsed() >= Duration::from_millis(100), "it did not wait");
        assert!(first.await.unwrap().ends_with("done"));
    }
}
