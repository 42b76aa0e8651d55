//! From a question to an answer, or to "ask somebody else".
//!
//! *Step 6 of a pod's journey.* Before: [`super::server`] received a message. After: it sends this one back.
//!
//! # Invariants
//! 1. Every name in the cluster's domain is answered here, with authority; none is forwarded: a typo must not tell the
//!    internet what Services a cluster has.
//!
//! # In Kubernetes
//! `plugin/kubernetes/handler.go` of CoreDNS.

use std::net::Ipv4Addr;

use simple_dns::rdata::{A, CNAME, OPT, PTR, RData, SOA, SRV, TXT};
use simple_dns::{CLASS, Name, OPCODE, Packet, PacketFlag, QTYPE, Question, RCODE, ResourceRecord, TYPE};

use super::TTL_SECONDS;
use super::zone::{Found, Zone};

/// What we take by UDP: more may be lost on the way (the DNS Flag Day's recommendation).
const EDNS_PAYLOAD: u16 = 1232;

/// What to do with a question.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Send this.
    Reply(Box<Packet<'static>>),
    /// The name isn't ours.
    Forward,
}

/// An empty reply to a request.
pub fn reply(request: &Packet<'_>, code: RCODE) -> Packet<'static> {
    let mut reply = Packet::new_reply(request.id());
    *reply.opcode_mut() = request.opcode();
    *reply.rcode_mut() = code;
    reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER | PacketFlag::RECURSION_AVAILABLE);
    if request.has_flags(PacketFlag::RECURSION_DESIRED) {
        reply.set_flags(PacketFlag::RECURSION_DESIRED);
    }
    reply.questions = request.questions.iter().cloned().map(Question::into_owned).collect();
    // Who asks with EDNS is answered with EDNS.
    *reply.opt_mut() =
        request.opt().map(|_| OPT { opt_codes: vec![], udp_packet_size: EDNS_PAYLOAD, version: 0 });
    reply
}

/// Answers a request from the zone.
pub fn answer(request: &Packet<'_>, zone: &Zone) -> Answer {
    let just = |code| Answer::Reply(Box::new(reply(request, code)));
    if request.opcode() != OPCODE::StandardQuery {
        return just(RCODE::NotImplemented);
    }
    let [question] = request.questions.as_slice() else { return just(RCODE::FormatError) };
    let found = match find(&question.qname.to_string(), zone) {
        Where::Elsewhere => return Answer::Forward,
        Where::Here(found) => found,
    };
    let code = if found.is_some() { RCODE::NoError } else { RCODE::NameError };
    let mut message = reply(request, code);
    if let Some(found) = found {
        let owner = question.qname.clone().into_owned();
        message.answers = records(&owner, question.qtype, &found, zone);
    }
    if message.answers.is_empty() {
        message.name_servers.extend(authority(zone));
    }
    Answer::Reply(Box::new(message))
}

enum Where {
    Elsewhere,
    Here(Option<Found>),
}

fn find(name: &str, zone: &Zone) -> Where {
    let name = name.to_ascii_lowercase();
    let name = name.trim_end_matches('.');
    if let Some(reversed) = name.strip_suffix(".in-addr.arpa") {
        let octets: Vec<&str> = reversed.rsplit('.').collect();
        let found = octets.join(".").parse().ok().and_then(|address: Ipv4Addr| zone.reverse(address));
        // Addresses that we don't know may have names elsewhere.
        return found.map_or(Where::Elsewhere, |found| Where::Here(Some(found)));
    }
    let below = match name.strip_suffix(zone.domain()) {
        Some("") => "",
        Some(below) if below.ends_with('.') => below.trim_end_matches('.'),
        _ => return Where::Elsewhere,
    };
    let labels: Vec<&str> = below.split('.').filter(|label| !label.is_empty()).collect();
    Where::Here(zone.lookup(&labels))
}

fn name(text: &str) -> Option<Name<'static>> {
    Some(Name::new(text.trim_end_matches('.')).ok()?.into_owned())
}

fn records(owner: &Name<'static>, kind: QTYPE, found: &Found, zone: &Zone) -> Vec<ResourceRecord<'static>> {
    let record = |data| ResourceRecord::new(owner.clone(), CLASS::IN, TTL_SECONDS, data);
    let wants = |wanted| kind == QTYPE::TYPE(wanted) || kind == QTYPE::ANY;
    match found {
        Found::Addresses(addresses) if wants(TYPE::A) => {
            addresses.iter().map(|address| record(RData::A(A { address: (*address).into() }))).collect()
        }
        Found::Alias(text) => {
            let Some(alias) = name(text) else { return vec![] };
            let mut all = vec![record(RData::CNAME(CNAME(alias.clone())))];
            // An alias inside of the cluster is followed right away; one outside by the client.
            if let Where::Here(Some(found @ Found::Addresses(_))) = find(text, zone) {
                all.extend(records(&alias, kind, &found, zone));
            }
            all
        }
        Found::Ports(ports) if wants(TYPE::SRV) => ports
            .iter()
            .filter_map(|(port, host)| {
                let srv = SRV { priority: 0, weight: 100, port: *port, target: name(host)? };
                Some(record(RData::SRV(srv)))
            })
            .collect(),
        Found::Pointer(text) if wants(TYPE::PTR) => {
            name(text).map(|name| record(RData::PTR(PTR(name)))).into_iter().collect()
        }
        Found::Text(text) if wants(TYPE::TXT) => {
            TXT::new().with_string(text).ok().map(|text| record(RData::TXT(text))).into_iter().collect()
        }
        _ => vec![],
    }
}

/// Tells how long a "no" may be remembered.
fn authority(zone: &Zone) -> Option<ResourceRecord<'static>> {
    let below = |prefix: &str| name(&format!("{prefix}{}", zone.domain()));
    let soa = SOA {
        mname: below("ns.dns.")?,
        rname: below("hostmaster.")?,
        serial: 1,
        refresh: 7200,
        retry: 1800,
        expire: 86400,
        minimum: TTL_SECONDS,
    };
    Some(ResourceRecord::new(below("")?, CLASS::IN, TTL_SECONDS, RData::SOA(soa)))
}

#[cfg(test)]
mod tests;
