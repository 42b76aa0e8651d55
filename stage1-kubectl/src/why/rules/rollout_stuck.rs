//! rollout-stuck: a rollout doesn't get on
//!
//! The new ReplicaSet has had its time (`progressDeadlineSeconds`) and isn't there. Nearly always a symptom:
//! its newest pods tell the cause.
//!
//! # In Kubernetes
//! `pkg/controller/deployment/progress.go`: condition Progressing False, reason ProgressDeadlineExceeded.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::facts::condition;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a rollout doesn't get on
pub const RULE: Rule = Rule {
    id: "rollout-stuck",
    stage: Stage::Controllers,
    mechanism: Mechanism::RolloutDeadlock,
    lab: "",
    symptom: "rollout status waits; ProgressDeadlineExceeded",
    first_command: "kubectl describe deploy NAME",
    ruled_out_by: "the newest pods are Pending or crash: their rule is the cause",
    explained: Explained::ByAnyCause,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .focused("Deployment")
        .filter_map(|deployment| {
            let (progressing, at) = condition(deployment, "Progressing")?;
            if progressing["reason"] != "ProgressDeadlineExceeded" {
                return None;
            }
            Some(
                Finding::at(deployment, &format!("{at}/reason"))
                    .proof(deployment, "/status/updatedReplicas")
                    .proof(deployment, "/status/availableReplicas")
                    .message(format!(
                        "the rollout of {} has exceeded its deadline",
                        ObjectRef::of(deployment)
                    ))
                    .next(format!("kubectl describe {}", ObjectRef::of(deployment).arguments())),
            )
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().set(
        "Deployment/web",
        "/status/conditions/1",
        json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}),
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_condition_is_the_evidence() {
        assert_eq!(only(&RULE, fault()).evidence[0].value, "ProgressDeadlineExceeded");
        assert!(find(&RULE, super::super::paused::fault()).is_empty());
    }
}
