//! `kubectl port-forward`: local ports that lead into a pod.
//!
//! Each local connection becomes a pair of SPDY streams (data and error) over one tunnel to the API server.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/portforward`, `client-go/tools/portforward/portforward.go`. Left out: other addresses than loopback.
#![expect(clippy::disallowed_methods, reason = "shell: listens on local ports")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Args;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::logs::find_pod;
use crate::context::{Context, eprint};
use crate::failure::Failure;
use crate::object::Object;
use crate::upgrade::spdy::Spdy;
use crate::upgrade::{self, TUNNEL_PROTOCOL};

/// Flags of `kubectl port-forward`.
#[derive(Debug, Args)]
pub struct PortForwardArgs {
    /// POD or TYPE/NAME, then [LOCAL:]REMOTE ….
    pub arguments: Vec<String>,
    /// Addresses to listen on (loopback only).
    #[arg(long, default_value = "localhost")]
    pub address: String,
}

/// Runs `kubectl port-forward` until it is interrupted.
///
/// # Errors
/// No such pod or port, or the local port is taken.
pub async fn run(ctx: &Context, args: PortForwardArgs) -> Result<(), Failure> {
    let Some((target, ports)) = args.arguments.split_first().filter(|(_, ports)| !ports.is_empty()) else {
        return Err(Failure::message(
            "TYPE/NAME and list of ports are required for port-forward\nSee 'kubectl port-forward -h' for help and examples",
        ));
    };
    let service = match target.split_once('/') {
        Some(("svc" | "service" | "services", name)) => {
            let services = ctx.resource("services").await?.clone();
            Some(ctx.client().await?.objects(&services, Some(&ctx.namespace())).get(name).await?)
        }
        _ => None,
    };
    let pod = find_pod(ctx, target).await?;
    if pod.get_str("/status/phase") != Some("Running") {
        let phase = pod.get_str("/status/phase").unwrap_or("Unknown");
        return Err(Failure::message(format!(
            "unable to forward port because pod is not running. Current status={phase}"
        )));
    }
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let path = pods.path(pod.namespace(), Some(pod.name()), Some("portforward"));
    let socket = upgrade::websocket(ctx.client().await?, &path, &[TUNNEL_PROTOCOL]).await?;
    let spdy = Arc::new(Spdy::client(upgrade::tunnel(socket.messages)));
    let requests = Arc::new(AtomicU32::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for port in ports {
        let (local, remote) = parse_port(port, service.as_ref(), &pod)?;
        let listener = TcpListener::bind(("127.0.0.1", local)).await.map_err(|e| {
            Failure::message(format!("unable to listen on port {local}: Listeners failed to create with the following errors: [unable to create listener: Error listen tcp4 127.0.0.1:{local}: bind: {e}]"))
        })?;
        let local = listener.local_addr()?.port();
        ctx.print(&format!("Forwarding from 127.0.0.1:{local} -> {remote}\n"));
        let (spdy, requests) = (spdy.clone(), requests.clone());
        tasks.spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let request = requests.fetch_add(1, Ordering::Relaxed);
                let spdy = spdy.clone();
                tokio::spawn(async move {
                    if let Err(error) = forward(&spdy, connection, local, remote, request).await {
                        eprint(&format!("error forwarding port {remote}: {error}\n"));
                    }
                });
            }
        });
    }
    tokio::select! {
        () = crate::signals::shutdown() => Ok(()),
        _ = tasks.join_next() => Ok(()),
    }
}

/// `8080:80`, `:80`, `80`, `8080:http`; a Service's port becomes its target's.
fn parse_port(text: &str, service: Option<&Object>, pod: &Object) -> Result<(u16, u16), Failure> {
    let bad = || Failure::message(format!("error parsing {text:?}: invalid port"));
    let (local, remote) = text.split_once(':').unwrap_or((text, text));
    let mut wanted = Value::from(remote);
    if let Some(service) = service {
        let ports = service.get("/spec/ports").and_then(Value::as_array).into_iter().flatten();
        let matches =
            |p: &&Value| p["name"] == remote || remote.parse::<u16>().is_ok_and(|number| p["port"] == number);
        let port = ports.clone().find(matches).ok_or_else(|| {
            Failure::message(format!("Service {} does not have a service port {remote}", service.name()))
        })?;
        wanted = match &port["targetPort"] {
            Value::Null => port["port"].clone(),
            target => target.clone(),
        };
    }
    let number = match wanted.as_u64().or_else(|| wanted.as_str()?.parse().ok()) {
        Some(number) => u16::try_from(number).map_err(|_| bad())?,
        None => named_port(pod, wanted.as_str().unwrap_or_default()).ok_or_else(bad)?,
    };
    let local = match local {
        "" => 0,
        local => local.parse().ok().unwrap_or(number),
    };
    Ok((local, number))
}

fn named_port(pod: &Object, name: &str) -> Option<u16> {
    let containers = pod.get("/spec/containers").and_then(Value::as_array)?;
    let mut ports = containers.iter().flat_map(|c| c["ports"].as_array().into_iter().flatten());
    ports.find(|p| p["name"] == name)?["containerPort"].as_u64()?.try_into().ok()
}

async fn forward(
    spdy: &Spdy,
    mut connection: TcpStream,
    local: u16,
    remote: u16,
    request: u32,
) -> std::io::Result<()> {
    eprint_handling(local);
    let (port, request) = (remote.to_string(), request.to_string());
    let headers =
        |kind: &'static str| [("streamtype", kind), ("port", port.as_str()), ("requestid", request.as_str())];
    let mut error = spdy.open_stream(&headers("error"), true).await?;
    let mut data = spdy.open_stream(&headers("data"), false).await?;
    let copied = tokio::io::copy_bidirectional(&mut connection, &mut data).await;
    let _ = data.shutdown().await;
    let mut message = String::new();
    error.read_to_string(&mut message).await?;
    match message.is_empty() {
        true => copied.map(drop),
        false => Err(std::io::Error::other(message)),
    }
}

fn eprint_handling(local: u16) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "Handling connection for {local}");
}
