//! A stub mail server (RFC 5321) on a port of its own, with one thread per connection: unencrypted, with STARTTLS (RFC
//! 3207) or with TLS from the first byte. It keeps every mail with all commands of its session.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::{ServerConnection, StreamOwned};

use super::{eventually, secured};

/// How the server behaves.
#[derive(Clone, Default)]
pub struct MailRules {
    pub starttls: bool,
    pub implicit_tls: bool,
    /// The methods offered after EHLO, such as `PLAIN LOGIN`; mails are accepted only after a login.
    pub auth: Option<&'static str>,
    /// The accepted `user:password`.
    pub login: &'static str,
    /// Recipients to refuse.
    pub refuses: &'static [&'static str],
    /// Whether it accepts connections but never sends anything.
    pub silent: bool,
}

/// One mail as it was delivered.
#[derive(Clone, Debug, Default)]
pub struct Mail {
    pub from: String,
    pub to: Vec<String>,
    /// The text as sent, with dots unstuffed.
    pub text: String,
    /// Whether it came over TLS.
    pub private: bool,
    /// Every command of its session, in order.
    pub commands: Vec<String>,
}

pub struct MailServer {
    address: SocketAddr,
    mails: Arc<Mutex<Vec<Mail>>>,
}

enum Wire {
    Clear(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl MailServer {
    pub fn start(rules: MailRules) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mails: Arc<Mutex<Vec<Mail>>> = Arc::default();
        let kept = Arc::clone(&mails);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (rules, kept) = (rules.clone(), Arc::clone(&kept));
                std::thread::spawn(move || serve(stream, &rules, &kept));
            }
        });
        Self { address, mails }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn mails(&self) -> Vec<Mail> {
        self.mails.lock().expect("no panic there").clone()
    }

    /// Waits for a mail and returns it.
    #[track_caller]
    pub fn mail(&self) -> Mail {
        eventually("a mail comes", || self.mails().pop())
    }
}

// === impl Mail ===

impl Mail {
    /// Returns a header, unfolded and with encoded words decoded.
    #[track_caller]
    pub fn header(&self, name: &str) -> String {
        let (head, _) = self.text.split_once("\r\n\r\n").expect("a head");
        let head = head.replace("\r\n ", " ");
        let line = head.split("\r\n").find_map(|line| line.strip_prefix(&format!("{name}: ")));
        read_words(line.unwrap_or_else(|| panic!("no {name} in {head}")))
    }

    /// Returns the body's text, decoded.
    #[track_caller]
    pub fn body(&self) -> String {
        let (_, body) = self.text.split_once("\r\n\r\n").expect("a body");
        let bytes = match self.header("Content-Transfer-Encoding").as_str() {
            "7bit" => body.as_bytes().to_vec(),
            "quoted-printable" => unquoted(body),
            "base64" => BASE64_STANDARD.decode(body.replace("\r\n", "")).expect("base64"),
            other => panic!("the encoding {other}"),
        };
        String::from_utf8(bytes).expect("UTF-8")
    }
}

/// Decodes quoted-printable text (RFC 2045, 6.7).
fn unquoted(body: &str) -> Vec<u8> {
    let mut parts =
        body.trim_end().split("=\r\n").collect::<String>().split('=').map(str::to_owned).collect::<Vec<_>>();
    let mut bytes = parts.remove(0).into_bytes();
    for part in parts {
        let (code, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(code, 16).expect("two hex digits"));
        bytes.extend_from_slice(rest.as_bytes());
    }
    bytes
}

/// Decodes encoded words (RFC 2047): blanks between them are not part of the text.
fn read_words(line: &str) -> String {
    let mut text = String::new();
    let mut after_encoded = false;
    for word in line.split(' ') {
        let inner = word.strip_prefix("=?UTF-8?B?").and_then(|word| word.strip_suffix("?="));
        let decoded = inner.and_then(|inner| BASE64_STANDARD.decode(inner).ok());
        let decoded = decoded.map(|bytes| String::from_utf8(bytes).expect("whole characters"));
        if !(text.is_empty() || (after_encoded && decoded.is_some())) {
            text.push(' ');
        }
        after_encoded = decoded.is_some();
        text.push_str(decoded.as_deref().unwrap_or(word));
    }
    text
}

// === serving ===

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Wire {
    fn say(&mut self, text: &str) -> std::io::Result<()> {
        match self {
            Self::Clear(stream) => stream.write_all(text.as_bytes()),
            Self::Tls(stream) => stream.write_all(text.as_bytes()).and_then(|()| stream.flush()),
        }
    }

    fn secured(self) -> Self {
        let Self::Clear(stream) = self else { panic!("TLS within TLS") };
        Self::Tls(Box::new(secured(stream)))
    }
}

