//! Delivers a mail to a server (RFC 5321), over TLS from the first byte or after STARTTLS (RFC 3207). `mail-send`
//! implements the protocol; connections and TLS are those of all outgoing calls.
//!
//! ```text
//! connect ─ [TLS] ─ 220 ─ EHLO ─ [STARTTLS ─ TLS ─ EHLO] ─ [AUTH] ─ MAIL ─ RCPT… ─ DATA ─ QUIT
//! ```
//!
//! TLS is used whenever the server offers it; an invalid certificate ends the exchange. A server without TLS is used in
//! clear, as relays on the same machine are, and a warning is logged if a password is sent that way. One connection
//! carries one mail: the cool-down keeps them rare.

use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use mail_send::smtp::AssertReply;
use mail_send::smtp::message::Parameters;
use mail_send::{Credentials, Error, SmtpClient};
use smtp_proto::EXT_START_TLS;

use super::failure::{Failure, TIMEOUT, without};
use super::mail::Envelope;
use crate::one_line::short_line;
use crate::upstream::{Client, Stream};

/// Maximum length of a server's message that is repeated.
const MAX_QUOTED: usize = 160;

/// A mail server and its login.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether TLS begins with the first byte.
    pub(super) implicit_tls: bool,
    /// The user name; blank for no login.
    pub(super) user: String,
    pub(super) password: String,
}

impl Server {
    /// Delivers one mail; if only some of its recipients are refused, that is logged.
    pub(super) async fn send(&self, client: &Client, envelope: &Envelope, mail: &str) -> Result<(), Failure> {
        let connected = client.dial(&self.host, self.port).await;
        let stream = connected.map_err(|error| Failure { text: error.to_string(), unconnected: true })?;
        self.converse(client, stream, envelope, mail)
            .await
            .map_err(|text| Failure::lasting(self.without_login(&text)))
    }

    /// Hides the login in a server's words: some servers repeat the command that they refuse.
    fn without_login(&self, text: &str) -> String {
        let login = format!("\0{}\0{}", self.user, self.password);
        let encoded = [&self.password, &login].map(|secret| BASE64_STANDARD.encode(secret));
        without(text, encoded.iter().chain([&self.password]).map(String::as_str))
    }

    async fn hand_over(
        &self,
        session: &mut SmtpClient<Stream>,
        envelope: &Envelope,
        mail: &str,
    ) -> Result<(), String> {
        let plain = Parameters::default();
        session.mail_from(&envelope.from.address, &plain).await.map_err(refused("the sender"))?;
        let mut last_refusal = None;
        let mut accepted = 0;
        for to in &envelope.to {
            match session.rcpt_to(&to.address, &plain).await {
                Ok(()) => accepted += 1,
                Err(error @ Error::UnexpectedReply(_)) => {
                    let why = refused("a recipient")(error);
                    log::warn!("notify failed (smtp): {}: {}", to.address, self.without_login(&why));
                    last_refusal = Some(why);
                }
                Err(error) => return Err(refused("a recipient")(error)),
            }
        }
        if let Some(why) = last_refusal.filter(|_| accepted == 0) {
            return Err(why);
        }
        session.data(mail).await.map_err(refused("the mail"))?;
        Ok(())
    }

    async fn converse(
        &self,
        client: &Client,
        stream: Stream,
        envelope: &Envelope,
        mail: &str,
    ) -> Result<(), String> {
        let name = own_name(&stream);
        let mut is_private = self.implicit_tls;
        let mut session = SmtpClient { stream, timeout: TIMEOUT };
        if is_private {
            session = self.secured(client, session).await?;
        }
        let greeting = session.read().await.and_then(|reply| reply.assert_positive_completion());
        greeting.map_err(refused("the greeting"))?;
        let mut offers = session.ehlo(&name).await.map_err(refused("EHLO"))?;
        if !is_private && offers.has_capability(EXT_START_TLS) {
            let begun =
                session.cmd("STARTTLS\r\n").await.and_then(|reply| reply.assert_positive_completion());
            begun.map_err(refused("STARTTLS"))?;
            session = self.secured(client, session).await?;
            is_private = true;
            offers = session.ehlo(&name).await.map_err(refused("EHLO"))?;
        }
        if !self.user.is_empty() {
            if !is_private {
                log::warn!(
                    "{} does not offer TLS: the password of the mail account is sent in clear",
                    self.host
                );
            }
            let login = Credentials::new(self.user.as_str(), self.password.as_str());
            session.authenticate(&login, &offers).await.map_err(refused("the login"))?;
        }
        self.hand_over(&mut session, envelope, mail).await?;
        // The mail is accepted, whatever the result of QUIT.
        let _ = session.quit().await;
        Ok(())
    }

    /// Continues under TLS; data received in clear before it are dropped with the session.
    async fn secured(
        &self,
        client: &Client,
        session: SmtpClient<Stream>,
    ) -> Result<SmtpClient<Stream>, String> {
        let stream = client.secure(session.stream, &self.host).await.map_err(|error| error.to_string())?;
        Ok(SmtpClient { stream, timeout: session.timeout })
    }
}

/// Returns an address literal, which is always a valid name (RFC 5321 §4.1.3), unlike many hosts' own names.
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

/// Describes the failure of an exchange at this step.
fn refused(step: &'static str) -> impl Fn(Error) -> String {
    move |error| match error {
        Error::UnexpectedReply(reply) | Error::AuthenticationFailed(reply) => {
            let [class, subject, detail] = reply.esc;
            let enhanced = if class == 0 { String::new() } else { format!("{class}.{subject}.{detail} ") };
            let words = quoted(&format!("{enhanced}{}", reply.message));
            format!("the mail server refused {step}: {} {words}", reply.code)
        }
        Error::UnsupportedAuthMechanism => {
            "the mail server offers none of the supported ways to log in (PLAIN and LOGIN)".to_owned()
        }
        Error::UnparseableReply => {
            format!("not a mail server, or it closed the connection: no answer to {step}")
        }
        Error::Io(error) => format!("the mail server closed the connection: {error}"),
        error => format!("{step}: {error}"),
    }
}

fn quoted(text: &str) -> String {
    short_line(text, MAX_QUOTED, "")
}
