//! `kubectl cluster-info`: where the control plane and the cluster's own Services answer.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/clusterinfo/clusterinfo.go`.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::listing::{bare, list_all};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::ListParams;
use crate::resource::GroupVersionResource;

mod dump;

/// `kubectl cluster-info …`.
#[derive(Debug, Args)]
pub struct ClusterInfoArgs {
    /// More than the addresses.
    #[command(subcommand)]
    pub command: Option<ClusterInfoCommand>,
}

/// What more there is.
#[derive(Debug, Subcommand)]
pub enum ClusterInfoCommand {
    /// Dump relevant information for debugging and diagnosis.
    Dump(dump::DumpArgs),
}

/// Runs `kubectl cluster-info`.
///
/// # Errors
/// The server doesn't answer.
pub async fn run(ctx: &Context, args: ClusterInfoArgs) -> Result<(), Failure> {
    if let Some(ClusterInfoCommand::Dump(args)) = args.command {
        return dump::run(ctx, args).await;
    }
    let client = ctx.client().await?;
    let server = client.config().server.clone();
    let services = GroupVersionResource::new("", "v1", "services");
    let params = ListParams {
        label_selector: Some("kubernetes.io/cluster-service=true".into()),
        ..ListParams::default()
    };
    let found = list_all(ctx, &bare(&services, true), Some("kube-system"), &params).await?;
    ctx.print(&format!("Kubernetes control plane is running at {server}\n"));
    for service in &found {
        ctx.print(&format!("{} is running at {}\n", title(service), address(&server, service)));
    }
    ctx.print("\nTo further debug and diagnose cluster problems, use 'kubectl cluster-info dump'.\n");
    Ok(())
}

fn title(service: &Object) -> &str {
    service.label("kubernetes.io/name").unwrap_or(service.name())
}

/// Its load balancer's address, or the way through the API server's proxy.
fn address(server: &str, service: &Object) -> String {
    let ports = service.get("/spec/ports").and_then(Value::as_array).cloned().unwrap_or_default();
    let ingress = service.get("/status/loadBalancer/ingress/0");
    let host = ingress.and_then(|entry| entry["ip"].as_str().or(entry["hostname"].as_str()));
    if let Some(host) = host {
        let links = ports.iter().map(|port| format!("http://{host}:{}", port["port"]));
        return links.collect::<Vec<_>>().join(" ");
    }
    let port = ports.first().and_then(|port| port["name"].as_str()).unwrap_or_default();
    let scheme = match ports.first().map(|port| port["port"] == 443 || port["name"] == "https") {
        Some(true) => "https:",
        _ => "",
    };
    let port = if port.is_empty() && scheme.is_empty() { String::new() } else { format!(":{port}") };
    format!("{server}/api/v1/namespaces/kube-system/services/{scheme}{}{port}/proxy", service.name())
}
