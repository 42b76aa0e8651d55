//! The API server's own Lease: which servers there are, and that they live.
//!
//! Its name comes from the host's name, so that a server that starts again takes its old Lease; the holder changes with every start.
//!
//! # In Kubernetes
//! `pkg/controlplane/apiserver/server.go` (`start-kube-apiserver-identity-lease-controller`), `component-helpers/apimachinery/lease`.
//! Left out: removing the Leases of servers that are gone (there is one server here).
#![expect(clippy::disallowed_methods, reason = "shell: renews with the present time")]

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};
use stage1_kubectl::object::Object;
use tokio_util::sync::CancellationToken;

use super::{apply, defaults::object};
use crate::handlers::field_manager;
use crate::registry;
use crate::store::Stores;
use crate::watch_cache::CachedObject;

/// How often it is renewed.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
const LEASE_DURATION_SECONDS: i64 = 3600;

/// `apiserver-` and 26 letters of the hash of the host's name.
pub fn lease_name(hostname: &str) -> String {
    format!("apiserver-{}", base32(&Sha256::digest(hostname.as_bytes())[..16]))
}

/// RFC 4648 in lower case, without padding.
fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let letter = |five: &[u8]| {
        let value = five.iter().fold(0, |value, bit| value << 1 | bit) << (5 - five.len());
        char::from(LETTERS[usize::from(value)])
    };
    bits.chunks(5).map(letter).collect()
}

/// The Lease of a server on `hostname` that `holder` runs.
pub fn lease(hostname: &str, holder: &str, now: Timestamp) -> Object {
    object(json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": lease_name(hostname),
            "namespace": "kube-system",
            "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": hostname},
        },
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": LEASE_DURATION_SECONDS, "renewTime": micro_time(now)},
    }))
}

fn micro_time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Makes the Lease and renews it until stopped.
pub async fn run(stores: Stores, hostname: String, id: String, stop: CancellationToken) {
    let info = registry::find("coordination.k8s.io", "v1", "leases").expect("leases are registered");
    let holder = format!("{}_{id}", lease_name(&hostname));
    let mut renewals = tokio::time::interval(RENEW_INTERVAL);
    loop {
        tokio::select! {
            _ = renewals.tick() => {}
            () = stop.cancelled() => return,
        }
        let expected = lease(&hostname, &holder, Timestamp::now());
        let renew = |current: Arc<CachedObject>| {
            let mut renewed = current.object.clone();
            renewed.set("/spec", expected.get("/spec").cloned().unwrap_or_default());
            let old = Some(&current.object);
            field_manager::record_own(info, "kube-apiserver", Timestamp::now(), old, &mut renewed);
            std::future::ready(Ok(renewed))
        };
        let renewed = stores.of(info).update(expected.namespace(), expected.name(), false, renew).await;
        let outcome = match renewed {
            Err(status) if status.code == 404 => apply(&stores, expected.clone()).await,
            other => other.map(drop),
        };
        if let Err(status) = outcome {
            tracing::warn!(%status, "Renewing the server's Lease failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_26_letters_of_a_hash() {
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
        assert_eq!(base32(b"fooba"), "mzxw6ytb");
        assert_eq!(lease_name("host").len(), "apiserver-".len() + 26);
    }

    #[test]
    fn renewal_has_microseconds() {
        let now = "2026-01-01T00:00:00.5Z".parse().unwrap();
        assert_eq!(lease("h", "x", now).get_str("/spec/renewTime"), Some("2026-01-01T00:00:00.500000Z"));
    }
}
