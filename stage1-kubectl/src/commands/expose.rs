//! `kubectl expose`: makes a Service for a workload.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/expose/expose.go`.

use clap::Args;
use http::Method;
use serde_json::{Map, Value, json};

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection};
use super::create::{print_result, saved};
use super::run::override_with;
use super::set::pod_spec_pointer;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::{PrintFlags, Printer};
use crate::request::{self, query};

/// Flags of `kubectl expose`.
#[derive(Debug, Args)]
pub struct ExposeArgs {
    /// TYPE NAME or TYPE/NAME.
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// The port that the service should serve on.
    #[arg(long)]
    pub port: Option<String>,
    /// Name or number for the port on the container that the service should direct traffic to.
    #[arg(long)]
    pub target_port: Option<String>,
    /// The network protocol for the service to be created.
    #[arg(long)]
    pub protocol: Option<String>,
    /// The name for the newly created object.
    #[arg(long)]
    pub name: Option<String>,
    /// Type for this service: ClusterIP, NodePort, LoadBalancer, or ExternalName.
    #[arg(long = "type")]
    pub service_type: Option<String>,
    /// ClusterIP to be assigned to the service; 'None' for a headless one.
    #[arg(long)]
    pub cluster_ip: Option<String>,
    /// A label selector to use for this service.
    #[arg(long)]
    pub selector: Option<String>,
    /// Labels to apply to the service created by this call.
    #[arg(short = 'l', long)]
    pub labels: Option<String>,
    /// Additional external IP address (not managed by Kubernetes) to accept for the service.
    #[arg(long)]
    pub external_ip: Option<String>,
    /// IP to assign to the LoadBalancer. If empty, an ephemeral IP will be created and used (cloud-provider specific).
    #[arg(long)]
    pub load_balancer_ip: Option<String>,
    /// If non-empty, set the session affinity for the service to this; legal values: 'None', 'ClientIP'.
    #[arg(long)]
    pub session_affinity: Option<String>,
    /// An inline JSON override for the generated object.
    #[arg(long)]
    pub overrides: Option<String>,
    /// The method used to override the generated object: json, merge, or strategic.
    #[arg(long, default_value = "merge")]
    pub override_type: String,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-expose")]
    pub field_manager: String,
    /// If true, the configuration of current object will be saved in its annotation.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub save_config: bool,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
}

/// Runs `kubectl expose`.
///
/// # Errors
/// The workload has no selector or port, or the server refused.
pub async fn run(ctx: &Context, args: ExposeArgs) -> Result<(), Failure> {
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = args.print.printer()?.map(Printer::typed);
    let services = crate::resource::of::<k8s_openapi::api::core::v1::Service>();
    for target in builder::targets(ctx, &args.arguments, &args.files, &Selection::default()).await? {
        let workload = target.get(ctx).await?;
        let service = service_for(&args, &workload)?;
        let created = match dry_run {
            DryRun::Client => {
                let mut shown = service;
                shown.set_namespace(ctx.flags.namespace.as_deref());
                shown
            }
            _ => {
                let service = Object::from_value(saved(service.into_value(), args.save_config)?)
                    .map_err(|e| Failure::message(e.to_string()))?;
                let query =
                    query(&[("dryRun", dry_run.query()), ("fieldManager", Some(args.field_manager.clone()))]);
                let path = services.path(target.namespace.as_deref(), None, None) + &query;
                ctx.client()
                    .await?
                    .request(request::request(Method::POST, &path, Some(service.as_value())))
                    .await?
            }
        };
        print_result(ctx, output.as_ref(), &created, "exposed", dry_run)?;
    }
    Ok(())
}

