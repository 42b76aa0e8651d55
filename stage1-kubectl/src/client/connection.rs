//! A connection: whatever carries bytes to a server, in the clothes that the pool wants.
//!
//! # In Kubernetes
//! Go's `net.Conn`, and `rest.Config.Dial`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// A stream of bytes in both directions.
pub trait Io: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Io for T {}

/// Any of them.
pub type BoxedIo = Pin<Box<dyn Io>>;

/// Another way to a host and port than TCP; `None`: by TCP, as usual.
pub type Dial = Arc<dyn Fn(&str, u16) -> BoxFuture<'static, io::Result<Option<BoxedIo>>> + Send + Sync>;

/// A stream for the pool.
pub struct PoolConnection(TokioIo<BoxedIo>);

impl PoolConnection {
    /// Dresses it.
    pub(super) fn new(io: BoxedIo) -> Self {
        PoolConnection(TokioIo::new(io))
    }
}

impl Connection for PoolConnection {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for PoolConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for PoolConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }
}
