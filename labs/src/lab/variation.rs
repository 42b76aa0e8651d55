//! Variation: names and numbers that differ from seed to seed, so that answers can't be passed around.
//!
//! A lab's texts hold `${ns}`, `${app}` and so on. The same seed gives the same names for ever: a learner can be helped by
//! somebody who starts the same lab with the same seed.
//!
//! # Invariants
//! 1. [`names`] depends on the seed and the lab alone.
//! 2. Two names of one lab are never equal.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// Names of namespaces: all begin alike, so that a reset finds those of a lab that was cut short.
const NAMESPACES: [&str; 8] = [
    "lab-shop",
    "lab-bakery",
    "lab-library",
    "lab-harbour",
    "lab-cinema",
    "lab-garden",
    "lab-post",
    "lab-mill",
];
const APPS: [&str; 8] =
    ["storefront", "checkout", "catalogue", "basket", "search", "tickets", "orders", "mailer"];
const TEAMS: [&str; 6] = ["amber", "cobalt", "jade", "ruby", "slate", "umber"];

/// What every lab namespace begins with.
pub const NAMESPACE_PREFIX: &str = "lab-";

/// The names and numbers of a lab with this seed.
pub fn names(lab: &str, seed: u64) -> BTreeMap<&'static str, String> {
    let draw = |what: &str, from: usize| -> usize {
        let digest = Sha256::digest(format!("{lab}/{seed}/{what}").as_bytes());
        let number = digest.iter().take(4).fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        number % from
    };
    let pick =
        |what: &str, list: &[&'static str]| list.get(draw(what, list.len())).copied().unwrap_or_default();
    BTreeMap::from([
        ("ns", pick("ns", &NAMESPACES).to_owned()),
        ("app", pick("app", &APPS).to_owned()),
        ("team", pick("team", &TEAMS).to_owned()),
        ("replicas", (2 + draw("replicas", 2)).to_string()),
        ("port", (8001 + draw("port", 900)).to_string()),
        ("wrong_port", (9001 + draw("wrong_port", 900)).to_string()),
        ("mebibytes", (24 + 2 * draw("mebibytes", 12)).to_string()),
    ])
}

/// Puts the names into a text; what isn't a name of ours stays (a shell script has `${…}` of its own).
pub fn fill(text: &str, names: &BTreeMap<&'static str, String>) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_names_and_another_seed_others() {
        assert_eq!(names("4-B", 7), names("4-B", 7));
        let different = (0..20).map(|seed| names("4-B", seed)).collect::<std::collections::BTreeSet<_>>();
        assert!(different.len() > 15, "{}", different.len());
        assert_ne!(names("4-A", 7), names("4-B", 7));
    }

    #[test]
    fn only_names_of_ours_are_filled_in() {
        let names = names("4-B", 1);
        let filled = fill("${ns}/${app} ${HOME} ${port}", &names);
        assert_eq!(filled, format!("{}/{} ${{HOME}} {}", names["ns"], names["app"], names["port"]));
    }
}
