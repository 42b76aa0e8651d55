//! The pod template of a workload.
//!
//! # In Kubernetes
//! `DescribePodTemplate` in `kubectl/pkg/describe/describe.go`.

use serde_json::Value;

use super::access::{list, text};
use super::container::{Field, write_containers};
use super::doc::Doc;
use super::pod::{spread_constraints, tolerations};
use super::volume::write_volumes;

/// Writes `Pod Template:` and what is in it.
pub fn write(doc: &mut Doc, template: &Value) {
    doc.line(0, "Pod Template:");
    doc.map(1, "Labels", template, "/metadata/labels");
    if !super::access::pairs(template, "/metadata/annotations").is_empty() {
        doc.annotations(1, template, "/metadata/annotations");
    }
    let account = text(template, "/spec/serviceAccountName");
    if !account.is_empty() {
        doc.field(1, "Service Account", account);
    }
    let init = list(template, "/spec/initContainers");
    if !init.is_empty() {
        write_containers(doc, "  ", "Init Containers", init, &[], &Field::unknown());
    }
    write_containers(doc, "  ", "Containers", list(template, "/spec/containers"), &[], &Field::unknown());
    write_volumes(doc, "  ", list(template, "/spec/volumes"));
    let spread = spread_constraints(list(template, "/spec/topologySpreadConstraints"));
    if !spread.is_empty() {
        doc.multiline(1, "Topology Spread Constraints", &spread);
    }
    let class = text(template, "/spec/priorityClassName");
    if !class.is_empty() {
        doc.field(1, "Priority Class Name", class);
    }
    doc.map(1, "Node-Selectors", template, "/spec/nodeSelector");
    doc.multiline(1, "Tolerations", &tolerations(list(template, "/spec/tolerations")));
}
