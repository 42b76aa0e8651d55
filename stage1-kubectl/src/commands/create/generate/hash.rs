//! The hash behind a name: a ConfigMap with other content gets another name, so pods that use it are replaced.
//!
//! Ten digits of SHA-256 over the content as JSON, with letters that make no words in place of some digits.
//!
//! # In Kubernetes
//! `kubectl/pkg/util/hash/hash.go`, `kustomize/api/hasher/hasher.go`.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The hash of a ConfigMap or Secret.
pub fn hash(object: &Value) -> String {
    let mut content = json!({"kind": object["kind"], "name": object["metadata"]["name"]});
    match object["kind"].as_str() {
        Some("Secret") => {
            content["type"] = object.get("type").cloned().unwrap_or_else(|| "".into());
            content["data"] = object.get("data").cloned().unwrap_or_else(|| json!({}));
        }
        _ => {
            content["data"] = object.get("data").cloned().unwrap_or_else(|| json!({}));
            if let Some(binary) = object.get("binaryData") {
                content["binaryData"] = binary.clone();
            }
        }
    }
    // As Go writes JSON: keys in order, and what HTML could mistake for a tag escaped.
    let text = content.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let digits: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    digits.chars().take(10).map(readable).collect()
}

fn readable(digit: char) -> char {
    match digit {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        other => other,
    }
}
