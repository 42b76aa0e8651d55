//! Bootstrap tokens: how a node that has nothing yet asks for its first certificate.
//!
//! `kubeadm join` carries a short token, `ID.SECRET`. The id names a Secret of `kube-system`; who knows the secret part is
//! `system:bootstrap:ID`, in the groups that the Secret names, until it expires or somebody deletes it.
//!
//! # Invariants
//! 1. The secret part is compared without telling how much of it was right.
//!
//! # In Kubernetes
//! `plugin/pkg/auth/authenticator/token/bootstrap/bootstrap.go`; on with `--enable-bootstrap-token-auth`. Left out: the controllers that
//! sign `cluster-info` and remove expired Secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use stage1_kubectl::object::Object;

use super::UserInfo;

/// Where the Secrets are.
pub const NAMESPACE: &str = "kube-system";
const GROUP: &str = "system:bootstrappers";

/// Id and secret of a text that looks like a bootstrap token.
pub fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let fits = |part: &str, length| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    (fits(id, 6) && fits(secret, 16)).then_some((id, secret))
}

/// Name of the Secret of a token.
pub fn secret_name(id: &str) -> String {
    format!("bootstrap-token-{id}")
}

/// The user of a token, if its Secret says so.
pub fn user(id: &str, secret: &str, object: &Object, now: Timestamp) -> Option<UserInfo> {
    let data = |key: &str| -> Option<String> {
        let encoded = object.get_str(&format!("/data/{key}"))?;
        String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
    };
    let same = |a: &str, b: &str| Sha256::digest(a.as_bytes()) == Sha256::digest(b.as_bytes());
    let is_token = object.get_str("/type") == Some("bootstrap.kubernetes.io/token");
    if !is_token || object.deletion_timestamp().is_some() || object.name() != secret_name(id) {
        return None;
    }
    if !same(&data("token-secret")?, secret) || data("token-id")? != id {
        return None;
    }
    if let Some(expiration) = data("expiration").filter(|text| !text.is_empty()) {
        let expires: Timestamp = expiration.parse().ok()?;
        if expires <= now {
            return None;
        }
    }
    if data("usage-bootstrap-authentication")? != "true" {
        return None;
    }
    let mut groups = vec![GROUP.to_owned()];
    for group in data("auth-extra-groups").unwrap_or_default().split(',').filter(|g| !g.is_empty()) {
        if !is_bootstrap_group(group) {
            return None;
        }
        if !groups.iter().any(|known| known == group) {
            groups.push(group.to_owned());
        }
    }
    groups[1..].sort();
    Some(UserInfo { name: format!("system:bootstrap:{id}"), groups, ..UserInfo::default() })
}

/// `system:bootstrappers:` and up to 256 characters of a DNS name with colons; nobody gets into another group by a Secret.
fn is_bootstrap_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix("system:bootstrappers:") else { return false };
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    rest.len() <= 256
        && rest.bytes().all(|b| alphanumeric(b) || b == b':' || b == b'-')
        && rest.bytes().next_back().is_some_and(alphanumeric)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-06-01T12:00:00Z".parse().expect("a time")
    }

    fn secret(change: &[(&str, &str)]) -> Object {
        let mut data = json!({
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:workers", "expiration": "2026-06-01T13:00:00Z",
        });
        for (key, value) in change {
            data[key] = json!(value);
        }
        for value in data.as_object_mut().expect("a map").values_mut() {
            *value = json!(STANDARD.encode(value.as_str().expect("a text")));
        }
        let metadata = json!({"name": "bootstrap-token-abcdef", "namespace": NAMESPACE});
        let kind = "bootstrap.kubernetes.io/token";
        Object::from_value(json!({"metadata": metadata, "type": kind, "data": data})).expect("a map")
    }

    #[test]
    fn who_knows_the_secret_is_a_bootstrapper() {
        let (id, part) = parse("abcdef.0123456789abcdef").expect("a token");
        let user = super::user(id, part, &secret(&[]), now()).expect("believed");
        assert_eq!(user.name, "system:bootstrap:abcdef");
        assert_eq!(user.groups, ["system:bootstrappers", "system:bootstrappers:workers"]);
    }

    #[test]
    fn a_secret_that_is_over_wrong_or_for_something_else_lets_nobody_in() {
        let refused = |change: &[(&str, &str)]| {
            super::user("abcdef", "0123456789abcdef", &secret(change), now()).is_none()
        };
        assert!(refused(&[("expiration", "2026-06-01T11:59:59Z")]));
        assert!(refused(&[("expiration", "soon")]));
        assert!(refused(&[("token-secret", "0123456789abcdeX")]));
        assert!(refused(&[("usage-bootstrap-authentication", "false")]));
        assert!(refused(&[("auth-extra-groups", "system:masters")]));
        assert!(!refused(&[("expiration", "")]));
        for wrong in ["abcdef.short", "ABCDEF.0123456789abcdef", "abcdef0123456789abcdef", "a.b.c"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
