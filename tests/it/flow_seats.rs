//! Clients that want nothing but a seat: each is let go, and others are served.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use countersign::http::serve::{Serving, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::app::{App, Wishes, each_with};

const SEATS: usize = 2;
const PATIENCE: Duration = Duration::from_millis(400);

/// How a client holds on.
#[derive(Debug, Clone, Copy)]
enum Hold {
    /// A body that is announced and never comes.
    NoBody,
    /// A body that comes a byte at a time.
    Drip,
    /// HTTP/2: one call, then only answers to pings.
    Pings,
    /// HTTP/2: a body that comes a byte at a time, and answers to pings.
    DripOfFrames,
    /// HTTP/2: an answer that the client gives no room for.
    NoWindow,
    /// More calls than the client reads answers of.
    NeverReads,
}

const HOLDS: [Hold; 6] = [Hold::NoBody, Hold::Drip, Hold::Pings, Hold::DripOfFrames, Hold::NoWindow, Hold::NeverReads];

/// What a server has that anyone may ask.
#[derive(Debug, Clone, Copy)]
struct Doors {
    address: SocketAddr,
    post: &'static str,
    get: &'static str,
}

/// A frame of HTTP/2 (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The head of a request, in HPACK without Huffman (RFC 7541 §6).
fn head(post: bool, path: &str) -> Vec<u8> {
    let text = |index: u8, text: &str| {
        let mut bytes = vec![index, u8::try_from(text.len()).unwrap()];
        bytes.extend(text.as_bytes());
        bytes
    };
    let method = if post { 0x83 } else { 0x82 };
    [vec![method, 0x86], text(0x04, path), text(0x01, "localhost")].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;

/// The connection, after what comes first on it.
async fn open(doors: Doors, hold: Hold) -> TcpStream {
    let client = TcpSocket::new_v4().unwrap();
    client.set_recv_buffer_size(4_096).unwrap();
    let mut socket = client.connect(doors.address).await.unwrap();
    let settings = match hold {
        // INITIAL_WINDOW_SIZE = 0
        Hold::NoWindow => vec![0, 4, 0, 0, 0, 0],
        _ => Vec::new(),
    };
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &settings)].concat();
    let sent = match hold {
        Hold::NoBody | Hold::Drip => {
            format!("POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10000\r\n\r\n", doors.post).into_bytes()
        }
        Hold::Pings | Hold::NoWindow => [preface, frame(HEADERS, 5, 1, &head(false, doors.get))].concat(),
        Hold::DripOfFrames => [preface, frame(HEADERS, 4, 1, &head(true, doors.post))].concat(),
        Hold::NeverReads => Vec::new(),
    };
    socket.write_all(&sent).await.unwrap();
    socket
}

/// Holds a seat until it is let go, and then comes no more.
async fn sit(doors: Doors, hold: Hold) {
    let mut socket = open(doors, hold).await;
    let mut turn = 0;
    loop {
        turn += 1;
        let sent = match hold {
            Hold::NoBody => Vec::new(),
            Hold::Drip => b"x".to_vec(),
            Hold::Pings | Hold::NoWindow => frame(PING, 1, 0, &[0; 8]),
            Hold::DripOfFrames => [frame(PING, 1, 0, &[0; 8]), frame(DATA, 0, 1, b"x")].concat(),
            // Until the way back is full; then as long as anyone listens.
            Hold::NeverReads => {
                format!("GET {} HTTP/1.1\r\nhost: localhost\r\n\r\n", doors.get).repeat(500).into_bytes()
            }
        };
        if let Hold::NeverReads = hold {
            match tokio::time::timeout(Duration::from_millis(20), socket.write_all(&sent)).await {
                Ok(Err(_)) => return,
                // Not one read: only a reset tells that it is over.
                Ok(Ok(())) | Err(_) if turn < 2_000 => continue,
                Ok(Ok(())) | Err(_) => panic!("it holds its seat"),
            }
        }
        let mut rest = [0; 4_096];
        let heard = tokio::time::timeout(Duration::from_millis(50), socket.read(&mut rest)).await;
        if socket.write_all(&sent).await.is_err() || matches!(heard, Ok(Ok(0) | Err(_))) {
            return;
        }
    }
}

