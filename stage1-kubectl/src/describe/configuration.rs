//! The pages of ConfigMap, Secret, Namespace, ResourceQuota, LimitRange and PriorityClass.
//!
//! # In Kubernetes
//! `describeConfigMap`, `describeSecret`, `describeNamespace`, `describeQuota`, `describeLimitRange` and
//! `describePriorityClass` in `kubectl/pkg/describe/describe.go`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::access::{amount, flag, list, map_text, number, pairs, scalar, text};
use super::doc::Doc;
use super::{Answers, Query};
use crate::object::Object;
use crate::quantity::Quantity;

/// A ConfigMap's page without its events.
pub fn write_config_map(doc: &mut Doc, map: &Value) {
    doc.head(map);
    doc.labels_and_annotations(map);
    doc.line(0, "\nData\n====");
    for (key, value) in pairs(map, "/data") {
        doc.line(0, &format!("{key}:\n----\n{}\n", scalar(Some(value))));
    }
    doc.line(0, "\nBinaryData\n====");
    for (key, value) in pairs(map, "/binaryData") {
        doc.line(0, &format!("{key}: {} bytes", decoded_len(value)));
    }
    doc.line(0, "");
}

fn decoded_len(value: &Value) -> usize {
    STANDARD.decode(scalar(Some(value))).map_or(0, |bytes| bytes.len())
}

/// A Secret's page: sizes, never values.
pub fn write_secret(doc: &mut Doc, secret: &Value) {
    doc.head(secret);
    doc.labels_and_annotations(secret);
    doc.line(0, &format!("\nType:\t{}", text(secret, "/type")));
    doc.line(0, "\nData\n====");
    for (key, value) in pairs(secret, "/data") {
        doc.field(0, key, &format!("{} bytes", decoded_len(value)));
    }
}

/// The quotas and limits of a namespace.
pub fn namespace_queries(namespace: &Object) -> Vec<Query> {
    ["resourcequotas", "limitranges"]
        .map(|resource| Query::new("", "v1", resource, Some(namespace.name())))
        .to_vec()
}

/// A namespace's page.
pub fn write_namespace(doc: &mut Doc, namespace: &Value, answers: &Answers) {
    doc.field(0, "Name", text(namespace, "/metadata/name"));
    doc.labels_and_annotations(namespace);
    doc.field(0, "Status", text(namespace, "/status/phase"));
    let conditions = list(namespace, "/status/conditions");
    if !conditions.is_empty() {
        doc.line(0, "Conditions:\n  Type\tStatus\tLastTransitionTime\tReason\tMessage");
        doc.line(1, "----\t------\t------------------\t------\t-------");
        for condition in conditions {
            let cell = |name: &str| text(condition, name).to_owned();
            let since = super::doc::rfc1123z(text(condition, "/lastTransitionTime"));
            doc.line(
                1,
                &format!(
                    "{}\t{}\t{since}\t{}\t{}",
                    cell("/type"),
                    cell("/status"),
                    cell("/reason"),
                    cell("/message")
                ),
            );
        }
    }
    let quotas = answers.of("resourcequotas");
    doc.line(0, if quotas.is_empty() { "\nNo resource quota." } else { "\nResource Quotas" });
    for quota in quotas {
        doc.field(1, "Name", quota.name());
        write_scopes(doc, 1, "* ", quota.as_value());
        doc.line(1, "Resource\tUsed\tHard");
        doc.line(1, "--------\t---\t---");
        write_usage(doc, 1, quota.as_value());
    }
    let limits = answers.of("limitranges");
    if limits.is_empty() {
        return doc.line(0, "\nNo LimitRange resource.");
    }
    doc.line(0, "\nResource Limits");
    doc.line(0, LIMIT_TITLES[0].replacen("Type", " Type", 1).as_str());
    doc.line(0, LIMIT_TITLES[1].replacen("----", " ----", 1).as_str());
    for range in limits {
        write_limits(doc, range.as_value(), " ");
    }
}

/// A quantity as Go prints one that it has only read: as it was written, unless it is a binary fraction.
fn as_read(text: &str) -> String {
    match text.ends_with('i') && text.contains('.') {
        true => amount(Some(&text.into())),
        false => text.to_owned(),
    }
}

