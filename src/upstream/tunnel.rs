//! Tunnels through a proxy that speaks HTTP (RFC 9110, 9.3.6).

use hyper::http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::http1::parse_answer_to_head;
use super::stream::Stream;

/// Asks the proxy at the other end of `stream` to connect to `target`, a `host:port`. `login` is the value of
/// `Proxy-Authorization`.
///
/// # Errors
/// Says why the proxy does not, with the status that it answered.
pub(super) async fn open(mut stream: Stream, target: &str, login: Option<&str>) -> Result<Stream, String> {
    let login = login.map(|login| format!("Proxy-Authorization: {login}\r\n")).unwrap_or_default();
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    stream.flush().await.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    loop {
        let read = stream.read_buf(&mut answer).await.map_err(|error| error.to_string())?;
        if read == 0 {
            return Err("it closed the connection without an answer".to_owned());
        }
        // An answer that opens a tunnel has no body, like one to HEAD.
        let parsed =
            parse_answer_to_head(&answer).map_err(|error| format!("its answer is invalid: {error}"))?;
        let Some((head, _)) = parsed else { continue };
        return match head.status {
            status if status.is_success() => Ok(stream),
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Err("it asks for a login, or refuses the one it was given (407)".to_owned())
            }
            status => Err(format!("it answered {status}")),
        };
    }
}
