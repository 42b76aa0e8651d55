//! A byte stream inside WebSocket messages.
//!
//! `port-forward` speaks SPDY, and SPDY wants a plain byte stream. So the bytes are put into binary messages on one side and
//! taken out on the other; where one message ends means nothing.
//!
//! # In Kubernetes
//! `client-go/tools/portforward/tunneling_connection.go`.

use std::io;
use std::pin::Pin;

use bytes::Bytes;
use futures::{SinkExt, StreamExt, future};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};

/// SPDY tunnelled in WebSocket messages, for port-forward.
pub const TUNNEL_PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";

/// The two directions as one stream.
pub type Tunnel = tokio::io::Join<Pin<Box<dyn AsyncRead + Send>>, Pin<Box<dyn AsyncWrite + Send>>>;

/// The byte stream in a WebSocket's binary messages.
pub fn tunnel<S>(messages: WebSocketStream<S>) -> Tunnel
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sink, source) = messages.split();
    let pieces = source.filter_map(|message| {
        future::ready(match message {
            Ok(Message::Binary(data)) => Some(Ok(data)),
            Ok(_) | Err(Error::ConnectionClosed) => None,
            Err(error) => Some(Err(io::Error::other(error))),
        })
    });
    let sink = sink.sink_map_err(io::Error::other);
    let sink = sink.with(|bytes: Bytes| future::ready(Ok::<_, io::Error>(Message::Binary(bytes))));
    let writer = SinkWriter::new(CopyToBytes::new(sink));
    tokio::io::join(Box::pin(StreamReader::new(pieces)), Box::pin(writer))
}
