//! Streams through the API server: exec, attach, port-forward.
//!
//! *After a pod's journey:* `kubectl exec` reaches into the running container, through the API server and the kubelet.
//!
//! The connection begins as a WebSocket handshake. `exec` and `attach` then carry several streams in one: the first byte of
//! each message says which ([`Channel`]). With `v5.channel.k8s.io` a stream can be closed by itself, so that
//! `echo x | kubectl exec -i … -- cat` ends; `v4` can't say that. `port-forward` tunnels the older SPDY protocol in
//! WebSocket messages, because each connection needs a pair of streams of its own ([`spdy`]).
//!
//! The container's exit code comes as a `Status` on the error channel.
//!
//! # Invariants
//! 1. Everything that the container wrote is delivered before its exit code is.
//!
//! # In Kubernetes
//! `client-go/tools/remotecommand/websocket.go`, `client-go/tools/portforward`, `apimachinery/pkg/util/remotecommand`.
//! Towards a server before 1.30, which knows no `v5`, exec and attach speak `v4`, and `port-forward` speaks SPDY without the tunnel.

use base64::Engine;
use bytes::{BufMut, Bytes, BytesMut};
use futures::{SinkExt, StreamExt};
use http::Request;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use crate::client::{Client, ClientError, UpgradedIo};
use crate::status::Status;

/// Multiplexed streams, the older protocol.
pub mod spdy;
mod tunnel;

pub use tunnel::{TUNNEL_PROTOCOL, Tunnel, tunnel};

/// Streams that can be closed one by one.
pub const V5: &str = "v5.channel.k8s.io";
/// The same without closing.
pub const V4: &str = "v4.channel.k8s.io";

/// The first byte of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Channel {
    /// To the container.
    Stdin = 0,
    /// From the container.
    Stdout = 1,
    /// From the container.
    Stderr = 2,
    /// The result, as a `Status`.
    Error = 3,
    /// Terminal sizes, as `{"Width":80,"Height":24}`.
    Resize = 4,
    /// The second byte names the stream that ends (v5).
    Close = 255,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// A WebSocket to the API server, and the protocol that it chose.
pub struct WebSocket {
    /// The messages.
    pub messages: WebSocketStream<UpgradedIo>,
    /// Which of the offered protocols the server chose.
    pub protocol: String,
}

/// Opens a WebSocket at a path, offering protocols in order of preference.
///
/// # Errors
/// As [`Client::upgrade`].
pub async fn websocket(client: &Client, path: &str, protocols: &[&str]) -> Result<WebSocket, ClientError> {
    let key = base64::engine::general_purpose::STANDARD.encode(rand_key());
    let request = Request::get(path)
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", key)
        .header("Sec-WebSocket-Protocol", protocols.join(", "))
        .body(Bytes::new());
    let request = request.map_err(|e| ClientError::Config(format!("{path}: {e}")))?;
    let (response, io) = client.upgrade(request).await?;
    let protocol = response.headers().get("Sec-WebSocket-Protocol").and_then(|v| v.to_str().ok());
    let protocol = protocol.unwrap_or(protocols.last().unwrap_or(&"")).to_string();
    let messages = WebSocketStream::from_raw_socket(io, Role::Client, None).await;
    Ok(WebSocket { messages, protocol })
}

/// Opens a connection that speaks SPDY, as servers before 1.31 want it for port-forward.
///
/// # Errors
/// As [`Client::upgrade`].
pub async fn spdy_connection(client: &Client, path: &str) -> Result<UpgradedIo, ClientError> {
    let request = Request::post(path)
        .header("Upgrade", "SPDY/3.1")
        .header("X-Stream-Protocol-Version", "portforward.k8s.io")
        .body(Bytes::new());
    let request = request.map_err(|e| ClientError::Config(format!("{path}: {e}")))?;
    Ok(client.upgrade(request).await?.1)
}

#[expect(clippy::disallowed_methods, reason = "shell: the handshake needs a nonce")]
fn rand_key() -> [u8; 16] {
    rand::random()
}

/// A message for one channel.
pub fn message(channel: Channel, data: &[u8]) -> Message {
    let mut bytes = BytesMut::with_capacity(data.len() + 1);
    bytes.put_u8(channel as u8);
    bytes.put_slice(data);
    Message::Binary(bytes.freeze())
}

/// What happened on the other side of a remote command.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one a command")]
pub enum Outcome {
    /// Exit code 0, or the connection was closed in order.
    Success,
    /// The command ended with this code.
    ExitCode(i32),
    /// It didn't run, or couldn't be watched.
    Failed(Status),
}

/// Reads the `Status` on the error channel.
pub fn outcome(error_channel: &[u8]) -> Outcome {
    let Ok(status) = serde_json::from_slice::<Status>(error_channel) else {
        return match error_channel.is_empty() {
            true => Outcome::Success,
            false => Outcome::Failed(Status::internal(String::from_utf8_lossy(error_channel))),
        };
    };
    if status.status == "Success" {
        return Outcome::Success;
    }
    let exit_code =
        status.causes().iter().find(|c| c.reason == "ExitCode").and_then(|c| c.message.parse().ok());
    match exit_code.filter(|_| status.reason == "NonZeroExitCode") {
        Some(code) => Outcome::ExitCode(code),
        None => Outcome::Failed(status),
    }
}

