//! The commands: one file each.
//!
//! *Step 1 of a pod's journey: it begins here.* Before: a command line. After: requests, and text on the terminal.
//!
//! Each file has a `…Args` (what clap parses) and a `run(ctx, args)` (what happens). To add a command: a file, a variant of
//! [`Command`], a line in [`run`]. What is shared stands in [`builder`] (which objects are meant) and [`crate::printers`].
//!
//! # Invariants
//! 1. A command prints through [`Context::print`] and fails through [`Failure`]; it never exits by itself.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/cmd.go`. Left out: help texts are clap's.

use clap::{Parser, Subcommand};

use crate::context::{Context, GlobalFlags};
use crate::failure::Failure;

/// Which objects a command is about.
pub mod builder;

/// `kubectl annotate`.
pub mod annotate;
/// `kubectl api-resources` and `api-versions`.
pub mod api_resources;
/// `kubectl apply`.
pub mod apply;
/// `kubectl attach`.
pub mod attach;
/// `kubectl auth`.
pub mod auth;
/// `kubectl autoscale`.
pub mod autoscale;
/// `kubectl certificate`.
pub mod certificate;
/// `kubectl checklist`.
pub mod checklist;
/// `kubectl cluster-info`.
pub mod cluster_info;
/// `kubectl completion`.
pub mod completion;
/// `kubectl config`.
pub mod config;
/// `kubectl cp`.
pub mod cp;
/// `kubectl create`.
pub mod create;
/// `kubectl debug`.
pub mod debug;
/// `kubectl delete`.
pub mod delete;
/// `kubectl describe`.
pub mod describe;
/// `kubectl diff`.
pub mod diff;
/// `kubectl edit`.
pub mod edit;
/// `kubectl events`.
pub mod events;
/// `kubectl exec`.
pub mod exec;
/// `kubectl explain`.
pub mod explain;
/// `kubectl expose`.
pub mod expose;
/// `kubectl get`.
pub mod get;
/// `kubectl journey`.
pub mod journey;
/// `kubectl kustomize`.
pub mod kustomize;
/// `kubectl label`.
pub mod label;
/// Whole lists, piece by piece.
pub mod listing;
/// `kubectl logs`.
pub mod logs;
/// `kubectl cordon`, `uncordon` and `drain`.
pub mod node_upkeep;
/// `kubectl options` and `alpha`.
pub mod options;
/// The command line becomes a command.
pub mod parsing;
/// `kubectl patch`.
pub mod patch;
/// `kubectl plugin`, and programs that are commands.
pub mod plugin;
/// The command in the program's name.
pub mod plugin_name;
/// The pod that is meant.
pub mod pods;
/// `kubectl port-forward`.
pub mod port_forward;
/// `kubectl proxy`.
pub mod proxy;
/// `--record`.
pub mod record;
/// `kubectl replace`.
pub mod replace;
/// `kubectl rollout`.
pub mod rollout;
/// `kubectl run`.
pub mod run;
/// `kubectl scale`.
pub mod scale;
/// `kubectl set`.
pub mod set;
/// `kubectl taint`.
pub mod taint;
/// `kubectl top`.
pub mod top;
/// Waiting for one object.
pub mod until;
/// `kubectl version`.
pub mod version;
/// `kubectl wait`.
pub mod wait;
/// `kubectl why`.
pub mod why;

