//! `NO_PROXY`: which hosts are reached without the environment's proxy, read as Go programs read it.
//!
//! Entries are names (with what is below them; `.name`: only what is below), addresses, IPv4 networks and `*`, each with a port or without.
//! This machine is never asked for at a proxy.
//!
//! # In Kubernetes
//! `golang.org/x/net/http/httpproxy`. Left out: IPv6 networks.

use std::net::{IpAddr, Ipv4Addr};

/// Whether a host is reached directly, as the value of `NO_PROXY` says.
pub fn is_direct(no_proxy: &str, host: &str, port: u16) -> bool {
    let host = host.trim_matches(['[', ']']).to_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    let entries = no_proxy.split(',').map(|entry| entry.trim().to_lowercase());
    entries.filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.strip_suffix(&format!(":{port}")).unwrap_or(&entry);
        match (entry, address) {
            ("*", _) => true,
            (entry, Some(IpAddr::V4(address))) => in_network(entry, address),
            (entry, Some(address)) => entry.parse() == Ok(address),
            (entry, None) => {
                // `.example.test`: only what is below it; `example.test`: itself, too.
                let domain = entry.trim_start_matches('*').trim_start_matches('.');
                let below = host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
                below || (!entry.starts_with(['.', '*']) && host == domain)
            }
        }
    })
}

/// `10.0.0.0/8`, or one address.
fn in_network(entry: &str, address: Ipv4Addr) -> bool {
    let (network, bits) = entry.split_once('/').unwrap_or((entry, "32"));
    let (Ok(network), Ok(bits @ 0..=32)) = (network.parse::<Ipv4Addr>(), bits.parse::<u32>()) else {
        return false;
    };
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    u32::from(network) & mask == u32::from(address) & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_networks_addresses_and_ports_are_direct_and_nothing_else() {
        let list = "corp.test, .dot.test,10.0.0.0/8,9.9.9.9,api.test:6443,*.star.test";
        for host in
            ["corp.test", "a.corp.test", "b.dot.test", "10.1.2.3", "9.9.9.9", "API.test", "x.star.test"]
        {
            assert!(is_direct(list, host, 6443), "{host}");
        }
        for host in ["xcorp.test", "dot.test", "11.1.2.3", "9.9.9.8", "star.test"] {
            assert!(!is_direct(list, host, 6443), "{host}");
        }
        assert!(!is_direct(list, "api.test", 443));
        assert!(is_direct("*", "any.test", 1) && is_direct("0.0.0.0/0", "1.2.3.4", 1));
        for local in ["localhost", "127.0.0.2", "[::1]"] {
            assert!(is_direct("", local, 443), "{local}");
        }
        assert!(!is_direct("10.0.0.0/33,10.0.0.0/x,10.0.0/8", "10.0.0.1", 1));
    }
}
