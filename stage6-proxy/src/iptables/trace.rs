//! What a packet meets in iptables rules, read from their text.
//!
//! *Step 6 of a pod's journey.* Tests only: the answer to "where does a packet to this Service go?" for text that
//! we wrote for `iptables-restore` as well as for text that `iptables-save` printed on a stock node.
//!
//! The walk is the kernel's: nat PREROUTING or OUTPUT, then filter INPUT or FORWARD (by the destination after
//! DNAT) or OUTPUT, then nat POSTROUTING. Where a rule throws dice, the walk splits in two with
//! a probability each; so a verdict comes with how often it happens.
//!
//! # Invariants
//! 1. A match that isn't known is a panic, not a guess: a tracer that skips what it doesn't understand
//!    proves nothing.
//!
//! # In Kubernetes
//! `iptablesTracer` in `pkg/proxy/iptables/proxier_test.go`. The packet is the first of its connection, so
//! `recent --rcheck` never matches and the state is NEW.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddrV4;

use crate::packet::{Cidr, Hook, Packet, Probability, Ruleset, Verdict};
use crate::proxy_state::MASQUERADE_MARK;

/// Parsed tables: table → chain → rules.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    chains: HashMap<(String, String), Vec<Vec<String>>>,
    text: String,
}

/// The packet on its way: what rules changed so far.
#[derive(Clone, Debug, Default)]
struct Way {
    mark: u32,
    dnat: Option<SocketAddrV4>,
}

/// How a chain was left.
#[derive(Clone, Debug)]
enum Left {
    /// By its end or by RETURN.
    Continue,
    /// For good.
    Decided(Verdict),
    /// NAT decides and ends the table's walk.
    Done,
}

type Ways = Vec<(Left, Way, Probability)>;

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut quoted = false;
    let mut word = String::new();
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ' ' if !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            other => word.push(other),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

impl Tables {
    /// Reads restore input or save output.
    pub fn parse(text: &str) -> Self {
        let mut tables = Self { chains: HashMap::new(), text: text.to_owned() };
        let mut table = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('*') {
                name.clone_into(&mut table);
            } else if let Some(declared) = line.strip_prefix(':') {
                let chain = declared.split(' ').next().unwrap_or_default().to_owned();
                tables.chains.entry((table.clone(), chain)).or_default();
            } else if line.starts_with("-A ") || line.starts_with("-I ") {
                let mut rule = words(line);
                let (append, chain) = (rule[0] == "-A", rule[1].clone());
                rule.drain(..2);
                let rules = tables.chains.entry((table.clone(), chain)).or_default();
                let at = if append { rules.len() } else { 0 };
                rules.insert(at, rule);
            }
        }
        tables
    }

    /// Is this jump (`CHAIN … -j TARGET`) there, in whatever spelling?
    pub fn has_jump(&self, table: &str, rule: &str) -> bool {
        let wanted = words(rule);
        let (Some(chain), Some(target)) = (wanted.first(), wanted.last()) else { return false };
        let rules = self.chains.get(&(table.to_owned(), chain.clone()));
        rules.is_some_and(|rules| rules.iter().any(|rule| rule.last() == Some(target)))
    }

    fn walk(&self, table: &str, chain: &str, packet: &Packet, way: Way) -> Ways {
        let mut going = vec![(way, 1.0)];
        let mut left = Ways::new();
        let rules = self.chains.get(&(table.to_owned(), chain.to_owned())).map_or(&[][..], Vec::as_slice);
        for rule in rules {
            let mut next = Vec::new();
            for (way, probability) in going {
                let (chance, target) = matches(rule, packet, &way);
                if chance < 1.0 {
                    next.push((way.clone(), probability * (1.0 - chance)));
                }
                if chance == 0.0 {
                    continue;
                }
                for (outcome, way, share) in self.go(table, rule, target, packet, way) {
                    match outcome {
                        Left::Continue if target != "RETURN" => {
                            next.push((way, probability * chance * share))
                        }
                        outcome => left.push((outcome, way, probability * chance * share)),
                    }
                }
            }
            going = next;
        }
        left.extend(going.into_iter().map(|(way, probability)| (Left::Continue, way, probability)));
        left
    }

    fn go(&self, table: &str, rule: &[String], target: &str, packet: &Packet, mut way: Way) -> Ways {
        let argument = |option: &str| value(rule, option).map(String::as_str);
        let outcome = match target {
            "" | "RETURN" => Left::Continue,
            "ACCEPT" => Left::Done,
            "DROP" => Left::Decided(Verdict::Drop),
            "REJECT" => Left::Decided(Verdict::Reject),
            "MASQUERADE" => Left::Decided(Verdict::Accept),
            "DNAT" => {
                let to = argument("--to-destination").and_then(|to| to.parse().ok());
                way.dnat = Some(to.expect("DNAT has a destination"));
                Left::Done
            }
            "MARK" => {
                way.mark = marked(way.mark, argument);
                Left::Continue
            }
            chain => return self.walk(table, chain, packet, way),
        };
        vec![(outcome, way, 1.0)]
    }

    /// The walk through one kernel chain, continued by `then` for packets that go on.
    fn then(&self, ways: Ways, table: &str, chain: &str, packet: &Packet) -> Ways {
        let mut after = Ways::new();
        for (outcome, way, probability) in ways {
            if let Left::Decided(_) = outcome {
                after.push((outcome, way, probability));
                continue;
            }
            let next = self.walk(table, chain, packet, way);
            after.extend(next.into_iter().map(|(outcome, way, share)| (outcome, way, probability * share)));
        }
        after
    }
}

