//! One stream of a SPDY connection, as a reader and writer.
//!
//! Reading gives what the other side sent until its FIN; shutting the writer down sends ours. Dropping a stream that
//! wasn't shut down resets it, so that the other side doesn't wait for ever.
//!
//! # In Kubernetes
//! `github.com/moby/spdystream/stream.go`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_util::sync::PollSender;

use super::{closed, frame};

/// RST_STREAM's status for "not needed any more".
const CANCEL: u32 = 5;

/// A stream; half-closed by `shutdown`.
pub struct SpdyStream {
    id: u32,
    incoming: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
    outgoing: PollSender<Bytes>,
    finished: bool,
    at_end: bool,
}

impl SpdyStream {
    pub(super) fn new(
        id: u32,
        incoming: mpsc::Receiver<io::Result<Bytes>>,
        outgoing: mpsc::Sender<Bytes>,
        finished: bool,
    ) -> Self {
        let outgoing = PollSender::new(outgoing);
        SpdyStream { id, incoming, current: Bytes::new(), outgoing, finished, at_end: false }
    }

    /// The stream's number.
    pub fn id(&self) -> u32 {
        self.id
    }
}

impl AsyncRead for SpdyStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.current.is_empty() {
            match ready!(self.incoming.poll_recv(cx)) {
                Some(piece) => self.current = piece?,
                None => {
                    self.at_end = true;
                    return Poll::Ready(Ok(()));
                }
            }
        }
        let count = self.current.len().min(buf.remaining());
        buf.put_slice(&self.current[..count]);
        self.current.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SpdyStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.finished {
            return Poll::Ready(Err(closed()));
        }
        ready!(self.outgoing.poll_reserve(cx)).map_err(|_| closed())?;
        let piece = &bytes[..bytes.len().min(frame::MAX_DATA_BYTES)];
        let frame = frame::data(self.id, piece, false);
        self.outgoing.send_item(frame).map_err(|_| closed())?;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The connection's writer flushes after each frame.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.finished {
            return Poll::Ready(Ok(()));
        }
        ready!(self.outgoing.poll_reserve(cx)).map_err(|_| closed())?;
        let frame = frame::data(self.id, &[], true);
        self.outgoing.send_item(frame).map_err(|_| closed())?;
        self.finished = true;
        Poll::Ready(Ok(()))
    }
}

impl Drop for SpdyStream {
    fn drop(&mut self) {
        let half_open = !(self.finished && self.at_end);
        if half_open && let Some(outgoing) = self.outgoing.get_ref() {
            // When the queue is full the connection is in trouble anyway.
            let _ = outgoing.try_send(frame::rst_stream(self.id, CANCEL));
        }
    }
}
