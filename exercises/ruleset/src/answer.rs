//! A third dialect: one line per Service address, `10.96.0.7:80 -> 10.244.0.2:8080 10.244.0.3:8080`.
#![allow(unused_variables, unused_imports, reason = "the bodies are yours to write")]

use std::fmt;
use std::net::SocketAddrV4;

use stage6_proxy::packet::{Packet, Probability, Ruleset, Verdict};
use stage6_proxy::service_map::Protocol;

/// A Service's address with its endpoints; TCP only.
#[derive(Clone, Debug)]
pub struct Front {
    /// What clients connect to.
    pub address: SocketAddrV4,
    /// Who answers, each as often as the others.
    pub endpoints: Vec<SocketAddrV4>,
}

/// All rules.
#[derive(Clone, Debug, Default)]
pub struct Lines(pub Vec<Front>);

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!("one line per front; `-> reject` if there is no endpoint")
    }
}

impl Ruleset for Lines {
    fn verdicts(&self, packet: &Packet) -> Vec<(Verdict, Probability)> {
        todo!("to each endpoint alike; reject without endpoints; accept what is for somebody else")
    }
}
