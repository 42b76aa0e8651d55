//! `kubectl port-forward`: local ports that lead into a pod.
//!
//! Each local connection becomes a pair of SPDY streams (data and error) over one tunnel to the API server.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/portforward`, `client-go/tools/portforward/portforward.go`.
//! Left out: beginning anew when the pod is replaced.
#![expect(clippy::disallowed_methods, reason = "shell: listens on local ports")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Args;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::pods::{Purpose, find_pod, running_timeout};
use crate::client::{Client, ClientError};
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
    /// Addresses to listen on (comma separated). Only accepts IP addresses or localhost as a value.
    #[arg(long, default_value = "localhost", value_delimiter = ',')]
    pub address: Vec<String>,
    /// The length of time (like 5s, 2m, or 3h, higher than zero) to wait until at least one pod is running.
    #[arg(long, default_value = "1m0s")]
    pub pod_running_timeout: String,
}

/// Runs `kubectl port-forward` until it is interrupted.
///
/// # Errors
/// No such pod or port, or no local address is free.
pub async fn run(ctx: &Context, args: PortForwardArgs) -> Result<(), Failure> {
    let Some((target, ports)) = args.arguments.split_first().filter(|(_, ports)| !ports.is_empty()) else {
        return Err(Failure::message(
            "TYPE/NAME and list of ports are required for port-forward\nSee 'kubectl port-forward -h' for help and examples",
        ));
    };
    let limit = running_timeout(&args.pod_running_timeout, "port-forward")?;
    let service = match target.split_once('/') {
        Some(("svc" | "service" | "services", name)) => {
            let services = ctx.resource("services").await?.clone();
            Some(ctx.client().await?.objects(&services, Some(&ctx.namespace())).get(name).await?)
        }
        _ => None,
    };
    let pod = find_pod(ctx, target, Purpose::Attach, limit).await?;
    if pod.get_str("/status/phase") != Some("Running") {
        let phase = pod.get_str("/status/phase").unwrap_or("Unknown");
        return Err(Failure::message(format!(
            "unable to forward port because pod is not running. Current status={phase}"
        )));
    }
    let addresses = addresses(&args.address)?;
    let ports = ports.iter().map(|port| parse_port(port, service.as_ref(), &pod));
    let ports: Vec<(u16, u16)> = ports.collect::<Result<_, _>>()?;
    let tunnels = Arc::new(Tunnels::open(ctx.client().await?, &pod).await?);
    let requests = Arc::new(AtomicU32::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for (local, remote) in ports {
        for (listener, local) in listen(&addresses, local).await? {
            ctx.print(&format!("Forwarding from {} -> {remote}\n", listener.local_addr()?));
            let (tunnels, requests) = (tunnels.clone(), requests.clone());
            tasks.spawn(accept(listener, tunnels, requests, local, remote));
        }
    }
    tokio::select! {
        () = crate::signals::shutdown() => Ok(()),
        () = tunnels.lost() => Err(Failure::message("lost connection to pod")),
        _ = tasks.join_next() => Ok(()),
    }
}

/// The tunnel to the pod; a new one after a connection that the pod refused, because some runtimes serve no more on one that had an error.
struct Tunnels {
    client: Client,
    path: String,
    current: Mutex<Arc<Spdy>>,
    renewed: Notify,
}

impl Tunnels {
    async fn open(client: &Client, pod: &Object) -> Result<Self, Failure> {
        let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
        let path = pods.path(pod.namespace(), Some(pod.name()), Some("portforward"));
        let first = Mutex::new(Arc::new(tunnel(client, &path).await?));
        Ok(Tunnels { client: client.clone(), path, current: first, renewed: Notify::new() })
    }

    fn current(&self) -> Arc<Spdy> {
        self.current.lock().clone()
    }

    /// Puts a new tunnel in the place of this one, unless somebody did; what runs through the old one goes on.
    async fn renew(&self, old: &Arc<Spdy>) {
        let Ok(new) = tunnel(&self.client, &self.path).await else { return };
        {
            let mut current = self.current.lock();
            if Arc::ptr_eq(&current, old) {
                *current = Arc::new(new);
            }
        }
        self.renewed.notify_one();
    }

    /// Waits until the tunnel that is in use is gone.
    async fn lost(&self) {
        loop {
            let now = self.current();
            tokio::select! {
                () = now.closed() => {
                    if Arc::ptr_eq(&now, &self.current()) {
                        return;
                    }
                }
                () = self.renewed.notified() => {}
            }
        }
    }
}

async fn tunnel(client: &Client, path: &str) -> Result<Spdy, ClientError> {
    match upgrade::websocket(client, path, &[TUNNEL_PROTOCOL]).await {
        Ok(socket) if socket.protocol == TUNNEL_PROTOCOL => {
            Ok(Spdy::client(upgrade::tunnel(socket.messages)))
        }
        // The server won't have us or the pod; asking in another way changes nothing.
        Err(error) if error.status().is_some_and(|status| matches!(status.code, 401 | 403)) => Err(error),
        // A server before 1.31 speaks SPDY without a tunnel.
        Ok(_) | Err(_) => Ok(Spdy::client(upgrade::spdy_connection(client, path).await?)),
    }
}

/// The addresses to listen on; `localhost` is one of each family, of which one may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    ip: IpAddr,
    required: bool,
}

