//! A TCP wire to something, which a test can cut and mend.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A wire.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    /// Turns when the wire is cut; replaced when it is mended.
    cut: Arc<Mutex<CancellationToken>>,
    end: CancellationToken,
}

impl Wire {
    /// A wire to `target`, from a port of its own.
    pub(crate) async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(Mutex::new(CancellationToken::new()));
        let end = CancellationToken::new();
        let wire = Self { address, cut: Arc::clone(&cut), end: end.clone() };
        tokio::spawn(end.run_until_cancelled_owned(async move {
            while let Ok((near, _)) = listener.accept().await {
                let cut = cut.lock().unwrap().clone();
                let target = target.clone();
                tokio::spawn(async move {
                    cut.run_until_cancelled(join(near, target)).await;
                });
            }
        }));
        wire
    }

    /// Breaks every connection, and every new one at once.
    pub(crate) fn cut(&self) {
        self.cut.lock().unwrap().cancel();
    }

    /// From now on new connections work.
    pub(crate) fn mend(&self) {
        *self.cut.lock().unwrap() = CancellationToken::new();
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.cut();
        self.end.cancel();
    }
}

async fn join(mut near: TcpStream, target: String) {
    if let Ok(mut far) = TcpStream::connect(target).await {
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    }
}
