//! `kubectl top`: what nodes and pods use now, as the metrics server measured it.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/top/{top_node,top_pod}.go`, `kubectl/pkg/metricsutil/metrics_printer.go`. Without effect here: `--use-protocol-buffers`, since the
//! same comes out. Left out: swap.

use std::cmp::Reverse;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::listing::{bare, list_all};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::quantity::Quantity;
use crate::request::ListParams;
use crate::resource::GroupVersionResource;

const GROUP: &str = "metrics.k8s.io";
const MEBIBYTE: i64 = 1 << 20;

/// `kubectl top …`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Of what.
    #[command(subcommand)]
    pub command: TopCommand,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum TopCommand {
    /// Display resource (CPU/memory) usage of nodes.
    #[command(visible_aliases = ["nodes", "no"])]
    Node(TopFlags),
    /// Display resource (CPU/memory) usage of pods.
    #[command(visible_aliases = ["pods", "po"])]
    Pod(TopFlags),
}

/// Flags of `kubectl top node` and `kubectl top pod`.
#[derive(Debug, Args)]
pub struct TopFlags {
    /// One name.
    pub name: Option<String>,
    /// If non-empty, sort by cpu or memory.
    #[arg(long, default_value = "")]
    pub sort_by: String,
    /// If present, print output without headers.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub no_headers: bool,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// Selector (field query) to filter on.
    #[arg(long)]
    pub field_selector: Option<String>,
    /// If present, list the requested object(s) across all namespaces.
    #[arg(short = 'A', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub all_namespaces: bool,
    /// If present, print usage of containers within a pod.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub containers: bool,
    /// Print the sum of the resource usage.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub sum: bool,
    /// Enables using protocol-buffers to access Metrics API (they are read as JSON).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub use_protocol_buffers: bool,
    /// Compare with the node's capacity instead of its allocatable amounts.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub show_capacity: bool,
}

/// CPU in thousandths, memory in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Usage {
    cpu_millis: i64,
    memory_bytes: i64,
}

impl Usage {
    fn of(amounts: &Value) -> Self {
        let amount = |name: &str| amounts[name].as_str().and_then(|text| Quantity::parse(text).ok());
        Usage {
            cpu_millis: amount("cpu").map_or(0, |cpu| cpu.milli_value()),
            memory_bytes: amount("memory").map_or(0, |memory| memory.value()),
        }
    }

    fn plus(self, other: Usage) -> Usage {
        let cpu_millis = self.cpu_millis + other.cpu_millis;
        Usage { cpu_millis, memory_bytes: self.memory_bytes + other.memory_bytes }
    }

    fn key(self, sort_by: &str) -> i64 {
        if sort_by == "memory" { self.memory_bytes } else { self.cpu_millis }
    }

    fn cells(self) -> [String; 2] {
        [format!("{}m", self.cpu_millis), format!("{}Mi", self.memory_bytes / MEBIBYTE)]
    }
}

/// Runs `kubectl top …`.
///
/// # Errors
/// Nothing measures, or what was named isn't there.
pub async fn run(ctx: &Context, args: TopArgs) -> Result<(), Failure> {
    let (TopCommand::Node(flags) | TopCommand::Pod(flags)) = &args.command;
    if !["", "cpu", "memory"].contains(&flags.sort_by.as_str()) {
        return Err(Failure::message("--sort-by accepts only cpu or memory"));
    }
    if !ctx.discovery().await?.versions.iter().any(|version| version.group == GROUP) {
        return Err(Failure::message("Metrics API not available"));
    }
    match &args.command {
        TopCommand::Node(flags) => nodes(ctx, flags).await,
        TopCommand::Pod(flags) => pods(ctx, flags).await,
    }
}

async fn measured(
    ctx: &Context,
    flags: &TopFlags,
    resource: &str,
    scope: Option<&str>,
) -> Result<Vec<Object>, Failure> {
    let gvr = GroupVersionResource::new(GROUP, "v1beta1", resource);
    if let Some(name) = &flags.name {
        let path = gvr.path(scope, Some(name), None);
        let request = crate::request::request(http::Method::GET, &path, None);
        return Ok(vec![ctx.client().await?.request(request).await?]);
    }
    let params = ListParams {
        label_selector: flags.selector.clone(),
        field_selector: flags.field_selector.clone(),
        ..ListParams::default()
    };
    list_all(ctx, &bare(&gvr, scope.is_some()), scope, &params).await
}

