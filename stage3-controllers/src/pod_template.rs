//! Pod template: a pod from a template, and the hash that names a template.
//!
//! *Step 7 of a pod's journey.* Before: a workload controller found that pods are missing. After: [`crate::executor`] creates them.
//!
//! A Deployment tells its ReplicaSets apart by the hash of their pod template: the same template must give the same
//! hash, so that going back to an old template finds its old ReplicaSet. On a clash of two templates the
//! status' `collisionCount` is mixed in.
//!
//! # Invariants
//! 1. The hash is a pure function of template and collision count.
//! 2. It has only characters that form no bad words: `bcdfghjklmnpqrstvwxz2456789`.
//!
//! # In Kubernetes
//! `pkg/controller/controller_utils.go` (`ComputeHash`, `GetPodFromTemplate`). There the FNV-1 runs over Go's dump of the struct (`spew`); here
//! over the template's canonical JSON: hashes differ from Kubernetes', their properties do not.

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use crate::action::encode;
use crate::indexer::Cached;
use crate::owner::controller_reference;

/// Label that carries the hash.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// 32-bit FNV-1a.
pub fn fnv32a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Replaces each character by one that forms no words (`rand.SafeEncodeString`).
pub fn safe_encode(text: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    text.bytes().map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}

/// Hash of a template, as it stands in names and labels.
pub fn compute_hash<T: Serialize>(template: &T, collision_count: Option<i32>) -> String {
    let mut bytes = encode(template).to_string().into_bytes();
    if let Some(count) = collision_count {
        bytes.extend((count as u64).to_le_bytes());
    }
    safe_encode(&fnv32a(&bytes).to_string())
}

/// The template without the hash label: equal templates are equal under this.
pub fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(POD_TEMPLATE_HASH);
    }
    template
}

/// The pod that a controller makes from its template; the server gives the name.
pub fn pod_from_template<O: k8s_openapi::Resource + Cached>(template: &PodTemplateSpec, owner: &O) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            namespace: Some(owner.object_namespace().to_owned()),
            generate_name: Some(generate_name(owner.object_name())),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// `web-`, or `web` when the dash would make the name invalid.
fn generate_name(name: &str) -> String {
    if name.len() < 253 { format!("{name}-") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_hash_depends_on_template_and_collisions_only() {
        let one = json!({"a": 1, "b": 2});
        assert_eq!(compute_hash(&one, None), compute_hash(&json!({"b": 2, "a": 1}), None));
        assert_ne!(compute_hash(&one, None), compute_hash(&one, Some(1)));
        assert_ne!(compute_hash(&one, Some(1)), compute_hash(&one, Some(2)));
        assert!(
            compute_hash(&one, None).chars().all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter))
        );
    }

    #[test]
    fn fnv_matches_its_published_vectors() {
        assert_eq!(fnv32a(b""), 0x811c_9dc5);
        assert_eq!(fnv32a(b"a"), 0xe40c_292c);
        assert_eq!(fnv32a(b"foobar"), 0xbf9c_f968);
    }
}
