//! Node selector: which nodes a pod's `nodeSelector` and node affinity allow.
//!
//! *Step 3 of a pod's journey through this stage.* Before: terms as the user wrote them.
//! After: [`crate::plugins::node_affinity`] and [`crate::plugins::pod_topology_spread`] ask them per node.
//!
//! Terms are ORed, the requirements in a term are ANDed. Two traps that users meet: a term without any
//! requirement matches *nothing*, and `Gt`/`Lt` compare integers: a label that isn't one never matches.
//!
//! # In Kubernetes
//! `component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as api;

/// One condition on a label or field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    /// Nothing that the API server lets in: matches nothing.
    Unknown,
}

impl Requirement {
    fn parse(requirement: &api::NodeSelectorRequirement) -> Self {
        let operator = match requirement.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::Gt,
            "Lt" => Operator::Lt,
            _ => Operator::Unknown,
        };
        Requirement {
            key: requirement.key.clone(),
            operator,
            values: requirement.values.clone().unwrap_or_default(),
        }
    }

    /// `disk In [ssd]`.
    fn shown(&self) -> String {
        match self.values.as_slice() {
            [] => format!("{} {:?}", self.key, self.operator),
            values => format!("{} {:?} [{}]", self.key, self.operator, values.join(" ")),
        }
    }

    fn matches(&self, actual: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|wanted| wanted == value);
        let compare = |value: &str, wanted: std::cmp::Ordering| {
            let bound = self.values.first().and_then(|bound| bound.parse::<i64>().ok());
            matches!((value.parse::<i64>().ok(), bound), (Some(value), Some(bound)) if value.cmp(&bound) == wanted)
        };
        match (self.operator, actual) {
            (Operator::In, Some(value)) => listed(value),
            (Operator::NotIn, Some(value)) => !listed(value),
            (Operator::Exists, Some(_)) | (Operator::NotIn | Operator::DoesNotExist, None) => true,
            (Operator::Gt, Some(value)) => compare(value, std::cmp::Ordering::Greater),
            (Operator::Lt, Some(value)) => compare(value, std::cmp::Ordering::Less),
            _ => false,
        }
    }
}

/// One term: all requirements must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSelectorTerm {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

impl NodeSelectorTerm {
    /// Reads one term.
    pub fn parse(term: &api::NodeSelectorTerm) -> Self {
        let parse = |list: &Option<Vec<api::NodeSelectorRequirement>>| {
            list.iter().flatten().map(Requirement::parse).collect::<Vec<_>>()
        };
        NodeSelectorTerm { labels: parse(&term.match_expressions), fields: parse(&term.match_fields) }
    }

    /// Does a node with this name and these labels fulfil the term?
    pub fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        let field =
            |requirement: &Requirement| requirement.key == "metadata.name" && requirement.matches(Some(name));
        !(self.labels.is_empty() && self.fields.is_empty())
            && self.labels.iter().all(|r| r.matches(labels.get(&r.key).map(String::as_str)))
            && self.fields.iter().all(field)
    }

    /// The first requirement that the node doesn't fulfil, for people.
    fn mismatch(&self, name: &str, labels: &BTreeMap<String, String>) -> Option<String> {
        let bad = self.labels.iter().find(|r| !r.matches(labels.get(&r.key).map(String::as_str)));
        let label = bad.map(|r| match labels.get(&r.key) {
            Some(value) => format!("{}: the node has {}={value}", r.shown(), r.key),
            None => format!("{}: the node has no label {}", r.shown(), r.key),
        });
        let field = || self.fields.iter().find(|r| !r.matches(Some(name))).map(Requirement::shown);
        let empty = self.labels.is_empty() && self.fields.is_empty();
        let nothing = || empty.then(|| "a term without requirements matches nothing".to_owned());
        label.or_else(field).or_else(nothing)
    }

    /// The node names that `matchFields` limits this term to, if it does.
    fn names(&self) -> Option<Vec<String>> {
        let mut names: Option<Vec<String>> = None;
        for field in &self.fields {
            if field.key == "metadata.name" && field.operator == Operator::In {
                let mut next = field.values.clone();
                if let Some(previous) = names {
                    next.retain(|name| previous.contains(name));
                }
                names = Some(next);
            }
        }
        names
    }
}

/// A list of terms of which one must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSelector(Vec<NodeSelectorTerm>);

impl NodeSelector {
    /// Reads a node selector.
    pub fn parse(selector: &api::NodeSelector) -> Self {
        NodeSelector(selector.node_selector_terms.iter().map(NodeSelectorTerm::parse).collect())
    }

    /// Does one of the terms hold?
    pub fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().any(|term| term.matches(name, labels))
    }

    /// Why no term holds, for people; `None` if one does.
    pub fn mismatch(&self, name: &str, labels: &BTreeMap<String, String>) -> Option<String> {
        if self.matches(name, labels) {
            return None;
        }
        let whys: Vec<String> = self.0.iter().filter_map(|term| term.mismatch(name, labels)).collect();
        Some(whys.join(" and "))
    }

    /// The only nodes that can match, if every term names its nodes: the others needn't be looked at.
    pub fn names(&self) -> Option<Vec<String>> {
        let mut all = Vec::new();
        for term in &self.0 {
            all.extend(term.names()?);
        }
        all.sort();
        all.dedup();
        (!self.0.is_empty()).then_some(all)
    }
}

/// `spec.nodeSelector` and `requiredDuringSchedulingIgnoredDuringExecution` together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredNodeAffinity {
    labels: BTreeMap<String, String>,
    terms: Option<NodeSelector>,
}

impl RequiredNodeAffinity {
    /// Reads what the pod requires.
    pub fn parse(spec: &api::PodSpec) -> Self {
        let required = spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.as_ref())
            .and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
        RequiredNodeAffinity {
            labels: spec.node_selector.clone().unwrap_or_default(),
            terms: required.map(NodeSelector::parse),
        }
    }

    /// True if every node will do.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.terms.is_none()
    }

    /// May the pod run on this node?
    pub fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.matches(name, labels))
    }

    /// What the node lacks, for people; `None` if it may run there.
    pub fn mismatch(&self, name: &str, labels: &BTreeMap<String, String>) -> Option<String> {
        let bad = self.labels.iter().find(|(key, value)| labels.get(*key) != Some(value));
        let label = bad.map(|(key, value)| match labels.get(key) {
            Some(other) => format!("nodeSelector {key}={value}: the node has {key}={other}"),
            None => format!("nodeSelector {key}={value}: the node has no label {key}"),
        });
        label.or_else(|| self.terms.as_ref().and_then(|terms| terms.mismatch(name, labels)))
    }

    /// The only nodes that can match, if the terms name them.
    pub fn names(&self) -> Option<Vec<String>> {
        self.terms.as_ref().and_then(NodeSelector::names)
    }
}
