//! Reading nftables text: transactions and listings.
//!
//! *Step 6 of a pod's journey.* Tests only; see [`super`].
//!
//! A transaction is a list of commands and changes the table at hand; a listing is nested blocks and describes
//! one from the beginning. Both end in the same [`Table`].
//!
//! # In Kubernetes
//! `knftables.Fake`, which keeps the objects of a transaction instead of parsing text.

use std::collections::BTreeMap;

use super::{Chain, Table};

/// A rule's words; what stands in quotes is one word.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, piece) in text.split('"').enumerate() {
        if number % 2 == 1 {
            words.push(piece.to_owned());
        } else {
            words.extend(piece.split_whitespace().map(|word| word.to_owned()));
        }
    }
    words
}

/// `a : b, c : d` or `a, b`.
pub fn elements(text: &str) -> BTreeMap<String, Option<String>> {
    // kube-proxy comments some elements with the name of their Service.
    let clean = |text: &str| {
        let text = text.split(" comment ").next().unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    text.split(',')
        .filter(|element| !element.trim().is_empty())
        .map(|element| match element.split_once(" : ") {
            Some((key, value)) => (clean(key), Some(clean(value))),
            None => (clean(element), None),
        })
        .collect()
}

fn between_braces(text: &str) -> &str {
    let start = text.find('{').map_or(text.len(), |at| at + 1);
    let end = text.rfind('}').unwrap_or(text.len());
    &text[start..end.max(start)]
}

/// `type filter hook prerouting priority dstnat - 10;`
fn hook(text: &str) -> Option<(String, String, i32)> {
    let words: Vec<&str> = text.split(';').next()?.split_whitespace().collect();
    let at = |word: &str| words.iter().position(|other| *other == word);
    let priority = words.get(at("priority")? + 1..)?;
    let base = match *priority.first()? {
        "dstnat" => -100,
        "srcnat" => 100,
        "filter" => 0,
        number => number.parse().ok()?,
    };
    let shift = match priority.get(1..3) {
        Some(["-", by]) => -by.parse::<i32>().ok()?,
        Some(["+", by]) => by.parse().ok()?,
        _ => 0,
    };
    Some((words.get(at("type")? + 1)?.to_string(), words.get(at("hook")? + 1)?.to_string(), base + shift))
}

impl Table {
    /// Reads a transaction or a listing from the beginning.
    pub fn parse(text: &str) -> Self {
        let mut table = Self::default();
        if text.trim_start().starts_with("table ") {
            table.read_listing(text)
        } else {
            table.apply(text)
        }
        table
    }

    /// Carries a transaction out.
    ///
    /// # Panics
    /// Where the kernel would refuse: a second element with the same key, a deletion of nothing, a chain that is
    /// deleted or emptied before it is there.
    pub fn apply(&mut self, transaction: &str) {
        for line in transaction.lines() {
            let mut head = line.split_whitespace();
            let (verb, kind) = (head.next().unwrap_or_default(), head.next().unwrap_or_default());
            let name = head.nth(2).unwrap_or_default().to_owned();
            match (verb, kind) {
                ("add" | "delete", "table") => {
                    if verb == "delete" {
                        *self = Self::default();
                    }
                }
                ("add", "set" | "map") => {
                    self.collections.entry(name).or_default();
                }
                ("flush", "set" | "map") => self.collections.get_mut(&name).expect("a set to flush").clear(),
                ("delete", "set" | "map") => {
                    self.collections.remove(&name).expect("a set to delete");
                }
                ("add", "chain") => {
                    let chain = self.chains.entry(name).or_default();
                    chain.hook = hook(between_braces(line)).or(chain.hook.take());
                }
                ("flush", "chain") => self.chains.get_mut(&name).expect("a chain to flush").rules.clear(),
                ("delete", "chain") => {
                    self.chains.remove(&name).unwrap_or_else(|| panic!("no chain {name} to delete"));
                }
                ("add", "rule") => {
                    let rule = words(line).split_off(5);
                    self.chains.get_mut(&name).unwrap_or_else(|| panic!("no chain {name}")).rules.push(rule);
                }
                ("add" | "delete", "element") => self.element(verb, &name, between_braces(line)),
                ("", _) => {}
                unknown => panic!("unknown command {unknown:?}"),
            }
        }
    }

    fn element(&mut self, verb: &str, name: &str, text: &str) {
        let collection = self.collections.get_mut(name).unwrap_or_else(|| panic!("no set or map {name}"));
        for (key, value) in elements(text) {
            if verb == "delete" {
                assert!(collection.remove(&key).is_some(), "{name} has no element {key}");
            } else {
                let old = collection.insert(key.clone(), value.clone());
                assert!(old.is_none_or(|old| old == value), "{name} has an element {key} already");
            }
        }
    }

    fn read_listing(&mut self, text: &str) {
        let mut block: Option<(String, String)> = None;
        let mut open_elements: Option<String> = None;
        for line in text.lines().map(str::trim) {
            if let Some(mut elements_text) = open_elements.take() {
                elements_text.push_str(line);
                self.finish_elements(&block, &mut open_elements, elements_text);
                continue;
            }
            let Some((kind, name)) = block.clone() else {
                let mut head = line.split_whitespace();
                if let (Some(kind @ ("set" | "map" | "chain")), Some(name)) = (head.next(), head.next()) {
                    block = Some((kind.to_owned(), name.to_owned()));
                    if kind == "chain" {
                        self.chains.insert(name.to_owned(), Chain::default());
                    } else {
                        self.collections.insert(name.to_owned(), BTreeMap::new());
                    }
                }
                continue;
            };
            if line == "}" {
                block = None;
            } else if let Some(rest) = line.strip_prefix("elements = ") {
                self.finish_elements(&block, &mut open_elements, rest.to_owned());
            } else if kind == "chain" && !line.starts_with("comment ") {
                let chain = self.chains.get_mut(&name).expect("inserted above");
                match line.strip_prefix("type ") {
                    Some(_) => chain.hook = hook(line),
                    None => chain.rules.push(words(line)),
                }
            }
        }
    }

    fn finish_elements(&mut self, block: &Option<(String, String)>, open: &mut Option<String>, text: String) {
        if !text.ends_with('}') {
            *open = Some(text);
            return;
        }
        if let Some((_, name)) = block {
            self.collections.insert(name.clone(), elements(between_braces(&text)));
        }
    }
}
