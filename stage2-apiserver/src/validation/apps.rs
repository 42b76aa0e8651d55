//! Workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers.
//!
//! What they share is the bond between selector and template: a workload whose selector doesn't match its own pods would create pods for ever.
//!
//! # In Kubernetes
//! `pkg/apis/apps/validation/validation.go`, `ValidateReplicationController` in core.

use serde_json::{Value, json};

use super::fields::{at, child, has, int, opt_int, text};
use super::metadata::{self, NON_NEGATIVE};
use super::values::{
    all_non_negative, is_zero_int_or_percent, non_negative, not_more_than_100_percent, one_of_if_set,
    positive_int_or_percent,
};
use super::{Errors, FieldError, IMMUTABLE, field, go_syntax, pod, selector};

/// Selector and template of a workload; `kind` and `owner` are what the messages call it.
fn selector_and_template(errors: &mut Errors, spec: &Value, (kind, owner): (&str, &str)) {
    let chosen = child(spec, "selector");
    if chosen.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else {
        errors.extend(selector::label_selector(chosen, "spec.selector"));
        if selector::is_empty(chosen) {
            let shown = go_syntax::raw(go_syntax::label_selector(chosen));
            errors.push(FieldError::invalid(
                "spec.selector",
                shown,
                format!("empty selector is invalid for {kind}"),
            ));
        }
    }
    if !selector::is_convertible(chosen) {
        let shown = go_syntax::raw(go_syntax::label_selector(chosen));
        errors.push(FieldError::invalid("spec.selector", shown, "invalid label selector"));
        return;
    }
    template(errors, spec, chosen, owner);
}

fn template(errors: &mut Errors, spec: &Value, chosen: &Value, owner: &str) {
    let template = child(spec, "template");
    let labels = at(template, "/metadata/labels");
    if (chosen.is_null() || !selector::is_empty(chosen)) && !selector::matches(chosen, labels) {
        let shown = go_syntax::raw(go_syntax::string_map(labels));
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", shown, detail));
    }
    if owner == "StatefulSet" {
        // Its pods get volumes from claim templates, which a look at the template alone would miss: Kubernetes doesn't look.
        let meta = child(template, "metadata");
        errors.extend(metadata::labels(child(meta, "labels"), "spec.template.labels"));
        errors.extend(metadata::annotations(child(meta, "annotations"), "spec.template.annotations"));
    } else {
        errors.extend(pod::pod_template_spec(template, "spec.template"));
    }
    let policy = text(child(template, "spec"), "restartPolicy");
    if policy != "Always" {
        errors.push(FieldError::not_supported("spec.template.spec.restartPolicy", policy, &["Always"]));
    }
    if has(child(template, "spec"), "activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {owner} is not Supported");
        errors.push(FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", detail));
    }
}

/// The selector of a workload never changes.
fn selector_immutable(errors: &mut Errors, new: &Value, old: &Value) {
    let (new, old) = (at(new, "/spec/selector"), at(old, "/spec/selector"));
    if new != old {
        errors.push(FieldError::invalid(
            "spec.selector",
            go_syntax::raw(go_syntax::label_selector(new)),
            IMMUTABLE,
        ));
    }
}

/// Deployment.
pub fn deployment(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    non_negative(&mut errors, spec, "replicas", "spec");
    selector_and_template(&mut errors, spec, ("deployment", "ReplicaSet"));
    errors.extend(deployment_strategy(child(spec, "strategy"), "spec.strategy"));
    all_non_negative(&mut errors, spec, &["minReadySeconds", "revisionHistoryLimit"], "spec");
    if let Some(deadline) = opt_int(spec, "progressDeadlineSeconds") {
        non_negative(&mut errors, spec, "progressDeadlineSeconds", "spec");
        if deadline <= int(spec, "minReadySeconds") {
            let detail = "must be greater than minReadySeconds";
            errors.push(FieldError::invalid("spec.progressDeadlineSeconds", deadline, detail));
        }
    }
    errors
}

