//! The byte stream under an HTTP connection: TCP, or TLS over a byte stream (twice, through a proxy that speaks TLS).

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(crate) enum Stream {
    Tcp(Tcp),
    Tls(Box<TlsStream<Stream>>),
}

/// A TCP connection that counts the bytes it has taken: TLS may have sent a part of what it reports as not sent.
pub(crate) struct Tcp {
    socket: TcpStream,
    written: u64,
}

impl Stream {
    /// Returns the number of bytes that the kernel has taken.
    pub(crate) fn written(&self) -> u64 {
        self.tcp().written
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp().socket.local_addr()
    }

    /// Takes the error of a connection that was read to its end, which hides the error.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.tcp().socket.take_error().ok().flatten()
    }

    /// Whether an idle connection has ended, or has something to read, as far as the kernel knows: the runtime may not
    /// have reported it yet.
    pub(crate) fn has_news(&self) -> bool {
        match SockRef::from(&self.tcp().socket).peek(&mut [MaybeUninit::uninit()]) {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    fn tcp(&self) -> &Tcp {
        match self {
            Self::Tcp(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0.tcp(),
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Self {
        Self::Tcp(Tcp { socket, written: 0 })
    }
}

impl Tcp {
    fn count(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let written = ready!(written)?;
        self.written += written as u64;
        Poll::Ready(Ok(written))
    }
}

/// Calls the same method on whichever stream is inside.
macro_rules! inner {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp(tcp) => {
                let $stream = Pin::new(&mut tcp.socket);
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
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => {
                let written = Pin::new(&mut tcp.socket).poll_write_vectored(cx, bufs);
                tcp.count(written)
            }
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_write_vectored(cx, bufs),
        }
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
