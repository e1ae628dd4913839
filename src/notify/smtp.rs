//! Handing a mail to a server (RFC 5321), over TLS from the first byte or after STARTTLS (RFC 3207).
//!
//! ```text
//! connect ─ [TLS] ─ 220 ─ EHLO ─ [STARTTLS ─ TLS ─ EHLO] ─ [AUTH] ─ MAIL ─ RCPT… ─ DATA ─ QUIT
//! ```
//!
//! TLS is taken whenever the server offers it; a certificate that does not hold ends the exchange. A
//! server without TLS is spoken to in clear, as relays on the same machine are, and the log says so when
//! a password goes with it. One connection carries one mail: the cool-down keeps them rare.

use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::channel::{Failure, without};
use super::mail::Envelope;
use super::message::one_line;
use crate::upstream::{Client, Stream};

/// The longest answer of the server, all its lines together.
const MAX_REPLY: usize = 16 * 1024;
/// How much of what a server says is repeated.
const MAX_SAID: usize = 160;

/// A mail server and how to log in there.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    /// TLS from the first byte.
    pub(super) implicit_tls: bool,
    /// Blank: no login.
    pub(super) user: String,
    pub(super) password: String,
}

struct Session {
    stream: Stream,
    /// Read and not yet looked at.
    unread: Vec<u8>,
    /// What this side says its name is.
    name: String,
}

struct Reply {
    code: u16,
    lines: Vec<String>,
}

impl Server {
    /// Hands over one mail; a recipient that is refused beside others is a log line.
    pub(super) async fn send(&self, client: &Client, envelope: &Envelope, mail: &str) -> Result<(), Failure> {
        let connected = client.dial(&self.host, self.port).await;
        let stream = connected.map_err(|error| Failure { text: error.to_string(), unconnected: true })?;
        self.converse(client, stream, envelope, mail).await.map_err(|text| {
            // Some servers repeat the command that they did not like.
            let encoded = [&self.password, &self.login()].map(|secret| BASE64_STANDARD.encode(secret));
            let secrets = encoded.iter().chain([&self.password]).map(String::as_str);
            Failure::lasting(without(&text, secrets))
        })
    }

    /// What AUTH PLAIN sends (RFC 4616).
    fn login(&self) -> String {
        format!("\0{}\0{}", self.user, self.password)
    }

    async fn converse(
        &self,
        client: &Client,
        mut stream: Stream,
        envelope: &Envelope,
        mail: &str,
    ) -> Result<(), String> {
        let name = own_name(&stream);
        let mut is_private = self.implicit_tls;
        if is_private {
            stream = client.secure(stream, &self.host).await.map_err(|error| error.to_string())?;
        }
        let mut session = Session { stream, unread: Vec::new(), name };
        session.reply().await?.expect(2, "the greeting")?;
        let mut offers = session.hello().await?;
        if !is_private && offers.has("STARTTLS") {
            session.command("STARTTLS").await?.expect(2, "STARTTLS")?;
            session = session.secured(client, &self.host).await?;
            is_private = true;
            offers = session.hello().await?;
        }
        if !self.user.is_empty() {
            if !is_private {
                log::warn!("{} offers no TLS: the password of its account is sent in clear", self.host);
            }
            session.log_in(&offers, self).await?;
        }
        session.hand_over(envelope, mail).await?;
        // The mail is accepted: how the goodbye goes changes nothing.
        let _ = session.command("QUIT").await;
        Ok(())
    }
}

/// An address literal: always a valid name (RFC 5321 §4.1.3), which a host's own idea of its name is not.
fn own_name(stream: &Stream) -> String {
    let address = match stream {
        Stream::Tcp(_) => stream.local_addr().ok().map(|address| address.ip()),
        Stream::Tls(_) => None,
    };
    match address {
        Some(IpAddr::V6(address)) => format!("[IPv6:{address}]"),
        Some(address) => format!("[{address}]"),
        None => "[127.0.0.1]".to_owned(),
    }
}

impl Session {
    async fn hello(&mut self) -> Result<Reply, String> {
        let reply = self.command(&format!("EHLO {}", self.name)).await?;
        if reply.code / 100 == 2 {
            return Ok(reply);
        }
        let mut reply = self.command(&format!("HELO {}", self.name)).await?.expect(2, "EHLO")?;
        reply.lines.clear();
        Ok(reply)
    }

    /// Continues this session under TLS.
    async fn secured(self, client: &Client, host: &str) -> Result<Self, String> {
        if !self.unread.is_empty() {
            // Somebody on the way wrote it: nothing said in clear may count as said under TLS.
            return Err("the server speaks on after STARTTLS".to_owned());
        }
        let stream = client.secure(self.stream, host).await.map_err(|error| error.to_string())?;
        Ok(Self { stream, unread: Vec::new(), name: self.name })
    }

