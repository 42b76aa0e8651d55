//! Domains: which node is in which zone, as numbers; and sums by zone that follow their parts.
//!
//! A topology key (`topology.kubernetes.io/zone`) divides the nodes into domains, one for each value of that label. A
//! domain gets a number when its value is met first, so that "the zone of this node" is a look into an array and
//! not into a map of texts, for each of 5,000 nodes. All classes share these.
//!
//! A [`Sums`] is a number per node and, kept with it, the sum of those numbers per domain. Setting a node's
//! number changes its domain's sum by the difference: that is all there is to counting pods per zone.
//!
//! # Invariants
//! 1. A sum equals the sum of its domain's parts.
//!
//! # In Kubernetes
//! `topologyToMatchedTermCount` and `TpValueToMatchNum` are counted anew for each pod.

use std::collections::HashMap;

use crate::snapshot::{Mark, Snapshot};

/// "The node has no such label."
pub(super) const NOWHERE: u32 = u32::MAX;

/// The nodes by one key.
pub(super) struct Topology {
    key: String,
    numbers: HashMap<String, u32>,
    /// Domain by node.
    pub(super) domain_of: Vec<u32>,
}

/// All keys that a rule has asked for.
#[derive(Default)]
pub(super) struct Topologies {
    list: Vec<Topology>,
    mark: Mark,
    version: u64,
}

impl Topologies {
    /// Grows when a node moves to another domain: then sums must be made anew.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Looks at the nodes that have changed.
    pub(super) fn follow(&mut self, snapshot: &Snapshot) {
        match snapshot.changes().since(self.mark) {
            Some(changed) => {
                for topology in &mut self.list {
                    for &at in changed {
                        let domain = topology.number(snapshot.nodes()[at as usize].label(&topology.key));
                        if topology.domain_of[at as usize] != domain {
                            topology.domain_of[at as usize] = domain;
                            self.version += 1;
                        }
                    }
                }
            }
            None => {
                self.version += 1;
                self.list.iter_mut().for_each(|topology| topology.reset(snapshot));
            }
        }
        self.mark = snapshot.changes().mark();
    }

    /// The number of a key.
    pub(super) fn of(&mut self, key: &str, snapshot: &Snapshot) -> usize {
        if let Some(known) = self.list.iter().position(|topology| topology.key == key) {
            return known;
        }
        let mut topology = Topology { key: key.to_owned(), numbers: HashMap::new(), domain_of: Vec::new() };
        topology.reset(snapshot);
        self.list.push(topology);
        self.list.len() - 1
    }

    /// Domain by node, for one key.
    pub(super) fn domains(&self, key: usize) -> &[u32] {
        &self.list[key].domain_of
    }
}

impl Topology {
    fn reset(&mut self, snapshot: &Snapshot) {
        self.numbers.clear();
        let key = self.key.clone();
        self.domain_of = snapshot.nodes().iter().map(|node| self.number(node.label(&key))).collect();
    }

    fn number(&mut self, value: Option<&str>) -> u32 {
        let Some(value) = value else { return NOWHERE };
        if let Some(known) = self.numbers.get(value) {
            return *known;
        }
        let next = u32::try_from(self.numbers.len()).expect("fewer domains than nodes ever seen");
        self.numbers.insert(value.to_owned(), next);
        next
    }
}

/// A number per node, and its sum per domain of one key.
pub(super) struct Sums {
    /// The key.
    pub(super) topology: usize,
    parts: Vec<i32>,
    totals: Vec<i64>,
    /// Domains whose sum isn't 0.
    nonzero: usize,
}

impl Sums {
    pub(super) fn new(topology: usize, nodes: usize) -> Self {
        Sums { topology, parts: vec![0; nodes], totals: Vec::new(), nonzero: 0 }
    }

    /// Sets a node's number. Nodes without the label count nowhere.
    pub(super) fn set(&mut self, topologies: &Topologies, at: usize, part: i64) {
        let domain = topologies.domains(self.topology)[at];
        if domain == NOWHERE {
            return;
        }
        let part = i32::try_from(part).expect("a node's pods and their weights are few");
        let change = i64::from(part) - i64::from(std::mem::replace(&mut self.parts[at], part));
        if change == 0 {
            return;
        }
        let domain = domain as usize;
        if self.totals.len() <= domain {
            self.totals.resize(domain + 1, 0);
        }
        let before = self.totals[domain];
        self.totals[domain] += change;
        self.nonzero = self.nonzero + usize::from(before == 0) - usize::from(self.totals[domain] == 0);
    }

    /// The sum of a domain.
    pub(super) fn total(&self, domain: u32) -> i64 {
        self.totals.get(domain as usize).copied().unwrap_or(0)
    }

    /// True if every domain's sum is 0.
    pub(super) fn is_zero(&self) -> bool {
        self.nonzero == 0
    }
}
