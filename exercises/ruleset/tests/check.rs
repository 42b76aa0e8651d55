//! When the answer is right.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::net::SocketAddrV4;
use std::sync::Arc;

use exercise_ruleset::{answer, starter};
use stage6_proxy::packet::{Hook, Packet, Ruleset, Verdict, normalize};
use stage6_proxy::service_map::Protocol;

const FRONTS: [(&str, &[&str]); 2] =
    [("10.96.0.7:80", &["10.244.0.2:8080", "10.244.0.3:8080", "10.244.0.4:8080"]), ("10.96.0.8:443", &[])];

fn address(text: &str) -> SocketAddrV4 {
    text.parse().unwrap()
}

fn packet(to: &str, protocol: Protocol) -> Packet {
    Packet {
        hook: Hook::Prerouting,
        interface: None,
        source: [10, 244, 0, 9].into(),
        destination: *address(to).ip(),
        port: address(to).port(),
        protocol,
        local_addresses: Arc::new([]),
    }
}

fn spreads(rules: &dyn Ruleset) {
    let found = normalize(&rules.verdicts(&packet("10.96.0.7:80", Protocol::Tcp)));
    let expected: Vec<_> = FRONTS[0]
        .1
        .iter()
        .map(|to| (Verdict::Dnat { to: address(to), masquerade: false }, 1.0 / 3.0))
        .collect();
    assert_eq!(found, normalize(&expected));
}

fn rejects(rules: &dyn Ruleset) {
    assert_eq!(rules.verdicts(&packet("10.96.0.8:443", Protocol::Tcp)), [(Verdict::Reject, 1.0)]);
}

fn passes_on(rules: &dyn Ruleset) {
    for other in [
        packet("10.96.0.7:81", Protocol::Tcp),
        packet("10.96.0.9:80", Protocol::Tcp),
        packet("10.96.0.7:80", Protocol::Udp),
    ] {
        assert_eq!(rules.verdicts(&other), [(Verdict::Accept, 1.0)], "{other:?}");
    }
}

fn writes(rules: &dyn Ruleset) {
    let text = "10.96.0.7:80 -> 10.244.0.2:8080 10.244.0.3:8080 10.244.0.4:8080\n10.96.0.8:443 -> reject\n";
    assert_eq!(rules.to_string(), text);
}

fn answer() -> answer::Lines {
    let front = |(at, to): &(&str, &[&str])| answer::Front {
        address: address(at),
        endpoints: to.iter().map(|to| address(to)).collect(),
    };
    answer::Lines(FRONTS.iter().map(front).collect())
}

#[test]
fn every_endpoint_gets_its_share() {
    spreads(&answer());
}

#[test]
fn a_service_without_endpoints_rejects() {
    rejects(&answer());
}

#[test]
fn what_is_for_somebody_else_passes() {
    passes_on(&answer());
}

#[test]
fn the_text_says_the_same() {
    writes(&answer());
}

#[test]
fn the_starter_fails_every_check() {
    let front = |(at, to): &(&str, &[&str])| starter::Front {
        address: address(at),
        endpoints: to.iter().map(|to| address(to)).collect(),
    };
    let starter = starter::Lines(FRONTS.iter().map(front).collect());
    for check in [spreads, rejects, passes_on, writes] {
        assert!(std::panic::catch_unwind(|| check(&starter)).is_err());
    }
}
