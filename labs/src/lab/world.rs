//! World: what a lab can look at.
//!
//! Probes and evidence name a *subject* and a JSONPath into it: `Deployment/web`, `Pod/web-*` (the first whose name matches),
//! `Event/FailedCreate` (the newest with that reason), `Component/kube-scheduler` (a process of the lab cluster: `status`,
//! `command`, `lastLog`), `Kubeconfig` (the learner's). One trait, so that all that judges is tested without a cluster.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use serde_json::Value;

/// What can be looked at. Every method looks anew.
pub trait World {
    /// The subject as JSON; `None` if it isn't there, an error if nobody can say.
    ///
    /// # Errors
    /// In words: the API server can't be reached, …
    fn subject(&self, subject: &str) -> Result<Option<Value>, String>;

    /// The body of an HTTP answer, asked from the node.
    ///
    /// # Errors
    /// Why there was none, in words.
    fn http(&self, service: &str, port: u16) -> Result<String, String>;

    /// What kubectl says with the learner's kubeconfig: exit code, stdout and stderr in one.
    fn learner_kubectl(&self, args: &[String]) -> (i32, String);

    /// Seconds since the Unix epoch.
    fn now_seconds(&self) -> i64;

    /// Whether the learner's copy of the source passes its tests; the failing ones otherwise.
    ///
    /// # Errors
    /// What the test run said.
    fn source_copy_passes(&self) -> Result<(), String>;
}

/// The values at a path of a value, as kubectl's JSONPath prints them; empty if there are none.
pub fn values(value: &Value, path: &str) -> String {
    stage1_kubectl::printers::jsonpath::render(&format!("{{{path}}}"), value).unwrap_or_default()
}

/// Does a text match a pattern in which `*` stands for anything?
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    if !pattern.contains('*') {
        return rest.is_empty();
    }
    let mut parts: Vec<&str> = parts.collect();
    let last = parts.pop().unwrap_or_default();
    let Some(mut rest) = rest.strip_suffix(last) else { return false };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("web", "web", true),
            ("web", "web-1", false),
            ("web-*", "web-1", true),
            ("*exceeded quota*", "pods is forbidden: exceeded quota: q", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*", "", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
