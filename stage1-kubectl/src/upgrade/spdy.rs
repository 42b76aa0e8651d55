//! SPDY/3.1, as much of it as Kubernetes uses.
//!
//! *After a pod's journey:* exec and port-forward towards the kubelet and containerd.
//!
//! SPDY is what HTTP/2 was made from: many streams over one connection, each opened by a `SYN_STREAM` with headers, fed by
//! `DATA` frames, half-closed by a `FIN` flag. Kubernetes' streaming still rests on it, and only it can close stdin towards
//! containerd. Browsers and libraries have dropped it, so the 300 lines that are needed stand here.
//!
//! The subtle things: the other side drops data that arrives before it has answered `SYN_REPLY`, so [`Spdy::open_stream`]
//! waits for the answer. And headers are one continuous zlib stream per connection; ours is made of stored
//! (uncompressed) blocks, which every inflater can read, so no compressor and no dictionary is needed ([`frame`]).
//!
//! # Invariants
//! 1. Frames of one stream keep their order.
//! 2. A slow reader of one stream holds at most [`QUEUED_FRAMES`] frames, then the connection waits.
//!
//! # In Kubernetes
//! `github.com/moby/spdystream`. Left out, as there: flow control by windows; server side, priorities, header decoding.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub mod frame;
mod stream;

pub use stream::SpdyStream;

use frame::{Control, Frame};

/// Frames that wait for a slow reader.
pub const QUEUED_FRAMES: usize = 64;

/// What the connection knows about a stream.
struct Entry {
    incoming: Option<mpsc::Sender<io::Result<Bytes>>>,
    reply: Option<oneshot::Sender<io::Result<()>>>,
}

#[derive(Default)]
struct Streams {
    open: HashMap<u32, Entry>,
    closed: bool,
}

/// One SPDY connection, client side. Dropping it and all its streams ends the connection.
pub struct Spdy {
    outgoing: mpsc::Sender<Bytes>,
    streams: Arc<Mutex<Streams>>,
    next: tokio::sync::Mutex<(u32, frame::HeaderWriter)>,
    ended: CancellationToken,
}

impl Spdy {
    /// Speaks SPDY as a client over an upgraded connection.
    pub fn client<T: AsyncRead + AsyncWrite + Send + 'static>(io: T) -> Self {
        let (reader, writer) = tokio::io::split(io);
        let (outgoing, frames) = mpsc::channel(QUEUED_FRAMES);
        let streams = Arc::new(Mutex::new(Streams::default()));
        tokio::spawn(write_frames(writer, frames));
        let ended = CancellationToken::new();
        let (reading, over) = (read_frames(reader, streams.clone(), outgoing.downgrade()), ended.clone());
        tokio::spawn(async move {
            reading.await;
            over.cancel();
        });
        // Clients use odd numbers.
        Spdy { outgoing, streams, next: tokio::sync::Mutex::new((1, frame::HeaderWriter::default())), ended }
    }

    /// Waits until the other side is gone.
    pub async fn closed(&self) {
        self.ended.cancelled().await;
    }

    /// Opens a stream and waits until the other side has accepted it. With `fin` nothing will be written to it.
    ///
    /// # Errors
    /// The stream was refused, or the connection is gone.
    pub async fn open_stream(&self, headers: &[(&str, &str)], fin: bool) -> io::Result<SpdyStream> {
        let (incoming, received) = mpsc::channel(QUEUED_FRAMES);
        let (reply, replied) = oneshot::channel();
        let id = {
            // Held while sending: numbers must rise and the header compression goes on from stream to stream.
            let mut next = self.next.lock().await;
            let id = next.0;
            next.0 += 2;
            let syn = frame::syn_stream(id, &next.1.block(headers), fin);
            {
                let mut streams = self.streams.lock();
                if streams.closed {
                    return Err(closed());
                }
                streams.open.insert(id, Entry { incoming: Some(incoming), reply: Some(reply) });
            }
            self.outgoing.send(syn).await.map_err(|_| closed())?;
            id
        };
        replied.await.map_err(|_| closed())??;
        Ok(SpdyStream::new(id, received, self.outgoing.clone(), fin))
    }
}

pub(super) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the SPDY connection is closed")
}

async fn write_frames<W: AsyncWrite>(writer: tokio::io::WriteHalf<W>, mut frames: mpsc::Receiver<Bytes>) {
    let mut writer = writer;
    while let Some(frame) = frames.recv().await {
        if writer.write_all(&frame).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}

async fn read_frames<R: AsyncRead>(
    mut reader: tokio::io::ReadHalf<R>,
    streams: Arc<Mutex<Streams>>,
    outgoing: mpsc::WeakSender<Bytes>,
) {
    let mut header = [0; frame::HEADER_BYTES];
    while reader.read_exact(&mut header).await.is_ok() {
        let mut payload = vec![0; frame::payload_len(&header)];
        if reader.read_exact(&mut payload).await.is_err() {
            break;
        }
        match frame::decode(&header, Bytes::from(payload)) {
            Frame::Data { id, data, fin } => deliver(&streams, id, data, fin).await,
            Frame::Control(Control::SynReply { id, fin }) => {
                let mut streams = streams.lock();
                if let Some(entry) = streams.open.get_mut(&id) {
                    entry.reply.take().map(|reply| reply.send(Ok(())));
                    if fin {
                        entry.incoming = None;
                    }
                }
            }
            Frame::Control(Control::RstStream { id, status }) => {
                let entry = streams.lock().open.remove(&id);
                let Some(entry) = entry else { continue };
                let error = || {
                    io::Error::new(io::ErrorKind::ConnectionReset, format!("stream reset, status {status}"))
                };
                entry.reply.map(|reply| reply.send(Err(error())));
                if let Some(incoming) = entry.incoming {
                    let _ = incoming.try_send(Err(error()));
                }
            }
            Frame::Control(Control::Ping { id }) => {
                // Our own pings have odd numbers; we send none, so each one is a question.
                if let Some(outgoing) = outgoing.upgrade() {
                    let _ = outgoing.send(frame::ping(id)).await;
                }
            }
            Frame::Control(Control::GoAway) => streams.lock().closed = true,
            Frame::Control(Control::Ignored) => {}
        }
    }
    let mut streams = streams.lock();
    streams.closed = true;
    streams.open.clear();
}

async fn deliver(streams: &Mutex<Streams>, id: u32, data: Bytes, fin: bool) {
    let incoming = streams.lock().open.get(&id).and_then(|entry| entry.incoming.clone());
    if let Some(incoming) = incoming
        && !data.is_empty()
    {
        // A reader that went away doesn't matter.
        let _ = incoming.send(Ok(data)).await;
    }
    if fin && let Some(entry) = streams.lock().open.get_mut(&id) {
        entry.incoming = None;
    }
}

#[cfg(test)]
mod tests;
