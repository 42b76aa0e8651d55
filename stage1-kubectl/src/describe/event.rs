//! The events about an object, oldest last seen first.
//!
//! # In Kubernetes
//! `DescribeEvents` in `kubectl/pkg/describe/describe.go`, the query in `describe.searchEvents`.

use jiff::Timestamp;
use serde_json::Value;

use super::Query;
use super::access::{number, text};
use super::doc::Doc;
use crate::object::Object;
use crate::printers::sorting;

/// The events that are about this object.
pub fn query(object: &Object) -> Query {
    let mut fields = vec![format!("involvedObject.name={}", object.name())];
    if let Some(namespace) = object.namespace() {
        fields.push(format!("involvedObject.namespace={namespace}"));
    }
    // A node's events carry its name in place of a uid, so the uid says nothing there.
    if !object.uid().is_empty() && object.kind() != "Node" {
        fields.push(format!("involvedObject.uid={}", object.uid()));
    }
    // Events of cluster-scoped objects stand in the namespace default.
    let namespace = object.namespace().unwrap_or("default");
    Query::new("", "v1", "events", Some(namespace)).fields(fields.join(","))
}

/// Writes `Events:`.
pub fn write(doc: &mut Doc, events: &[Object]) {
    if events.is_empty() {
        return doc.field(0, "Events", "<none>");
    }
    let mut sorted: Vec<&Value> = events.iter().map(Object::as_value).collect();
    let last = |event: &Value| text(event, "/lastTimestamp").parse::<Timestamp>().ok();
    sorting::sort(&mut sorted, |a, b| last(a) < last(b));
    doc.line(0, "Events:\n  Type\tReason\tAge\tFrom\tMessage");
    doc.line(1, "----\t------\t----\t----\t-------");
    for event in sorted {
        let from = [text(event, "/source/component"), text(event, "/reportingComponent")];
        let from = from.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        let (kind, reason, message) =
            (text(event, "/type"), text(event, "/reason"), text(event, "/message").trim());
        doc.line(1, &format!("{kind}\t{reason}\t{}\t{from}\t{message}", interval(doc, event)));
    }
}

/// `3s`, or `3s (x4 over 2m)` for an event that came again.
fn interval(doc: &Doc, event: &Value) -> String {
    let first = match text(event, "/eventTime") {
        "" => text(event, "/firstTimestamp"),
        time => time,
    };
    let first = doc.since(first);
    if event.get("series").is_some_and(|series| !series.is_null()) {
        let last = doc.since(text(event, "/series/lastObservedTime"));
        return format!("{last} (x{} over {first})", number(event, "/series/count"));
    }
    match number(event, "/count") {
        count if count > 1 => format!("{} (x{count} over {first})", doc.since(text(event, "/lastTimestamp"))),
        _ => first,
    }
}
