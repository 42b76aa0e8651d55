//! TaintNodesByCondition: a new node takes no pods until it has said that it is ready.
//!
//! Without the taint there is a moment between the node's registration and the node controller's first look at it in which the scheduler could
//! place pods on a node that can't run them yet.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/nodetaint/admission.go`.

use serde_json::json;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::{AdmissionPlugin, Attributes, ObjectReader, Operation};
use crate::strategies::edit;
use crate::validation::fields::{child_mut, list_mut, text};

/// Key of the taint.
pub const TAINT_NODE_NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The plugin.
pub struct TaintNodesByCondition;

impl AdmissionPlugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        _: Option<&Object>,
        _: &dyn ObjectReader,
    ) -> Result<(), Status> {
        if attributes.is("", "nodes") && attributes.operation == Operation::Create {
            edit(object, |node| {
                let taints = list_mut(child_mut(node, "spec"), "taints");
                let there = taints
                    .iter()
                    .any(|t| text(t, "key") == TAINT_NODE_NOT_READY && text(t, "effect") == "NoSchedule");
                if !there {
                    taints.push(json!({"key": TAINT_NODE_NOT_READY, "effect": "NoSchedule"}));
                }
            });
        }
        Ok(())
    }
}
