//! Packets and verdicts: the question that every rule dialect answers.
//!
//! *Step 6 of a pod's journey.* Before: a renderer wrote rules as text. After: a test knows what the text does.
//!
//! Two dialects (nftables and iptables) say the same thing in different words, so comparing texts proves
//! nothing. What counts is what happens to a packet: it is let through, sent to an endpoint (with or without the
//! node's own address as source), rejected, or dropped, each with a probability, because load balancing
//! throws dice. A [`Ruleset`] answers that by walking its own text, the way the kernel would.
//!
//! # Invariants
//! 1. The probabilities of a packet's verdicts add up to one.
//!
//! # In Kubernetes
//! `tracePacket` in `pkg/proxy/iptables/proxier_test.go` and `pkg/proxy/nftables/helpers_test.go`, which answer with
//! one path each; the idea that tests ask for meaning is theirs.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::str::FromStr;
use std::sync::Arc;

use crate::service_map::Protocol;

/// An IPv4 network: `10.244.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    address: Ipv4Addr,
    prefix: u8,
}

/// What is not a CIDR.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not an IPv4 CIDR such as 10.244.0.0/16")]
pub struct CidrError(String);

impl Cidr {
    /// Is the address in the network?
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        let mask = self.mask();
        u32::from(address) & mask == u32::from(self.address) & mask
    }

    fn mask(&self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0)
    }

    /// Everything?
    pub fn is_zero(&self) -> bool {
        self.prefix == 0
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(u32::from(self.address) & self.mask()), self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// Reads `a.b.c.d/n`, and `a.b.c.d` as `/32`.
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, prefix) = text.split_once('/').unwrap_or((text, "32"));
        let parsed = address.parse().ok().zip(prefix.parse().ok().filter(|prefix| *prefix <= 32));
        parsed.map(|(address, prefix)| Self { address, prefix }).ok_or_else(|| CidrError(text.to_owned()))
    }
}

/// Where a packet enters the node's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// From a pod or from outside.
    Prerouting,
    /// From a process in the node's own namespace.
    Output,
}

/// The first packet of a connection, as the rules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where it enters.
    pub hook: Hook,
    /// The network interface that it came from (`None`: unknown, or made here).
    pub interface: Option<String>,
    /// The client.
    pub source: Ipv4Addr,
    /// What the client connects to.
    pub destination: Ipv4Addr,
    /// The port that the client connects to.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
    /// The node's own addresses (127.0.0.0/8 is always local).
    pub local_addresses: Arc<[Ipv4Addr]>,
}

impl Packet {
    /// Is the address one of the node's own?
    pub fn is_local(&self, address: Ipv4Addr) -> bool {
        address.is_loopback() || self.local_addresses.contains(&address)
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Left as it is.
    Accept,
    /// Sent to an endpoint; `masquerade`: with the node's address as source.
    Dnat {
        /// The endpoint.
        to: SocketAddrV4,
        /// Does the endpoint see the node instead of the client?
        masquerade: bool,
    },
    /// Answered with "port unreachable".
    Reject,
    /// Swallowed.
    Drop,
}

/// From 0 to 1.
pub type Probability = f64;

// ANCHOR: ruleset
/// Rules: text for the kernel (`Display`), meaning for tests.
pub trait Ruleset: fmt::Display {
    /// What becomes of the packet, and how often.
    fn verdicts(&self, packet: &Packet) -> Vec<(Verdict, Probability)>;
}

/// Sums up equal verdicts and sorts them; for comparing two dialects' answers.
pub fn normalize(verdicts: &[(Verdict, Probability)]) -> Vec<(Verdict, Probability)> {
    let mut sums: std::collections::BTreeMap<Verdict, Probability> = std::collections::BTreeMap::new();
    for (verdict, probability) in verdicts {
        *sums.entry(*verdict).or_default() += probability;
    }
    // Saved iptables rules keep nine digits of a third.
    sums.into_iter().map(|(verdict, sum)| (verdict, (sum * 1e6).round() / 1e6)).collect()
}
// ANCHOR_END: ruleset
