//! The audit policy: how much of which request is written down.
//!
//! A policy is a list of rules; the first that fits a request decides. Levels go from nothing at all over Metadata (who, what, when, the
//! outcome) to the bodies. Bodies hold Secrets: whoever asks for them must know why, and there is no such rule unless a file says so.
//!
//! # Invariants
//! 1. A request that no rule fits isn't written.
//! 2. Without a file every request is written at level Metadata, when it is over.
//!
//! # In Kubernetes
//! `apiserver/pkg/audit/policy/{reader,checker}.go`, `pkg/apis/audit/v1`. There, nothing is written without a file.

use serde::Deserialize;

use crate::authentication::UserInfo;
use crate::request_info::RequestInfo;

/// How much is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// Who, what, when, outcome.
    Metadata,
    /// Also the request's body.
    Request,
    /// Also the answer's.
    RequestResponse,
}

impl Level {
    /// As events show it.
    pub fn name(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }
}

/// When it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Stage {
    /// The request is known, nothing was done yet.
    RequestReceived,
    /// Something that lasts begins to answer.
    ResponseStarted,
    /// It is over.
    ResponseComplete,
    /// The server failed.
    Panic,
}

impl Stage {
    /// As events show it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Rule {
    level: Option<Level>,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

/// A policy file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Policy {
    api_version: String,
    kind: String,
    rules: Vec<Rule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

/// What is done about one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// How much.
    pub level: Level,
    /// At which stages not.
    pub omit_stages: Vec<Stage>,
    /// Bodies lose their managedFields.
    pub omit_managed_fields: bool,
}

impl Chosen {
    /// Whether a stage is written.
    pub fn writes(&self, stage: Stage) -> bool {
        self.level > Level::None && !self.omit_stages.contains(&stage)
    }
}