fn serve(stream: TcpStream, rules: &MailRules, mails: &Mutex<Vec<Mail>>) {
    let mut wire = Wire::Clear(stream);
    if rules.silent {
        let _ = wire.read(&mut [0]);
        return;
    }
    if rules.implicit_tls {
        wire = wire.secured();
    }
    // The client may end the connection at any time.
    let _ = converse(wire, rules, mails);
}

fn converse(wire: Wire, rules: &MailRules, mails: &Mutex<Vec<Mail>>) -> std::io::Result<()> {
    let mut private = rules.implicit_tls;
    let mut wire = BufReader::new(wire);
    let mut mail = Mail::default();
    let mut logged_in = rules.auth.is_none();
    wire.get_mut().say("220 mail.example ESMTP ready\r\n")?;
    loop {
        let command = read_line(&mut wire)?;
        if command.is_empty() {
            return Ok(());
        }
        mail.commands.push(command.clone());
        let (verb, rest) = command.split_once(' ').unwrap_or((&command, ""));
        let answer = match verb {
            "EHLO" => greeting(rules, private),
            "STARTTLS" => {
                wire.get_mut().say("220 go ahead\r\n")?;
                wire = BufReader::new(wire.into_inner().secured());
                private = true;
                continue;
            }
            "AUTH" => {
                logged_in = read_login(&mut wire, rest)? == rules.login;
                // A careless server: it repeats what it received.
                if logged_in {
                    "235 welcome\r\n".to_owned()
                } else {
                    format!("535 5.7.8 bad login {rest}\r\n")
                }
            }
            "MAIL" if !logged_in => "530 5.7.0 authentication required\r\n".to_owned(),
            "MAIL" => {
                mail.from = in_brackets(rest);
                "250 ok\r\n".to_owned()
            }
            "RCPT" => {
                let to = in_brackets(rest);
                if rules.refuses.contains(&to.as_str()) {
                    format!("550 5.1.1 <{to}> unknown\r\n")
                } else {
                    mail.to.push(to);
                    "250 ok\r\n".to_owned()
                }
            }
            "DATA" => {
                mail.text += &read_text(&mut wire)?;
                mail.private = private;
                mails.lock().expect("no panic there").push(mail.clone());
                "250 queued\r\n".to_owned()
            }
            "QUIT" => {
                wire.get_mut().say("221 bye\r\n")?;
                return Ok(());
            }
            _ => "502 5.5.2 unknown\r\n".to_owned(),
        };
        wire.get_mut().say(&answer)?;
    }
}

fn greeting(rules: &MailRules, private: bool) -> String {
    let mut answer = "250-mail.example greets you\r\n250-SIZE 1000000\r\n".to_owned();
    if rules.starttls && !private {
        answer += "250-STARTTLS\r\n";
    }
    if let Some(methods) = rules.auth {
        answer += &format!("250-AUTH {methods}\r\n");
    }
    answer + "250 HELP\r\n"
}

/// Reads a name and a password, separated by a colon.
fn read_login(wire: &mut BufReader<Wire>, method: &str) -> std::io::Result<String> {
    if let Some(("PLAIN", token)) = method.split_once(' ') {
        return Ok(unbase64(token).trim_start_matches('\0').replace('\0', ":"));
    }
    wire.get_mut().say("334 VXNlcm5hbWU6\r\n")?;
    let user = unbase64(&read_line(wire)?);
    wire.get_mut().say("334 UGFzc3dvcmQ6\r\n")?;
    Ok(format!("{user}:{}", unbase64(&read_line(wire)?)))
}

fn read_text(wire: &mut BufReader<Wire>) -> std::io::Result<String> {
    wire.get_mut().say("354 end with a dot\r\n")?;
    let mut text = String::new();
    loop {
        let line = read_line(wire)?;
        if line == "." {
            return Ok(text);
        }
        text += line.strip_prefix('.').unwrap_or(&line);
        text += "\r\n";
    }
}

fn read_line(wire: &mut BufReader<Wire>) -> std::io::Result<String> {
    let mut line = String::new();
    wire.read_line(&mut line)?;
    Ok(line.strip_suffix("\r\n").map(str::to_owned).unwrap_or(line))
}

fn in_brackets(text: &str) -> String {
    let inner = text.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inner.map(|(address, _)| address.to_owned()).unwrap_or_default()
}

fn unbase64(text: &str) -> String {
    let bytes = BASE64_STANDARD.decode(text).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
