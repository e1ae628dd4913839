//! Finds the address of the client: the socket's peer, unless that peer is a trusted proxy; then the right-most
//! `X-Forwarded-For` entry that is not itself a trusted proxy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use ipnet::IpNet;

use crate::networks;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Returns the client's address, IPv4-mapped IPv6 as IPv4.
pub fn client_ip(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let peer = canonical(peer);
    if !networks::contain(trusted, peer) {
        return peer;
    }
    let mut client = peer;
    // In bytes: a client can send any, and a proxy appends the client's address to what the client sent.
    let lines = headers.get_all(X_FORWARDED_FOR).iter().map(HeaderValue::as_bytes);
    let entries: Vec<&[u8]> = lines.flat_map(|line| line.split(|byte| *byte == b',')).collect();
    for entry in entries.iter().rev() {
        // An entry that is not an address ends the chain: the entries to its left were not written by anyone we trust.
        let Some(address) = str::from_utf8(entry).ok().and_then(parse_entry) else { break };
        client = address;
        if !networks::contain(trusted, address) {
            break;
        }
    }
    client
}

/// Returns whether a request comes from this machine, judged by its socket's peer and by the client address that trusted
/// proxies report. A forwarded request from elsewhere is not local, although its peer is.
pub fn is_local(peer: IpAddr, client: IpAddr) -> bool {
    [peer, client].iter().all(|address| address.to_canonical().is_loopback())
}

/// Parses an entry: `1.2.3.4`, `1.2.3.4:5678`, `::1`, `[::1]`, `[::1]:5678`.
fn parse_entry(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    let address = entry
        .parse::<IpAddr>()
        .or_else(|_| entry.parse::<std::net::SocketAddr>().map(|socket| socket.ip()))
        .or_else(|_| entry.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>())
        .ok()?;
    Some(canonical(address))
}

/// Converts IPv4-mapped IPv6 and `::1` to IPv4, so that each client and this machine have one address only.
fn canonical(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(Ipv6Addr::LOCALHOST) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_trusted_peer_is_believed() {
        let trusted: Vec<IpNet> = vec!["127.0.0.0/8".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
        for (peer, forwarded, expected) in [
            ("9.9.9.9", Some("1.1.1.1"), "9.9.9.9"),
            ("127.0.0.1", None, "127.0.0.1"),
            ("127.0.0.1", Some("6.6.6.6, 1.1.1.1"), "1.1.1.1"),
            ("127.0.0.1", Some("6.6.6.6, 1.1.1.1, 10.0.0.7"), "1.1.1.1"),
            ("127.0.0.1", Some("10.0.0.8, 10.0.0.7"), "10.0.0.8"),
            ("127.0.0.1", Some("1.1.1.1, unknown"), "127.0.0.1"),
            ("127.0.0.1", Some("\u{e9}, 1.1.1.1"), "1.1.1.1"),
            ("::1", None, "127.0.0.1"),
            ("127.0.0.1", Some("[::1]:443"), "127.0.0.1"),
            ("::ffff:127.0.0.1", Some("[2001:db8::1]:443"), "2001:db8::1"),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = forwarded {
                headers.insert("x-forwarded-for", HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            let found = client_ip(peer.parse().unwrap(), &headers, &trusted);
            assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {forwarded:?}");
        }
    }
}
