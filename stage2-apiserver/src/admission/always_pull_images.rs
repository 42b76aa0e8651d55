//! AlwaysPullImages (off by default): nobody runs a private image only because it is on the node already.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/alwayspullimages/admission.go`.

use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::{AdmissionPlugin, Attributes, ObjectReader};
use crate::strategies::edit;
use crate::validation::fields::{child_mut, items_mut, set};

/// The plugin.
pub struct AlwaysPullImages;

impl AdmissionPlugin for AlwaysPullImages {
    fn name(&self) -> &'static str {
        "AlwaysPullImages"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        _: Option<&Object>,
        _: &dyn ObjectReader,
    ) -> Result<(), Status> {
        if attributes.is_pod() {
            edit(object, |pod| {
                let spec = child_mut(pod, "spec");
                for containers in ["initContainers", "containers", "ephemeralContainers"] {
                    items_mut(spec, containers)
                        .for_each(|container| set(container, "imagePullPolicy", "Always"));
                }
            });
        }
        Ok(())
    }
}