/// kubectl controls the Kubernetes cluster manager.
#[derive(Debug, Parser)]
#[command(name = "kubectl", disable_version_flag = true, infer_long_args = false)]
pub struct Kubectl {
    /// Global flags.
    #[command(flatten)]
    pub flags: GlobalFlags,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Commands for features in alpha.
    Alpha,
    /// Update the annotations on a resource.
    Annotate(label::LabelArgs),
    /// Print the supported API resources on the server.
    ApiResources(api_resources::ApiResourcesArgs),
    /// Print the supported API versions on the server, in the form of "group/version".
    ApiVersions,
    /// Apply a configuration to a resource by file name or stdin.
    Apply(apply::ApplyArgs),
    /// Attach to a running container.
    Attach(attach::AttachArgs),
    /// Inspect authorization.
    Auth(auth::AuthArgs),
    /// Auto-scale a deployment, replica set, stateful set, or replication controller.
    Autoscale(autoscale::AutoscaleArgs),
    /// Modify or query certificate signing requests.
    Certificate(certificate::CertificateArgs),
    /// Check whether a workload is fit for production.
    Checklist(checklist::ChecklistArgs),
    /// Display addresses of the control plane and services with label kubernetes.io/cluster-service=true.
    ClusterInfo(cluster_info::ClusterInfoArgs),
    /// Output shell completion code for the specified shell.
    Completion(completion::CompletionArgs),
    /// Modify kubeconfig files.
    Config(config::ConfigArgs),
    /// Mark node as unschedulable.
    Cordon(node_upkeep::CordonArgs),
    /// Copy files and directories to and from containers.
    Cp(cp::CpArgs),
    /// Create a resource from a file or from stdin.
    Create(create::CreateArgs),
    /// Create debugging sessions for troubleshooting workloads and nodes.
    Debug(Box<debug::DebugArgs>),
    /// Delete resources by file names, stdin, resources and names, or by resources and label selector.
    Delete(delete::DeleteArgs),
    /// Show details of a specific resource or group of resources.
    Describe(describe::DescribeArgs),
    /// Diff the live version against a would-be applied version.
    Diff(diff::DiffArgs),
    /// Drain node in preparation for maintenance.
    Drain(node_upkeep::DrainArgs),
    /// Edit a resource on the server.
    Edit(edit::EditArgs),
    /// List events.
    Events(events::EventsArgs),
    /// Execute a command in a container.
    Exec(exec::ExecArgs),
    /// Get documentation for a resource.
    Explain(explain::ExplainArgs),
    /// Take a workload or service and expose it as a new Kubernetes service.
    Expose(expose::ExposeArgs),
    /// Display one or many resources.
    Get(Box<get::GetArgs>),
    /// Show a pod's journey through the six stages.
    Journey(journey::JourneyArgs),
    /// Build a kustomization target from a directory.
    Kustomize(kustomize::KustomizeArgs),
    /// Update the labels on a resource.
    Label(label::LabelArgs),
    /// Print the logs for a container in a pod.
    Logs(logs::LogsArgs),
    /// Print the list of flags inherited by all commands.
    Options,
    /// Update fields of a resource.
    Patch(patch::PatchArgs),
    /// Provides utilities for interacting with plugins.
    Plugin(plugin::PluginArgs),
    /// Forward one or more local ports to a pod.
    PortForward(port_forward::PortForwardArgs),
    /// Run a proxy to the Kubernetes API server.
    Proxy(proxy::ProxyArgs),
    /// Replace a resource by file name or stdin.
    Replace(replace::ReplaceArgs),
    /// Manage the rollout of a resource.
    Rollout(rollout::RolloutArgs),
    /// Run a particular image on the cluster.
    Run(run::RunArgs),
    /// Set a new size for a deployment, replica set, or replication controller.
    Scale(scale::ScaleArgs),
    /// Set specific features on objects.
    Set(set::SetArgs),
    /// Update the taints on one or more nodes.
    Taint(taint::TaintArgs),
    /// Display resource (CPU/memory) usage.
    Top(top::TopArgs),
    /// Mark node as schedulable.
    Uncordon(node_upkeep::CordonArgs),
    /// Print the client and server version information.
    Version(version::VersionArgs),
    /// Wait for a specific condition on one or many resources.
    Wait(wait::WaitArgs),
    /// Say at which of the six stages a workload is stuck, and why.
    Why(why::WhyArgs),
}

