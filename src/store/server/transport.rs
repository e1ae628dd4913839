//! Sockets to a PostgreSQL server, with TLS where it is asked for.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::config::Host;
use tokio_rustls::TlsConnector;

use super::session::{no_tls, no_way};
use crate::store::error::{Error, Result};

/// A server that acknowledges nothing for this long is gone, even if nothing closed the connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);
/// How long a connection may be silent before it is probed; the interval and number of the probes follow.
const PROBED_AFTER: Duration = Duration::from_secs(10);
const PROBED_EVERY: Duration = Duration::from_secs(3);
const PROBES: u32 = 3;

/// The request for TLS that precedes everything else: its length, and the number in place of the protocol
/// version (PostgreSQL documentation, "Message Formats", SSLRequest).
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

pub(super) trait Transport: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Transport for T {}

/// Connects to one host.
pub(super) async fn dial(
    host: &Host,
    port: u16,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Pin<Box<dyn Transport>>> {
    let name = match host {
        Host::Unix(directory) => {
            // A local socket needs no encryption: its data stays within the machine.
            let path = directory.join(format!(".s.PGSQL.{port}"));
            return Ok(Box::pin(UnixStream::connect(path).await.map_err(|error| no_way(&error))?));
        }
        Host::Tcp(name) => name,
    };
    let mut socket = connect(name, port).await.map_err(|error| no_way(&error))?;
    let Some(config) = tls else { return Ok(Box::pin(socket)) };
    // Exactly one byte is read: plain data after it would otherwise be taken for encrypted data.
    if ask_for_tls(&mut socket).await.map_err(|error| no_way(&error))? != b'S' {
        return Err(no_tls());
    }
    let server = ServerName::try_from(name.clone())
        .map_err(|_| Error::Database(format!("`{name}` is not a name that a certificate can have")))?;
    let secured = TlsConnector::from(Arc::clone(config)).connect(server, socket).await;
    Ok(Box::pin(secured.map_err(|error| no_way(&error))?))
}

async fn connect(name: &str, port: u16) -> io::Result<TcpStream> {
    let socket = TcpStream::connect((name, port)).await?;
    socket.set_nodelay(true)?;
    let probing =
        TcpKeepalive::new().with_time(PROBED_AFTER).with_interval(PROBED_EVERY).with_retries(PROBES);
    let options = SockRef::from(&socket);
    options.set_tcp_keepalive(&probing)?;
    #[cfg(target_os = "linux")]
    options.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(socket)
}

async fn ask_for_tls(socket: &mut TcpStream) -> io::Result<u8> {
    socket.write_all(&SSL_REQUEST).await?;
    socket.read_u8().await
}
