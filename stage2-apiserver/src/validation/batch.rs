//! Jobs and CronJobs.
//!
//! # In Kubernetes
//! `pkg/apis/batch/validation/validation.go`. Left out: the relaxed rules for elastic indexed Jobs beyond `completions == parallelism`.

use serde_json::Value;

use super::fields::{at, child, flag, has, int, list, opt_int, text};
use super::values::{all_non_negative, non_negative, one_of_if_set};
use super::{
    Errors, FieldError, IMMUTABLE, cron, field, go_syntax, immutable, index, invalid_each, key, names, pod,
    selector,
};

/// Names in a CronJob leave room for the eleven characters of a Job's time.
const MAX_CRON_JOB_NAME: usize = 52;
/// More parallel pods than this can't be tracked by index.
const MAX_PARALLELISM_FOR_INDEXED_JOB: i64 = 100_000;

/// Job.
pub fn job(value: &Value) -> Errors {
    let mut errors = generated_selector(value);
    errors.extend(job_spec(child(value, "spec"), "spec", false));
    let spec = child(value, "spec");
    let completions = opt_int(spec, "completions");
    if text(spec, "completionMode") == "Indexed"
        && let Some(last) = completions.filter(|count| *count > 0).map(|count| count - 1)
    {
        let name = text(child(value, "metadata"), "name");
        let pod_name = format!("{name}-{last}");
        if !names::dns1123_label(&pod_name).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {pod_name}");
            errors.push(FieldError::invalid("metadata.name", name, detail));
        }
    }
    errors
}

/// The selector must be the one that the server made.
fn generated_selector(value: &Value) -> Errors {
    let mut errors = Errors::new();
    let (meta, spec) = (child(value, "metadata"), child(value, "spec"));
    if flag(spec, "manualSelector") {
        return errors;
    }
    let (name, uid) = (text(meta, "name"), text(meta, "uid"));
    let labels = at(spec, "/template/metadata/labels");
    let path = "spec.template.metadata.labels";
    let own = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (label, wanted) in own {
        match labels.get(label).and_then(Value::as_str) {
            None => errors.push(FieldError::required(key(path, label), format!("must be '{wanted}'"))),
            Some(given) if given != wanted => {
                let shown = go_syntax::raw(go_syntax::string_map(labels));
                errors.push(FieldError::invalid(key(path, label), shown, format!("must be '{wanted}'")));
            }
            Some(_) => {}
        }
    }
    let expected = serde_json::json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    let old = serde_json::json!({"matchLabels": {"controller-uid": uid}});
    let chosen = child(spec, "selector");
    if *chosen != expected && *chosen != old {
        let shown = go_syntax::raw(go_syntax::label_selector(chosen));
        errors.push(FieldError::invalid("spec.selector", shown, "`selector` not auto-generated"));
    }
    errors
}

/// The spec of a Job or of a CronJob's template.
fn job_spec(spec: &Value, path: &str, templated: bool) -> Errors {
    let mut errors = Errors::new();
    let numbers = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    ];
    all_non_negative(&mut errors, spec, &numbers, path);
    if let Some(limit) = opt_int(spec, "maxFailedIndexes") {
        if limit < 0 {
            non_negative(&mut errors, spec, "maxFailedIndexes", path);
        }
        if !has(spec, "backoffLimitPerIndex") {
            errors.push(FieldError::required(
                field(path, "backoffLimitPerIndex"),
                "when maxFailedIndexes is specified",
            ));
        }
    }
    completion_mode(&mut errors, spec, path);
    if has(spec, "podFailurePolicy") {
        errors.extend(pod_failure_policy(spec, &field(path, "podFailurePolicy")));
    }
    let replacement = text(spec, "podReplacementPolicy");
    if has(spec, "podFailurePolicy") && !replacement.is_empty() && replacement != "Failed" {
        errors.push(FieldError::not_supported(field(path, "podReplacementPolicy"), replacement, &["Failed"]));
    } else {
        one_of_if_set(&mut errors, spec, "podReplacementPolicy", path, &["Failed", "TerminatingOrFailed"]);
    }
    let managed_by = text(spec, "managedBy");
    if has(spec, "managedBy") {
        invalid_each(
            &mut errors,
            &field(path, "managedBy"),
            managed_by,
            names::domain_prefixed_path(managed_by),
        );
    }
    if !templated {
        let chosen = child(spec, "selector");
        errors.extend(selector::label_selector(chosen, &field(path, "selector")));
        let labels = at(spec, "/template/metadata/labels");
        if !selector::matches(chosen, labels) {
            let shown = go_syntax::raw(go_syntax::string_map(labels));
            let detail = "`selector` does not match template `labels`";
            errors.push(FieldError::invalid(field(path, "template.metadata.labels"), shown, detail));
        }
    }
    errors.extend(pod::pod_template_spec(child(spec, "template"), &field(path, "template")));
    restart_policy(&mut errors, spec, path);
    errors
}

