//! Tokens: a pod's identity, short-lived and bound to the pod.
//!
//! *Step 5 of a pod's journey.* Before: a projected volume with a `serviceAccountToken`. After: a token that the API server made, renewed before it
//! expires.
//!
//! # Invariants
//! 1. A token is bound to the pod: it ends with it.
//! 2. It is renewed when four fifths of its life are over, or after a day.
//!
//! # In Kubernetes
//! `pkg/kubelet/token/token_manager.go`. Left out: jitter.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock")]

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount, ServiceAccountTokenProjection};
use parking_lot::Mutex;
use stage1_kubectl::client::Client;

use super::VolumeError;
use crate::pod::PodExt;

/// A token is renewed after a day even when it lives longer.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);

struct Held {
    token: String,
    issued: Timestamp,
    expires: Timestamp,
}

/// When a token must be renewed.
pub fn requires_refresh(issued: Timestamp, expires: Timestamp, now: Timestamp) -> bool {
    let life = expires.duration_since(issued);
    now.duration_since(issued) > (life * 4 / 5).min(MAX_AGE)
}

/// The tokens of this node's pods.
#[derive(Default)]
pub struct TokenManager {
    held: Mutex<HashMap<(String, String), Held>>,
}

impl TokenManager {
    /// The pod's token for one projection: the one at hand while it is young enough.
    ///
    /// # Errors
    /// The API server gives none and there is none at hand.
    pub async fn token(
        &self,
        client: &Client,
        pod: &Pod,
        p: &ServiceAccountTokenProjection,
    ) -> Result<String, VolumeError> {
        let now = Timestamp::now();
        let audience = p.audience.clone().unwrap_or_default();
        let key = (pod.pod_uid().to_owned(), format!("{audience}/{}", p.expiration_seconds.unwrap_or(3600)));
        let at_hand = {
            let held = self.held.lock();
            held.get(&key)
                .map(|h| (h.token.clone(), requires_refresh(h.issued, h.expires, now), h.expires > now))
        };
        if let Some((token, false, _)) = at_hand {
            return Ok(token);
        }
        match (request(client, pod, p).await, at_hand) {
            (Ok((token, expires)), _) => {
                self.held.lock().insert(key, Held { token: token.clone(), issued: now, expires });
                Ok(token)
            }
            // An old token that still counts is better than none.
            (Err(_), Some((token, _, true))) => Ok(token),
            (Err(e), _) => Err(e),
        }
    }

    /// Forgets the tokens of a pod.
    pub fn remove_pod(&self, uid: &str) {
        self.held.lock().retain(|(owner, _), _| owner != uid);
    }
}

async fn request(
    client: &Client,
    pod: &Pod,
    p: &ServiceAccountTokenProjection,
) -> Result<(String, Timestamp), VolumeError> {
    let account =
        pod.spec_ref().service_account_name.as_deref().filter(|n| !n.is_empty()).unwrap_or("default");
    let body = TokenRequest {
        spec: TokenRequestSpec {
            audiences: p.audience.clone().filter(|a| !a.is_empty()).into_iter().collect(),
            expiration_seconds: p.expiration_seconds.or(Some(3600)),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
            }),
        },
        ..TokenRequest::default()
    };
    let api = client.namespaced::<ServiceAccount>(pod.pod_namespace());
    let failed = |e: &dyn std::fmt::Display| VolumeError::Api(format!("failed to fetch token: {e}"));
    let answer: TokenRequest =
        api.create_subresource(account, "token", &body).await.map_err(|e| failed(&e))?;
    let status = answer.status.ok_or_else(|| failed(&"the answer has no status"))?;
    Ok((status.token, status.expiration_timestamp.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_renewed_at_four_fifths_of_their_life() {
        let at = |s| Timestamp::from_second(s).unwrap();
        assert!(!requires_refresh(at(0), at(1000), at(799)));
        assert!(requires_refresh(at(0), at(1000), at(801)));
        assert!(requires_refresh(at(0), at(10_000_000), at(90_000)));
    }
}