/// The Service for a workload: its selector, its labels, its containers' ports.
fn service_for(args: &ExposeArgs, workload: &Object) -> Result<Object, Failure> {
    let selector = match &args.selector {
        Some(text) => {
            let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
            Value::Object(pairs.map(|(k, v)| (k.to_string(), v.into())).collect::<Map<_, _>>())
        }
        None => selector_of(workload)?,
    };
    let ports = match &args.port {
        Some(list) => given_ports(list, workload, args)?,
        None => numbered(container_ports(workload, args)),
    };
    if ports.is_empty() {
        return Err(Failure::message("couldn't find port via --port flag or introspection"));
    }
    let mut spec = json!({"ports": ports, "selector": selector});
    if let Some(kind) = &args.service_type {
        spec["type"] = kind.clone().into();
    }
    if let Some(address) = &args.cluster_ip {
        spec["clusterIP"] = address.clone().into();
    }
    if let Some(address) = &args.external_ip {
        spec["externalIPs"] = json!([address]);
    }
    if let (Some(address), Some("LoadBalancer")) = (&args.load_balancer_ip, args.service_type.as_deref()) {
        spec["loadBalancerIP"] = address.clone().into();
    }
    if let Some(affinity) = &args.session_affinity {
        spec["sessionAffinity"] = affinity.clone().into();
    }
    let name = args.name.clone().unwrap_or_else(|| workload.name().to_string());
    let mut metadata = json!({"creationTimestamp": null, "name": name});
    match &args.labels {
        Some(text) => {
            let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
            metadata["labels"] = Value::Object(pairs.map(|(k, v)| (k.to_string(), v.into())).collect());
        }
        None if !workload.labels().is_empty() => metadata["labels"] = json!(workload.labels()),
        None => {}
    }
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec, "status": {"loadBalancer": {}},
    });
    if let Some(text) = &args.overrides {
        let gvk = crate::resource::GroupVersionKind::new("", "v1", "Service");
        override_with(&mut service, text, &args.override_type, &gvk)?;
    }
    Object::from_value(service).map_err(|e| Failure::message(e.to_string()))
}

/// Several ports need names.
fn numbered(mut ports: Vec<Value>) -> Vec<Value> {
    if ports.len() > 1 {
        for (at, port) in ports.iter_mut().enumerate() {
            port["name"] = format!("port-{}", at + 1).into();
        }
    }
    ports
}

/// The ports of `--port`, each with the protocols that the containers have for it.
fn given_ports(list: &str, workload: &Object, args: &ExposeArgs) -> Result<Vec<Value>, Failure> {
    let declared = container_ports(workload, args);
    let mut ports = Vec::new();
    for (at, text) in list.split(',').enumerate() {
        let mut port = parse_port(text, args)?;
        if list.contains(',') {
            port["name"] = format!("port-{}", at + 1).into();
        }
        let same = declared.iter().filter(|d| d["port"] == port["port"] && args.protocol.is_none());
        let protocols: Vec<&str> = same.filter_map(|d| d["protocol"].as_str()).collect();
        match protocols.as_slice() {
            [] => ports.push(port),
            [one] => {
                port["protocol"] = (*one).into();
                ports.push(port);
            }
            several => ports.extend(several.iter().map(|protocol| {
                let mut port = port.clone();
                port["name"] = format!("port-{}-{}", at + 1, protocol.to_lowercase()).into();
                port["protocol"] = (*protocol).into();
                port
            })),
        }
    }
    Ok(ports)
}

fn selector_of(workload: &Object) -> Result<Value, Failure> {
    let found = match workload.kind() {
        "Pod" => workload.get("/metadata/labels"),
        "Service" | "ReplicationController" => workload.get("/spec/selector"),
        _ => workload.get("/spec/selector/matchLabels"),
    };
    let kind = workload.kind();
    found.cloned().ok_or_else(|| Failure::message(format!("cannot expose a {kind}: the selector is not set")))
}

fn parse_port(text: &str, args: &ExposeArgs) -> Result<Value, Failure> {
    let number: u16 = text.parse().map_err(|_| Failure::message(format!("invalid port {text:?}")))?;
    let target = match &args.target_port {
        None => json!(number),
        Some(target) => target.parse::<u16>().map_or_else(|_| json!(target), |number| json!(number)),
    };
    let protocol = args.protocol.clone().unwrap_or_else(|| "TCP".into());
    Ok(json!({"port": number, "protocol": protocol, "targetPort": target}))
}

fn container_ports(workload: &Object, args: &ExposeArgs) -> Vec<Value> {
    if workload.kind() == "Service" {
        let ports = workload.get("/spec/ports").and_then(Value::as_array).into_iter().flatten();
        let copy = |port: &Value| {
            let declared = port["protocol"].as_str().unwrap_or("TCP");
            let protocol = args.protocol.as_deref().unwrap_or(declared);
            json!({"port": port["port"], "protocol": protocol, "targetPort": port["port"]})
        };
        return ports.map(copy).collect();
    }
    let pointer = pod_spec_pointer(workload).unwrap_or("/spec");
    let containers = workload.get(&format!("{pointer}/containers")).and_then(Value::as_array);
    let ports = containers.into_iter().flatten().flat_map(|c| c["ports"].as_array().into_iter().flatten());
    ports
        .map(|port| {
            let number = &port["containerPort"];
            let declared = port["protocol"].as_str().unwrap_or("TCP");
            let protocol = args.protocol.as_deref().unwrap_or(declared);
            json!({"port": number, "protocol": protocol, "targetPort": number})
        })
        .collect()
}
