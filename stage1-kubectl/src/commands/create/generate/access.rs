//! `create role|clusterrole|rolebinding|clusterrolebinding`.
//!
//! The words of `--resource` are looked up on the server, because a rule names a resource with its group: `deploy` becomes
//! `deployments` of `apps`, `pods/log` keeps its subresource.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/create/create_{role,clusterrole,rolebinding,clusterrolebinding}.go`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Map, Value, json};

use super::{Common, object, require};
use crate::context::Context;
use crate::failure::Failure;

const GROUP: &str = "rbac.authorization.k8s.io";
const VERSION: &str = "rbac.authorization.k8s.io/v1";

/// What a rule allows.
#[derive(Debug, Args)]
pub struct RuleFlags {
    /// Verb that applies to the resources contained in the rule.
    #[arg(long, value_delimiter = ',')]
    pub verb: Vec<String>,
    /// Resource that the rule applies to.
    #[arg(long, value_delimiter = ',')]
    pub resource: Vec<String>,
    /// Resource in the white list that the rule applies to.
    #[arg(long)]
    pub resource_name: Vec<String>,
}

/// Flags of `kubectl create role`.
#[derive(Debug, Args)]
pub struct RoleArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// The rule.
    #[command(flatten)]
    pub rule: RuleFlags,
}

/// Flags of `kubectl create clusterrole`.
#[derive(Debug, Args)]
pub struct ClusterRoleArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// The rule.
    #[command(flatten)]
    pub rule: RuleFlags,
    /// A partial url that user should have access to.
    #[arg(long, value_delimiter = ',')]
    pub non_resource_url: Vec<String>,
    /// An aggregation label selector for combining ClusterRoles.
    #[arg(long, default_value = "")]
    pub aggregation_rule: String,
}

/// Who is bound.
#[derive(Debug, Args)]
pub struct SubjectFlags {
    /// Usernames to bind to the role.
    #[arg(long)]
    pub user: Vec<String>,
    /// Groups to bind to the role.
    #[arg(long)]
    pub group: Vec<String>,
    /// Service accounts to bind to the role, in the format <namespace>:<name>.
    #[arg(long)]
    pub serviceaccount: Vec<String>,
}

/// Flags of `kubectl create rolebinding`.
#[derive(Debug, Args)]
pub struct RoleBindingArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// ClusterRole this RoleBinding should reference.
    #[arg(long, default_value = "")]
    pub clusterrole: String,
    /// Role this RoleBinding should reference.
    #[arg(long, default_value = "")]
    pub role: String,
    /// The subjects.
    #[command(flatten)]
    pub subjects: SubjectFlags,
}

/// Flags of `kubectl create clusterrolebinding`.
#[derive(Debug, Args)]
pub struct ClusterRoleBindingArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// ClusterRole this ClusterRoleBinding should reference.
    #[arg(long, default_value = "")]
    pub clusterrole: String,
    /// The subjects.
    #[command(flatten)]
    pub subjects: SubjectFlags,
}

/// A Role with one rule a group.
///
/// # Errors
/// No verb, no resource, or a resource that the server doesn't have.
pub async fn role(ctx: &Context, args: &RoleArgs) -> Result<Value, Failure> {
    let name = args.common.name("role")?;
    check(&args.rule)?;
    if args.rule.resource.is_empty() {
        return Err(Failure::message("at least one resource must be specified"));
    }
    let mut role = object(VERSION, "Role", name);
    role["rules"] = rules(ctx, &args.rule).await?.into();
    Ok(role)
}

/// A ClusterRole with one rule a group, one for paths, or made of others.
///
/// # Errors
/// As [`role`], and flags that exclude each other.
pub async fn cluster_role(ctx: &Context, args: &ClusterRoleArgs) -> Result<Value, Failure> {
    let mut role = object(VERSION, "ClusterRole", args.common.name("clusterrole")?);
    let any =
        !(args.rule.verb.is_empty() && args.rule.resource.is_empty() && args.non_resource_url.is_empty());
    if !args.aggregation_rule.is_empty() {
        if any || !args.rule.resource_name.is_empty() {
            let why = "aggregation rule must be specified without nonResourceURLs, verbs, resources or resourceNames";
            return Err(Failure::message(why));
        }
        let pairs = args.aggregation_rule.split(',').filter_map(|pair| pair.split_once('='));
        let labels: Map<String, Value> = pairs.map(|(key, value)| (key.to_string(), value.into())).collect();
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
        role["rules"] = Value::Null;
        return Ok(role);
    }
    check(&args.rule)?;
    if args.rule.resource.is_empty() && args.non_resource_url.is_empty() {
        return Err(Failure::message("at least one resource or nonResourceURL must be specified"));
    }
    let mut rules = match args.rule.resource.is_empty() {
        true => Vec::new(),
        false => rules(ctx, &args.rule).await?,
    };
    if !args.non_resource_url.is_empty() {
        const VERBS: [&str; 8] = ["get", "put", "post", "head", "options", "delete", "patch", "*"];
        if let Some(verb) = args.rule.verb.iter().find(|verb| !VERBS.contains(&verb.as_str())) {
            return Err(Failure::message(format!("invalid verb: '{verb}' for nonResourceURL")));
        }
        for url in &args.non_resource_url {
            match url.as_str() {
                "*" => {}
                url if !url.starts_with('/') => {
                    return Err(Failure::message("nonResourceURL should start with /"));
                }
                url if url.trim_end_matches('*').contains('*') => {
                    return Err(Failure::message(
                        "nonResourceURL only supports wildcard matches when '*' is at the end",
                    ));
                }
                _ => {}
            }
        }
        rules.push(json!({"verbs": verbs(&args.rule), "nonResourceURLs": args.non_resource_url}));
    }
    role["rules"] = rules.into();
    Ok(role)
}