async fn nodes(ctx: &Context, flags: &TopFlags) -> Result<(), Failure> {
    let mut metrics = measured(ctx, flags, "nodes", None).await?;
    let gvr = GroupVersionResource::new("", "v1", "nodes");
    let params = ListParams { label_selector: flags.selector.clone(), ..ListParams::default() };
    let nodes = list_all(ctx, &bare(&gvr, false), None, &params).await?;
    if metrics.is_empty() {
        return Err(Failure::message("metrics not available yet"));
    }
    let usage = |object: &Object| Usage::of(object.get("/usage").unwrap_or(&Value::Null));
    metrics.sort_by_key(|node| match flags.sort_by.as_str() {
        "" => (Reverse(0), node.name().to_string()),
        sort_by => (Reverse(usage(node).key(sort_by)), node.name().to_string()),
    });
    let field = if flags.show_capacity { "/status/capacity" } else { "/status/allocatable" };
    let mut lines = Vec::new();
    for node in &metrics {
        let [cpu, memory] = usage(node).cells();
        let available =
            nodes.iter().find(|n| n.name() == node.name()).and_then(|n| n.get(field)).map(Usage::of);
        let percent = |used: i64, of: i64| match of {
            0 => "<unknown>".to_string(),
            of => format!("{}%", used * 100 / of),
        };
        let available = available.unwrap_or_default();
        let cpu_percent = percent(usage(node).cpu_millis, available.cpu_millis);
        let memory_percent = percent(usage(node).memory_bytes, available.memory_bytes);
        lines.push(vec![node.name().to_string(), cpu, cpu_percent, memory, memory_percent]);
    }
    for node in nodes.iter().filter(|n| flags.name.is_none() && !metrics.iter().any(|m| m.name() == n.name()))
    {
        let mut line = vec![node.name().to_string()];
        line.resize(5, "<unknown>".to_string());
        lines.push(line);
    }
    let header = ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"];
    print(ctx, flags, &header, lines);
    Ok(())
}

/// A pod's containers and what they use together.
fn pod_usage(pod: &Object) -> (Vec<(String, Usage)>, Usage) {
    let containers = pod.get("/containers").and_then(Value::as_array).into_iter().flatten();
    let containers: Vec<(String, Usage)> = containers
        .map(|one| (one["name"].as_str().unwrap_or_default().to_string(), Usage::of(&one["usage"])))
        .collect();
    let total = containers.iter().fold(Usage::default(), |sum, (_, usage)| sum.plus(*usage));
    (containers, total)
}

async fn pods(ctx: &Context, flags: &TopFlags) -> Result<(), Failure> {
    let namespace = ctx.namespace();
    let scope = Some(namespace.as_str()).filter(|_| !flags.all_namespaces);
    let mut metrics = measured(ctx, flags, "pods", scope).await?;
    if metrics.is_empty() {
        match flags.all_namespaces {
            true => ctx.warn("No resources found\n"),
            false => ctx.warn(&format!("No resources found in {namespace} namespace.\n")),
        }
        return Ok(());
    }
    let place = |pod: &Object| (pod.namespace().unwrap_or_default().to_string(), pod.name().to_string());
    metrics.sort_by_key(|pod| match flags.sort_by.as_str() {
        "" => (Reverse(0), place(pod)),
        sort_by => (Reverse(pod_usage(pod).1.key(sort_by)), place(pod)),
    });
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut all = Usage::default();
    for pod in &metrics {
        let (mut containers, total) = pod_usage(pod);
        all = all.plus(total);
        let mut start = Vec::new();
        if flags.all_namespaces {
            start.push(pod.namespace().unwrap_or_default().to_string());
        }
        start.push(pod.name().to_string());
        if !flags.containers {
            lines.push([start, total.cells().to_vec()].concat());
            continue;
        }
        if !flags.sort_by.is_empty() {
            containers.sort_by_key(|(_, usage)| Reverse(usage.key(&flags.sort_by)));
        }
        for (container, usage) in containers {
            lines.push([start.clone(), vec![container], usage.cells().to_vec()].concat());
        }
    }
    let mut header = if flags.containers { vec!["POD", "NAME"] } else { vec!["NAME"] };
    if flags.all_namespaces {
        header.insert(0, "NAMESPACE");
    }
    if flags.sum {
        let blank = vec![String::new(); header.len() - 1];
        lines.push([blank.clone(), vec![String::new()], vec!["________".into(), "________".into()]].concat());
        lines.push([blank, vec![String::new()], all.cells().to_vec()].concat());
    }
    header.extend(["CPU(cores)", "MEMORY(bytes)"]);
    print(ctx, flags, &header, lines);
    Ok(())
}

/// Every column is padded, the last one too: that is how this command prints.
fn print(ctx: &Context, flags: &TopFlags, header: &[&str], mut lines: Vec<Vec<String>>) {
    if !flags.no_headers {
        lines.insert(0, header.iter().map(|title| (*title).to_string()).collect());
    }
    lines.iter_mut().for_each(|line| line.push(String::new()));
    ctx.print(&crate::printers::table::align(&lines));
}
