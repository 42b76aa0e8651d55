//! TaintToleration: a node that repels, and pods that don't mind.
//!
//! `NoSchedule` and `NoExecute` taints are a filter, `PreferNoSchedule` taints a score: the fewer of them
//! that the pod doesn't tolerate, the better.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go`,
//! `component-helpers/scheduling/corev1/helpers.go`. Left out: the `Gt`/`Lt` operators of later releases.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::framework::{ClusterEvent, Depends, Hint, Plugin, PreFilter, PreScore, Scorer, Status};
use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

/// Does the toleration cover the taint?
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(str::to_owned);
    if given(&toleration.effect).is_some_and(|effect| effect != taint.effect)
        || given(&toleration.key).is_some_and(|key| key != taint.key)
    {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or("") {
        "" | "Equal" => toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or(""),
        "Exists" => true,
        _ => false,
    }
}

/// True for taints that keep pods away (rather than just being a wish).
pub fn forbids(taint: &Taint) -> bool {
    taint.effect == "NoSchedule" || taint.effect == "NoExecute"
}

/// The first taint of the node that keeps a pod with these tolerations away.
pub fn untolerated<'n>(taints: &'n [Taint], tolerations: &[Toleration]) -> Option<&'n Taint> {
    taints
        .iter()
        .filter(|taint| forbids(taint))
        .find(|taint| !tolerations.iter().any(|t| tolerates(t, taint)))
}

/// Refuses nodes with taints that the pod doesn't tolerate.
pub struct TaintToleration;

fn check(pod: &PodInfo, node: &NodeInfo) -> Status {
    match untolerated(node.taints(), pod.tolerations()) {
        None => Status::success(),
        Some(taint) => Status::unresolvable(format!(
            "node(s) had untolerated taint {{{}: {}}}",
            taint.key,
            taint.value.as_deref().unwrap_or("")
        )),
    }
}

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn depends(&self, _pod: &PodInfo) -> Depends<'_> {
        Depends::Node
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _snapshot: &'a Snapshot) -> PreFilter<'a> {
        PreFilter::Run(Box::new(move |node, _| check(pod, node)))
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        _snapshot: &'a Snapshot,
        _feasible: &[&NodeInfo],
    ) -> PreScore<'a> {
        let wish = |taint: &&Taint| taint.effect == "PreferNoSchedule";
        let relevant: Vec<&Toleration> = pod
            .tolerations()
            .iter()
            .filter(|t| matches!(t.effect.as_deref().unwrap_or(""), "" | "PreferNoSchedule"))
            .collect();
        Scorer::proportional(true, move |node| {
            let unwanted = node
                .taints()
                .iter()
                .filter(wish)
                .filter(|taint| !relevant.iter().any(|t| tolerates(t, taint)));
            unwanted.count() as i64
        })
    }

    fn waits_for_bindings(&self) -> bool {
        false
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        match event {
            ClusterEvent::NodeAdded(node) => Hint::queue_if(check(pod, node).is_success()),
            ClusterEvent::NodeUpdated { old, new } => {
                Hint::queue_if(!check(pod, old).is_success() && check(pod, new).is_success())
            }
            ClusterEvent::PodUpdated(_) => Hint::Queue,
            _ => Hint::Skip,
        }
    }

    fn explain(&self, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> Option<String> {
        let bad = node.taints().iter().filter(|taint| forbids(taint));
        let bad = bad.filter(|taint| !pod.tolerations().iter().any(|t| tolerates(t, taint)));
        let shown: Vec<String> = bad
            .map(|taint| match taint.value.as_deref().unwrap_or("") {
                "" => format!("{}:{}", taint.key, taint.effect),
                value => format!("{}={value}:{}", taint.key, taint.effect),
            })
            .collect();
        Some(format!("taints {}; the pod tolerates none of them", shown.join(", ")))
    }
}
