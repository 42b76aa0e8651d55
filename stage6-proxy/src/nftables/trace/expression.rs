//! Expressions of nftables rules: what a rule looks at in a packet.
//!
//! *Step 6 of a pod's journey.* Tests only; see [`super`].
//!
//! # In Kubernetes
//! The regular expressions of `pkg/proxy/nftables/helpers_test.go`.

use std::collections::BTreeMap;

use super::{Way, parse};
use crate::packet::{Cidr, Packet};

/// Words of a rule, read one after the other.
pub struct Reader<'a> {
    /// The rule.
    pub words: &'a [String],
    /// The next word's number.
    pub at: usize,
}

impl<'a> Reader<'a> {
    /// The next word; empty at the end.
    pub fn peek(&self) -> &'a str {
        self.words.get(self.at).map_or("", String::as_str)
    }

    /// Takes the next word.
    #[expect(clippy::should_implement_trait, reason = "the end is an empty word, not None")]
    pub fn next(&mut self) -> &'a str {
        let word = self.peek();
        self.at += 1;
        word
    }

    /// Takes these words if they are next.
    pub fn eat(&mut self, words: &str) -> bool {
        let expected: Vec<&str> = words.split(' ').collect();
        let here = self.words.get(self.at..self.at + expected.len());
        let found = here.is_some_and(|here| here.iter().zip(&expected).all(|(a, b)| a == b));
        if found {
            self.at += expected.len();
        }
        found
    }
}

/// Where the packet goes now.
pub fn destination(packet: &Packet, way: &Way) -> (std::net::Ipv4Addr, u16) {
    way.dnat.map_or((packet.destination, packet.port), |to| (*to.ip(), to.port()))
}

/// `ip daddr . meta l4proto . th dport …` as the text that elements are written in.
pub fn concatenation(reader: &mut Reader<'_>, packet: &Packet, way: &Way, die: u32) -> String {
    let (address, port) = destination(packet, way);
    let mut parts = Vec::new();
    loop {
        let kind = reader.next();
        let part = match (kind, reader.next()) {
            ("ip", "saddr") => packet.source.to_string(),
            ("ip", "daddr") => address.to_string(),
            ("meta", "l4proto") => packet.protocol.as_str().to_owned(),
            ("th", "dport") => port.to_string(),
            // `tcp dport 80` asks for the protocol too.
            (protocol @ ("tcp" | "udp" | "sctp"), "dport") if protocol == packet.protocol.as_str() => {
                port.to_string()
            }
            ("tcp" | "udp" | "sctp", "dport") => "another protocol".to_owned(),
            ("numgen", "random") => {
                reader.next();
                reader.next();
                let offset = if reader.eat("offset") { reader.next().parse().expect("a number") } else { 0 };
                (die + offset).to_string()
            }
            unknown => panic!("unknown expression {unknown:?} in {:?}", reader.words),
        };
        parts.push(part);
        if !reader.eat(".") {
            return parts.join(" . ");
        }
    }
}

/// Decimal or hexadecimal.
pub fn number(text: &str) -> u32 {
    text.strip_prefix("0x")
        .map_or_else(|| text.parse(), |hexadecimal| u32::from_str_radix(hexadecimal, 16))
        .unwrap_or_else(|_| panic!("{text} is no number"))
}

/// `[meta] mark and X == Y` and `[meta] mark set [meta] mark or X`, in both spellings.
pub fn mark(reader: &mut Reader<'_>, way: &mut Way) -> bool {
    reader.eat("mark");
    let set = reader.eat("set");
    if set {
        let _ = reader.eat("meta mark") || reader.eat("mark");
    }
    let operator = reader.next();
    let operand = number(reader.next());
    let value = match operator {
        "&" | "and" => way.mark & operand,
        "|" | "or" => way.mark | operand,
        "^" | "xor" => way.mark ^ operand,
        unknown => panic!("unknown operator {unknown}"),
    };
    if set {
        way.mark = value;
        return true;
    }
    assert!(reader.eat("=="), "{:?}", reader.words);
    value == number(reader.next())
}

/// `ct state new` and `ct status dnat`.
pub fn conntrack(reader: &mut Reader<'_>, way: &Way) -> bool {
    match (reader.next(), reader.next()) {
        ("state", "new") => true,
        ("status", "dnat") => way.dnat.is_some(),
        unknown => panic!("unknown conntrack expression {unknown:?}"),
    }
}

/// `iifname "cni0"`, with `!=` and a trailing `*`.
pub fn interface(reader: &mut Reader<'_>, packet: &Packet) -> bool {
    let negated = reader.eat("!=");
    let pattern = reader.next();
    let Some(interface) = packet.interface.as_deref() else { return negated };
    let prefix = pattern.strip_suffix('*');
    prefix.map_or(interface == pattern, |prefix| interface.starts_with(prefix)) != negated
}

/// `{ a, b }` or `{ 0 : goto x, 1 : goto y }`.
pub fn anonymous(reader: &mut Reader<'_>) -> BTreeMap<String, Option<String>> {
    let mut text = String::new();
    assert!(reader.eat("{"), "{:?}", reader.words);
    loop {
        match reader.next() {
            "}" | "" => return parse::elements(&text),
            word => {
                text.push_str(word);
                text.push(' ');
            }
        }
    }
}

/// Is an address in a network, or are the two texts the same?
pub fn is_in(value: &str, operand: &str) -> bool {
    match (value.parse(), operand.parse::<Cidr>()) {
        (Ok(address), Ok(cidr)) => cidr.contains(address),
        _ => value == operand,
    }
}