fn deployment_strategy(strategy: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let rolling = child(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "Recreate" if !rolling.is_null() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(FieldError::forbidden(field(path, "rollingUpdate"), detail));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let path = field(path, "rollingUpdate");
            let (unavailable, surge) = (child(rolling, "maxUnavailable"), child(rolling, "maxSurge"));
            positive_int_or_percent(&mut errors, unavailable, &field(&path, "maxUnavailable"));
            positive_int_or_percent(&mut errors, surge, &field(&path, "maxSurge"));
            if is_zero_int_or_percent(unavailable) && is_zero_int_or_percent(surge) {
                let shown = go_syntax::raw(go_syntax::int_or_string(unavailable));
                errors.push(FieldError::invalid(
                    field(&path, "maxUnavailable"),
                    shown,
                    "may not be 0 when `maxSurge` is 0",
                ));
            }
            not_more_than_100_percent(&mut errors, unavailable, &field(&path, "maxUnavailable"));
        }
        other => {
            let pointer = if rolling.is_null() { "nil" } else { "0xc000000000" };
            let shown = format!(
                "apps.DeploymentStrategy{{Type:{other:?}, RollingUpdate:(*apps.RollingUpdateDeployment)({pointer})}}"
            );
            errors.push(FieldError::not_supported(
                path,
                go_syntax::raw(shown),
                &["Recreate", "RollingUpdate"],
            ));
        }
    }
    errors
}

/// A changed Deployment.
pub fn deployment_update(new: &Value, old: &Value) -> Errors {
    let mut errors = deployment(new);
    selector_immutable(&mut errors, new, old);
    errors
}

/// ReplicaSet.
pub fn replica_set(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    all_non_negative(&mut errors, spec, &["replicas", "minReadySeconds"], "spec");
    selector_and_template(&mut errors, spec, ("deployment", "ReplicaSet"));
    errors
}

/// A changed ReplicaSet.
pub fn replica_set_update(new: &Value, old: &Value) -> Errors {
    let mut errors = replica_set(new);
    selector_immutable(&mut errors, new, old);
    errors
}

/// ReplicationController: its selector is a map of labels.
pub fn replication_controller(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    non_negative(&mut errors, spec, "minReadySeconds", "spec");
    if super::fields::size(spec, "selector") == 0 {
        errors.push(FieldError::required("spec.selector", ""));
    }
    non_negative(&mut errors, spec, "replicas", "spec");
    if !has(spec, "template") {
        errors.push(FieldError::required("spec.template", ""));
        return errors;
    }
    let labels = json!({"matchLabels": child(spec, "selector")});
    template(&mut errors, spec, &labels, "ReplicationController");
    errors
}

/// A changed ReplicationController.
pub fn replication_controller_update(new: &Value, _: &Value) -> Errors {
    replication_controller(new)
}

/// StatefulSet.
pub fn stateful_set(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    match text(spec, "podManagementPolicy") {
        "" => errors.push(FieldError::required("spec.podManagementPolicy", "")),
        "OrderedReady" | "Parallel" => {}
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.push(FieldError::invalid("spec.podManagementPolicy", other, detail));
        }
    }
    stateful_set_strategy(&mut errors, child(spec, "updateStrategy"));
    let retention = child(spec, "persistentVolumeClaimRetentionPolicy");
    for name in ["whenDeleted", "whenScaled"] {
        one_of_if_set(
            &mut errors,
            retention,
            name,
            "spec.persistentVolumeClaimRetentionPolicy",
            &["Retain", "Delete"],
        );
    }
    non_negative(&mut errors, spec, "replicas", "spec");
    non_negative(&mut errors, spec, "minReadySeconds", "spec");
    non_negative(&mut errors, child(spec, "ordinals"), "start", "spec.ordinals");
    selector_and_template(&mut errors, spec, ("statefulset", "StatefulSet"));
    errors
}

