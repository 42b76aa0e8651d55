//! The status of a rollout as a sentence: pure.
//!
//! # In Kubernetes
//! `kubectl/pkg/polymorphichelpers/rollout_status.go`.

use serde_json::Value;

use crate::object::Object;

/// The sentence, and whether the rollout is done.
///
/// # Errors
/// The rollout can't succeed any more, or the kind has none.
pub fn rollout_status(object: &Object, revision: i64) -> Result<(String, bool), String> {
    match object.kind() {
        "Deployment" => deployment(object, revision),
        "DaemonSet" => daemon_set(object),
        "StatefulSet" => stateful_set(object),
        kind => Err(format!("no status viewer has been implemented for {kind}")),
    }
}

fn number(object: &Object, pointer: &str) -> i64 {
    object.get_i64(pointer).unwrap_or(0)
}

fn deployment(object: &Object, revision: i64) -> Result<(String, bool), String> {
    let name = object.name();
    if revision > 0 {
        let current =
            object.annotation("deployment.kubernetes.io/revision").and_then(|r| r.parse::<i64>().ok());
        if current.is_some_and(|current| current != revision) {
            let current = current.unwrap_or_default();
            return Err(format!(
                "desired revision ({revision}) is different from the running revision ({current})"
            ));
        }
    }
    if object.generation() > number(object, "/status/observedGeneration") {
        return Ok(("Waiting for deployment spec update to be observed...\n".into(), false));
    }
    let conditions = object.get("/status/conditions").and_then(Value::as_array);
    let progressing = conditions.into_iter().flatten().find(|c| c["type"] == "Progressing");
    if progressing.is_some_and(|c| c["reason"] == "ProgressDeadlineExceeded") {
        return Err(format!("deployment {name:?} exceeded its progress deadline"));
    }
    let wanted = object.get_i64("/spec/replicas").unwrap_or(1);
    let updated = number(object, "/status/updatedReplicas");
    let total = number(object, "/status/replicas");
    let available = number(object, "/status/availableReplicas");
    let waiting =
        |why: String| Ok((format!("Waiting for deployment {name:?} rollout to finish: {why}...\n"), false));
    if updated < wanted {
        return waiting(format!("{updated} out of {wanted} new replicas have been updated"));
    }
    if total > updated {
        return waiting(format!("{} old replicas are pending termination", total - updated));
    }
    if available < updated {
        return waiting(format!("{available} of {updated} updated replicas are available"));
    }
    Ok((format!("deployment {name:?} successfully rolled out\n"), true))
}

fn daemon_set(object: &Object) -> Result<(String, bool), String> {
    let name = object.name();
    if object.get_str("/spec/updateStrategy/type") == Some("OnDelete") {
        return Err("rollout status is only available for RollingUpdate strategy type".into());
    }
    if object.generation() > number(object, "/status/observedGeneration") {
        return Ok(("Waiting for daemon set spec update to be observed...\n".into(), false));
    }
    let desired = number(object, "/status/desiredNumberScheduled");
    let updated = number(object, "/status/updatedNumberScheduled");
    let available = number(object, "/status/numberAvailable");
    if updated < desired {
        let text = format!(
            "Waiting for daemon set {name:?} rollout to finish: {updated} out of {desired} new pods have been updated...\n"
        );
        return Ok((text, false));
    }
    if available < desired {
        let text = format!(
            "Waiting for daemon set {name:?} rollout to finish: {available} of {desired} updated pods are available...\n"
        );
        return Ok((text, false));
    }
    Ok((format!("daemon set {name:?} successfully rolled out\n"), true))
}

fn stateful_set(object: &Object) -> Result<(String, bool), String> {
    if object.get_str("/spec/updateStrategy/type") == Some("OnDelete") {
        return Err("rollout status is only available for RollingUpdate strategy type".into());
    }
    if number(object, "/status/observedGeneration") == 0
        || object.generation() > number(object, "/status/observedGeneration")
    {
        return Ok(("Waiting for statefulset spec update to be observed...\n".into(), false));
    }
    let wanted = object.get_i64("/spec/replicas").unwrap_or(1);
    let ready = number(object, "/status/readyReplicas");
    let updated = number(object, "/status/updatedReplicas");
    if ready < wanted {
        return Ok((format!("Waiting for {} pods to be ready...\n", wanted - ready), false));
    }
    if let Some(partition) = object.get_i64("/spec/updateStrategy/rollingUpdate/partition").filter(|p| *p > 0)
    {
        if updated < wanted - partition {
            let text = format!(
                "Waiting for partitioned roll out to finish: {updated} out of {} new pods have been updated...\n",
                wanted - partition
            );
            return Ok((text, false));
        }
        return Ok((
            format!("partitioned roll out complete: {updated} new pods have been updated...\n"),
            true,
        ));
    }
    let current = object.get_str("/status/currentRevision").unwrap_or_default();
    let update = object.get_str("/status/updateRevision").unwrap_or_default();
    if update != current {
        let text = format!(
            "waiting for statefulset rolling update to complete {updated} pods at revision {update}...\n"
        );
        return Ok((text, false));
    }
    let total = number(object, "/status/currentReplicas");
    Ok((format!("statefulset rolling update complete {total} pods at revision {current}...\n"), true))
}