fn completion_mode(errors: &mut Errors, spec: &Value, path: &str) {
    let mode = text(spec, "completionMode");
    one_of_if_set(errors, spec, "completionMode", path, &["Indexed", "NonIndexed"]);
    if mode == "Indexed" {
        if !has(spec, "completions") {
            let detail = "when completion mode is Indexed";
            errors.push(FieldError::required(field(path, "completions"), detail));
        }
        let parallelism = int(spec, "parallelism");
        if parallelism > MAX_PARALLELISM_FOR_INDEXED_JOB {
            let detail = format!(
                "must be less than or equal to {MAX_PARALLELISM_FOR_INDEXED_JOB} when completion mode is Indexed"
            );
            errors.push(FieldError::invalid(field(path, "parallelism"), parallelism, detail));
        }
        return;
    }
    for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if let Some(limit) = opt_int(spec, name) {
            errors.push(FieldError::invalid(field(path, name), limit, "requires indexed completion mode"));
        }
    }
}

fn restart_policy(errors: &mut Errors, spec: &Value, path: &str) {
    let policy = text(at(spec, "/template/spec"), "restartPolicy");
    let path = field(path, "template.spec.restartPolicy");
    match policy {
        "" | "Always" => errors.push(FieldError::required(path, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if has(spec, "podFailurePolicy") => {
            errors.push(FieldError::invalid(
                path,
                policy,
                "only \"Never\" is supported when podFailurePolicy is specified",
            ));
        }
        "OnFailure" | "Never" => {}
        other => errors.push(FieldError::not_supported(path, other, &["Never", "OnFailure"])),
    }
}

fn pod_failure_policy(spec: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let rules = list(child(spec, "podFailurePolicy"), "rules");
    if rules.len() > 20 {
        errors.push(FieldError::too_many(field(path, "rules"), rules.len(), 20));
    }
    for (at, rule) in rules.iter().enumerate() {
        let path = index(&field(path, "rules"), at);
        match text(rule, "action") {
            "" => errors.push(FieldError::required(
                field(&path, "action"),
                "valid values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"",
            )),
            "FailIndex" if !has(spec, "backoffLimitPerIndex") => {
                errors.push(FieldError::invalid(
                    field(&path, "action"),
                    "FailIndex",
                    "requires the backoffLimitPerIndex to be set",
                ));
            }
            _ => one_of_if_set(
                &mut errors,
                rule,
                "action",
                &path,
                &["Count", "FailIndex", "FailJob", "Ignore"],
            ),
        }
        let codes = child(rule, "onExitCodes");
        if !codes.is_null() {
            exit_codes(&mut errors, codes, &field(&path, "onExitCodes"));
        }
        for (number, pattern) in list(rule, "onPodConditions").iter().enumerate() {
            let path = index(&field(&path, "onPodConditions"), number);
            let kind = text(pattern, "type");
            invalid_each(&mut errors, &field(&path, "type"), kind, names::qualified_name(kind));
            super::values::one_of(&mut errors, pattern, "status", &path, &["False", "True", "Unknown"]);
        }
        match (codes.is_null(), list(rule, "onPodConditions").is_empty()) {
            (true, true) => {
                let detail = "specifying one of OnExitCodes and OnPodConditions is required";
                errors.push(FieldError::invalid(&path, "", detail));
            }
            (false, false) => {
                let detail = "specifying both OnExitCodes and OnPodConditions is not supported";
                errors.push(FieldError::invalid(&path, "", detail));
            }
            _ => {}
        }
    }
    errors
}

fn exit_codes(errors: &mut Errors, codes: &Value, path: &str) {
    let operator = text(codes, "operator");
    super::values::one_of(errors, codes, "operator", path, &["In", "NotIn"]);
    let values: Vec<i64> = list(codes, "values").iter().filter_map(Value::as_i64).collect();
    let at = field(path, "values");
    if values.is_empty() {
        errors.push(FieldError::invalid(&at, go_syntax::raw("[]int32{}"), "at least one value is required"));
    }
    let mut ordered = true;
    for (number, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.push(FieldError::invalid(index(&at, number), *value, "must not be 0 for the In operator"));
        }
        ordered &= number == 0 || values[number - 1] <= *value;
        if values[..number].contains(value) {
            errors.push(FieldError::duplicate(index(&at, number), *value));
        }
    }
    if !ordered {
        errors.push(FieldError::invalid(
            &at,
            go_syntax::raw(go_syntax::ints("[]int32", &values)),
            "must be ordered",
        ));
    }
}

/// A changed Job: parallelism, deadline and the like may change, what it is may not.
pub fn job_update(new: &Value, old: &Value) -> Errors {
    let (spec, before) = (child(new, "spec"), child(old, "spec"));
    let mut errors = job_spec(spec, "spec", false);
    let indexed = text(spec, "completionMode") == "Indexed";
    let elastic = indexed && int(spec, "completions") == int(spec, "parallelism");
    if !elastic {
        immutable(&mut errors, child(spec, "completions"), child(before, "completions"), "spec.completions");
    }
    if child(spec, "selector") != child(before, "selector") {
        let shown = go_syntax::raw(go_syntax::label_selector(child(spec, "selector")));
        errors.push(FieldError::invalid("spec.selector", shown, IMMUTABLE));
    }
    let started = has(child(old, "status"), "startTime");
    let suspended = flag(before, "suspend") && !started;
    if !suspended && child(spec, "template") != child(before, "template") {
        errors.push(FieldError::invalid("spec.template", child(spec, "template").clone(), IMMUTABLE));
    }
    for name in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        immutable(&mut errors, child(spec, name), child(before, name), &field("spec", name));
    }
    errors
}