/// Runs a command.
///
/// # Errors
/// Whatever it fails with.
pub async fn run(ctx: &Context, command: Command) -> Result<(), Failure> {
    // Its `--profile` is of another kind.
    if !matches!(command, Command::Debug(_)) {
        ctx.check_flags()?;
    }
    if ctx.flags.record.given {
        ctx.warn(record::DEPRECATED);
    }
    match command {
        Command::Alpha => {
            options::alpha(ctx);
            Ok(())
        }
        Command::Annotate(args) => annotate::run(ctx, args).await,
        Command::ApiResources(args) => api_resources::run(ctx, args).await,
        Command::ApiVersions => api_resources::run_versions(ctx).await,
        Command::Apply(args) => apply::run(ctx, args).await,
        Command::Attach(args) => attach::run(ctx, args).await,
        Command::Auth(args) => auth::run(ctx, args).await,
        Command::Autoscale(args) => autoscale::run(ctx, args).await,
        Command::Certificate(args) => certificate::run(ctx, args).await,
        Command::Checklist(args) => checklist::run(ctx, args).await,
        Command::ClusterInfo(args) => cluster_info::run(ctx, args).await,
        Command::Completion(args) => completion::run(ctx, &args),
        Command::Config(args) => config::run(ctx, args).await,
        Command::Cordon(args) => node_upkeep::cordon(ctx, args, true).await,
        Command::Cp(args) => cp::run(ctx, args).await,
        Command::Create(args) => create::run(ctx, args).await,
        Command::Debug(args) => debug::run(ctx, *args).await,
        Command::Delete(args) => delete::run(ctx, args).await,
        Command::Describe(args) => describe::run(ctx, args).await,
        Command::Diff(args) => diff::run(ctx, args).await,
        Command::Drain(args) => node_upkeep::drain(ctx, args).await,
        Command::Edit(args) => edit::run(ctx, args).await,
        Command::Events(args) => events::run(ctx, args).await,
        Command::Exec(args) => exec::run(ctx, args).await,
        Command::Explain(args) => explain::run(ctx, args).await,
        Command::Expose(args) => expose::run(ctx, args).await,
        Command::Get(args) => get::run(ctx, *args).await,
        Command::Journey(args) => journey::run(ctx, args).await,
        Command::Kustomize(args) => kustomize::run(ctx, &args),
        Command::Label(args) => label::run(ctx, args).await,
        Command::Logs(args) => logs::run(ctx, args).await,
        Command::Options => {
            options::run(ctx);
            Ok(())
        }
        Command::Patch(args) => patch::run(ctx, args).await,
        Command::Plugin(args) => plugin::run(ctx, &args),
        Command::PortForward(args) => port_forward::run(ctx, args).await,
        Command::Proxy(args) => proxy::run(ctx, args).await,
        Command::Replace(args) => replace::run(ctx, args).await,
        Command::Rollout(args) => rollout::run(ctx, args).await,
        Command::Run(args) => run::run(ctx, args).await,
        Command::Scale(args) => scale::run(ctx, args).await,
        Command::Set(args) => set::run(ctx, args).await,
        Command::Taint(args) => taint::run(ctx, args).await,
        Command::Top(args) => top::run(ctx, args).await,
        Command::Uncordon(args) => node_upkeep::cordon(ctx, args, false).await,
        Command::Version(args) => version::run(ctx, args).await,
        Command::Wait(args) => wait::run(ctx, args).await,
        Command::Why(args) => why::run(ctx, args).await,
    }
}

/// How `--dry-run` was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DryRun {
    /// Do it.
    #[default]
    None,
    /// Ask nobody.
    Client,
    /// Ask the server, which doesn't do it.
    Server,
}

impl DryRun {
    /// Reads the value of `--dry-run`.
    ///
    /// # Errors
    /// A word that isn't one of the three.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "none" | "false" => Ok(DryRun::None),
            "client" | "true" | "unchanged" => Ok(DryRun::Client),
            "server" => Ok(DryRun::Server),
            other => {
                let why =
                    format!("Invalid dry-run value ({other}). Must be \"none\", \"server\", or \"client\".");
                Err(Failure::message(why))
            }
        }
    }

    /// What is printed behind `created`.
    pub fn suffix(self) -> &'static str {
        match self {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        }
    }

    /// The value of the `dryRun` query.
    pub fn query(self) -> Option<String> {
        (self == DryRun::Server).then(|| "All".to_string())
    }
}
