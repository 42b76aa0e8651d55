//! job-failed: a Job has given up
//!
//! More failures than `backoffLimit`, or more time than `activeDeadlineSeconds`. Its pods, where they are still
//! there, tell why.
//!
//! # In Kubernetes
//! `pkg/controller/job/job_controller.go`: condition Failed, reasons BackoffLimitExceeded, DeadlineExceeded.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::facts::condition;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a Job has given up
pub const RULE: Rule = Rule {
    id: "job-failed",
    stage: Stage::Controllers,
    mechanism: Mechanism::DeadlineExceeded,
    lab: "",
    symptom: "Job 0/1; BackoffLimitExceeded",
    first_command: "kubectl describe job NAME",
    ruled_out_by: "its pods crash or can't start: their rule is the cause",
    explained: Explained::ByAnyCause,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .focused("Job")
        .filter_map(|job| {
            let (failed, at) = condition(job, "Failed").filter(|(failed, _)| failed["status"] == "True")?;
            let reason = failed["reason"].as_str().unwrap_or_default();
            let message = failed["message"].as_str().unwrap_or_default();
            Some(
                Finding::at(job, &format!("{at}/reason"))
                    .proof(job, "/status/failed")
                    .message(format!("{} has given up: {reason}: {message}", ObjectRef::of(job)))
                    .next(format!("kubectl describe {}", ObjectRef::of(job).arguments())),
            )
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().with(json!({"kind": "Job", "metadata": {"name": "j", "namespace": "default", "uid": "j"},
        "spec": {"template": {}}, "status": {"failed": 7, "conditions": [
            {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}]}}))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_reason_is_shown_and_success_is_silent() {
        assert!(only(&RULE, fault()).message.contains("BackoffLimitExceeded"));
        assert!(find(&RULE, fault().set("Job/j", "/status/conditions/0/type", json!("Complete"))).is_empty());
    }
}
