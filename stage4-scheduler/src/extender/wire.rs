//! Wire: what is sent to a webhook and what it answers.
//!
//! Kubernetes' types have no JSON names, so Go writes the fields as they are called (`NodeNames`) and reads them in any
//! case; webhooks in other languages answer `nodeNames`. So do we.
//!
//! # In Kubernetes
//! `staging/src/k8s.io/kube-scheduler/extender/v1/types.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::plugins::default_preemption::Candidate;
use crate::pod_info::PodInfo;

/// The field of that name, in any case.
fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let fields = value.as_object()?;
    let exact = fields.get(name);
    exact
        .or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
        .filter(|value| !value.is_null())
}

/// What it says went wrong.
pub(super) fn error(answer: &Value) -> Option<String> {
    field(answer, "Error").and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// `ExtenderFilterResult`.
#[derive(Debug, Default)]
pub(super) struct FilterResult {
    pub(super) names: Vec<String>,
    pub(super) failed: BTreeMap<String, String>,
    pub(super) failed_and_unresolvable: BTreeMap<String, String>,
    pub(super) error: Option<String>,
}

pub(super) fn filter_result(answer: &Value, by_name: bool) -> FilterResult {
    let texts = |name: &str| {
        let map = field(answer, name).and_then(Value::as_object).into_iter().flatten();
        map.map(|(node, why)| (node.clone(), why.as_str().unwrap_or("").to_owned())).collect()
    };
    let named = field(answer, "NodeNames").and_then(Value::as_array).filter(|_| by_name);
    let names = match named {
        Some(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None => {
            let items = field(answer, "Nodes").and_then(|nodes| field(nodes, "items"));
            let items = items.and_then(Value::as_array).into_iter().flatten();
            items.filter_map(|node| node["metadata"]["name"].as_str()).map(str::to_owned).collect()
        }
    };
    FilterResult {
        names,
        failed: texts("FailedNodes"),
        failed_and_unresolvable: texts("FailedAndUnresolvableNodes"),
        error: error(answer),
    }
}

/// `HostPriorityList`.
pub(super) fn priorities(answer: &Value) -> BTreeMap<String, i64> {
    let list = answer.as_array().into_iter().flatten();
    list.filter_map(|entry| {
        let host = field(entry, "Host")?.as_str()?;
        Some((host.to_owned(), field(entry, "Score").and_then(Value::as_i64).unwrap_or(0)))
    })
    .collect()
}

/// `ExtenderPreemptionArgs`.
pub(super) fn preemption_args(pod: &PodInfo, candidates: &[Candidate], by_uid: bool) -> Value {
    let mut victims = Map::new();
    for candidate in candidates {
        let pods: Vec<Value> = candidate
            .victims
            .iter()
            .map(|victim| if by_uid { json!({"UID": &*victim.uid}) } else { json!(&*victim.pod) })
            .collect();
        let entry = json!({"Pods": pods, "NumPDBViolations": candidate.violations});
        victims.insert(candidate.node.to_string(), entry);
    }
    let (full, meta) = if by_uid { (Value::Null, victims.into()) } else { (victims.into(), Value::Null) };
    json!({"Pod": &*pod.pod, "NodeNameToVictims": full, "NodeNameToMetaVictims": meta})
}

/// `MetaVictims`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MetaVictims {
    pub(super) uids: Vec<String>,
    pub(super) violations: usize,
}

/// `ExtenderPreemptionResult`.
pub(super) fn meta_victims(answer: &Value) -> BTreeMap<String, MetaVictims> {
    let map = field(answer, "NodeNameToMetaVictims").and_then(Value::as_object).into_iter().flatten();
    map.map(|(node, victims)| {
        let pods = field(victims, "Pods").and_then(Value::as_array).into_iter().flatten();
        let uids = pods.filter_map(|pod| field(pod, "UID")?.as_str()).map(str::to_owned).collect();
        let violations = field(victims, "NumPDBViolations").and_then(Value::as_u64).unwrap_or(0);
        (node.clone(), MetaVictims { uids, violations: usize::try_from(violations).unwrap_or(0) })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_in_any_case() {
        let result = filter_result(
            &json!({"nodeNames": ["a"], "failedNodes": {"b": "no"}, "FailedAndUnresolvableNodes": {"c": "never"}, "error": ""}),
            true,
        );
        assert_eq!((result.names.as_slice(), result.error), (["a".to_owned()].as_slice(), None));
        assert_eq!(result.failed["b"], "no");
        assert_eq!(result.failed_and_unresolvable["c"], "never");
        assert_eq!(priorities(&json!([{"host": "a", "score": 7}, {"Host": "b", "Score": 2}]))["a"], 7);
    }

    #[test]
    fn whole_nodes_are_read_by_their_names() {
        let answer = json!({"Nodes": {"items": [{"metadata": {"name": "a"}}]}, "NodeNames": null});
        assert_eq!(filter_result(&answer, false).names, ["a"]);
        let victims = meta_victims(&json!({"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}]}}}));
        assert_eq!(victims["a"], MetaVictims { uids: vec!["u".to_owned()], violations: 0 });
    }
}