/// The verbs, each once; `*` stands for all.
fn verbs(rule: &RuleFlags) -> Vec<String> {
    if rule.verb.iter().any(|verb| verb == "*") {
        return vec!["*".into()];
    }
    let mut verbs: Vec<String> = Vec::new();
    for verb in &rule.verb {
        if !verbs.contains(verb) {
            verbs.push(verb.clone());
        }
    }
    verbs
}

fn check(rule: &RuleFlags) -> Result<(), Failure> {
    if rule.verb.is_empty() {
        return Err(Failure::message("at least one verb must be specified"));
    }
    Ok(())
}

async fn rules(ctx: &Context, rule: &RuleFlags) -> Result<Vec<Value>, Failure> {
    let mut by_group: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for word in &rule.resource {
        let (name, subresource) =
            word.split_once('/').map_or((word.as_str(), None), |(name, sub)| (name, Some(sub)));
        let (group, resource) = match name {
            "*" => (if rule.resource.len() == 1 { "*" } else { "" }.to_string(), "*".to_string()),
            name => {
                // This command says it without `error:`.
                let bare = |failure: Failure| Failure::Exit { code: 1, message: failure.to_string() };
                let found = ctx.resource(name).await.map_err(bare)?;
                (found.gvr.group.clone(), found.gvr.resource.clone())
            }
        };
        let resource = subresource.map_or(resource.clone(), |sub| format!("{resource}/{sub}"));
        let resources = by_group.entry(group).or_default();
        if !resources.contains(&resource) {
            resources.push(resource);
        }
    }
    let rules = by_group.into_iter().map(|(group, resources)| {
        let mut one = json!({"verbs": verbs(rule), "apiGroups": [group], "resources": resources});
        if !rule.resource_name.is_empty() {
            one["resourceNames"] = json!(rule.resource_name);
        }
        one
    });
    Ok(rules.collect())
}

/// The subjects that the flags name.
///
/// # Errors
/// A ServiceAccount without namespace.
pub fn subjects(flags: &SubjectFlags) -> Result<Vec<Value>, Failure> {
    let named = |kind: &str, name: &String| json!({"apiGroup": GROUP, "kind": kind, "name": name});
    let mut subjects: Vec<Value> = flags.user.iter().map(|user| named("User", user)).collect();
    subjects.extend(flags.group.iter().map(|group| named("Group", group)));
    for account in &flags.serviceaccount {
        let wrong = || Failure::message("serviceaccount must be <namespace>:<name>");
        let (namespace, name) = account.split_once(':').ok_or_else(wrong)?;
        if namespace.is_empty() || name.is_empty() || name.contains(':') {
            return Err(wrong());
        }
        subjects.push(json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}));
    }
    Ok(subjects)
}

fn binding(kind: &str, name: &str, role: (&str, &str), flags: &SubjectFlags) -> Result<Value, Failure> {
    let mut binding = object(VERSION, kind, name);
    binding["roleRef"] = json!({"apiGroup": GROUP, "kind": role.0, "name": role.1});
    let subjects = subjects(flags)?;
    if !subjects.is_empty() {
        binding["subjects"] = subjects.into();
    }
    Ok(binding)
}

/// A RoleBinding.
///
/// # Errors
/// Not exactly one role, or a ServiceAccount without namespace.
pub fn role_binding(args: &RoleBindingArgs) -> Result<Value, Failure> {
    let name = args.common.name("rolebinding")?;
    let role = match (args.clusterrole.as_str(), args.role.as_str()) {
        (cluster_role, "") if !cluster_role.is_empty() => ("ClusterRole", cluster_role),
        ("", role) if !role.is_empty() => ("Role", role),
        _ => return Err(Failure::message("exactly one of clusterrole or role must be specified")),
    };
    binding("RoleBinding", name, role, &args.subjects)
}

/// A ClusterRoleBinding.
///
/// # Errors
/// No role, or a ServiceAccount without namespace.
pub fn cluster_role_binding(args: &ClusterRoleBindingArgs) -> Result<Value, Failure> {
    require(&[("clusterrole", !args.clusterrole.is_empty())])?;
    let name = args.common.name("clusterrolebinding")?;
    binding("ClusterRoleBinding", name, ("ClusterRole", &args.clusterrole), &args.subjects)
}
