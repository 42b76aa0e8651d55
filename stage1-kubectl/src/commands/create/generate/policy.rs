//! `create namespace|serviceaccount|quota|poddisruptionbudget|priorityclass`.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/create/create_{namespace,serviceaccount,quota,pdb,priorityclass}.go`.

use clap::Args;
use serde_json::{Map, Value, json};

use super::{Common, object};
use crate::failure::Failure;
use crate::quantity::Quantity;
use crate::selector::{LabelSelector, Operator};

/// Flags of generators that need a name alone.
#[derive(Debug, Args)]
pub struct NamedArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
}

/// Flags of `kubectl create quota`.
#[derive(Debug, Args)]
pub struct QuotaArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// A comma-delimited set of resource=quantity pairs that define a hard limit.
    #[arg(long, default_value = "")]
    pub hard: String,
    /// A comma-delimited set of quota scopes that must all match each object tracked by the quota.
    #[arg(long, default_value = "")]
    pub scopes: String,
}

/// Flags of `kubectl create poddisruptionbudget`.
#[derive(Debug, Args)]
pub struct DisruptionBudgetArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// A label selector to use for this budget.
    #[arg(long, default_value = "")]
    pub selector: String,
    /// The minimum number or percentage of available pods.
    #[arg(long, default_value = "")]
    pub min_available: String,
    /// The maximum number or percentage of unavailable pods.
    #[arg(long, default_value = "")]
    pub max_unavailable: String,
}

/// Flags of `kubectl create priorityclass`.
#[derive(Debug, Args)]
pub struct PriorityClassArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// The value of this priority class.
    #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
    pub value: i32,
    /// Whether it is the priority of pods that name none.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub global_default: bool,
    /// When this priority class should be used.
    #[arg(long, default_value = "")]
    pub description: String,
    /// The policy for preempting pods with lower priority.
    #[arg(long, default_value = "PreemptLowerPriority")]
    pub preemption_policy: String,
}

/// A Namespace.
///
/// # Errors
/// No name.
pub fn namespace(args: &NamedArgs) -> Result<Value, Failure> {
    let mut namespace = object("v1", "Namespace", args.common.name("namespace")?);
    (namespace["spec"], namespace["status"]) = (json!({}), json!({}));
    Ok(namespace)
}

/// A ServiceAccount.
///
/// # Errors
/// No name.
pub fn service_account(args: &NamedArgs) -> Result<Value, Failure> {
    Ok(object("v1", "ServiceAccount", args.common.name("serviceaccount")?))
}

/// A ResourceQuota.
///
/// # Errors
/// A limit that is none.
pub fn quota(args: &QuotaArgs) -> Result<Value, Failure> {
    let mut quota = object("v1", "ResourceQuota", args.common.name("quota")?);
    let mut spec = Map::new();
    let hard = resource_list(&args.hard)?;
    if !hard.is_empty() {
        spec.insert("hard".into(), hard.into());
    }
    if !args.scopes.is_empty() {
        spec.insert("scopes".into(), json!(args.scopes.split(',').collect::<Vec<_>>()));
    }
    (quota["spec"], quota["status"]) = (spec.into(), json!({}));
    Ok(quota)
}

/// `cpu=1,memory=1Gi` as a map of quantities in their canonical form.
///
/// # Errors
/// A pair that is none, or an amount that is none.
pub fn resource_list(text: &str) -> Result<Map<String, Value>, Failure> {
    let mut list = Map::new();
    for pair in text.split(',').filter(|_| !text.is_empty()) {
        let wrong =
            || Failure::message(format!("Invalid argument syntax {pair}, expected <resource>=<value>"));
        let (name, amount) =
            pair.split_once('=').filter(|(_, amount)| !amount.contains('=')).ok_or_else(wrong)?;
        let amount = Quantity::parse(amount).map_err(|e| Failure::message(e.to_string()))?;
        list.insert(name.to_string(), amount.to_string().into());
    }
    Ok(list)
}

/// A PodDisruptionBudget.
///
/// # Errors
/// No selector, or not exactly one of the two limits.
pub fn disruption_budget(args: &DisruptionBudgetArgs) -> Result<Value, Failure> {
    let name = args.common.name("poddisruptionbudget")?;
    let (least, most) = (args.min_available.as_str(), args.max_unavailable.as_str());
    if args.selector.is_empty() {
        return Err(Failure::message("a selector must be specified"));
    }
    let (flag, field, amount) = match (least, most) {
        ("", "") => {
            return Err(Failure::message("one of min-available or max-unavailable must be specified"));
        }
        (least, "") => ("min-available", "minAvailable", least),
        ("", most) => ("max-unavailable", "maxUnavailable", most),
        _ => return Err(Failure::message("min-available and max-unavailable cannot be both specified")),
    };
    let digits = amount.strip_suffix('%').unwrap_or(amount);
    if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
        return Err(Failure::message(format!("invalid format specified for {flag}")));
    }
    let mut budget = object("policy/v1", "PodDisruptionBudget", name);
    let amount = amount.parse::<i32>().map_or_else(|_| json!(amount), |number| json!(number));
    budget["spec"] = json!({"selector": selector(&args.selector)?, field: amount});
    budget["status"] =
        json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
    Ok(budget)
}

/// A selector's text as the structure that objects hold.
///
/// # Errors
/// A text that is no selector.
pub fn selector(text: &str) -> Result<Value, Failure> {
    let (mut labels, mut expressions) = (Map::new(), Vec::new());
    let set_based = text.contains('(');
    for requirement in LabelSelector::parse(text)?.requirements {
        let key = requirement.key;
        let expression = match requirement.operator {
            Operator::In(values) if values.len() == 1 && !set_based => {
                labels.insert(key, values.into_iter().next().unwrap_or_default().into());
                continue;
            }
            Operator::In(values) => json!({"key": key, "operator": "In", "values": values}),
            Operator::NotIn(values) => json!({"key": key, "operator": "NotIn", "values": values}),
            Operator::Exists => json!({"key": key, "operator": "Exists"}),
            Operator::DoesNotExist => json!({"key": key, "operator": "DoesNotExist"}),
            Operator::GreaterThan(_) | Operator::LessThan(_) => {
                return Err(Failure::message(format!("{text:?} is not a valid pod selector")));
            }
        };
        expressions.push(expression);
    }
    let mut selector = Map::new();
    if !labels.is_empty() {
        selector.insert("matchLabels".into(), labels.into());
    }
    if !expressions.is_empty() {
        selector.insert("matchExpressions".into(), expressions.into());
    }
    Ok(selector.into())
}

/// A PriorityClass.
///
/// # Errors
/// No name.
pub fn priority_class(args: &PriorityClassArgs) -> Result<Value, Failure> {
    let mut class = object("scheduling.k8s.io/v1", "PriorityClass", args.common.name("priorityclass")?);
    class["value"] = args.value.into();
    class["preemptionPolicy"] = args.preemption_policy.clone().into();
    if args.global_default {
        class["globalDefault"] = true.into();
    }
    if !args.description.is_empty() {
        class["description"] = args.description.clone().into();
    }
    Ok(class)
}
