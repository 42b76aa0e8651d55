//! The checklist: is this workload fit for production?
//!
//! *Before step 1 of a pod's journey, or long after its end.* Before: a manifest is written, or a workload runs. After: a list of
//! what is missing, each with the reason why people came to ask for it.
//!
//! The API server accepts an image without a tag, a Deployment without requests, one replica without a budget: all of it is
//! valid, and all of it hurts later. Each check is one line of a table with a function of its own ([`pod`] for what a pod template says,
//! [`workload`] for what stands around it). Severities are a matter of taste, so they can be set in a file ([`Settings`]).
//!
//! # Invariants
//! 1. A check looks at one object and what was given beside it; it reads nothing.
//! 2. Each complaint names the path of the field, whether it is there or not.
//!
//! # In Kubernetes
//! No counterpart; "Configuration Best Practices" and "Pod Security Standards" say most of it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::object::Object;
use crate::why::Severity;
use crate::why::facts::template_at;

mod image;
/// What a pod template says.
pub mod pod;
/// Text, JSON, SARIF.
pub mod report;
/// What stands around a pod template.
pub mod workload;

/// One object with what is known beside it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The object.
    pub object: &'a Object,
    /// Everything else of the same files or namespace.
    pub others: &'a [Object],
    /// The time.
    pub now: Timestamp,
    /// An image older than this is a complaint.
    pub max_image_age_days: i64,
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// JSON pointer of the field.
    pub field: String,
    /// One sentence.
    pub message: String,
}

/// One line of the checklist.
// ANCHOR: check
#[derive(Debug)]
pub struct Check {
    /// Its name: `image-tag`.
    pub id: &'static str,
    /// What is asked for.
    pub title: &'static str,
    /// Why.
    pub reason: &'static str,
    /// How bad it is, unless the settings say otherwise.
    pub severity: Severity,
    /// Looks.
    pub check: fn(&Subject<'_>) -> Vec<Complaint>,
}
// ANCHOR_END: check

/// Every check.
pub fn all() -> impl Iterator<Item = &'static Check> {
    pod::CHECKS.iter().chain(workload::CHECKS)
}

/// What a person wants to hear of: a YAML file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// By the check's name: `error`, `warning`, `info` or `off`.
    pub severities: BTreeMap<String, String>,
    /// An image older than this is a complaint; 180 when missing.
    pub max_image_age_days: Option<i64>,
}

impl Settings {
    /// Reads a settings file; names and words that there aren't are errors.
    ///
    /// # Errors
    /// Not YAML, an unknown check, an unknown severity.
    pub fn parse(text: &str) -> Result<Self, String> {
        let settings: Settings = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
        for (name, word) in &settings.severities {
            if !all().any(|check| check.id == name) {
                return Err(format!("there is no check {name:?}"));
            }
            if !["error", "warning", "info", "off"].contains(&word.as_str()) {
                return Err(format!(
                    "{name}: {word:?} is no severity, known are error, warning, info and off"
                ));
            }
        }
        Ok(settings)
    }

    /// How bad a check's complaint is; `None`: it is off.
    #[must_use]
    pub fn severity(&self, check: &Check) -> Option<Severity> {
        match self.severities.get(check.id).map(String::as_str) {
            Some("off") => None,
            Some("error") => Some(Severity::Error),
            Some("warning") => Some(Severity::Warning),
            Some("info") => Some(Severity::Info),
            _ => Some(check.severity),
        }
    }
}

/// A complaint of one check about one object.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The check.
    pub check: &'static Check,
    /// How bad it is.
    pub severity: Severity,
    /// The object.
    pub object: Object,
    /// The file that it is from, or empty.
    pub source: String,
    /// What is wrong.
    pub complaint: Complaint,
}

/// Checks objects (with the files that they are from) beside each other and beside what else is known.
#[must_use]
pub fn check(
    objects: &[(Object, String)],
    known: &[Object],
    settings: &Settings,
    now: Timestamp,
) -> Vec<Outcome> {
    let others: Vec<Object> =
        objects.iter().map(|(object, _)| object.clone()).chain(known.iter().cloned()).collect();
    let mut outcomes = Vec::new();
    for (object, source) in objects {
        let subject = Subject {
            object,
            others: &others,
            now,
            max_image_age_days: settings.max_image_age_days.unwrap_or(180),
        };
        if subject.spec_at().is_none() {
            continue;
        }
        for check in all() {
            let Some(severity) = settings.severity(check) else { continue };
            for complaint in (check.check)(&subject) {
                outcomes.push(Outcome {
                    check,
                    severity,
                    object: object.clone(),
                    source: source.clone(),
                    complaint,
                });
            }
        }
    }
    outcomes.sort_by_key(|one| std::cmp::Reverse(one.severity));
    outcomes
}

impl<'a> Subject<'a> {
    /// Where the pod spec is; `None`: the object makes no pods.
    #[must_use]
    pub fn spec_at(&self) -> Option<String> {
        match self.object.kind() {
            "Pod" => Some("/spec".into()),
            _ => Some(format!("{}/spec", template_at(self.object)?)),
        }
    }

    /// A part of the pod spec.
    #[must_use]
    pub fn spec(&self, tail: &str) -> Option<&'a Value> {
        self.object.get(&format!("{}{tail}", self.spec_at()?))
    }

    /// A complaint about a part of the pod spec.
    #[must_use]
    pub fn complain(&self, tail: &str, message: impl Into<String>) -> Complaint {
        Complaint { field: format!("{}{tail}", self.spec_at().unwrap_or_default()), message: message.into() }
    }

    /// The containers and sidecars (with init containers on request): place in the pod spec, name, value.
    #[must_use]
    pub fn containers(&self, with_init: bool) -> Vec<(String, &'a str, &'a Value)> {
        let mut found = Vec::new();
        for list in ["/initContainers", "/containers"] {
            let all = self.spec(list).and_then(Value::as_array).into_iter().flatten().enumerate();
            let wanted =
                all.filter(|(_, one)| with_init || list == "/containers" || one["restartPolicy"] == "Always");
            found
                .extend(wanted.map(|(at, one)| {
                    (format!("{list}/{at}"), one["name"].as_str().unwrap_or_default(), one)
                }));
        }
        found
    }

    /// The labels that the pods get.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        match template_at(self.object) {
            Some(template) => self.object.string_map(&format!("{template}/metadata/labels")),
            None => self.object.labels(),
        }
    }

    /// Whether the pods are meant to end.
    #[must_use]
    pub fn ends(&self) -> bool {
        matches!(self.object.kind(), "Job" | "CronJob")
            || (self.object.kind() == "Pod"
                && self.spec("/restartPolicy").is_some_and(|policy| policy != "Always"))
    }
}

#[cfg(test)]
mod tests;
