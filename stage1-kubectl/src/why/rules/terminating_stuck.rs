//! terminating-stuck: a pod has been told to end and is still there
//!
//! Its grace period is over by far. The kubelet that should say it is gone doesn't: the node is away, or a
//! container can't be killed.
//!
//! # In Kubernetes
//! deletionTimestamp lies in the future by the grace period; the kubelet deletes the pod with grace 0 when all
//! is gone.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::facts::condition;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a pod has been told to end and is still there
pub const RULE: Rule = Rule {
    id: "terminating-stuck",
    stage: Stage::Kubelet,
    mechanism: Mechanism::GracePeriod,
    lab: "",
    symptom: "Terminating for minutes",
    first_command: "kubectl get pod NAME -o yaml; kubectl get node NODE",
    ruled_out_by: "a finalizer: finalizer-blocks (3-D); a node that doesn't report: kubelet-down (5-A)",
    explained: Explained::By(&["kubelet-down"]),
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let going = facts.focused("Pod").filter(|pod| pod.finalizers().is_empty());
    going
        .filter_map(|pod| {
            let since = facts.since(Some(pod.deletion_timestamp()?)).as_secs();
            if since < PATIENCE_SECONDS {
                return None;
            }
            let node = pod.get_str("/spec/nodeName").unwrap_or_default();
            let mut finding = Finding::at(pod, "/metadata/deletionTimestamp")
                .proof(pod, "/metadata/deletionGracePeriodSeconds");
            let why = match facts.node(node) {
                None => format!("its node {node} isn't there any more"),
                Some(on) => {
                    if let Some((_, at)) = condition(on, "Ready") {
                        finding = finding.proof(on, &format!("{at}/status"));
                    }
                    format!("the kubelet of {node} hasn't reported its end")
                }
            };
            Some(
                finding
                    .message(format!("{} should have been gone {since} s ago: {why}", ObjectRef::of(pod)))
                    .next(format!("kubectl get {} -o yaml", ObjectRef::of(pod).arguments())),
            )
        })
        .collect()
}

/// The kubelet needs a moment beyond the grace period.
const PATIENCE_SECONDS: i64 = 20;

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().set("Pod/web-b", "/metadata/deletionTimestamp", json!(crate::why::worlds::ago(300))).set(
        "Pod/web-b",
        "/metadata/deletionGracePeriodSeconds",
        json!(30),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_node_that_should_say_so_is_named() {
        assert!(only(&RULE, fault()).message.ends_with("the kubelet of node-2 hasn't reported its end"));
        assert!(find(&RULE, super::super::finalizer_blocks::fault()).is_empty());
        assert!(
            find(
                &RULE,
                fault().set("Pod/web-b", "/metadata/deletionTimestamp", json!("2026-01-01T12:00:20Z"))
            )
            .is_empty()
        );
    }
}
