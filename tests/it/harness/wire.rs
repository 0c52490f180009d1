//! A TCP wire to something, which a test can cut and mend, or make bad in one of many ways.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::peer::Peer;

/// What a wire does with the connections that are made from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// It passes everything on.
    Good,
    /// Nobody listens.
    Refuse,
    /// RST once so many bytes of the request are here; nothing is passed on.
    ResetInRequest(usize),
    /// The request is passed on, and so many bytes of the answer; then RST.
    ResetInAnswer(usize),
    /// The request is passed on, and so many bytes of the answer; then an orderly end.
    Truncate(usize),
    /// It takes all bytes and says nothing, ever; nothing is passed on.
    HalfOpen,
    /// The request is passed on; the answer never comes, and the connection stays.
    Blackhole,
    /// The request is passed on; of the answer, a byte at a time with this pause.
    Drip(Duration),
    /// Everything is passed on, this much later each way.
    Delay(Duration),
}

/// A wire.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    target: String,
    line: Arc<Mutex<Line>>,
    /// Turns when the wire is cut; replaced when it is mended.
    cut: Arc<Mutex<CancellationToken>>,
    end: CancellationToken,
    listening: Mutex<Option<JoinHandle<()>>>,
}

impl Wire {
    /// A wire to `target`, from a port of its own.
    pub(crate) async fn to(target: String) -> Self {
        let (listener, address) = Peer::bind().await;
        let wire = Self {
            address,
            target,
            line: Arc::new(Mutex::new(Line::Good)),
            cut: Arc::default(),
            end: CancellationToken::new(),
            listening: Mutex::default(),
        };
        wire.listen(listener);
        wire
    }

    fn listen(&self, listener: TcpListener) {
        let (line, cut, target) = (Arc::clone(&self.line), Arc::clone(&self.cut), self.target.clone());
        let task = tokio::spawn(self.end.clone().run_until_cancelled_owned(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (cut, line) = (cut.lock().unwrap().clone(), *line.lock().unwrap());
                let target = target.clone();
                tokio::spawn(async move {
                    cut.run_until_cancelled(Box::pin(join(near, target, line))).await;
                });
            }
        }));
        *self.listening.lock().unwrap() = Some(tokio::spawn(async move { drop(task.await) }));
    }

    /// Breaks every connection, and every new one at once.
    pub(crate) fn cut(&self) {
        self.cut.lock().unwrap().cancel();
    }

    /// From now on new connections work.
    pub(crate) fn mend(&self) {
        *self.cut.lock().unwrap() = CancellationToken::new();
    }

    /// From now on new connections are like this; those there are, are broken.
    pub(crate) async fn set(&mut self, line: Line) {
        self.cut();
        self.mend();
        *self.line.lock().unwrap() = line;
        let listening = self.listening.lock().unwrap().take();
        match (line, listening) {
            (Line::Refuse, Some(task)) => {
                self.end.cancel();
                task.await.unwrap();
                self.end = CancellationToken::new();
            }
            (Line::Refuse, None) => {}
            (_, None) => self.listen(TcpListener::bind(self.address).await.unwrap()),
            (_, task) => *self.listening.lock().unwrap() = task,
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.cut();
        self.end.cancel();
    }
}

async fn join(mut near: TcpStream, target: String, line: Line) {
    match line {
        Line::Refuse => reset(near),
        Line::ResetInRequest(most) => {
            let mut seen = 0;
            let mut bytes = [0; 1];
            while seen < most && near.read(&mut bytes).await.is_ok_and(|count| count > 0) {
                seen += 1;
            }
            reset(near);
        }
        Line::HalfOpen => {
            let mut bytes = [0; 4096];
            while near.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
            std::future::pending::<()>().await;
        }
        Line::Good => {
            if let Ok(mut far) = TcpStream::connect(target).await {
                // Whichever end hangs up ends it, in order or not.
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            }
        }
        Line::ResetInAnswer(_) | Line::Truncate(_) | Line::Blackhole | Line::Drip(_) | Line::Delay(_) => {
            if let Ok(far) = TcpStream::connect(target).await {
                badly(near, far, line).await;
            }
        }
    }
}

/// Passes the request on, and of the answer what `line` lets through.
async fn badly(near: TcpStream, far: TcpStream, line: Line) {
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let there = async {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from_near.read(&mut bytes).await {
            if let Line::Delay(pause) = line {
                tokio::time::sleep(pause).await;
            }
            if to_far.write_all(&bytes[..count]).await.is_err() {
                break;
            }
        }
        // A client that hung up does not end what the other side has to say.
        std::future::pending::<()>().await;
    };
    let back = async {
        let mut left = match line {
            Line::ResetInAnswer(most) | Line::Truncate(most) => most,
            _ => usize::MAX,
        };
        let mut bytes = [0; 4096];
        while left > 0 {
            let Ok(count @ 1..) = from_far.read(&mut bytes).await else { break };
            let passed = &bytes[..count.min(left)];
            left -= passed.len();
            let done = match line {
                Line::Blackhole => Ok(()),
                Line::Drip(pause) => drip(&mut to_near, passed, pause).await,
                Line::Delay(pause) => {
                    tokio::time::sleep(pause).await;
                    to_near.write_all(passed).await
                }
                _ => to_near.write_all(passed).await,
            };
            if done.is_err() {
                break;
            }
        }
        if left == 0 && matches!(line, Line::ResetInAnswer(0) | Line::Truncate(0)) {
            // The other side is to have answered, or to be gone: that much was let through.
            let _ = from_far.read(&mut bytes).await;
        }
        if line == Line::Blackhole {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = there => {}
        () = back => {}
    }
    let near = from_near.reunite(to_near).unwrap();
    if matches!(line, Line::ResetInAnswer(_)) {
        // What was passed on is to arrive before the reset, which overtakes.
        tokio::time::sleep(Duration::from_millis(30)).await;
        reset(near);
    }
}

async fn drip(to: &mut tokio::net::tcp::OwnedWriteHalf, bytes: &[u8], pause: Duration) -> std::io::Result<()> {
    for byte in bytes {
        to.write_all(&[*byte]).await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

/// Ends a connection by RST.
fn reset(stream: TcpStream) {
    let _ = stream.set_zero_linger();
    drop(stream);
}
