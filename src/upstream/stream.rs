//! The byte stream under an HTTP connection: TCP, or TLS over a byte stream (twice, through a proxy that speaks TLS).

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<Stream>>),
}

impl Stream {
    /// What has happened to the connection since it was read to its end, which hides it.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        match self {
            Self::Tcp(tcp) => tcp.take_error().ok().flatten(),
            Self::Tls(tls) => tls.get_ref().0.take_error(),
        }
    }

    /// Whether the other side has hung up, by what the kernel knows: the runtime may not have told of it yet.
    pub(crate) fn is_hung_up(&self) -> bool {
        let tcp = match self {
            Self::Tcp(tcp) => tcp,
            Self::Tls(tls) => return tls.get_ref().0.is_hung_up(),
        };
        match SockRef::from(tcp).peek(&mut [MaybeUninit::uninit()]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

/// Calls the same method on whichever stream is inside.
macro_rules! inner {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp(tcp) => {
                let $stream = Pin::new(tcp);
                $call
            }
            Stream::Tls(tls) => {
                let $stream = Pin::new(tls.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        inner!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inner!(self, stream => stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => stream.poll_shutdown(cx))
    }
}