    /// RFC 4954; PLAIN where it is offered or nothing is said of it, else LOGIN.
    async fn log_in(&mut self, offers: &Reply, server: &Server) -> Result<(), String> {
        let methods: Vec<String> = offers.words_of("AUTH");
        if methods.is_empty() || methods.iter().any(|method| method == "PLAIN") {
            let token = BASE64_STANDARD.encode(server.login());
            self.command(&format!("AUTH PLAIN {token}")).await?.expect(2, "the login")?;
        } else if methods.iter().any(|method| method == "LOGIN") {
            self.command("AUTH LOGIN").await?.expect(3, "the login")?;
            self.command(&BASE64_STANDARD.encode(&server.user)).await?.expect(3, "the login")?;
            self.command(&BASE64_STANDARD.encode(&server.password)).await?.expect(2, "the login")?;
        } else {
            return Err(format!(
                "the server offers no login that is known here, only {}",
                methods.join(", ")
            ));
        }
        Ok(())
    }

    async fn hand_over(&mut self, envelope: &Envelope, mail: &str) -> Result<(), String> {
        let from = &envelope.from.address;
        self.command(&format!("MAIL FROM:<{from}>")).await?.expect(2, "the sender")?;
        let mut refused = None;
        let mut accepted = 0;
        for to in &envelope.to {
            let reply = self.command(&format!("RCPT TO:<{}>", to.address)).await?;
            match reply.expect(2, "a recipient") {
                Ok(_) => accepted += 1,
                Err(why) => {
                    log::warn!("notify failed (smtp): {}: {why}", to.address);
                    refused = Some(why);
                }
            }
        }
        if let Some(why) = refused.filter(|_| accepted == 0) {
            return Err(why);
        }
        self.command("DATA").await?.expect(3, "the mail")?;
        // A line that begins with a dot would end the mail (RFC 5321 §4.5.2).
        self.write(&mail.replace("\r\n.", "\r\n..")).await?;
        self.command(".").await?.expect(2, "the mail")?;
        Ok(())
    }

    async fn command(&mut self, line: &str) -> Result<Reply, String> {
        self.write(&format!("{line}\r\n")).await?;
        self.reply().await
    }

    async fn write(&mut self, text: &str) -> Result<(), String> {
        let written = async {
            self.stream.write_all(text.as_bytes()).await?;
            self.stream.flush().await
        };
        written.await.map_err(|error| format!("the mail server hung up: {error}"))
    }

    /// The lines `250-first`, …, `250 last`.
    async fn reply(&mut self) -> Result<Reply, String> {
        let mut lines = Vec::new();
        loop {
            let line = self.line().await?;
            let code = line.get(..3).and_then(|code| code.parse().ok());
            let Some(code @ 200..600) = code else {
                return Err(format!("this is no mail server: {}", said(&line)));
            };
            let (is_last, text) = match line.get(3..).unwrap_or_default().split_at_checked(1) {
                Some(("-", text)) => (false, text),
                Some((_, text)) => (true, text),
                None => (true, ""),
            };
            lines.push(text.to_owned());
            if is_last {
                return Ok(Reply { code, lines });
            }
            if lines.iter().map(String::len).sum::<usize>() > MAX_REPLY {
                return Err("the mail server's answer does not end".to_owned());
            }
        }
    }

    async fn line(&mut self) -> Result<String, String> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.unread) {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.unread.len() > MAX_REPLY {
                return Err("the mail server's answer does not end".to_owned());
            }
            match self.stream.read_buf(&mut self.unread).await {
                Ok(0) => return Err("the mail server hung up".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(format!("the mail server hung up: {error}")),
            }
        }
    }
}

impl Reply {
    /// An answer of this class (2: done, 3: go on), or what was refused and in which words.
    fn expect(self, class: u16, what: &str) -> Result<Self, String> {
        if self.code / 100 == class {
            return Ok(self);
        }
        Err(format!("the mail server refused {what}: {} {}", self.code, said(&self.lines.join(" "))))
    }

    fn has(&self, extension: &str) -> bool {
        self.extensions().any(|(name, _)| name.eq_ignore_ascii_case(extension))
    }

    /// What stands behind an extension, in capitals.
    fn words_of(&self, extension: &str) -> Vec<String> {
        let of_it = self.extensions().filter(|(name, _)| name.eq_ignore_ascii_case(extension));
        of_it.flat_map(|(_, words)| words.split_whitespace().map(str::to_ascii_uppercase)).collect()
    }

    /// The first line greets; old servers write `AUTH=LOGIN`.
    fn extensions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().skip(1).map(|line| line.split_once([' ', '=']).unwrap_or((line, "")))
    }
}

fn said(text: &str) -> String {
    one_line(text).chars().take(MAX_SAID).collect()
}