fn marked<'a>(mark: u32, argument: impl Fn(&str) -> Option<&'a str>) -> u32 {
    if let Some(bits) = argument("--or-mark") {
        return mark | number(bits);
    }
    if let Some(bits) = argument("--xor-mark") {
        return mark ^ number(bits);
    }
    let (value, mask) = argument("--set-xmark").and_then(|xmark| xmark.split_once('/')).expect("a mark");
    (mark & !number(mask)) ^ number(value)
}

fn number(text: &str) -> u32 {
    u32::from_str_radix(text.trim_start_matches("0x"), 16).expect("a hexadecimal number")
}

fn value<'a>(rule: &'a [String], option: &str) -> Option<&'a String> {
    rule.iter().position(|word| word == option).and_then(|at| rule.get(at + 1))
}

/// How likely the rule matches (0, 1, or its dice), and its target.
fn matches<'a>(rule: &'a [String], packet: &Packet, way: &Way) -> (Probability, &'a str) {
    let (mut chance, mut target, mut negated) = (1.0, "", false);
    let (destination, port) = way.dnat.map_or((packet.destination, packet.port), |to| (*to.ip(), to.port()));
    let in_range = |text: &str, address| text.parse::<Cidr>().expect("an address").contains(address);
    let mut at = 0;
    while at < rule.len() {
        let argument = rule.get(at + 1).map_or("", String::as_str);
        let (matched, used) = match rule[at].as_str() {
            "!" => {
                negated = true;
                at += 1;
                continue;
            }
            "-m" | "--comment" | "--mode" | "--seconds" | "--name" | "--mask" | "--nfacct-name"
            | "--reject-with" | "--to-destination" | "--set-xmark" | "--or-mark" | "--xor-mark" => (true, 2),
            "--reap" | "--rsource" | "--set" | "--random-fully" => (true, 1),
            // The client is new: no endpoint has seen it.
            "--rcheck" => (false, 1),
            "-s" => (in_range(argument, packet.source), 2),
            "-d" => (in_range(argument, destination), 2),
            "-p" => (argument == packet.protocol.as_str(), 2),
            "-i" => (interface_matches(argument, packet.interface.as_deref()), 2),
            "--dport" => (argument.parse() == Ok(port), 2),
            "--ctstate" => {
                let mut states = argument.split(',');
                (states.any(|state| state == "NEW" || (state == "DNAT" && way.dnat.is_some())), 2)
            }
            "--mark" => {
                let (bits, mask) = argument.split_once('/').expect("a mark and its mask");
                (way.mark & number(mask) == number(bits), 2)
            }
            "--src-type" => (packet.is_local(packet.source), 2),
            "--dst-type" => (packet.is_local(destination), 2),
            "--probability" => {
                chance *= argument.parse::<f64>().expect("a probability");
                (true, 2)
            }
            "-j" | "-g" => {
                target = argument;
                (true, 2)
            }
            unknown => panic!("unknown match {unknown} in {rule:?}"),
        };
        if matched == negated {
            return (0.0, target);
        }
        negated = false;
        at += used;
    }
    (chance, target)
}

fn interface_matches(pattern: &str, interface: Option<&str>) -> bool {
    let Some(interface) = interface else { return false };
    pattern.strip_suffix('+').map_or(pattern == interface, |prefix| interface.starts_with(prefix))
}

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Ruleset for Tables {
    fn verdicts(&self, packet: &Packet) -> Vec<(Verdict, Probability)> {
        let first = match packet.hook {
            Hook::Prerouting => "PREROUTING",
            Hook::Output => "OUTPUT",
        };
        let mut verdicts = Vec::new();
        for (outcome, way, probability) in self.walk("nat", first, packet, Way::default()) {
            let destination = way.dnat.map_or(packet.destination, |to| *to.ip());
            let routed = match packet.hook {
                Hook::Output => "OUTPUT",
                Hook::Prerouting if packet.is_local(destination) => "INPUT",
                Hook::Prerouting => "FORWARD",
            };
            let ways = self.then(vec![(outcome, way, probability)], "filter", routed, packet);
            for (outcome, way, probability) in ways {
                let verdict = match (outcome, way.dnat) {
                    (Left::Decided(verdict), _) => verdict,
                    (_, Some(to)) => {
                        // Packets for the node itself don't pass POSTROUTING on the way in.
                        let masquerade = way.mark & MASQUERADE_MARK != 0 && routed != "INPUT";
                        Verdict::Dnat { to, masquerade }
                    }
                    (_, None) => Verdict::Accept,
                };
                verdicts.push((verdict, probability));
            }
        }
        crate::packet::normalize(&verdicts)
    }
}
