//! The report: findings as text for a person, and as JSON for programs.
//!
//! *Beside a pod's journey.* Before: [`super::rank`] sorted. After: a person reads, or the labs and the book's page do.
//!
//! The JSON has a version of its own ([`API_VERSION`]) and is what labs and pages rely on: fields are added, never renamed.
//! A healthy cluster gives no text at all, and JSON with an empty list of causes.
//!
//! # Invariants
//! 1. Text and JSON say the same.
//!
//! # In Kubernetes
//! No counterpart.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::facts::Facts;
use super::finding::{Finding, Severity, json_path};
use super::rank::Diagnosis;
use super::rule::Rule;
use crate::journey::Stage;
use crate::journey::page::sign;

/// The version of the JSON form.
pub const API_VERSION: &str = "why.six-stages/v1";
/// More affected objects than these are counted, not named.
const MAX_NAMED: usize = 6;
/// A value longer than this is cut in the text form.
const MAX_VALUE_CHARS: usize = 160;

/// The program of a stage.
#[must_use]
pub fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Kubectl => "kubectl",
        Stage::ApiServer => "kube-apiserver",
        Stage::Controllers => "kube-controller-manager",
        Stage::Scheduler => "kube-scheduler",
        Stage::Kubelet => "kubelet",
        Stage::Proxy => "kube-proxy",
    }
}

/// The report as a value.
#[must_use]
pub fn to_value(facts: &Facts, diagnoses: &[Diagnosis]) -> Value {
    let causes: Vec<Value> = diagnoses.iter().map(cause).collect();
    let unseen: Vec<Value> =
        facts.unseen.iter().map(|unseen| json!({"what": unseen.what, "why": unseen.why})).collect();
    json!({
        "apiVersion": API_VERSION,
        "kind": "Report",
        "subject": facts.subject,
        "checkedAt": crate::time::format_time(facts.now),
        "severity": super::worst(diagnoses),
        "exitCode": super::exit_code(diagnoses),
        "stage": diagnoses.first().map(|one| one.rule.stage),
        "causes": causes,
        "unseen": unseen,
    })
}

fn cause(diagnosis: &Diagnosis) -> Value {
    let Diagnosis { rule, finding, consequences } = diagnosis;
    let mut value = short(rule, finding);
    let more = json!({
        "stageName": stage_name(rule.stage),
        "lab": rule.lab,
        "evidence": finding.evidence,
        "ruledOut": finding.ruled_out,
        "ruledOutBy": rule.ruled_out_by,
        "next": finding.next,
        "affects": finding.affects,
        "consequences": consequences.iter().map(|(rule, finding)| short(rule, finding)).collect::<Vec<_>>(),
    });
    if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    value
}

fn short(rule: &Rule, finding: &Finding) -> Value {
    json!({
        "rule": rule.id,
        "stage": rule.stage,
        "mechanism": rule.mechanism,
        "severity": finding.severity,
        "object": finding.object,
        "path": json_path(&finding.field),
        "message": finding.message,
    })
}

// ANCHOR: render-report
/// The report as text; empty when nothing is wrong. Findings that are only on their way come with `quiet` off.
#[must_use]
pub fn render(facts: &Facts, diagnoses: &[Diagnosis], quiet: bool) -> String {
    let mut page = String::new();
    for diagnosis in diagnoses.iter().filter(|one| !quiet || one.finding.severity > Severity::Info) {
        if !page.is_empty() {
            page.push('\n');
        }
        page.push_str(&paragraph(diagnosis));
    }
    if !facts.unseen.is_empty() && (!quiet || !page.is_empty()) {
        let what: Vec<&str> = facts.unseen.iter().map(|unseen| unseen.what.as_str()).collect();
        let _ = writeln!(page, "\nnot seen: {} ({})", what.join(", "), facts.unseen[0].why);
    }
    page
}
// ANCHOR_END: render-report

fn paragraph(diagnosis: &Diagnosis) -> String {
    let Diagnosis { rule, finding, consequences } = diagnosis;
    let level = match finding.severity {
        Severity::Error => "",
        Severity::Warning => "warning: ",
        Severity::Info => "on its way: ",
    };
    let mut text = format!("{} {}: {level}{}\n", sign(rule.stage), stage_name(rule.stage), finding.message);
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<10} {value}");
    };
    let field = json_path(&finding.field);
    line("at", format!("{} {field}", finding.object).trim_end());
    line("rule", &format!("{} ({})", rule.id, rule.mechanism.word()));
    for (at, evidence) in finding.evidence.iter().enumerate() {
        let name = if at == 0 { "seen" } else { "" };
        line(name, &format!("{} {}: {}", evidence.object, evidence.path, shown(&evidence.value)));
    }
    for (at, one) in finding.ruled_out.iter().enumerate() {
        let name = if at == 0 { "not" } else { "" };
        line(name, &format!("{} {}", sign(one.stage), one.because));
    }
    let others: Vec<String> =
        finding.affects.iter().filter(|one| **one != finding.object).map(ToString::to_string).collect();
    if !others.is_empty() {
        let more = others.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        line("affects", &format!("{}{more}", others[..others.len().min(MAX_NAMED)].join(", ")));
    }
    for (at, (rule, finding)) in consequences.iter().take(MAX_NAMED).enumerate() {
        let name = if at == 0 { "so" } else { "" };
        line(name, &format!("{} {}", sign(rule.stage), finding.message));
    }
    line("next", &finding.next);
    text
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => return "nothing".into(),
        Value::String(text) => text.replace('\n', " "),
        other => other.to_string(),
    };
    match text.chars().count() > MAX_VALUE_CHARS {
        true => text.chars().take(MAX_VALUE_CHARS).chain(['…']).collect(),
        false => text,
    }
}
