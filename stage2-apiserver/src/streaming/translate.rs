//! The stream translator: WebSocket messages of `v5.channel.k8s.io` to SPDY streams and back.
//!
//! *Step 5, looked at from outside.* Before: `echo x | kubectl exec -i web -- cat`. After: the container's stdin *ends*, and
//! `cat` with it.
//!
//! In a WebSocket everything is one sequence of messages, whose first byte names the stream. SPDY has real streams that are
//! opened and closed one by one. Version 5 added a message that closes one stream (`0xFF`, then the stream's byte),
//! and here it becomes what the container runtime understands: the FIN of the SPDY stream.
//!
//! # Invariants
//! 1. The result on the error stream is the last message.
//! 2. A stream of the container is read only as fast as the client takes it.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/proxy/streamtranslator.go`.

use futures::{SinkExt, StreamExt};
use stage1_kubectl::upgrade::spdy::{Spdy, SpdyStream};
use stage1_kubectl::upgrade::{Channel, message};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::request_info::Query;

/// Messages on their way to a slow client.
const QUEUE_LENGTH: usize = 16;
const CHUNK_BYTES: usize = 32 * 1024;
/// Longest Status about how a command ended.
const MAX_RESULT_BYTES: u64 = 64 * 1024;

/// Which streams the client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl Wanted {
    /// As the query of exec or attach says.
    pub fn of_query(query: &Query) -> Self {
        let tty = query.flag("tty");
        Self {
            stdin: query.flag("stdin"),
            stdout: query.flag("stdout"),
            // A terminal has one output.
            stderr: query.flag("stderr") && !tty,
            tty,
        }
    }
}

/// The kubelet's side, stream by stream.
struct Streams {
    error: SpdyStream,
    stdin: Option<SpdyStream>,
    stdout: Option<SpdyStream>,
    stderr: Option<SpdyStream>,
    resize: Option<SpdyStream>,
}

/// Translates until the command has ended or the client has gone.
pub async fn run<C, K>(socket: WebSocketStream<C>, kubelet: K, wanted: Wanted)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    K: AsyncRead + AsyncWrite + Send + 'static,
{
    let spdy = Spdy::client(kubelet);
    let (mut sink, mut source) = socket.split();
    let streams = match open(&spdy, wanted).await {
        Ok(streams) => streams,
        Err(error) => {
            let status = stage1_kubectl::status::Status::internal(error);
            let text = serde_json::to_vec(&status).expect("a Status serialises");
            let _ = sink.send(message(Channel::Error, &text)).await;
            let _ = sink.send(normal_closure()).await;
            let _ = sink.close().await;
            return;
        }
    };
    let (outgoing, mut messages) = mpsc::channel::<Message>(QUEUE_LENGTH);
    let writer = async move {
        while let Some(next) = messages.recv().await {
            if sink.send(next).await.is_err() {
                return;
            }
        }
        let _ = sink.send(normal_closure()).await;
        let _ = sink.close().await;
    };
    let output = output(streams.stdout, streams.stderr, streams.error, outgoing.clone());
    let (stdin, resize) = (streams.stdin, streams.resize);
    let input = async move { input(&mut source, stdin, resize, outgoing).await };
    tokio::pin!(input);
    let finished = async { tokio::join!(output, writer) };
    tokio::select! {
        _ = finished => {}
        () = &mut input => {}
    }
}

/// The end that kubectl takes for a good one: a close without a code (1005) is an error to it.
fn normal_closure() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))
}

/// Opens the streams in the order that the real client has: error, stdin, stdout, stderr, resize.
async fn open(spdy: &Spdy, wanted: Wanted) -> std::io::Result<Streams> {
    let error = spdy.open_stream(&[("streamtype", "error")], true).await?;
    let wish = |kind: &'static str, want: bool, fin: bool| async move {
        match want {
            true => spdy.open_stream(&[("streamtype", kind)], fin).await.map(Some),
            false => Ok(None),
        }
    };
    Ok(Streams {
        error,
        stdin: wish("stdin", wanted.stdin, false).await?,
        stdout: wish("stdout", wanted.stdout, true).await?,
        stderr: wish("stderr", wanted.stderr, true).await?,
        resize: wish("resize", wanted.tty, false).await?,
    })
}

/// The container's output, then its result.
async fn output(
    stdout: Option<SpdyStream>,
    stderr: Option<SpdyStream>,
    error: SpdyStream,
    outgoing: mpsc::Sender<Message>,
) {
    let forward = |stream: Option<SpdyStream>, channel: Channel| {
        let outgoing = outgoing.clone();
        async move {
            let Some(mut stream) = stream else { return };
            let mut buffer = vec![0; CHUNK_BYTES];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                if outgoing.send(message(channel, &buffer[..count])).await.is_err() {
                    return;
                }
            }
        }
    };
    let mut result = Vec::new();
    let mut error = error.take(MAX_RESULT_BYTES);
    let read_result = error.read_to_end(&mut result);
    let ((), (), _) =
        tokio::join!(forward(stdout, Channel::Stdout), forward(stderr, Channel::Stderr), read_result);
    if !result.is_empty() {
        let _ = outgoing.send(message(Channel::Error, &result)).await;
    }
}

/// The client's messages, until it closes the socket.
async fn input<S>(
    source: &mut S,
    mut stdin: Option<SpdyStream>,
    mut resize: Option<SpdyStream>,
    outgoing: mpsc::Sender<Message>,
) where
    S: futures::Stream<Item = Result<Message, tokio_tungstenite::tungstenite::Error>> + Unpin,
{
    // Held until the socket ends, so that the writer doesn't close it early; dropped when the output is over.
    drop(outgoing);
    while let Some(Ok(received)) = source.next().await {
        let data = match received {
            Message::Binary(data) => data,
            Message::Text(text) => text.into(),
            Message::Close(_) => return,
            _ => continue,
        };
        let written = match data.split_first() {
            Some((0, bytes)) => write(&mut stdin, bytes).await,
            Some((4, bytes)) => write(&mut resize, bytes).await,
            Some((255, [0, ..])) => {
                if let Some(mut stream) = stdin.take() {
                    let _ = stream.shutdown().await;
                    // Kept open for reading by nobody: the kubelet only needs the FIN.
                }
                Ok(())
            }
            _ => Ok(()),
        };
        if written.is_err() {
            // The container doesn't read any more; its result may still come.
            stdin = None;
        }
    }
}

async fn write(stream: &mut Option<SpdyStream>, bytes: &[u8]) -> std::io::Result<()> {
    match stream {
        Some(stream) => {
            stream.write_all(bytes).await?;
            stream.flush().await
        }
        None => Ok(()),
    }
}
