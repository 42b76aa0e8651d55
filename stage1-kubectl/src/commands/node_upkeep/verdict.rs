//! What `drain` does with a pod of the node: a pure function of the pod and the flags.
//!
//! The questions are asked in a fixed order, and the last answer counts: a pod that a controller makes again is evicted without a word,
//! also when it loses what it kept in an emptyDir, since `--delete-emptydir-data` said that this is fine.
//!
//! # In Kubernetes
//! `kubectl/pkg/drain/filters.go`.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

use super::DrainArgs;
use crate::object::Object;

/// What is done with a pod of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Evict,
    /// Evicted, with a warning.
    Warn(Cow<'static, str>),
    /// Left where it is, perhaps with a warning.
    Skip(Option<Cow<'static, str>>),
    /// Stops the drain.
    Refuse(Cow<'static, str>),
}

/// Decides about one pod; `daemon_set` is what came of looking for the DaemonSet that controls it.
// ANCHOR: drain-verdict
pub(super) fn verdict(
    args: &DrainArgs,
    pod: &Object,
    daemon_set: Option<Result<(), String>>,
    now: Timestamp,
) -> Verdict {
    let finished = matches!(pod.get_str("/status/phase"), Some("Succeeded" | "Failed"));
    if goes_for_long(pod, args.skip_wait_for_delete_timeout, now) {
        return Verdict::Skip(None);
    }
    match daemon_set.filter(|_| !finished) {
        // Nobody makes it again, though it says so.
        Some(Err(missing)) if !args.force => return Verdict::Refuse(missing.into()),
        Some(Ok(())) if args.ignore_daemonsets => {
            return Verdict::Skip(Some("ignoring DaemonSet-managed Pods".into()));
        }
        Some(Ok(())) => {
            return Verdict::Refuse("DaemonSet-managed Pods (use --ignore-daemonsets to ignore)".into());
        }
        Some(Err(_)) | None => {}
    }
    if pod.annotation("kubernetes.io/config.mirror").is_some() {
        return Verdict::Skip(None);
    }
    let volumes = pod.get("/spec/volumes").and_then(Value::as_array);
    let local = volumes.into_iter().flatten().any(|volume| volume.get("emptyDir").is_some());
    if local && !finished && !args.delete_emptydir_data {
        let why = "Pods with local storage (use --delete-emptydir-data to override)";
        return Verdict::Refuse(why.into());
    }
    let controlled = pod.owner_references().iter().any(|owner| owner.controller == Some(true));
    match (finished || controlled, args.force) {
        (true, _) => Verdict::Evict,
        (false, true) => Verdict::Warn("deleting Pods that declare no controller".into()),
        (false, false) => {
            let why = "cannot delete Pods that declare no controller (use --force to override)";
            Verdict::Refuse(why.into())
        }
    }
}
// ANCHOR_END: drain-verdict

/// Whether a pod was told to go more than so many seconds ago.
pub(super) fn goes_for_long(pod: &Object, seconds: i64, now: Timestamp) -> bool {
    let told = pod.get_str("/metadata/deletionTimestamp").and_then(|time| time.parse::<Timestamp>().ok());
    seconds > 0 && told.is_some_and(|told| now.duration_since(told).as_secs() > seconds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn args(flags: &[&str]) -> DrainArgs {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            args: DrainArgs,
        }
        let words = [&["drain", "n"], flags].concat();
        <Only as clap::Parser>::parse_from(words).args
    }

    fn pod(owner: Option<&str>, phase: &str, local: bool) -> Object {
        let mut pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": phase}});
        if let Some(kind) = owner {
            pod["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]);
        }
        if local {
            pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
        }
        Object::from_value(pod).unwrap()
    }

    fn judged(flags: &[&str], pod: &Object, set: Option<Result<(), String>>) -> Verdict {
        verdict(&args(flags), pod, set, "2026-01-01T00:01:00Z".parse().unwrap())
    }

    #[test]
    fn what_would_be_lost_stops_the_drain_and_a_flag_lets_it_go_on() {
        let bare = pod(None, "Running", false);
        let refused = "cannot delete Pods that declare no controller (use --force to override)";
        assert_eq!(judged(&[], &bare, None), Verdict::Refuse(refused.into()));
        let warning = "deleting Pods that declare no controller";
        assert_eq!(judged(&["--force"], &bare, None), Verdict::Warn(warning.into()));
        let local = pod(Some("ReplicaSet"), "Running", true);
        let refused = "Pods with local storage (use --delete-emptydir-data to override)";
        assert_eq!(judged(&["--force"], &local, None), Verdict::Refuse(refused.into()));
        assert_eq!(judged(&["--delete-emptydir-data"], &local, None), Verdict::Evict);
        assert_eq!(judged(&[], &pod(None, "Succeeded", true), None), Verdict::Evict);
    }

    #[test]
    fn pods_of_a_daemon_set_stay_unless_it_is_gone() {
        let daemon = pod(Some("DaemonSet"), "Running", false);
        let there = || Some(Ok(()));
        let refused = "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)";
        assert_eq!(judged(&["--force"], &daemon, there()), Verdict::Refuse(refused.into()));
        let skipped = Verdict::Skip(Some("ignoring DaemonSet-managed Pods".into()));
        assert_eq!(judged(&["--ignore-daemonsets"], &daemon, there()), skipped);
        assert_eq!(judged(&[], &pod(Some("DaemonSet"), "Failed", false), there()), Verdict::Evict);
        let gone = || Some(Err("daemonsets.apps \"o\" not found".to_string()));
        let refused = Verdict::Refuse("daemonsets.apps \"o\" not found".into());
        assert_eq!(judged(&["--ignore-daemonsets"], &daemon, gone()), refused);
        assert_eq!(judged(&["--force"], &daemon, gone()), Verdict::Evict);
    }

    #[test]
    fn mirror_pods_and_those_that_go_for_long_are_left_alone() {
        let mut mirror = pod(None, "Running", false);
        mirror.set_annotation("kubernetes.io/config.mirror", "x");
        assert_eq!(judged(&[], &mirror, None), Verdict::Skip(None));
        let mut going = pod(Some("ReplicaSet"), "Running", false);
        going.set("/metadata/deletionTimestamp", "2026-01-01T00:00:00Z");
        assert_eq!(judged(&["--skip-wait-for-delete-timeout=59"], &going, None), Verdict::Skip(None));
        assert_eq!(judged(&["--skip-wait-for-delete-timeout=60"], &going, None), Verdict::Evict);
    }
}
