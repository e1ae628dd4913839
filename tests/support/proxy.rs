//! A small outbound proxy that speaks HTTP (tunnels and forwarded requests), SOCKS4, SOCKS4a and SOCKS5 on one port,
//! whichever the client speaks, and remembers what it was asked for. Every name leads to 127.0.0.1.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// One running proxy; its port closes when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Crossing>>>,
    closed: Arc<AtomicBool>,
}

/// A requested connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// `connect`, `forward` (one per connection), `socks4` or `socks5`.
    pub protocol: &'static str,
    /// The requested host and port; an address if the client has resolved the name.
    pub target: String,
    /// `user:password`, if sent.
    pub credentials: Option<String>,
}

// === impl Proxy ===

impl Proxy {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (seen, closed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (remember, over) = (Arc::clone(&seen), Arc::clone(&closed));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let seen = Arc::clone(&remember);
                // An error means that one side is gone, so nobody is left to be told.
                std::thread::spawn(move || drop(lead(stream, &seen)));
            }
        });
        Self { address, seen, closed }
    }

    /// Returns its address with this scheme, and credentials as `user:password@` or nothing.
    pub fn url(&self, scheme: &str, credentials: &str) -> String {
        format!("{scheme}://{credentials}{}", self.address)
    }

    /// Returns every connection requested so far.
    pub fn seen(&self) -> Vec<Crossing> {
        self.seen.lock().expect("no panic there").clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

// === leading ===

fn lead(mut stream: TcpStream, seen: &Mutex<Vec<Crossing>>) -> Result<()> {
    let mut first = [0];
    stream.peek(&mut first)?;
    let (crossing, yes): (Crossing, &[u8]) = match first[0] {
        4 => (socks4(&mut stream)?, &[0, 90, 0, 0, 0, 0, 0, 0]),
        5 => (socks5(&mut stream)?, &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
        b'C' => (connect(&read_head(&mut stream)?), b"HTTP/1.1 200 Connection established\r\n\r\n"),
        _ => return forward(stream, seen),
    };
    let port = crossing.target.rsplit(':').next().and_then(|port| port.parse().ok());
    let port: u16 = port.ok_or(ErrorKind::InvalidData)?;
    seen.lock().expect("no panic there").push(crossing);
    let far = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.write_all(yes)?;
    let (mut from, mut to) = (far.try_clone()?, stream.try_clone()?);
    let back = std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut far = far;
    let _ = std::io::copy(&mut stream, &mut far);
    let _ = far.shutdown(Shutdown::Both);
    back.join().map_err(|_| Error::from(ErrorKind::Other))
}

/// Forwards one request after the other, each in the form that its target expects (RFC 9112 §3.2.2).
fn forward(mut stream: TcpStream, seen: &Mutex<Vec<Crossing>>) -> Result<()> {
    let mut far: Option<TcpStream> = None;
    while let Ok(head) = read_head(&mut stream) {
        let mut crossing = connect(&head);
        let whole = crossing.target.strip_prefix("http://").ok_or(ErrorKind::InvalidData)?.to_owned();
        let (authority, path) = whole.split_once('/').ok_or(ErrorKind::InvalidData)?;
        (crossing.protocol, crossing.target) = ("forward", authority.to_owned());
        let far = match &mut far {
            Some(far) => far,
            None => {
                seen.lock().expect("no panic there").push(crossing);
                let port = authority.rsplit(':').next().and_then(|port| port.parse().ok());
                let port: u16 = port.ok_or(ErrorKind::InvalidData)?;
                let opened = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
                let (mut from, mut to) = (opened.try_clone()?, stream.try_clone()?);
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                far.insert(opened)
            }
        };
        let head = head.replacen(&format!("http://{whole}"), &format!("/{path}"), 1);
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
        stream.read_exact(&mut body)?;
        let kept = head.split_inclusive("\r\n").filter(|line| !is_login(line));
        far.write_all(kept.collect::<String>().as_bytes())?;
        far.write_all(&body)?;
    }
    if let Some(far) = far {
        let _ = far.shutdown(Shutdown::Both);
    }
    Ok(())
}

fn read_head(stream: &mut TcpStream) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(byte(stream)?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn is_login(line: &str) -> bool {
    line.to_ascii_lowercase().starts_with("proxy-authorization:")
}

/// Reads a CONNECT request (RFC 9110, 9.3.6).
fn connect(head: &str) -> Crossing {
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let shown = head.lines().find(|line| is_login(line));
    let shown = shown.and_then(|line| BASE64_STANDARD.decode(line.rsplit(' ').next()?).ok());
    let credentials = shown.map(|text| String::from_utf8_lossy(&text).into_owned());
    Crossing { protocol: "connect", target, credentials }
}

/// Reads a request of SOCKS4 (the memo "SOCKS: A protocol for TCP proxy across firewalls") or its extension 4a.
fn socks4(stream: &mut TcpStream) -> Result<Crossing> {
    let mut head = [0; 8];
    stream.read_exact(&mut head)?;
    let user = until_zero(stream)?;
    let port = u16::from_be_bytes([head[2], head[3]]);
    let host = match head[4..] {
        [0, 0, 0, 1..=255] => until_zero(stream)?,
        [a, b, c, d] => Ipv4Addr::new(a, b, c, d).to_string(),
        _ => unreachable!("four bytes"),
    };
    let credentials = (!user.is_empty()).then_some(user);
    Ok(Crossing { protocol: "socks4", target: format!("{host}:{port}"), credentials })
}

/// Reads a SOCKS5 request (RFC 1928 and 1929). If the client offers a name and a password, they are requested.
fn socks5(stream: &mut TcpStream) -> Result<Crossing> {
    let methods = [byte(stream)?, byte(stream)?][1];
    let mut offered = vec![0; usize::from(methods)];
    stream.read_exact(&mut offered)?;
    let mut credentials = None;
    if offered.contains(&2) {
        stream.write_all(&[5, 2])?;
        byte(stream)?;
        credentials = Some(format!("{}:{}", counted(stream)?, counted(stream)?));
        stream.write_all(&[1, 0])?;
    } else {
        stream.write_all(&[5, 0])?;
    }
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let host = match head[3] {
        1 => {
            let mut address = [0; 4];
            stream.read_exact(&mut address)?;
            Ipv4Addr::from(address).to_string()
        }
        3 => counted(stream)?,
        _ => return Err(ErrorKind::Unsupported.into()),
    };
    let port = u16::from_be_bytes([byte(stream)?, byte(stream)?]);
    Ok(Crossing { protocol: "socks5", target: format!("{host}:{port}"), credentials })
}

fn byte(stream: &mut TcpStream) -> Result<u8> {
    let mut one = [0];
    stream.read_exact(&mut one)?;
    Ok(one[0])
}

fn until_zero(stream: &mut TcpStream) -> Result<String> {
    let mut text = Vec::new();
    loop {
        match byte(stream)? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            other => text.push(other),
        }
    }
}

fn counted(stream: &mut TcpStream) -> Result<String> {
    let mut text = vec![0; usize::from(byte(stream)?)];
    stream.read_exact(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
