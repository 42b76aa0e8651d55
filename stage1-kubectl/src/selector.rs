//! Selectors: which objects are meant, by label or by field.
//!
//! *All steps of a pod's journey.* A Service finds its pods, a ReplicaSet counts its own, `kubectl get -l` filters: all by
//! the same small language, `app=web,tier in (a, b),!canary`.
//!
//! A [`LabelSelector`] is a list of requirements that all must hold. It is read from text (`kubectl -l`, the query of a
//! list) or from the structured form in a spec, and written back in a canonical form. A [`FieldSelector`] is simpler:
//! only `=`, `==` and `!=`, over the few fields that a resource offers.
//!
//! The subtle thing: `!=` and `notin` also select objects that don't have the label at all.
//!
//! # Invariants
//! 1. Parsing what `Display` wrote gives an equal selector.
//! 2. An empty selector selects everything; `from_match(None)` selects nothing, as in Kubernetes.
//!
//! # In Kubernetes
//! `apimachinery/pkg/labels/selector.go`, `pkg/fields/selector.go`, `meta/v1/helpers.go`. Left out: the check of key and
//! value syntax when a selector is built from a spec (validation does it).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as MatchSelector;

mod field;
mod parse;

pub use field::FieldSelector;

/// Why a selector can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text is not a label selector.
    #[error("unable to parse requirement: {0}")]
    Label(String),
    /// The text is not a field selector.
    #[error("invalid selector: '{0}'; can't understand '{1}'")]
    Field(String, String),
    /// An operator that doesn't exist in a spec's `matchExpressions`.
    #[error("\"{0}\" is not a valid label selector operator")]
    Operator(String),
    /// Values where none belong, or none where some are needed.
    #[error("{0}")]
    Values(String),
}

/// How a requirement compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operator {
    /// The label has one of the values (`=`, `==`, `in`).
    In(BTreeSet<String>),
    /// The label has none of the values, or is missing (`!=`, `notin`).
    NotIn(BTreeSet<String>),
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// The label is an integer above.
    GreaterThan(i64),
    /// The label is an integer below.
    LessThan(i64),
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// The condition.
    pub operator: Operator,
}

impl Requirement {
    /// Whether a set of labels meets the condition.
    // ANCHOR: requirement-matches
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &self.operator {
            Operator::In(values) => value.is_some_and(|v| values.contains(v)),
            Operator::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan(than) => {
                value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *than)
            }
            Operator::LessThan(than) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *than),
        }
    }
    // ANCHOR_END: requirement-matches
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let list = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(",");
        match &self.operator {
            Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", list(values)),
            Operator::In(values) => write!(f, "{key} in ({})", list(values)),
            Operator::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", list(values)),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan(than) => write!(f, "{key}>{than}"),
            Operator::LessThan(than) => write!(f, "{key}<{than}"),
        }
    }
}

/// Conditions on labels that all must hold; none at all selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    /// The conditions, sorted by key.
    pub requirements: Vec<Requirement>,
    nothing: bool,
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        LabelSelector::default()
    }

    /// Selects no object: what a missing selector in a spec means.
    pub fn nothing() -> Self {
        LabelSelector { nothing: true, ..LabelSelector::default() }
    }

    /// Reads `a=b,c in (d,e),!f`.
    ///
    /// # Errors
    /// [`SelectorError::Label`] with what was found and what was expected.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Ok(LabelSelector::new(parse::requirements(text)?))
    }

    fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements, nothing: false }
    }

    /// Every pair must be there: a Service's `spec.selector`.
    pub fn from_map(map: &BTreeMap<String, String>) -> Self {
        let equals = |(key, value): (&String, &String)| Requirement {
            key: key.clone(),
            operator: Operator::In([value.clone()].into()),
        };
        LabelSelector::new(map.iter().map(equals).collect())
    }

    /// From the structured form in a spec.
    ///
    /// # Errors
    /// An operator that doesn't exist, or values that don't go with it.
    pub fn from_match(selector: &MatchSelector) -> Result<Self, SelectorError> {
        let mut requirements = match &selector.match_labels {
            Some(labels) => LabelSelector::from_map(labels).requirements,
            None => Vec::new(),
        };
        for expression in selector.match_expressions.iter().flatten() {
            let values: BTreeSet<String> = expression.values.iter().flatten().cloned().collect();
            let operator = match (expression.operator.as_str(), values.is_empty()) {
                ("In", false) => Operator::In(values),
                ("NotIn", false) => Operator::NotIn(values),
                ("Exists", true) => Operator::Exists,
                ("DoesNotExist", true) => Operator::DoesNotExist,
                ("In" | "NotIn", true) => {
                    let why = "for 'in', 'notin' operators, values set can't be empty";
                    return Err(SelectorError::Values(why.into()));
                }
                ("Exists" | "DoesNotExist", false) => {
                    let why = "values set must be empty for exists and does not exist";
                    return Err(SelectorError::Values(why.into()));
                }
                (other, _) => return Err(SelectorError::Operator(other.into())),
            };
            requirements.push(Requirement { key: expression.key.clone(), operator });
        }
        Ok(LabelSelector::new(requirements))
    }

    /// Whether a set of labels meets every condition.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(labels))
    }

    /// Whether it has no condition, so selects everything.
    pub fn is_empty(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.requirements.iter().map(Requirement::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests;
