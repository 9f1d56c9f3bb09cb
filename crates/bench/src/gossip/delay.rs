//! Loopback connections on which every byte is delayed in each direction.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{self, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// Maximum number of pieces in flight in one direction; beyond it the sender waits.
const PIECES_MAX: usize = 4096;

/// Listens on a free port, and forwards each connection to `target` with a delay each way, as long as the
/// runtime lives.
///
/// # Errors
/// If no port can be opened.
pub(super) async fn line(target: SocketAddr, delay: Duration) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            // If the target is gone, the connection ends with `near`, which the dialler notices.
            let Ok(far) = TcpStream::connect(target).await else {
                continue;
            };
            if near.set_nodelay(true).and(far.set_nodelay(true)).is_err() {
                continue;
            }
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            tokio::spawn(forward(near_in, far_out, delay));
            tokio::spawn(forward(far_in, near_out, delay));
        }
    });
    Ok(address)
}

/// Writes what it reads, each piece `delay` after it was read; ends with either side.
async fn forward(mut from: OwnedReadHalf, to: OwnedWriteHalf, delay: Duration) {
    let (pieces, due) = mpsc::channel(PIECES_MAX);
    tokio::spawn(write_when_due(due, to));
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        let piece = (Instant::now() + delay, buffer[..read].to_vec());
        if pieces.send(piece).await.is_err() {
            return;
        }
    }
}

async fn write_when_due(mut pieces: mpsc::Receiver<(Instant, Vec<u8>)>, mut to: OwnedWriteHalf) {
    while let Some((at, piece)) = pieces.recv().await {
        sleep_until(at).await;
        if to.write_all(&piece).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_come_whole_in_order_and_late() {
        const DELAY: Duration = Duration::from_millis(60);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = line(listener.local_addr().unwrap(), DELAY).await.unwrap();
        let mut near = TcpStream::connect(address).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        let begun = Instant::now();
        let sent: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        near.write_all(&sent).await.unwrap();
        let mut received = vec![0; sent.len()];
        far.read_exact(&mut received).await.unwrap();
        assert_eq!(received, sent);
        assert!(begun.elapsed() >= DELAY, "{:?}", begun.elapsed());
        far.write_all(b"back").await.unwrap();
        let mut back = [0; 4];
        near.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"back");
        assert!(begun.elapsed() >= 2 * DELAY, "{:?}", begun.elapsed());
    }
}