fn addresses(given: &[String]) -> Result<Vec<Address>, Failure> {
    let mut found: Vec<Address> = Vec::new();
    for text in given {
        match text.as_str() {
            "localhost" => {
                found.push(Address { ip: Ipv4Addr::LOCALHOST.into(), required: false });
                found.push(Address { ip: Ipv6Addr::LOCALHOST.into(), required: false });
            }
            text => {
                let ip = text.parse().map_err(|_| Failure::message(format!("{text} is not a valid IP")))?;
                found.push(Address { ip, required: true });
            }
        }
    }
    Ok(found)
}

/// Listeners for one local port on every address. A port of 0 becomes the same free port on each.
async fn listen(addresses: &[Address], port: u16) -> Result<Vec<(TcpListener, u16)>, Failure> {
    let (mut listeners, mut errors, mut port) = (Vec::new(), Vec::new(), port);
    for Address { ip, required } in addresses {
        match TcpListener::bind((*ip, port)).await {
            Ok(listener) => {
                port = listener.local_addr()?.port();
                listeners.push((listener, port));
            }
            Err(error) => {
                let family = if ip.is_ipv4() { "tcp4" } else { "tcp6" };
                let why = match error.kind() {
                    std::io::ErrorKind::AddrInUse => "address already in use".to_string(),
                    std::io::ErrorKind::PermissionDenied => "permission denied".to_string(),
                    std::io::ErrorKind::AddrNotAvailable => "cannot assign requested address".to_string(),
                    _ => error.to_string(),
                };
                let at = std::net::SocketAddr::new(*ip, port);
                errors.push(format!("unable to create listener: Error listen {family} {at}: bind: {why}"));
                if *required {
                    listeners.clear();
                    break;
                }
            }
        }
    }
    match listeners.is_empty() {
        false => Ok(listeners),
        true => {
            let all = errors.join(" ");
            let why = format!(
                "unable to listen on port {port}: Listeners failed to create with the following errors: [{all}]"
            );
            eprint(&format!("{}\n", why.replacen("unable", "Unable", 1)));
            Err(Failure::message(format!(
                "unable to listen on any of the requested ports: [{{{port} {port}}}]"
            )))
        }
    }
}

/// Takes local connections; one that the pod refuses ends alone.
async fn accept(
    listener: TcpListener,
    tunnels: Arc<Tunnels>,
    requests: Arc<AtomicU32>,
    local: u16,
    remote: u16,
) {
    while let Ok((connection, _)) = listener.accept().await {
        let request = requests.fetch_add(1, Ordering::Relaxed);
        let tunnels = tunnels.clone();
        tokio::spawn(async move {
            let spdy = tunnels.current();
            if let Err(error) = forward(&spdy, connection, local, remote, request).await {
                eprint(&format!("error forwarding port {remote}: {error}\n"));
                tunnels.renew(&spdy).await;
            }
        });
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
            Failure::message(match remote.parse::<u16>() {
                Ok(_) => format!("Service {} does not have a service port {remote}", service.name()),
                Err(_) => format!("Service '{}' does not have a named port '{remote}'", service.name()),
            })
        })?;
        wanted = match &port["targetPort"] {
            Value::Null => port["port"].clone(),
            target => target.clone(),
        };
    }
    let number = match wanted.as_u64().or_else(|| wanted.as_str()?.parse().ok()) {
        Some(number) => u16::try_from(number).map_err(|_| bad())?,
        None => {
            let name = wanted.as_str().unwrap_or_default();
            named_port(pod, name).ok_or_else(|| {
                Failure::message(format!("Pod '{}' does not have a named port '{name}'", pod.name()))
            })?
        }
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

/// Longest reason that is read and shown.
const MAX_ERROR_BYTES: u64 = 4 * 1024;

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
    let mut message = Vec::new();
    (&mut error).take(MAX_ERROR_BYTES).read_to_end(&mut message).await?;
    let message = String::from_utf8_lossy(&message).into_owned();
    match message.is_empty() {
        true => copied.map(drop),
        false => Err(std::io::Error::other(message)),
    }
}

fn eprint_handling(local: u16) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "Handling connection for {local}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn localhost_is_both_families_and_an_address_that_is_taken_is_named() {
        let both = addresses(&["localhost".to_string()]).unwrap();
        let listeners = listen(&both, 0).await.unwrap();
        let port = listeners[0].1;
        assert!(listeners.iter().all(|(_, p)| *p == port));
        let one = addresses(&["127.0.0.1".to_string()]).unwrap();
        let error = listen(&one, port).await.unwrap_err();
        assert!(error.to_string().contains("unable to listen on any of the requested ports"), "{error}");
        assert!(addresses(&["example.org".to_string()]).is_err());
    }

    #[test]
    fn a_services_port_becomes_its_targets() {
        let object = |value| Object::from_value(value).unwrap();
        let pod = object(
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}]}}),
        );
        let service = object(
            json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}, "spec": {"ports": [
            {"name": "http", "port": 80, "targetPort": "web"}]}}),
        );
        assert_eq!(parse_port("9000:http", Some(&service), &pod).unwrap(), (9000, 8080));
        assert_eq!(parse_port("80", Some(&service), &pod).unwrap(), (80, 8080));
        assert_eq!(parse_port(":web", None, &pod).unwrap(), (0, 8080));
        assert!(parse_port("81", Some(&service), &pod).is_err());
    }
}