/// What is used is shown in the format of the limit: bytes in powers of 1024 beside `1Gi`, in powers of 1000 beside `1G`.
fn in_format_of(used: &str, hard: &str) -> String {
    let binary = hard.ends_with('i');
    if used.ends_with('i') == binary {
        return as_read(used);
    }
    let Ok(quantity) = Quantity::parse(used) else { return used.to_owned() };
    let (step, suffixes) = match binary {
        true => (1024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
        false => (1000, ["", "k", "M", "G", "T", "P", "E"]),
    };
    let (mut value, mut at) = (quantity.value(), 0);
    while value != 0 && value % step == 0 && at + 1 < suffixes.len() {
        (value, at) = (value / step, at + 1);
    }
    format!("{value}{}", suffixes[at])
}

fn write_usage(doc: &mut Doc, level: usize, quota: &Value) {
    let used = pairs(quota, "/status/used");
    for (resource, hard) in pairs(quota, "/status/hard") {
        let written = scalar(Some(hard));
        let hard = as_read(&written);
        let used = used.iter().find(|(name, _)| *name == resource).map(|(_, used)| scalar(Some(used)));
        let used = used.map_or_else(|| "0".to_owned(), |used| in_format_of(&used, &written));
        doc.line(level, &format!("{resource}\t{used}\t{hard}"));
    }
}

/// What a quota's scope counts.
const SCOPES: [(&str, &str); 4] = [
    (
        "Terminating",
        "Matches all pods that have an active deadline. These pods have a limited lifespan on a node before being actively terminated by the system.",
    ),
    (
        "NotTerminating",
        "Matches all pods that do not have an active deadline. These pods usually include long running pods whose container command is not expected to terminate.",
    ),
    (
        "BestEffort",
        "Matches all pods that do not have resource requirements set. These pods have a best effort quality of service.",
    ),
    (
        "NotBestEffort",
        "Matches all pods that have at least one resource requirement set. These pods have a burstable or guaranteed quality of service.",
    ),
];

/// A ResourceQuota's page.
pub fn write_resource_quota(doc: &mut Doc, quota: &Value) {
    doc.head(quota);
    write_scopes(doc, 0, " * ", quota);
    doc.line(0, "Resource\tUsed\tHard");
    doc.line(0, "--------\t----\t----");
    write_usage(doc, 0, quota);
}

fn write_scopes(doc: &mut Doc, level: usize, mark: &str, quota: &Value) {
    let mut scopes: Vec<&str> = list(quota, "/spec/scopes").iter().filter_map(Value::as_str).collect();
    scopes.sort_unstable();
    if !scopes.is_empty() {
        doc.field(level, "Scopes", &scopes.join(", "));
        for scope in scopes {
            if let Some((_, help)) = SCOPES.iter().find(|(name, _)| *name == scope) {
                doc.line(level, &format!("{mark}{help}"));
            }
        }
    }
}

const LIMIT_TITLES: [&str; 2] = [
    "Type\tResource\tMin\tMax\tDefault Request\tDefault Limit\tMax Limit/Request Ratio",
    "----\t--------\t---\t---\t---------------\t-------------\t-----------------------",
];
const LIMIT_FIELDS: [&str; 5] = ["/min", "/max", "/defaultRequest", "/default", "/maxLimitRequestRatio"];

/// A LimitRange's page.
pub fn write_limit_range(doc: &mut Doc, range: &Value) {
    doc.head(range);
    for title in LIMIT_TITLES {
        doc.line(0, title);
    }
    write_limits(doc, range, "");
}

fn write_limits(doc: &mut Doc, range: &Value, indent: &str) {
    for limit in list(range, "/spec/limits") {
        let mut resources: Vec<&str> =
            LIMIT_FIELDS.iter().flat_map(|field| pairs(limit, field)).map(|(name, _)| name).collect();
        resources.sort_unstable();
        resources.dedup();
        for resource in resources {
            let cells: Vec<String> = LIMIT_FIELDS
                .iter()
                .map(|field| {
                    let found = pairs(limit, field).into_iter().find(|(name, _)| *name == resource);
                    found.map_or_else(|| "-".to_owned(), |(_, value)| as_read(&scalar(Some(value))))
                })
                .collect();
            doc.line(0, &format!("{indent}{}\t{resource}\t{}", text(limit, "/type"), cells.join("\t")));
        }
    }
}

/// A PriorityClass's page without its events.
pub fn write_priority_class(doc: &mut Doc, class: &Value) {
    doc.field(0, "Name", text(class, "/metadata/name"));
    doc.field(0, "Value", &number(class, "/value").to_string());
    doc.field(0, "GlobalDefault", &flag(class, "/globalDefault").to_string());
    doc.field(0, "PreemptionPolicy", text(class, "/preemptionPolicy"));
    doc.field(0, "Description", text(class, "/description"));
    doc.field(0, "Annotations", &map_text(class, "/metadata/annotations"));
}