fn stateful_set_strategy(errors: &mut Errors, strategy: &Value) {
    let rolling = child(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "" => errors.push(FieldError::required("spec.updateStrategy", "")),
        "OnDelete" if !rolling.is_null() => {
            let shown = go_syntax::raw(go_syntax::rolling_update_stateful_set(rolling));
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(FieldError::invalid("spec.updateStrategy.rollingUpdate", shown, detail));
        }
        "OnDelete" => {}
        "RollingUpdate" => non_negative(errors, rolling, "partition", "spec.updateStrategy.rollingUpdate"),
        other => {
            let pointer = if rolling.is_null() { "nil" } else { "0xc000000000" };
            let shown = format!(
                "apps.StatefulSetUpdateStrategy{{Type:{other:?}, RollingUpdate:(*apps.RollingUpdateStatefulSetStrategy)({pointer})}}"
            );
            errors.push(FieldError::invalid(
                "spec.updateStrategy",
                go_syntax::raw(shown),
                "must be 'RollingUpdate' or 'OnDelete'",
            ));
        }
    }
}

/// A changed StatefulSet: six fields may change.
pub fn stateful_set_update(new: &Value, old: &Value) -> Errors {
    const UPDATABLE: &[&str] = &[
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let mut errors = stateful_set(new);
    let fixed = |value: &Value| {
        let mut spec = child(value, "spec").clone();
        UPDATABLE
            .iter()
            .chain(&["revisionHistoryLimit"])
            .for_each(|name| drop(super::fields::remove(&mut spec, name)));
        spec
    };
    let history = |value: &Value| at(value, "/spec/revisionHistoryLimit").clone();
    if fixed(new) != fixed(old) || history(new) != history(old) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                      'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden("spec", detail));
    }
    errors
}

/// DaemonSet.
pub fn daemon_set(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    selector_and_template(&mut errors, spec, ("daemonset", "DaemonSet"));
    non_negative(&mut errors, spec, "minReadySeconds", "spec");
    let (strategy, path) = (child(spec, "updateStrategy"), "spec.updateStrategy");
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => rolling_update_daemon_set(
            &mut errors,
            child(strategy, "rollingUpdate"),
            "spec.updateStrategy.rollingUpdate",
        ),
        other => {
            errors.push(FieldError::not_supported(field(path, "type"), other, &["OnDelete", "RollingUpdate"]))
        }
    }
    non_negative(&mut errors, spec, "revisionHistoryLimit", "spec");
    errors
}

fn rolling_update_daemon_set(errors: &mut Errors, rolling: &Value, path: &str) {
    let (unavailable, surge) = (child(rolling, "maxUnavailable"), child(rolling, "maxSurge"));
    positive_int_or_percent(errors, unavailable, &field(path, "maxUnavailable"));
    positive_int_or_percent(errors, surge, &field(path, "maxSurge"));
    match (is_zero_int_or_percent(unavailable), is_zero_int_or_percent(surge)) {
        (true, true) => {
            errors.push(FieldError::required(field(path, "maxUnavailable"), "cannot be 0 when maxSurge is 0"))
        }
        (false, false) => {
            let shown = go_syntax::raw(go_syntax::int_or_string(surge));
            let detail = "may not be set when maxUnavailable is non-zero";
            errors.push(FieldError::invalid(field(path, "maxSurge"), shown, detail));
        }
        _ => {}
    }
    not_more_than_100_percent(errors, unavailable, &field(path, "maxUnavailable"));
    not_more_than_100_percent(errors, surge, &field(path, "maxSurge"));
}

/// A changed DaemonSet.
pub fn daemon_set_update(new: &Value, old: &Value) -> Errors {
    let mut errors = daemon_set(new);
    selector_immutable(&mut errors, new, old);
    errors
}

/// ControllerRevision: data that never changes.
pub fn controller_revision(value: &Value) -> Errors {
    let mut errors = Errors::new();
    if int(value, "revision") < 0 {
        errors.push(FieldError::invalid("revision", int(value, "revision"), NON_NEGATIVE));
    }
    errors
}

/// A changed ControllerRevision.
pub fn controller_revision_update(new: &Value, old: &Value) -> Errors {
    let mut errors = controller_revision(new);
    super::immutable(&mut errors, child(new, "data"), child(old, "data"), "data");
    errors
}
