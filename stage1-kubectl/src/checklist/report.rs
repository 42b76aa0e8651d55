//! The checklist's result as text, JSON and SARIF.
//!
//! SARIF is what code review tools read: each complaint becomes a remark at the manifest's file.
//!
//! # In Kubernetes
//! No counterpart; SARIF 2.1.0 is an OASIS standard.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Outcome, all};
use crate::why::finding::json_path;
use crate::why::{ObjectRef, Severity};

/// The version of the JSON form.
pub const API_VERSION: &str = "checklist.six-stages/v1";

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "info",
    }
}

/// One line a complaint; empty when there is none.
#[must_use]
pub fn render(outcomes: &[Outcome]) -> String {
    let mut page = String::new();
    for one in outcomes {
        let place = format!("{} {}", ObjectRef::of(&one.object), json_path(&one.complaint.field));
        let _ = writeln!(page, "{:<8} {:<20} {}", word(one.severity), one.check.id, one.complaint.message);
        let _ = writeln!(page, "{:<8} {:<20} at {place}; {}", "", "", one.check.reason);
    }
    page
}

/// The result as a value.
#[must_use]
pub fn to_value(outcomes: &[Outcome], exit_code: i32) -> Value {
    let complaints: Vec<Value> = outcomes
        .iter()
        .map(|one| {
            json!({
                "check": one.check.id,
                "severity": one.severity,
                "object": ObjectRef::of(&one.object),
                "path": json_path(&one.complaint.field),
                "message": one.complaint.message,
                "reason": one.check.reason,
                "source": one.source,
            })
        })
        .collect();
    json!({"apiVersion": API_VERSION, "kind": "Checklist", "exitCode": exit_code, "complaints": complaints})
}

/// The result for code review tools.
#[must_use]
pub fn to_sarif(outcomes: &[Outcome]) -> Value {
    let level = |severity: Severity| match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    };
    let rules: Vec<Value> = all()
        .map(|check| {
            json!({"id": check.id, "shortDescription": {"text": check.title}, "fullDescription": {"text": check.reason},
                   "defaultConfiguration": {"level": level(check.severity)}})
        })
        .collect();
    let results: Vec<Value> = outcomes
        .iter()
        .map(|one| {
            let name = format!("{} {}", ObjectRef::of(&one.object), json_path(&one.complaint.field));
            let mut location = json!({"logicalLocations": [{"fullyQualifiedName": name, "kind": "resource"}]});
            if !one.source.is_empty() {
                location["physicalLocation"] = json!({"artifactLocation": {"uri": one.source}});
            }
            json!({"ruleId": one.check.id, "level": level(one.severity), "message": {"text": one.complaint.message}, "locations": [location]})
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": {"name": "kubectl-checklist", "rules": rules}}, "results": results}],
    })
}
