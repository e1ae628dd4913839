//! Lists of addresses and networks that operators write: allow-lists and trusted proxies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Reads an address or a network; mapped IPv4 addresses and networks of them count as IPv4.
pub fn parse(text: &str) -> Option<IpNet> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(IpNet::from(address.to_canonical()));
    }
    let network = text.parse::<IpNet>().ok()?;
    match (network.addr(), network.addr().to_canonical()) {
        (IpAddr::V6(_), mapped @ IpAddr::V4(_)) => {
            // Less than these 96 bits would hold other addresses, too.
            network
                .prefix_len()
                .checked_sub(96)
                .and_then(|length| IpNet::new(mapped, length).ok())
                .or(Some(network))
        }
        _ => Some(network),
    }
}

/// Whether one of the networks contains the address. `::1` and 127.0.0.1 count as one: a program on the same machine may
/// use either.
pub fn contain(networks: &[IpNet], address: IpAddr) -> bool {
    const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let address = address.to_canonical();
    let holds = |address| networks.iter().any(|network| network.contains(address));
    holds(&address) || (LOOPBACK.contains(&address) && LOOPBACK.iter().any(holds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_each_of_its_spellings() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "11.1.2.3", false),
            ("::ffff:10.1.2.3", "10.1.2.3", true),
            ("2001:db8::/32", "2001:db8::1", true),
            ("2001:db8::/32", "10.1.2.3", false),
            ("::1", "127.0.0.1", true),
            ("::1/128", "::1", true),
            ("127.0.0.1", "::1", true),
            ("::1", "127.0.0.2", false),
            ("::/0", "127.0.0.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
        ] {
            let networks = [parse(network).unwrap()];
            assert_eq!(contain(&networks, address.parse().unwrap()), expected, "{network} {address}");
        }
        assert_eq!(parse("10.0.0.0/33"), None);
    }
}
