//! scheduling-gated: a scheduling gate was never lifted
//!
//! The pod waits on purpose: somebody put a gate into `spec.schedulingGates` and means to take it out. The
//! scheduler doesn't even try.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/schedulinggates`; STATUS `SchedulingGated`.

use serde_json::Value;

use crate::journey::Stage;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// a scheduling gate was never lifted
pub const RULE: Rule = Rule {
    id: "scheduling-gated",
    stage: Stage::Scheduler,
    mechanism: Mechanism::SchedulingGated,
    lab: "4-F",
    symptom: "STATUS SchedulingGated",
    first_command: "kubectl get pod NAME -o jsonpath='{.spec.schedulingGates}'",
    ruled_out_by: "no gate: scheduler-down (4-A), scheduler-unknown (4-B)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .filter_map(|pod| {
            let gates = pod
                .get("/spec/schedulingGates")
                .and_then(Value::as_array)
                .filter(|gates| !gates.is_empty())?;
            let names: Vec<&str> = gates.iter().filter_map(|gate| gate["name"].as_str()).collect();
            Some(
                Finding::in_pod(facts, pod, "/spec/schedulingGates")
                    .severity(if facts.age(pod).as_secs() > 60 { Severity::Error } else { Severity::Info })
                    .message(format!(
                        "{} waits for gate {} to be lifted",
                        ObjectRef::of(pod),
                        names.join(", ")
                    ))
                    .next(format!(
                        "kubectl get {} -o jsonpath='{{.spec.schedulingGates}}'",
                        ObjectRef::of(pod).arguments()
                    )),
            )
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Pod/web-b", "/spec/schedulingGates", json!([{"name": "example.org/quota"}]))
        .unbound("web-b", None)
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_gate_is_named_and_nobody_else_is_blamed() {
        assert!(only(&RULE, fault()).message.contains("example.org/quota"));
        assert!(find(&RULE, super::super::scheduler_down::fault()).is_empty());
    }
}