impl Policy {
    /// What holds without a file.
    pub fn metadata_of_everything() -> Self {
        let rule = Rule { level: Some(Level::Metadata), ..Rule::default() };
        let omit_stages = vec![Stage::RequestReceived, Stage::ResponseStarted];
        Policy { rules: vec![rule], omit_stages, ..Policy::default() }
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// It is no policy.
    pub fn parse(text: &str) -> Result<Self, String> {
        let policy: Policy = serde_yaml::from_str(text).map_err(|e| format!("failed decoding: {e}"))?;
        if (policy.api_version.as_str(), policy.kind.as_str()) != ("audit.k8s.io/v1", "Policy") {
            return Err(format!(
                "unknown group version field {:?}, kind {:?} in policy",
                policy.api_version, policy.kind
            ));
        }
        if policy.rules.is_empty() {
            return Err("loaded illegal policy with 0 rules".into());
        }
        for (index, rule) in policy.rules.iter().enumerate() {
            let of_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
            if rule.level.is_none() {
                return Err(format!("rules[{index}].level: Required value"));
            }
            if of_resources && !rule.non_resource_urls.is_empty() {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                return Err(format!("rules[{index}].nonResourceURLs: Invalid value: {why}"));
            }
        }
        Ok(policy)
    }

    // ANCHOR: audit-policy
    /// What the first rule that fits says.
    pub fn choose(&self, user: Option<&UserInfo>, info: &RequestInfo) -> Chosen {
        let Some(rule) = self.rules.iter().find(|rule| fits(rule, user, info)) else {
            return Chosen::default();
        };
        Chosen {
            level: rule.level.unwrap_or_default(),
            omit_stages: [&self.omit_stages[..], &rule.omit_stages].concat(),
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
        }
    }
    // ANCHOR_END: audit-policy
}

fn fits(rule: &Rule, user: Option<&UserInfo>, info: &RequestInfo) -> bool {
    let named = |list: &[String], value: &str| list.is_empty() || list.iter().any(|entry| entry == value);
    let name = user.map_or("", |user| &user.name);
    let groups = user.map_or(&[][..], |user| &user.groups);
    let in_group = rule.user_groups.is_empty() || groups.iter().any(|g| rule.user_groups.contains(g));
    if !named(&rule.users, name) || !in_group || !named(&rule.verbs, &info.verb) {
        return false;
    }
    if !rule.namespaces.is_empty() || !rule.resources.is_empty() {
        return info.is_resource_request
            && named(&rule.namespaces, &info.namespace)
            && (rule.resources.is_empty() || rule.resources.iter().any(|r| resource_fits(r, info)));
    }
    rule.non_resource_urls.is_empty()
        || (!info.is_resource_request && rule.non_resource_urls.iter().any(|u| path_fits(u, &info.path)))
}

fn path_fits(pattern: &str, path: &str) -> bool {
    pattern == path || pattern.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
}

fn resource_fits(wanted: &GroupResources, info: &RequestInfo) -> bool {
    if wanted.group != info.api_group {
        return false;
    }
    let named = wanted.resource_names.is_empty() || wanted.resource_names.contains(&info.name);
    let combined = match info.subresource.as_str() {
        "" => info.resource.clone(),
        subresource => format!("{}/{subresource}", info.resource),
    };
    let fits = |entry: &String| {
        *entry == combined
            || entry == "*"
            || (!info.subresource.is_empty() && entry.strip_prefix("*/") == Some(&info.subresource))
            || entry.strip_suffix("/*") == Some(&info.resource)
    };
    wanted.resources.is_empty() || (named && wanted.resources.iter().any(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:kube-proxy"]
  verbs: ["watch"]
- level: None
  nonResourceURLs: ["/healthz*", "/version"]
- level: Request
  resources: [{group: "", resources: ["pods/*", "*/status"]}]
  omitStages: [ResponseStarted]
- level: RequestResponse
  namespaces: ["prod"]
  resources: [{group: apps, resources: ["deployments"], resourceNames: ["web"]}]
- level: Metadata
  userGroups: ["system:authenticated"]
"#;

    fn request(verb: &str, group: &str, namespace: &str, resource: &str, name: &str) -> RequestInfo {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        RequestInfo {
            is_resource_request: true,
            verb: verb.into(),
            api_group: group.into(),
            namespace: namespace.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            name: name.into(),
            ..RequestInfo::default()
        }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let policy = Policy::parse(POLICY).expect("a policy");
        let user = UserInfo::new("jane", &["system:authenticated"]);
        let level = |info: &RequestInfo| policy.choose(Some(&user), info).level;
        assert_eq!(level(&request("get", "", "a", "pods/log", "x")), Level::Request);
        assert_eq!(level(&request("get", "", "a", "nodes/status", "x")), Level::Request);
        assert_eq!(level(&request("get", "apps", "prod", "deployments", "web")), Level::RequestResponse);
        assert_eq!(level(&request("get", "apps", "prod", "deployments", "db")), Level::Metadata);
        assert_eq!(level(&request("get", "apps", "dev", "deployments", "web")), Level::Metadata);
        assert_eq!(policy.choose(None, &request("get", "", "", "nodes", "x")).level, Level::None);
        let url = RequestInfo { path: "/healthz/etcd".into(), ..RequestInfo::default() };
        assert_eq!(level(&url), Level::None);
        let proxy = UserInfo::new("system:kube-proxy", &["system:authenticated"]);
        let of_proxy = |verb| policy.choose(Some(&proxy), &request(verb, "", "", "nodes", "")).level;
        assert_eq!((of_proxy("watch"), of_proxy("list")), (Level::None, Level::Metadata));
    }

    #[test]
    fn stages_are_left_out_by_the_policy_and_by_the_rule() {
        let policy = Policy::parse(POLICY).expect("a policy");
        let chosen = policy.choose(None, &request("get", "", "a", "pods", "x"));
        assert!(!chosen.writes(Stage::RequestReceived) && !chosen.writes(Stage::ResponseStarted));
        assert!(chosen.writes(Stage::ResponseComplete) && !Chosen::default().writes(Stage::Panic));
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        let wrong = |text: &str| Policy::parse(text).expect_err(text);
        assert_eq!(
            wrong("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: []"),
            "loaded illegal policy with 0 rules"
        );
        assert!(wrong("apiVersion: v1\nkind: Policy\nrules: [{level: None}]").contains("unknown group"));
        assert!(wrong("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]").contains("All"));
        assert!(wrong("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{}]").contains("level"));
    }
}
