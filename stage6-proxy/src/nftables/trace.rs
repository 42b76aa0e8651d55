//! What a packet meets in an nftables table, read from its text.
//!
//! *Step 6 of a pod's journey.* Tests only: it reads transactions for `nft -f -` (ours and kube-proxy's, one after the
//! other, as the kernel would) and the output of `nft list table` alike.
//!
//! The walk is the kernel's: the base chains of a hook by priority, prerouting → input or forward → postrouting
//! for packets that arrive, output → postrouting for packets that start here. A rule with `numgen` splits the walk,
//! one branch for each side of the die.
//!
//! # Invariants
//! 1. An expression that isn't known is a panic, not a guess.
//!
//! # In Kubernetes
//! `nftablesTracer` in `pkg/proxy/nftables/helpers_test.go`. The packet is the first of its connection and no
//! affinity set knows its client.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddrV4;

use crate::packet::{Hook, Packet, Probability, Ruleset, Verdict};
use crate::proxy_state::MASQUERADE_MARK;

pub mod expression;
pub mod parse;

use expression::{Reader, anonymous, concatenation, conntrack, destination, interface, is_in, mark};

/// One chain: where it hooks in, and its rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// `(type, hook, priority)` of a base chain.
    pub hook: Option<(String, String, i32)>,
    /// Rules as words.
    pub rules: Vec<Vec<String>>,
}

/// A table as text says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Chains by name.
    pub chains: BTreeMap<String, Chain>,
    /// Sets and maps by name: elements, with values in maps.
    pub collections: BTreeMap<String, BTreeMap<String, Option<String>>>,
}

/// The packet on its way.
#[derive(Clone, Debug, Default)]
pub struct Way {
    mark: u32,
    dnat: Option<SocketAddrV4>,
    masquerade: bool,
}

/// What a rule or a chain says about the packet.
#[derive(Clone, Debug)]
enum Said {
    /// Nothing: the next rule.
    Next,
    Jump(String),
    Goto(String),
    Return,
    Accept,
    Decided(Verdict),
}

impl Table {
    fn base_chains(&self, hook: &str) -> Vec<&str> {
        let mut chains: Vec<(i32, &str)> = self
            .chains
            .iter()
            .filter_map(|(name, chain)| {
                chain
                    .hook
                    .as_ref()
                    .filter(|(_, at, _)| at == hook)
                    .map(|(_, _, priority)| (*priority, name.as_str()))
            })
            .collect();
        chains.sort_unstable();
        chains.into_iter().map(|(_, name)| name).collect()
    }

    fn walk(&self, chain: &str, packet: &Packet, way: Way) -> Vec<(Said, Way, Probability)> {
        let mut going = vec![(way, 1.0)];
        let mut left = Vec::new();
        let chain = self.chains.get(chain).unwrap_or_else(|| panic!("no chain {chain}"));
        for rule in &chain.rules {
            let mut next = Vec::new();
            for (way, probability) in going {
                for (said, way, share) in self.rule(rule, packet, &way) {
                    let probability = probability * share;
                    match said {
                        Said::Next => next.push((way, probability)),
                        Said::Jump(target) => {
                            for (said, way, share) in self.walk(&target, packet, way) {
                                match said {
                                    Said::Next => next.push((way, probability * share)),
                                    said => left.push((said, way, probability * share)),
                                }
                            }
                        }
                        // A chain reached by goto returns to where its caller was called from.
                        Said::Goto(target) => left.extend(
                            self.walk(&target, packet, way)
                                .into_iter()
                                .map(|(said, way, share)| (said, way, probability * share)),
                        ),
                        Said::Return => left.push((Said::Next, way, probability)),
                        said => left.push((said, way, probability)),
                    }
                }
            }
            going = next;
        }
        left.extend(going.into_iter().map(|(way, probability)| (Said::Next, way, probability)));
        left
    }

    fn rule(&self, rule: &[String], packet: &Packet, way: &Way) -> Vec<(Said, Way, Probability)> {
        let sides = rule.windows(4).find(|words| words[..3] == ["numgen", "random", "mod"]);
        let Some(sides) = sides.map(|words| words[3].parse::<u32>().expect("a number")) else {
            let (said, way) = self.evaluate(rule, packet, way.clone(), 0);
            return vec![(said, way, 1.0)];
        };
        (0..sides)
            .map(|side| {
                let (said, way) = self.evaluate(rule, packet, way.clone(), side);
                (said, way, 1.0 / f64::from(sides))
            })
            .collect()
    }

    fn evaluate(&self, rule: &[String], packet: &Packet, mut way: Way, die: u32) -> (Said, Way) {
        let mut reader = Reader { words: rule, at: 0 };
        while !reader.peek().is_empty() {
            let matched = match self.statement(&mut reader, packet, &mut way, die) {
                Ok(matched) => matched,
                Err(said) => return (said, way),
            };
            if !matched {
                break;
            }
        }
        (Said::Next, way)
    }

