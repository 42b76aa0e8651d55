//! A plugin that gives every pod the label `team` of its namespace, and refuses one that says another.
#![allow(unused_variables, unused_imports, reason = "the bodies are yours to write")]

use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;
use stage2_apiserver::admission::{AdmissionPlugin, Attributes, ObjectReader, Operation};

/// Pods carry the team of their namespace.
#[derive(Debug, Default)]
pub struct TeamLabel;

impl AdmissionPlugin for TeamLabel {
    fn name(&self) -> &'static str {
        "TeamLabel"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        old: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        todo!("a new pod without the label gets that of its namespace, if there is one")
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: Option<&Object>,
        old: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        todo!("403 for a pod with another team: team \"a\" may not use a namespace of team \"b\"")
    }
}
