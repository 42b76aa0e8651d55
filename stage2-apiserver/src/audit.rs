//! Audit: who did what, one JSON line a request.
//!
//! *Step 2 of a pod's journey.* Before: a request was answered (or a watch began). After: an operator can read who
//! deleted the namespace.
//!
//! The level is Metadata: user, verb, object and outcome, never bodies, so that no Secret ends up in a log. A writer task owns
//! the file; a request hands it a line and goes on. When the disk is slower than the requests, lines are dropped and
//! counted rather than requests held up.
//!
//! # Invariants
//! 1. A line is one whole JSON object.
//! 2. No request waits for the disk.
//!
//! # In Kubernetes
//! `apiserver/pkg/audit/`, `…/plugin/pkg/audit/log`. Left out: policies, other levels, webhooks, rotation.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value, json};
use stage1_kubectl::time::format_micro_time;
use tokio::sync::mpsc;

use crate::authentication::UserInfo;
use crate::request_info::RequestInfo;

/// Lines that wait for the disk before new ones are dropped.
const QUEUE_LENGTH: usize = 4096;

/// Hands lines to the writer.
#[derive(Clone, Default)]
pub struct AuditLog {
    lines: Option<mpsc::Sender<String>>,
}

/// What an audit line says.
pub struct AuditEvent<'a> {
    /// Identifies the request in headers and logs.
    pub audit_id: &'a str,
    /// The words of the request.
    pub info: &'a RequestInfo,
    /// Path and query.
    pub request_uri: &'a str,
    /// Who asked; nobody if authentication failed.
    pub user: Option<&'a UserInfo>,
    /// From where.
    pub source_ip: String,
    /// With what.
    pub user_agent: &'a str,
    /// HTTP status code.
    pub code: u16,
    /// Why it was allowed or not.
    pub decision: &'a str,
    /// When it came.
    pub received: Timestamp,
    /// When it was answered.
    pub answered: Timestamp,
}

impl AuditLog {
    /// Opens (or creates, 0600) the file and starts the writer.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let (sender, mut receiver) = mpsc::channel::<String>(QUEUE_LENGTH);
        tokio::task::spawn_blocking(move || {
            while let Some(line) = receiver.blocking_recv() {
                if let Err(error) = file.write_all(line.as_bytes()) {
                    tracing::warn!(%error, "Failed to write the audit log");
                }
            }
        });
        Ok(Self { lines: Some(sender) })
    }

    /// Hands over one event; true if it will be written.
    pub fn record(&self, event: &AuditEvent<'_>) -> bool {
        let Some(lines) = &self.lines else { return false };
        lines.try_send(format!("{}\n", render(event))).is_ok()
    }
}

/// One event of level Metadata.
pub fn render(event: &AuditEvent<'_>) -> Value {
    let mut line = json!({
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": event.audit_id,
        "stage": "ResponseComplete",
        "requestURI": event.request_uri,
        "verb": event.info.verb,
        "sourceIPs": [event.source_ip],
        "userAgent": event.user_agent,
        "responseStatus": { "metadata": {}, "code": event.code },
        "requestReceivedTimestamp": format_micro_time(event.received),
        "stageTimestamp": format_micro_time(event.answered),
        "annotations": {
            "authorization.k8s.io/decision": if event.code == 403 { "forbid" } else { "allow" },
            "authorization.k8s.io/reason": event.decision,
        },
    });
    if let Some(user) = event.user {
        line["user"] = json!({ "username": user.name, "groups": user.groups });
    }
    if event.info.is_resource_request {
        line["objectRef"] = object_ref(event.info);
    }
    line
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
