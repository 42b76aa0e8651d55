//! Continue tokens: where a list in pieces goes on, and at which revision.
//!
//! base64 of `{"v":"meta.k8s.io/v1","rv":5,"start":"default/web\u0000"}`: clients must not look inside, and some do, so ours
//! reads like Kubernetes'. The start is relative to the list's own prefix: a token can't be used to read elsewhere.
//!
//! # In Kubernetes
//! `apiserver/pkg/storage/continue.go`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use stage1_kubectl::status::Status;

use crate::schema::go_json;
use crate::storage::Revision;

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinueToken {
    /// The revision of the list; `None`: go on with the present (an inconsistent continuation).
    pub revision: Option<Revision>,
    /// The first key that follows.
    pub start: String,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
}

const API_VERSION: &str = "meta.k8s.io/v1";

fn invalid(why: &str) -> Status {
    Status::bad_request(format!("invalid continue token: {why}"))
}

/// Reads a token for a list under `prefix`.
///
/// # Errors
/// 400 when it isn't one.
pub fn decode(token: &str, prefix: &str) -> Result<ContinueToken, Status> {
    let bytes = URL_SAFE_NO_PAD
        .decode(token.trim_end_matches('='))
        .map_err(|e| invalid(&format!("continue key is not valid: {e}")))?;
    let wire: Wire = serde_json::from_slice(&bytes).map_err(|error| {
        let why = go_json::syntax_error(&bytes).unwrap_or_else(|| error.to_string());
        invalid(&format!("continue key is not valid: {why}"))
    })?;
    if wire.v != API_VERSION {
        return Err(invalid("continue key is not valid: server does not recognize this encoded version"));
    }
    if wire.start.is_empty() {
        return Err(invalid("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)"));
    }
    // `..` in a path-like key would leave the prefix.
    if wire.start.split('/').any(|part| part == "..") || wire.start.starts_with('/') {
        return Err(invalid(&format!("continue key is not valid: {}", wire.start)));
    }
    let revision = match wire.rv {
        -1 => None,
        rv => Some(Revision(u64::try_from(rv).ok().filter(|rv| *rv > 0).ok_or_else(|| {
            invalid(
                "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            )
        })?)),
    };
    Ok(ContinueToken { revision, start: format!("{prefix}{}", wire.start) })
}

/// Makes a token that goes on after `last_key`.
pub fn encode(revision: Option<Revision>, last_key: &str, prefix: &str) -> String {
    let start = format!("{}\0", last_key.strip_prefix(prefix).unwrap_or(last_key));
    encode_start(revision, start)
}

/// The token that goes on at the same place in the present.
pub fn inconsistent(token: &ContinueToken, prefix: &str) -> String {
    encode_start(None, token.start.strip_prefix(prefix).unwrap_or(&token.start).to_owned())
}

fn encode_start(revision: Option<Revision>, start: String) -> String {
    let rv = revision.map_or(-1, |r| i64::try_from(r.0).unwrap_or(i64::MAX));
    let wire = Wire { v: API_VERSION.into(), rv, start };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).expect("a plain struct"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_like_that_of_kubernetes() {
        let token = encode(Some(Revision(5)), "/registry/pods/default/web", "/registry/pods/");
        let json = URL_SAFE_NO_PAD.decode(&token).unwrap();
        assert_eq!(
            String::from_utf8(json).unwrap(),
            r#"{"v":"meta.k8s.io/v1","rv":5,"start":"default/web\u0000"}"#
        );
        let back = decode(&token, "/registry/pods/").unwrap();
        assert_eq!(back.start, "/registry/pods/default/web\0");
        assert_eq!(back.revision, Some(Revision(5)));
    }

    #[test]
    fn a_token_that_leaves_its_prefix_is_refused() {
        let token = encode_start(Some(Revision(5)), "../secrets/x".into());
        assert_eq!(decode(&token, "/registry/pods/").unwrap_err().code, 400);
        assert_eq!(decode("%%%", "/registry/pods/").unwrap_err().code, 400);
    }
}
