//! The server: loopback connections, the guard, and bounds.
//!
//! *All six steps of a pod's journey, shown.* Before: `labs book` was typed. After: a browser reads, and sees the cluster at work.
//!
//! # Invariants
//! 1. It listens on 127.0.0.1 and nowhere else.
//! 2. Nothing grows without bound: connections, the time for a request's head, the length of its body.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.
#![expect(clippy::disallowed_methods, reason = "shell: opens the port, draws the token, reads a recording")]

use std::convert::Infallible;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use stage1_kubectl::state_dir::StateDir;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::BookFlags;
use super::answers::{Answer, Book, see_other};
use super::files::Repository;
use super::frame::english;
use super::guard::{Door, Pass};
use super::journal::Journal;
use super::route::route;
use super::story::RECORDING;
use super::tail::{Tail, steps_of};

/// A request's body: an answer with its evidence is far shorter.
const MAX_BODY_BYTES: usize = 64 << 10;
const MAX_CONNECTIONS: usize = 64;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves the book until Ctrl-C.
///
/// # Errors
/// The port is taken, or there is no book.
pub fn run(state_dir: Option<PathBuf>, flags: &BookFlags) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let server = Server::bind(StateDir::new(state_dir)?, flags).await?;
        let line = format!("{}\n", english().say("server.address", &[("address", &server.address())]));
        let _ = std::io::stdout().write_all(line.as_bytes());
        let _ = std::io::stdout().flush();
        tokio::select! {
            () = server.serve() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        anyhow::Ok(())
    })?;
    // A lab's step that is under way is not waited for: it can be reset.
    runtime.shutdown_background();
    Ok(String::new())
}

/// The server, listening.
pub struct Server {
    listener: TcpListener,
    door: Door,
    book: Arc<Book>,
    tail: Option<Tail>,
}

impl Server {
    /// Opens the port.
    ///
    /// # Errors
    /// As [`run`].
    pub async fn bind(state_dir: StateDir, flags: &BookFlags) -> anyhow::Result<Self> {
        let repository = Repository::find(flags.repository.as_deref())?;
        let recording = match &flags.replay {
            Some(file) => std::fs::read_to_string(file).with_context(|| file.display().to_string())?,
            None => RECORDING.to_owned(),
        };
        let mut recorded = Journal::default();
        steps_of(&recording).into_iter().for_each(|step| recorded.push(step));
        if let Some(file) = flags.replay.as_ref().filter(|_| recorded.is_empty()) {
            anyhow::bail!("{}: there is no journey step in it", file.display());
        }
        let tail = flags.replay.is_none().then(|| Tail::new(&state_dir.journey_file()));
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, flags.port));
        let listener = TcpListener::bind(here).await.with_context(|| format!("listen on {here}"))?;
        let token = data_encoding::HEXLOWER.encode(&rand::random::<[u8; 16]>());
        let door = Door { port: listener.local_addr()?.port(), token };
        let book = Arc::new(Book::new(repository, state_dir, recorded, flags.replay.is_some()));
        Ok(Self { listener, door, book, tail })
    }

    /// Where a browser begins: with the token.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?{}={}", self.door.port, super::guard::PARAMETER, self.door.token)
    }

    /// Serves for ever.
    pub async fn serve(mut self) {
        let book = self.book.clone();
        let following = self.tail.take().map(|tail| tokio::spawn(tail.follow(move |steps| book.take(steps))));
        let _ends_with_us = following.map(|task| AbortOnDrop(task.abort_handle()));
        let seats = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok(seat) = seats.clone().acquire_owned().await else { return };
            let socket = match self.listener.accept().await {
                Ok((socket, _)) => socket,
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (door, book) = (self.door.clone(), self.book.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let (door, book) = (door.clone(), book.clone());
                    async move { Ok::<_, Infallible>(handle(&door, &book, request).await) }
                });
                let mut builder = hyper::server::conn::http1::Builder::new();
                builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
                if let Err(error) = builder.serve_connection(TokioIo::new(socket), service).await {
                    tracing::debug!(%error, "Connection ended");
                }
                drop(seat);
            });
        }
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn handle(door: &Door, book: &Arc<Book>, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    match door.judge(&head.method, &head.headers, query) {
        Pass::Yes => {}
        Pass::Unknown => return book.refuse(StatusCode::UNAUTHORIZED, "refused.token"),
        Pass::Foreign => return book.refuse(StatusCode::FORBIDDEN, "refused.foreign"),
        Pass::HandOutCookie => {
            let mut answer = see_other(head.uri.path());
            if let Ok(cookie) = door.set_cookie().parse() {
                answer.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            return answer;
        }
    }
    let wanted = route(&head.method, head.uri.path(), query);
    let body = match tokio::time::timeout(HEAD_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        _ => return book.refuse(StatusCode::PAYLOAD_TOO_LARGE, "refused.body"),
    };
    let body = if head.method == http::Method::POST { body } else { Bytes::new() };
    // The lab's names and numbers.
    book.answer(wanted, body, u64::from(rand::random::<u16>())).await
}
