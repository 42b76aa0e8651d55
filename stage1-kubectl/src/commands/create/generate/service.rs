//! `create service clusterip|nodeport|loadbalancer|externalname`.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/create/create_service.go`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Common, object, require};
use crate::failure::Failure;

/// `kubectl create service …`.
#[derive(Debug, Args)]
pub struct ServiceArgs {
    /// Which type.
    #[command(subcommand)]
    pub service: ServiceType,
}

/// The types of Services.
#[derive(Debug, Subcommand)]
pub enum ServiceType {
    /// Create a ClusterIP service.
    Clusterip(PortArgs),
    /// Create a NodePort service.
    Nodeport(PortArgs),
    /// Create a LoadBalancer service.
    Loadbalancer(PortArgs),
    /// Create an ExternalName service.
    Externalname(PortArgs),
}

/// Flags of `kubectl create service TYPE`.
#[derive(Debug, Args)]
pub struct PortArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// Port pairs can be specified as '<port>:<targetPort>'.
    #[arg(long, value_delimiter = ',')]
    pub tcp: Vec<String>,
    /// The cluster's address for it, or None (clusterip).
    #[arg(long)]
    pub clusterip: Option<String>,
    /// The port on the nodes (nodeport).
    #[arg(long, default_value_t = 0)]
    pub node_port: u16,
    /// The external name (externalname).
    #[arg(long)]
    pub external_name: Option<String>,
}

/// The Service, and the flags that say what to do with it.
///
/// # Errors
/// A port that is none, or a missing flag.
pub fn service(args: &ServiceArgs) -> Result<(&Common, Value), Failure> {
    let (command, kind, flags) = match &args.service {
        ServiceType::Clusterip(flags) => ("clusterip", "ClusterIP", flags),
        ServiceType::Nodeport(flags) => ("nodeport", "NodePort", flags),
        ServiceType::Loadbalancer(flags) => ("loadbalancer", "LoadBalancer", flags),
        ServiceType::Externalname(flags) => ("externalname", "ExternalName", flags),
    };
    if kind == "ExternalName" {
        require(&[("external-name", flags.external_name.is_some())])?;
    }
    let name = flags.common.name(&format!("service {command}"))?;
    let headless = flags.clusterip.as_deref() == Some("None");
    if flags.tcp.is_empty() && !headless && kind != "ExternalName" {
        return Err(Failure::message("at least one tcp port specifier must be provided"));
    }
    let mut ports = flags.tcp.iter().map(|tcp| port(tcp)).collect::<Result<Vec<Value>, Failure>>()?;
    if kind == "NodePort" && flags.node_port > 0 {
        ports.iter_mut().for_each(|port| port["nodePort"] = flags.node_port.into());
    }
    let mut service = object("v1", "Service", name);
    service["metadata"]["labels"] = json!({"app": name});
    service["spec"] = json!({"type": kind, "selector": {"app": name}});
    if !ports.is_empty() {
        service["spec"]["ports"] = ports.into();
    }
    if let Some(address) = &flags.clusterip {
        service["spec"]["clusterIP"] = json!(address);
    }
    if let Some(external) = &flags.external_name {
        service["spec"]["externalName"] = json!(external);
    }
    service["status"] = json!({"loadBalancer": {}});
    Ok((&flags.common, service))
}

/// `80:8080`, `443`, `5678:http`.
fn port(text: &str) -> Result<Value, Failure> {
    let (port, target) = text.split_once(':').unwrap_or((text, text));
    let port = number(port)?;
    let target = match target.parse::<i64>() {
        Ok(_) => json!(number(target)?),
        Err(_) => {
            let wrong = port_name_errors(target);
            if !wrong.is_empty() {
                return Err(Failure::message(wrong.join(",")));
            }
            json!(target)
        }
    };
    Ok(json!({"name": text.replace(':', "-"), "port": port, "targetPort": target, "protocol": "TCP"}))
}

/// A port, with the words of Go's `strconv.ParseUint`.
fn number(text: &str) -> Result<u16, Failure> {
    use std::num::IntErrorKind::PosOverflow;
    text.parse::<u16>().map_err(|error| {
        let why = if *error.kind() == PosOverflow { "value out of range" } else { "invalid syntax" };
        Failure::message(format!("strconv.ParseUint: parsing {text:?}: {why}"))
    })
}

/// What makes a text no port name; empty when it is one.
pub fn port_name_errors(name: &str) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    if name.len() > 15 {
        wrong.push("must be no more than 15 characters");
    }
    if !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.chars().any(|c| c.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen");
    }
    wrong
}