async fn answers(doors: Doors) -> std::io::Result<String> {
    let mut socket = TcpStream::connect(doors.address).await?;
    let head = format!("GET {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", doors.get);
    socket.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Fills every seat in this way, and waits until somebody else is served.
async fn held(doors: Doors, hold: Hold) -> Vec<JoinHandle<()>> {
    let sitting = (0..SEATS).map(|_| tokio::spawn(sit(doors, hold))).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let served = tokio::time::timeout(Duration::from_secs(6), answers(doors)).await;
    let whole = matches!(&served, Ok(Ok(answer)) if answer.starts_with("HTTP/1.1 200"));
    assert!(whole, "{hold:?} holds the seats of {doors:?}: {served:?}");
    sitting
}

fn few_seats() -> Wishes {
    Wishes::default().config(|config| {
        config.server.max_connections = SEATS;
        config.server.header_timeout_ms = u64::try_from(PATIENCE.as_millis()).unwrap();
    })
}

#[tokio::test]
async fn who_wants_nothing_but_a_seat_is_let_go() {
    each_with(few_seats(), async |app: &mut App| {
        let gateway = app.config.server.listen.parse().unwrap();
        let gateway = Doors { address: gateway, post: "/callbacks/signer", get: "/healthz" };
        let serving = Serving { patience: PATIENCE, max_connections: SEATS, drain: Duration::from_secs(1) };
        let (signer, _stop, _task) = start(app.signer_service.router(), serving).await;
        let signer = Doors { address: signer, post: "/sign/x/decisions", get: "/assets/page.css" };
        for hold in HOLDS {
            // The gateway has no answer so long that a way back is soon full of it.
            let doors = if let Hold::NeverReads = hold { vec![signer] } else { vec![gateway, signer] };
            let sitting = futures::future::join_all(doors.into_iter().map(|doors| held(doors, hold))).await;
            for sitting in sitting.into_iter().flatten() {
                sitting.await.unwrap();
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_answered_408() {
    each_with(few_seats(), async |app: &mut App| {
        let listen = &app.config.server.listen;
        for path in ["/callbacks/signer", "/mcp"] {
            let mut socket = TcpStream::connect(listen).await.unwrap();
            let token = app.agent();
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
                 accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
                 content-length: 10\r\n\r\n{{"
            );
            socket.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            let read = tokio::time::timeout(Duration::from_secs(5), socket.read_to_string(&mut answer)).await;
            assert!(read.is_ok(), "{path}: the connection is open");
            assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("did not arrive in time"), "{answer}");
            assert!(answer.to_lowercase().contains("\r\nconnection: close\r\n"), "{answer}");
        }
    })
    .await;
}

async fn start(router: Router, serving: Serving) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(serve(listener, router, serving, stop.clone()));
    (address, stop, task)
}

#[tokio::test]
async fn who_holds_a_seat_does_not_hold_the_stop() {
    each_with(Wishes::default(), async |app: &mut App| {
        let patient = Duration::from_secs(30);
        let serving = Serving { patience: patient, max_connections: 64, drain: patient };
        let (address, stop, task) = start(app.signer_service.router(), serving).await;
        let doors = Doors { address, post: "/sign/x/decisions", get: "/assets/page.css" };
        let mut sitting: Vec<_> = HOLDS.iter().map(|hold| tokio::spawn(sit(doors, *hold))).collect();
        sitting.push(tokio::spawn(async move {
            let mut socket = TcpStream::connect(address).await.unwrap();
            socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc").await.unwrap();
            let heard = socket.read(&mut [0; 64]).await;
            assert!(matches!(heard, Ok(0) | Err(_)), "half a head is not answered, its connection ends: {heard:?}");
        }));
        tokio::time::sleep(Duration::from_millis(300)).await;
        let begun = Instant::now();
        stop.cancel();
        task.await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        for sitting in sitting {
            sitting.await.unwrap();
        }
    })
    .await;
}
