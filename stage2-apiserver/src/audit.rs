//! Audit: who did what, one JSON line a request and stage.
//!
//! *Step 2 of a pod's journey.* Before: a request was answered (or a watch began). After: an operator can read who
//! deleted the namespace.
//!
//! A policy ([`policy`]) says how much of which request is written. Without one it is level Metadata: user, verb, object and outcome,
//! never bodies, so that no Secret ends up in a log. A writer thread owns the file ([`file`]); a request hands it a line and goes on.
//! When the disk is slower than the requests, lines are dropped rather than requests held up.
//!
//! # Invariants
//! 1. A line is one whole JSON object.
//! 2. No request waits for the disk.
//! 3. Bodies are written only where a policy file asks for them.
//!
//! # In Kubernetes
//! `apiserver/pkg/audit/`, `…/plugin/pkg/audit/log`, `…/endpoints/filters/audit.go`. Left out: webhooks, the legacy format, blocking
//! and batching modes.

pub mod bodies;
pub mod file;
pub mod policy;

use std::io::Write;
use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value, json};
use stage1_kubectl::status::Status;
use stage1_kubectl::time::format_micro_time;
use tokio::sync::mpsc;

use crate::authentication::UserInfo;
use crate::authorization::Decision;
use crate::request_info::RequestInfo;
use file::{RotatingFile, Rotation};
use policy::{Chosen, Policy, Stage};

/// Lines that wait for the disk before new ones are dropped.
const QUEUE_LENGTH: usize = 4096;

/// Chooses what is written, and hands lines to the writer.
#[derive(Clone, Default)]
pub struct AuditLog {
    policy: Policy,
    lines: Option<mpsc::Sender<String>>,
}

/// What an audit line says.
pub struct AuditEvent<'a> {
    /// How much.
    pub chosen: &'a Chosen,
    /// When in the request's life.
    pub stage: Stage,
    /// Identifies the request in headers and logs.
    pub audit_id: &'a str,
    /// The words of the request.
    pub info: &'a RequestInfo,
    /// Path and query.
    pub request_uri: &'a str,
    /// Who asked; nobody if authentication failed.
    pub user: Option<&'a UserInfo>,
    /// As whom, when that is somebody else.
    pub impersonated: Option<&'a UserInfo>,
    /// From where.
    pub source_ip: String,
    /// With what.
    pub user_agent: &'a str,
    /// HTTP status code, once there is one.
    pub code: Option<u16>,
    /// The refusal.
    pub failure: Option<&'a Status>,
    /// What the authorizers said; who isn't known or had to wait never came to them.
    pub decision: Option<&'a Decision>,
    /// What admission adds.
    pub annotations: &'a [(String, String)],
    /// The request's body.
    pub request_object: Option<&'a Value>,
    /// The answer's body.
    pub response_object: Option<&'a Value>,
    /// When it came.
    pub received: Timestamp,
    /// When the stage was reached.
    pub at: Timestamp,
}

impl AuditLog {
    /// Opens (or creates, 0600) the file and starts the writer; `-` is standard output.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn open(path: &Path, rotation: Rotation, policy: Policy) -> std::io::Result<Self> {
        let mut file = match path.as_os_str() == "-" {
            true => None,
            false => Some(RotatingFile::open(path, rotation)?),
        };
        let (sender, mut receiver) = mpsc::channel::<String>(QUEUE_LENGTH);
        tokio::task::spawn_blocking(move || {
            while let Some(line) = receiver.blocking_recv() {
                let written = match &mut file {
                    Some(file) => file.write_line(line.as_bytes()),
                    None => std::io::stdout().write_all(line.as_bytes()),
                };
                if let Err(error) = written {
                    tracing::warn!(%error, "Failed to write the audit log");
                }
            }
        });
        Ok(Self { policy, lines: Some(sender) })
    }

    /// What the policy says about a request.
    pub fn choose(&self, user: Option<&UserInfo>, info: &RequestInfo) -> Chosen {
        match self.lines {
            Some(_) => self.policy.choose(user, info),
            None => Chosen::default(),
        }
    }

    /// Hands over one event; true if it will be written.
    pub fn record(&self, event: &Value) -> bool {
        let Some(lines) = &self.lines else { return false };
        lines.try_send(format!("{event}\n")).is_ok()
    }
}

/// One event as it is written.
pub fn render(event: &AuditEvent<'_>) -> Value {
    let mut line = json!({
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": event.chosen.level.name(),
        "auditID": event.audit_id,
        "stage": event.stage.name(),
        "requestURI": event.request_uri,
        "verb": event.info.verb,
        "sourceIPs": [event.source_ip],
        "userAgent": event.user_agent,
        "requestReceivedTimestamp": format_micro_time(event.received),
        "stageTimestamp": format_micro_time(event.at),
    });
    if let Some(code) = event.code {
        line["responseStatus"] = response_status(code, event.failure);
        if let Some(decision) = event.decision {
            let said = if decision.is_allowed() { "allow" } else { "forbid" };
            line["annotations"]["authorization.k8s.io/decision"] = json!(said);
            line["annotations"]["authorization.k8s.io/reason"] = json!(decision.reason());
        }
        for (key, value) in event.annotations {
            line["annotations"][key] = json!(value);
        }
    }
    let shown = |user: &UserInfo| json!({ "username": user.name, "groups": user.groups });
    for (name, user) in [("user", event.user), ("impersonatedUser", event.impersonated)] {
        if let Some(user) = user {
            line[name] = shown(user);
        }
    }
    if event.info.is_resource_request {
        line["objectRef"] = object_ref(event.info);
    }
    for (name, body) in [("requestObject", event.request_object), ("responseObject", event.response_object)] {
        if let Some(body) = body {
            line[name] = bodies::shown(body, event.chosen.omit_managed_fields);
        }
    }
    line
}

/// The code, and what a refusal says.
fn response_status(code: u16, failure: Option<&Status>) -> Value {
    let mut status = json!({ "metadata": {}, "code": code });
    if let Some(failure) = failure {
        status["status"] = json!("Failure");
        for (name, text) in [("message", &failure.message), ("reason", &failure.reason)] {
            if !text.is_empty() {
                status[name] = json!(text);
            }
        }
        if let Some(details) = &failure.details {
            status["details"] = json!(details);
        }
    }
    status
}

fn object_ref(info: &RequestInfo) -> Value {
    let mut reference = json!({ "resource": info.resource, "apiVersion": info.api_version });
    let parts = [
        ("namespace", &info.namespace),
        ("name", &info.name),
        ("apiGroup", &info.api_group),
        ("subresource", &info.subresource),
    ];
    for (key, value) in parts.into_iter().filter(|(_, v)| !v.is_empty()) {
        reference[key] = json!(value);
    }
    reference
}