/// CronJob.
pub fn cron_job(value: &Value) -> Errors {
    let mut errors = cron_job_spec(child(value, "spec"));
    let name = text(child(value, "metadata"), "name");
    if name.len() > MAX_CRON_JOB_NAME {
        errors.push(FieldError::invalid("metadata.name", name, names::max_length(MAX_CRON_JOB_NAME)));
    }
    errors
}

fn cron_job_spec(spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        errors.push(FieldError::required("spec.schedule", ""));
    } else {
        if let Err(message) = cron::parse(schedule) {
            errors.push(FieldError::invalid("spec.schedule", schedule, message));
        }
        if schedule.contains("TZ") {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(FieldError::invalid("spec.schedule", schedule, detail));
        }
    }
    non_negative(&mut errors, spec, "startingDeadlineSeconds", "spec");
    if has(spec, "timeZone") {
        errors.extend(time_zone(text(spec, "timeZone")));
    }
    super::values::one_of(&mut errors, spec, "concurrencyPolicy", "spec", &["Allow", "Forbid", "Replace"]);
    errors.extend(job_spec(at(spec, "/jobTemplate/spec"), "spec.jobTemplate.spec", true));
    all_non_negative(&mut errors, spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], "spec");
    errors
}

fn time_zone(zone: &str) -> Option<FieldError> {
    let path = "spec.timeZone";
    if zone.is_empty() {
        return Some(FieldError::invalid(path, zone, "timeZone must be nil or non-empty string"));
    }
    if zone.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        return Some(FieldError::invalid(path, zone, detail));
    }
    // The database finds names in any case, Go doesn't.
    let exact = jiff::tz::db().get(zone).is_ok_and(|found| found.iana_name() == Some(zone));
    (!exact).then(|| FieldError::invalid(path, zone, format!("unknown time zone {zone}")))
}

/// A changed CronJob.
pub fn cron_job_update(new: &Value, _: &Value) -> Errors {
    cron_job_spec(child(new, "spec"))
}
