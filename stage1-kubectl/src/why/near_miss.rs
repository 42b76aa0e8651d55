//! Near misses: which of these names did somebody mean?
//!
//! *Beside a pod's journey.* Most wrong references are typos, so a finding that shows the nearest existing name saves a search.
//!
//! # Invariants
//! 1. A name that differs in more than a third of its letters is no near miss.
//!
//! # In Kubernetes
//! No counterpart.

use std::collections::BTreeMap;

/// How many letters must be inserted, removed, replaced or swapped with their neighbour.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// The nearest of some names, if it is near enough to be a typo.
#[must_use]
pub fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.into_iter().map(|name| (distance(wanted, name), name)).filter(|(distance, name)| {
        *distance > 0
            && (*distance * 3 <= wanted.len().max(name.len()) || (*distance == 1 && wanted.len() > 1))
    });
    near.min().map(|(_, name)| name)
}

/// How a selector misses some labels: `app=wbe, the pod has app=web`. `None` when the two have nothing in common.
#[must_use]
pub fn selector_miss(
    selector: &BTreeMap<String, String>,
    labels: &BTreeMap<String, String>,
) -> Option<SelectorMiss> {
    let mut miss =
        SelectorMiss { hits: 0, key: String::new(), wanted: String::new(), has: None, distance: 0 };
    for (key, wanted) in selector {
        let has = labels.get(key);
        if has == Some(wanted) {
            miss.hits += 1;
            continue;
        }
        // The key itself may be the typo.
        let other_key =
            nearest(key, labels.keys().map(String::as_str)).filter(|key| labels.get(*key) == Some(wanted));
        let (distance, has) = match (has, other_key) {
            (Some(has), _) => (distance(wanted, has), Some(format!("{key}={has}"))),
            (None, Some(other)) => (distance(key, other), Some(format!("{other}={wanted}"))),
            (None, None) => (wanted.len(), None),
        };
        if miss.key.is_empty() {
            (miss.key, miss.wanted, miss.has) = (key.clone(), wanted.clone(), has);
        }
        miss.distance += distance;
    }
    (miss.hits > 0 || miss.has.is_some()).then_some(miss)
}

/// How a selector misses some labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectorMiss {
    /// How many of its pairs fit.
    pub hits: usize,
    /// The first key that doesn't fit.
    pub key: String,
    /// The value that the selector has for it.
    pub wanted: String,
    /// The label that is there instead: `app=web`.
    pub has: Option<String>,
    /// How far apart they are, all pairs together.
    pub distance: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_near_and_another_word_is_not() {
        assert_eq!(distance("wbe", "web"), 1);
        assert_eq!(nearest("raeder", ["reader", "writer"]), Some("reader"));
        assert_eq!(nearest("reader", ["default"]), None);
        assert_eq!(nearest("web", ["web"]), None);
    }

    #[test]
    fn a_selector_misses_by_value_or_by_key() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
        };
        let miss = selector_miss(&map(&[("app", "wbe")]), &map(&[("app", "web")])).unwrap();
        assert_eq!((miss.key.as_str(), miss.has.as_deref(), miss.distance), ("app", Some("app=web"), 1));
        let miss = selector_miss(&map(&[("ap", "web")]), &map(&[("app", "web")])).unwrap();
        assert_eq!(miss.has.as_deref(), Some("app=web"));
        assert_eq!(selector_miss(&map(&[("x", "y")]), &map(&[("app", "web")])), None);
    }
}