    /// One expression or statement: `Ok(false)` ends the rule, `Err` is a verdict.
    fn statement(
        &self,
        reader: &mut Reader<'_>,
        packet: &Packet,
        way: &mut Way,
        die: u32,
    ) -> Result<bool, Said> {
        let at = reader.at;
        let word = reader.next();
        match word {
            "jump" => return Err(Said::Jump(reader.next().to_owned())),
            "goto" => return Err(Said::Goto(reader.next().to_owned())),
            "return" => return Err(Said::Return),
            "accept" => return Err(Said::Accept),
            "drop" => return Err(Said::Decided(Verdict::Drop)),
            "reject" => return Err(Said::Decided(Verdict::Reject)),
            "comment" => {
                reader.next();
                return Ok(true);
            }
            "masquerade" => {
                way.masquerade = true;
                return Err(Said::Accept);
            }
            // Affinity is learnt, but this packet is the first.
            "update" => {
                reader.at = reader.words.len();
                return Ok(true);
            }
            "dnat" => return self.dnat(reader, packet, way, die),
            "mark" => {
                reader.at = at;
                return Ok(mark(reader, way));
            }
            "meta" if reader.peek() == "mark" => return Ok(mark(reader, way)),
            "ct" => return Ok(conntrack(reader, way)),
            "fib" => {
                let address =
                    if reader.next() == "saddr" { packet.source } else { destination(packet, way).0 };
                assert!(reader.eat("type local"), "{:?}", reader.words);
                return Ok(packet.is_local(address));
            }
            "iifname" | "iif" => return Ok(interface(reader, packet)),
            _ => {}
        }
        reader.at = at;
        let value = concatenation(reader, packet, way, die);
        self.compare(reader, &value)
    }

    fn compare(&self, reader: &mut Reader<'_>, value: &str) -> Result<bool, Said> {
        if reader.eat("vmap") {
            let verdict = if reader.peek() == "{" {
                anonymous(reader).remove(value).flatten()
            } else {
                self.named(reader.next()).get(value).cloned().flatten()
            };
            return match verdict.as_deref() {
                None => Ok(false),
                Some("drop") => Err(Said::Decided(Verdict::Drop)),
                Some(goto) => Err(Said::Goto(goto.strip_prefix("goto ").expect("a goto").to_owned())),
            };
        }
        let negated = reader.eat("!=");
        reader.eat("==");
        let matched = if reader.peek() == "{" {
            anonymous(reader).keys().any(|range| is_in(value, range))
        } else {
            let operand = reader.next();
            match operand.strip_prefix('@') {
                Some(_) => self.named(operand).contains_key(value),
                None => is_in(value, operand),
            }
        };
        Ok(matched != negated)
    }

    fn named(&self, name: &str) -> &BTreeMap<String, Option<String>> {
        let name = name.strip_prefix('@').expect("a reference to a set or map");
        self.collections.get(name).unwrap_or_else(|| panic!("no set or map {name}"))
    }

    fn dnat(&self, reader: &mut Reader<'_>, packet: &Packet, way: &mut Way, die: u32) -> Result<bool, Said> {
        if reader.eat("ip to") {
            let key = concatenation(reader, packet, way, die);
            assert!(reader.eat("map"), "{:?}", reader.words);
            let Some(Some(to)) = self.named(reader.next()).get(&key) else { return Ok(false) };
            way.dnat = to.replace(" . ", ":").parse().ok();
        } else {
            assert!(reader.eat("to"), "{:?}", reader.words);
            way.dnat = reader.next().parse().ok();
        }
        assert!(way.dnat.is_some(), "dnat has a destination: {:?}", reader.words);
        Err(Said::Accept)
    }
}

/// All sets and chains, for failure messages.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, elements) in &self.collections {
            writeln!(f, "{name} {elements:?}")?;
        }
        for (name, chain) in &self.chains {
            writeln!(f, "chain {name} {:?}", chain.hook)?;
            chain.rules.iter().try_for_each(|rule| writeln!(f, "  {}", rule.join(" ")))?;
        }
        Ok(())
    }
}

/// Ways through all base chains of a hook.
fn through(
    table: &Table,
    hook: &str,
    packet: &Packet,
    ways: Vec<(Said, Way, Probability)>,
) -> Vec<(Said, Way, Probability)> {
    let mut ways = ways;
    for chain in table.base_chains(hook) {
        let mut after = Vec::new();
        for (said, way, probability) in ways {
            if let Said::Decided(_) = said {
                after.push((said, way, probability));
                continue;
            }
            let next = table.walk(chain, packet, way);
            after.extend(next.into_iter().map(|(said, way, share)| (said, way, probability * share)));
        }
        ways = after;
    }
    ways
}

impl Ruleset for Table {
    fn verdicts(&self, packet: &Packet) -> Vec<(Verdict, Probability)> {
        let first = match packet.hook {
            Hook::Prerouting => "prerouting",
            Hook::Output => "output",
        };
        let mut verdicts = Vec::new();
        for way in through(self, first, packet, vec![(Said::Next, Way::default(), 1.0)]) {
            let local = packet.is_local(destination(packet, &way.1).0);
            let hooks: &[&str] = match packet.hook {
                Hook::Output => &["postrouting"],
                // Packets for the node itself don't pass postrouting on the way in.
                Hook::Prerouting if local => &["input"],
                Hook::Prerouting => &["forward", "postrouting"],
            };
            let mut ways = vec![way];
            for hook in hooks {
                ways = through(self, hook, packet, ways);
            }
            for (said, way, probability) in ways {
                let verdict = match (said, way.dnat) {
                    (Said::Decided(verdict), _) => verdict,
                    (_, Some(to)) => Verdict::Dnat { to, masquerade: way.masquerade },
                    (_, None) => Verdict::Accept,
                };
                verdicts.push((verdict, probability));
            }
        }
        // The mark's own bit is an implementation detail, the verdict isn't.
        const { assert!(MASQUERADE_MARK == 0x4000) };
        crate::packet::normalize(&verdicts)
    }
}
