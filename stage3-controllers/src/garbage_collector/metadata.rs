//! PartialObjectMetadata: of any object, what the garbage collector needs.
//!
//! The collector watches every kind, known to this program or not. It decodes nothing but identity, owners and finalizers, so that the memory it
//! needs for an object does not depend on the object's size.
//!
//! # In Kubernetes
//! `metav1.PartialObjectMetadata`, `client-go/metadata/metadatainformer`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer, Serialize};

/// Identity, owners, finalizers and version of any object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartialObjectMetadata {
    /// Metadata without labels, annotations and managed fields.
    pub metadata: ObjectMeta,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Slim {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<Time>,
}

#[derive(Deserialize, Serialize)]
struct Envelope {
    metadata: Slim,
}

impl<'de> Deserialize<'de> for PartialObjectMetadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let slim = Envelope::deserialize(deserializer)?.metadata;
        Ok(PartialObjectMetadata {
            metadata: ObjectMeta {
                name: slim.name,
                namespace: slim.namespace,
                uid: slim.uid,
                resource_version: slim.resource_version,
                owner_references: slim.owner_references,
                finalizers: slim.finalizers,
                deletion_timestamp: slim.deletion_timestamp,
                ..ObjectMeta::default()
            },
        })
    }
}

impl k8s_openapi::Resource for PartialObjectMetadata {
    const API_VERSION: &'static str = "meta.k8s.io/v1";
    const GROUP: &'static str = "meta.k8s.io";
    const KIND: &'static str = "PartialObjectMetadata";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "";
    type Scope = k8s_openapi::NamespaceResourceScope;
}

impl k8s_openapi::Metadata for PartialObjectMetadata {
    type Ty = ObjectMeta;
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
