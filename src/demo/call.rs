//! HTTP calls of the demo: one connection per call, JSON in both directions.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Calls the gateway with a token.
pub(super) struct Caller<'a> {
    address: SocketAddr,
    token: &'a str,
}

/// A response that is read as it arrives.
pub(super) struct Streamed {
    body: Incoming,
}

impl<'a> Caller<'a> {
    pub(super) fn new(address: SocketAddr, token: &'a str) -> Self {
        Self { address, token }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, String> {
        read_json(path, self.send("GET", path, None).await?).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        read_json(path, self.send("POST", path, Some(body)).await?).await
    }

    pub(super) async fn stream(&self, path: &str, body: &Value) -> Result<Streamed, String> {
        let answer = self.send("POST", path, Some(body)).await?;
        if !answer.status().is_success() {
            read_json(path, answer).await?;
            return Err(format!("{path} did not stream"));
        }
        Ok(Streamed { body: answer.into_body() })
    }

    /// Formats this call as a shell command, for a shell in which the token's variable is set.
    pub(super) fn curl(&self, variable: &str, path: &str, body: Option<&Value>) -> String {
        let url = format!("http://{}{path}", self.address);
        // `?` and `&` in the query have a meaning in a shell.
        let url = if path.contains('?') { format!("'{url}'") } else { url };
        let head = format!("   $ curl -sN {url} -H \"Authorization: Bearer ${variable}\"");
        match body {
            Some(body) => format!("{head} \\\n       -H 'Content-Type: application/json' -d '{body}'"),
            None => head,
        }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>, String> {
        let tell = |error: &dyn std::fmt::Display| format!("{method} {path}: {error}");
        let socket = TcpStream::connect(self.address).await.map_err(|error| tell(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
            .await
            .map_err(|error| tell(&error))?;
        // Ends with the connection, which ends with the response.
        tokio::spawn(connection);
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.address.to_string())
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| tell(&error))?;
        sender.send_request(request).await.map_err(|error| tell(&error))
    }
}

impl Streamed {
    /// Returns the next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| format!("the stream broke: {error}"))?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

async fn read_json(path: &str, answer: Response<Incoming>) -> Result<Value, String> {
    let status = answer.status();
    let body = answer.into_body().collect().await.map_err(|error| format!("{path}: {error}"))?.to_bytes();
    let value = serde_json::from_slice(&body);
    match value {
        Ok(value) if status.is_success() => Ok(value),
        _ => Err(format!("{path} answered {status}: {}", String::from_utf8_lossy(&body))),
    }
}
