//! From words to resources: `deploy`, `pods.v1.`, `Deployment` of `apps/v1`.
//!
//! *Step 1 of a pod's journey.* Before: [`crate::discovery`]. After: [`crate::request`] knows the path.
//!
//! Users write plural, singular, short name or kind, in any case, with or without group and version. The first match in
//! the server's order wins, so `events` is the core group's although `events.k8s.io` has one too.
//!
//! # Invariants
//! 1. Without group or version the preferred version of the first group that has the name is chosen.
//!
//! # In Kubernetes
//! `client-go/restmapper/{discovery,shortcut,category_expansion}.go`.

use crate::discovery::Discovery;
use crate::resource::{ApiResource, GroupVersionKind};

impl Discovery {
    /// The resource that a user's word means.
    pub fn find(&self, word: &str) -> Option<&ApiResource> {
        let word = word.to_lowercase();
        let (name, rest) =
            word.split_once('.').map_or((word.as_str(), None), |(name, rest)| (name, Some(rest)));
        let Some(rest) = rest else {
            return self.by_name(name, |_| true);
        };
        // `pods.v1.` and `deployments.v1.apps` name a version; else all of it is the group, perhaps cut short.
        let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
        self.by_name(name, |r| r.gvr.version == version && r.gvr.group == group)
            .or_else(|| self.by_name(name, |r| r.gvr.group == rest))
            .or_else(|| self.by_name(name, |r| r.gvr.group.starts_with(&format!("{rest}."))))
    }

    fn by_name(&self, name: &str, fits: impl Fn(&ApiResource) -> bool) -> Option<&ApiResource> {
        let names =
            |r: &ApiResource| r.gvr.resource == name || r.singular == name || r.kind.to_lowercase() == name;
        let short = |r: &ApiResource| r.short_names.iter().any(|s| s == name);
        self.resources()
            .find(|r| fits(r) && names(r))
            .or_else(|| self.resources().find(|r| fits(r) && short(r)))
    }

    /// The resources of a category (`all`).
    pub fn category(&self, word: &str) -> Vec<&ApiResource> {
        let mut found: Vec<&ApiResource> = Vec::new();
        for resource in self.resources().filter(|r| r.categories.iter().any(|c| c == word)) {
            let seen = |f: &&ApiResource| {
                f.gvr.group == resource.gvr.group && f.gvr.resource == resource.gvr.resource
            };
            if !found.iter().any(seen) {
                found.push(resource);
            }
        }
        found
    }

    /// The resource that a manifest's kind means.
    ///
    /// Without a version the preferred one is meant.
    pub fn for_kind(&self, gvk: &GroupVersionKind) -> Option<&ApiResource> {
        if gvk.version.is_empty() {
            return self.resources().find(|r| r.kind == gvk.kind && r.gvr.group == gvk.group);
        }
        self.resources()
            .find(|r| r.kind == gvk.kind && r.gvr.group == gvk.group && r.gvr.version == gvk.version)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::discovery::parse_aggregated;

    fn discovery() -> Discovery {
        let resource = |name: &str, kind: &str, short: &str, categories: &[&str]| {
            json!({"resource": name, "responseKind": {"kind": kind}, "scope": "Namespaced",
                "singularResource": kind.to_lowercase(), "shortNames": [short], "verbs": ["get"], "categories": categories})
        };
        let document = json!({"kind": "APIGroupDiscoveryList", "items": [
            {"metadata": {}, "versions": [{"version": "v1", "resources": [
                resource("pods", "Pod", "po", &["all"]), resource("events", "Event", "ev", &[])]}]},
            {"metadata": {"name": "apps"}, "versions": [
                {"version": "v1", "resources": [resource("deployments", "Deployment", "deploy", &["all"])]},
                {"version": "v1beta1", "resources": [resource("deployments", "Deployment", "deploy", &["all"])]}]},
            {"metadata": {"name": "events.k8s.io"}, "versions": [
                {"version": "v1", "resources": [resource("events", "Event", "ev", &[])]}]},
        ]});
        Discovery { versions: parse_aggregated(&document) }
    }

    #[test]
    fn every_way_to_name_a_resource_is_understood() {
        let discovery = discovery();
        let found = |word: &str| discovery.find(word).map(|r| r.gvr.to_string());
        let deployments = Some("apps/v1, Resource=deployments".to_string());
        for word in
            ["deploy", "deployment", "Deployments", "deployments.apps", "deployments.v1.apps", "deploy.apps"]
        {
            assert_eq!(found(word), deployments, "{word}");
        }
        assert_eq!(found("deployments.v1beta1.apps").as_deref(), Some("apps/v1beta1, Resource=deployments"));
        assert_eq!(found("pods.v1.").as_deref(), Some("v1, Resource=pods"));
        assert_eq!(found("ev").as_deref(), Some("v1, Resource=events"));
        assert_eq!(found("events.events.k8s.io").as_deref(), Some("events.k8s.io/v1, Resource=events"));
        assert_eq!(found("flurbs"), None);
        assert_eq!(discovery.category("all").len(), 2);
    }
}
