//! One answer.

use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;
use stage2_apiserver::admission::{AdmissionPlugin, Attributes, ObjectReader, Operation};

/// Pods carry the team of their namespace.
#[derive(Debug, Default)]
pub struct TeamLabel;

/// The team of the namespace of a pod that is created; `None`: nothing to do.
fn team_of(attributes: &Attributes, reader: &dyn ObjectReader) -> Option<String> {
    let new = attributes.is_pod() && attributes.operation == Operation::Create;
    let namespace = new.then(|| reader.get("", "namespaces", "", &attributes.namespace))??;
    namespace.label("team").map(str::to_owned)
}

impl AdmissionPlugin for TeamLabel {
    fn name(&self) -> &'static str {
        "TeamLabel"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        _old: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        if let Some(team) = team_of(attributes, reader)
            && object.label("team").is_none()
        {
            object.set_label("team", &team);
        }
        Ok(())
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: Option<&Object>,
        _old: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        let (Some(object), Some(team)) = (object, team_of(attributes, reader)) else { return Ok(()) };
        match object.label("team") {
            Some(own) if own == team => Ok(()),
            own => {
                let own = own.unwrap_or_default();
                Err(attributes.forbidden(format!("team {own:?} may not use a namespace of team {team:?}")))
            }
        }
    }
}
