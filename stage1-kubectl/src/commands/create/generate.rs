//! `kubectl create KIND`: small objects from flags, without a manifest.
//!
//! Every generator is a pure function from flags to an object; this file lists them and sends what they made. People use
//! them with `--dry-run=client -o yaml` to begin a manifest, so the output has the fields that Go's structs always print
//! (`creationTimestamp: null`, `status: {}`).
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/create/create_*.go`.
#![expect(clippy::disallowed_methods, reason = "shell: a name may need a random suffix")]

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::{field_validation, print_result};
use crate::client::ClientError;
use crate::commands::DryRun;
use crate::commands::apply::LAST_APPLIED;
use crate::context::{Context, GlobalFlags};
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::{self, PrintFlags, Printer};
use crate::request::{self, query};
use crate::resource::GroupVersionResource;

/// Role, ClusterRole and their bindings.
pub mod access;
/// ConfigMap and Secret.
pub mod data;
/// The hash behind the name of a ConfigMap or Secret.
pub mod hash;
/// Ingress.
pub mod ingress;
/// Namespace, ResourceQuota, PodDisruptionBudget, PriorityClass, ServiceAccount.
pub mod policy;
/// Service.
pub mod service;
/// What files hold.
pub mod sources;
/// Tokens of ServiceAccounts.
pub mod token;
/// Deployment, Job, CronJob.
pub mod workload;

/// Flags that every generator has.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// NAME.
    pub names: Vec<String>,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-create")]
    pub field_manager: String,
    /// If true, the configuration of current object will be saved in its annotation.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub save_config: bool,
    /// Must be one of: strict (or true), warn, ignore (or false).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    pub validate: String,
}

impl Common {
    /// The one name.
    ///
    /// # Errors
    /// None, or several.
    pub fn name(&self, command: &str) -> Result<&str, Failure> {
        match self.names.as_slice() {
            [name] => Ok(name),
            other => Err(Failure::message(format!(
                "exactly one NAME is required, got {}\nSee 'kubectl create {command} -h' for help and examples",
                other.len()
            ))),
        }
    }
}

/// What can be made from flags.
#[derive(Debug, Subcommand)]
pub enum Generator {
    /// Create a cluster role.
    Clusterrole(access::ClusterRoleArgs),
    /// Create a cluster role binding for a particular cluster role.
    Clusterrolebinding(access::ClusterRoleBindingArgs),
    /// Create a config map from a local file, directory or literal value.
    #[command(visible_alias = "cm")]
    Configmap(data::ConfigMapArgs),
    /// Create a cron job with the specified name.
    #[command(visible_alias = "cj")]
    Cronjob(workload::CronJobArgs),
    /// Create a deployment with the specified name.
    #[command(visible_alias = "deploy")]
    Deployment(workload::DeploymentArgs),
    /// Create an ingress with the specified name.
    #[command(visible_alias = "ing")]
    Ingress(ingress::IngressArgs),
    /// Create a job with the specified name.
    Job(workload::JobArgs),
    /// Create a namespace with the specified name.
    #[command(visible_alias = "ns")]
    Namespace(policy::NamedArgs),
    /// Create a pod disruption budget with the specified name.
    #[command(visible_alias = "pdb")]
    Poddisruptionbudget(policy::DisruptionBudgetArgs),
    /// Create a priority class with the specified name.
    #[command(visible_alias = "pc")]
    Priorityclass(policy::PriorityClassArgs),
    /// Create a quota with the specified name.
    #[command(visible_alias = "resourcequota")]
    Quota(policy::QuotaArgs),
    /// Create a role with single rule.
    Role(access::RoleArgs),
    /// Create a role binding for a particular role or cluster role.
    Rolebinding(access::RoleBindingArgs),
    /// Create a secret using a specified subcommand.
    Secret(data::SecretArgs),
    /// Create a service using a specified subcommand.
    #[command(visible_alias = "svc")]
    Service(service::ServiceArgs),
    /// Create a service account with the specified name.
    #[command(visible_alias = "sa")]
    Serviceaccount(policy::NamedArgs),
    /// Request a service account token.
    Token(token::TokenArgs),
}

/// Runs one generator.
///
/// # Errors
/// Flags that make no object, or what the server refused.
pub async fn run(ctx: &Context, generator: Generator) -> Result<(), Failure> {
    use Generator as G;
    // `--user` is a subject here, not the kubeconfig's user.
    let without_user;
    let ctx = match &generator {
        G::Clusterrolebinding(_) | G::Rolebinding(_) => {
            without_user = Context::new(GlobalFlags { user: None, ..ctx.flags.clone() });
            &without_user
        }
        _ => ctx,
    };
    let (common, object, resource) = match generator {
        G::Token(args) => return token::run(ctx, &args).await,
        G::Clusterrole(args) => {
            (args.common.clone(), access::cluster_role(ctx, &args).await?, "clusterroles")
        }
        G::Clusterrolebinding(args) => {
            (args.common.clone(), access::cluster_role_binding(&args)?, "clusterrolebindings")
        }
        G::Configmap(args) => (args.common.clone(), data::config_map(&args)?, "configmaps"),
        G::Cronjob(args) => (args.common.clone(), workload::cron_job(&args)?, "cronjobs"),
        G::Deployment(args) => {
            let suffix = || workload::random_suffix(&mut rand::rng());
            (args.common.clone(), workload::deployment(&args, suffix)?, "deployments")
        }
        G::Ingress(args) => (args.common.clone(), ingress::ingress(&args)?, "ingresses"),
        G::Job(args) => (args.common.clone(), workload::job(ctx, &args).await?, "jobs"),
        G::Namespace(args) => (args.common.clone(), policy::namespace(&args)?, "namespaces"),
        G::Poddisruptionbudget(args) => {
            (args.common.clone(), policy::disruption_budget(&args)?, "poddisruptionbudgets")
        }
        G::Priorityclass(args) => (args.common.clone(), policy::priority_class(&args)?, "priorityclasses"),
        G::Quota(args) => (args.common.clone(), policy::quota(&args)?, "resourcequotas"),
        G::Role(args) => (args.common.clone(), access::role(ctx, &args).await?, "roles"),
        G::Rolebinding(args) => (args.common.clone(), access::role_binding(&args)?, "rolebindings"),
        G::Secret(args) => {
            let (common, object) = data::secret(&args)?;
            (common.clone(), object, "secrets")
        }
        G::Service(args) => {
            let (common, object) = service::service(&args)?;
            (common.clone(), object, "services")
        }
        G::Serviceaccount(args) => (args.common.clone(), policy::service_account(&args)?, "serviceaccounts"),
    };
    submit(ctx, &common, object, resource).await
}

/// Sends an object, or only prints it, as the flags say.
async fn submit(ctx: &Context, common: &Common, object: Value, resource: &str) -> Result<(), Failure> {
    let mut object = Object::from_value(object).map_err(|e| Failure::message(e.to_string()))?;
    let dry_run = DryRun::parse(&common.dry_run)?;
    let output = common.print.printer()?.map(Printer::typed);
    let cluster_wide =
        ["ClusterRole", "ClusterRoleBinding", "Namespace", "PriorityClass"].contains(&object.kind());
    if let Some(namespace) = ctx.flags.namespace.as_deref().filter(|_| !cluster_wide) {
        object.set_namespace(Some(namespace));
    }
    if common.save_config {
        let text = printers::typed::to_line(object.as_value());
        object.set_annotation(LAST_APPLIED, &text);
    }
    if dry_run == DryRun::Client {
        return print_result(ctx, output.as_ref(), &object, "created", dry_run);
    }
    let gvk = object.gvk();
    let gvr = GroupVersionResource::new(&gvk.group, &gvk.version, resource);
    let namespace = (!cluster_wide).then(|| ctx.namespace());
    let query = query(&[
        ("dryRun", dry_run.query()),
        ("fieldManager", Some(common.field_manager.clone())),
        ("fieldValidation", Some(field_validation(&common.validate)?.to_string())),
    ]);
    let path = gvr.path(namespace.as_deref(), None, None) + &query;
    ctx.step(&object, "POST", "create");
    let request = request::typed(Method::POST, &path, object.as_value());
    let created: Object =
        ctx.client().await?.request(request).await.map_err(|error| refused(error, &object))?;
    print_result(ctx, output.as_ref(), &created, "created", dry_run)
}

/// Most generators say themselves what failed.
fn refused(error: ClientError, object: &Object) -> Failure {
    let what = match object.kind() {
        "Namespace" | "Role" | "ClusterRole" => return error.into(),
        "Service" => format!("{} service", object.get_str("/spec/type").unwrap_or("ClusterIP")),
        "ResourceQuota" => "quota".into(),
        "PodDisruptionBudget" => "poddisruptionbudgets".into(),
        kind => kind.to_lowercase(),
    };
    match error {
        ClientError::Api(status) => Failure::message(format!("failed to create {what}: {}", status.message)),
        other => other.into(),
    }
}

/// The beginning of every generated object.
pub fn object(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "creationTimestamp": null}})
}

/// `required flag(s) "a", "b" not set`.
///
/// # Errors
/// A flag that isn't given.
pub fn require(flags: &[(&str, bool)]) -> Result<(), Failure> {
    let missing: Vec<String> =
        flags.iter().filter(|(_, given)| !given).map(|(name, _)| format!("{name:?}")).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::message(format!("required flag(s) {} not set", missing.join(", ")))),
    }
}
