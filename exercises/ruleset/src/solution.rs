//! One answer.

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
        for front in &self.0 {
            write!(f, "{} ->", front.address)?;
            for endpoint in &front.endpoints {
                write!(f, " {endpoint}")?;
            }
            f.write_str(if front.endpoints.is_empty() { " reject\n" } else { "\n" })?;
        }
        Ok(())
    }
}

impl Ruleset for Lines {
    fn verdicts(&self, packet: &Packet) -> Vec<(Verdict, Probability)> {
        let wanted = SocketAddrV4::new(packet.destination, packet.port);
        let tcp = packet.protocol == Protocol::Tcp;
        let Some(front) = self.0.iter().find(|front| tcp && front.address == wanted) else {
            return vec![(Verdict::Accept, 1.0)];
        };
        if front.endpoints.is_empty() {
            return vec![(Verdict::Reject, 1.0)];
        }
        let share = 1.0 / front.endpoints.len() as Probability;
        front.endpoints.iter().map(|to| (Verdict::Dnat { to: *to, masquerade: false }, share)).collect()
    }
}