/// The local ends of a remote command.
pub struct LocalStreams<I, O, E> {
    /// Read to its end and sent, if there is one.
    pub stdin: Option<I>,
    /// Where the command's output goes.
    pub stdout: O,
    /// Where its errors go.
    pub stderr: E,
    /// Terminal sizes, for a terminal.
    pub sizes: Option<mpsc::Receiver<TerminalSize>>,
}

/// Runs the streams of `exec` or `attach` until the other side ends.
///
/// # Errors
/// The connection broke before the command's result was known.
// ANCHOR: run-streams
pub async fn run_streams<I, O, E>(
    socket: WebSocket,
    mut local: LocalStreams<I, O, E>,
) -> Result<Outcome, ClientError>
where
    I: AsyncRead + Unpin + Send + 'static,
    O: AsyncWrite + Unpin,
    E: AsyncWrite + Unpin,
{
    let can_close = socket.protocol == V5;
    let (mut sink, mut source) = socket.messages.split();
    let (mut stdin, mut sizes) = (local.stdin.take(), local.sizes.take());
    let sender = tokio::spawn(async move {
        let mut buffer = vec![0; 32 * 1024];
        while let Some(out) = next_message(&mut stdin, &mut sizes, &mut buffer, can_close).await {
            if sink.send(out).await.is_err() {
                return;
            }
        }
        // Nothing more to say, but the socket stays open until the other side closes it.
        std::future::pending::<()>().await;
    });
    let result = receive(&mut source, &mut local.stdout, &mut local.stderr).await;
    sender.abort();
    result
}
// ANCHOR_END: run-streams

/// The next thing to say: input, its end, or a new size. `None` when both sources have ended.
async fn next_message<I: AsyncRead + Unpin>(
    stdin: &mut Option<I>,
    sizes: &mut Option<mpsc::Receiver<TerminalSize>>,
    buffer: &mut [u8],
    can_close: bool,
) -> Option<Message> {
    loop {
        let read = async {
            match stdin.as_mut() {
                Some(stdin) => stdin.read(buffer).await.unwrap_or(0),
                None => std::future::pending().await,
            }
        };
        let resize = async {
            match sizes.as_mut() {
                Some(sizes) => sizes.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            count = read => match count {
                0 => {
                    *stdin = None;
                    if can_close {
                        return Some(message(Channel::Close, &[Channel::Stdin as u8]));
                    }
                }
                count => return Some(message(Channel::Stdin, &buffer[..count])),
            },
            size = resize => match size {
                Some(TerminalSize { width, height }) => {
                    let size = json!({"Width": width, "Height": height});
                    return Some(message(Channel::Resize, size.to_string().as_bytes()));
                }
                None => *sizes = None,
            },
        }
        if stdin.is_none() && sizes.is_none() {
            return None;
        }
    }
}

async fn receive<S, O, E>(source: &mut S, stdout: &mut O, stderr: &mut E) -> Result<Outcome, ClientError>
where
    S: futures::Stream<Item = Result<Message, WsError>> + Unpin,
    O: AsyncWrite + Unpin,
    E: AsyncWrite + Unpin,
{
    let mut error_channel = Vec::new();
    let local = |e: std::io::Error| ClientError::interrupted("", &e);
    // Who ends in order says how the command ended, or says goodbye at least.
    let mut in_order = false;
    while let Some(received) = source.next().await {
        let data = match received {
            Ok(Message::Binary(data)) => data,
            Ok(Message::Text(text)) => Bytes::from(text),
            Ok(Message::Close(_)) => {
                in_order = true;
                break;
            }
            Ok(_) => continue,
            Err(WsError::ConnectionClosed) => break,
            Err(error) if error_channel.is_empty() => return Err(ClientError::interrupted("", &error)),
            Err(_) => break,
        };
        match data.split_first() {
            Some((1, output)) => {
                stdout.write_all(output).await.map_err(local)?;
                stdout.flush().await.map_err(local)?;
            }
            Some((2, output)) => {
                stderr.write_all(output).await.map_err(local)?;
                stderr.flush().await.map_err(local)?;
            }
            Some((3, status)) => error_channel.extend_from_slice(status),
            _ => {}
        }
    }
    match in_order || !error_channel.is_empty() {
        true => Ok(outcome(&error_channel)),
        false => Err(ClientError::interrupted("", &WsError::ConnectionClosed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_channel_holds_the_exit_code() {
        assert_eq!(outcome(b""), Outcome::Success);
        assert_eq!(outcome(br#"{"metadata":{},"status":"Success"}"#), Outcome::Success);
        let failure = br#"{"status":"Failure","reason":"NonZeroExitCode","message":"command terminated with non-zero exit code",
            "details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#;
        assert_eq!(outcome(failure), Outcome::ExitCode(7));
        assert!(matches!(outcome(b"no such container"), Outcome::Failed(_)));
    }
}
