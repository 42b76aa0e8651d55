//! Proxies: HTTP through the API server to a pod, a service or a node's kubelet.
//!
//! `…/services/web:http/proxy/index.html` asks one of the Service's ready endpoints for `/index.html`. The name in the path
//! may carry a scheme and a port: `https:web:8443`, `web:http`, `web`.
//!
//! The API server stands where its users don't: a pod's address is whatever a kubelet wrote, an endpoint's whatever anybody wrote. So only
//! addresses that can be another machine's are connected to, and a Service's endpoint must be that of a pod.
//!
//! # Invariants
//! 1. Credentials of the request (Authorization, client certificate) are never passed on.
//! 2. No loopback, link-local or multicast address is ever connected to on behalf of a pod or a Service.
//!
//! # In Kubernetes
//! `pkg/registry/core/{pod,service,node}/strategy.go` (`ResourceLocation`), `pkg/proxy/util` (`IsProxyableIP`),
//! `apimachinery/pkg/util/proxy/`. Left out: a random choice among a Service's endpoints, rewriting of links in HTML, upgrades through service proxies.

use std::net::IpAddr;

use http::{HeaderName, Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use stage1_kubectl::client::{Client, ClientConfig};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;
use stage1_kubectl::tls::TlsOptions;

use super::logs::refusal;
use crate::filters::body_limit;
use crate::handlers::Routed;
use crate::handlers::pretty::PassedOn;
use crate::handlers::respond::{Answer, BoxError};
use crate::registry;
use crate::table::cells::{list, number, text};
use crate::watch_cache::At;

/// Headers that belong to one connection or to one's identity.
const NOT_PASSED_ON: [HeaderName; 5] =
    [header::HOST, header::AUTHORIZATION, header::CONNECTION, header::UPGRADE, header::TRANSFER_ENCODING];

/// `scheme:name:port` of a proxy path.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    scheme: String,
    name: String,
    port: String,
}

/// `None`: more parts than three, no name, or a scheme that isn't HTTP's.
fn target(name: &str) -> Option<Target> {
    let parts: Vec<&str> = name.split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [scheme, name, port] => (*scheme, *name, *port),
        [name, port] => ("", *name, *port),
        [name] => ("", *name, ""),
        _ => return None,
    };
    let scheme = if scheme.is_empty() { "http" } else { scheme };
    let is_valid = !name.is_empty() && ["http", "https"].contains(&scheme);
    is_valid.then(|| Target { scheme: scheme.into(), name: name.into(), port: port.into() })
}

/// Whether an address may be connected to for a user: Go's `IsGlobalUnicast`.
fn is_proxyable(address: &str) -> bool {
    match address.parse() {
        Ok(IpAddr::V4(ip)) => {
            let special = ip.is_unspecified() || ip.is_loopback() || ip.is_link_local();
            !special && !ip.is_multicast() && !ip.is_broadcast()
        }
        Ok(IpAddr::V6(ip)) => {
            let mapped = ip.to_ipv4_mapped().is_none_or(|ip| is_proxyable(&ip.to_string()));
            let special = ip.is_unspecified() || ip.is_loopback() || ip.is_unicast_link_local();
            mapped && !special && !ip.is_multicast()
        }
        Err(_) => false,
    }
}

/// An address in a URL.
fn host(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

/// Passes a request on to what the path names.
///
/// # Errors
/// 404, 503 when a service has no ready endpoint, 500 when nobody answers.
pub async fn handle(routed: &Routed<'_>, request: Request<Incoming>) -> Result<Answer, Status> {
    let id = &routed.context.info.name;
    let what = routed.resource.resource.trim_end_matches('s');
    let target = target(id).ok_or_else(|| Status::bad_request(format!("invalid {what} request {id:?}")))?;
    let store = routed.context.server.stores.of(routed.resource);
    let namespace = if routed.resource.namespaced { routed.context.namespace() } else { None };
    let found = store.get(namespace, &target.name, At::Consistent).await?;
    let client = match routed.resource.resource {
        "nodes" => routed.context.server.kubelet.of_node(&found.object)?,
        "pods" => plain_client(routed, &target.scheme, &pod_address(&found.object, &target.port)?)?,
        _ => {
            let address = service_address(routed, &found.object, &target.port).await?;
            plain_client(routed, &target.scheme, &address)?
        }
    };
    let rest = routed.context.info.rest.as_deref().unwrap_or("");
    let query = request.uri().query().map(|q| format!("?{q}")).unwrap_or_default();
    let (mut head, body) = request.into_parts();
    head.uri =
        format!("/{rest}{query}").parse().map_err(|_| Status::bad_request("the proxied path is no path"))?;
    for name in &NOT_PASSED_ON {
        head.headers.remove(name);
    }
    let body = body_limit::read(body).await?;
    let response = client.stream(Request::from_parts(head, body)).await.map_err(refusal)?;
    let (mut head, body) = response.into_parts();
    head.extensions.insert(PassedOn);
    Ok(Response::from_parts(head, body.map_err(|e| Box::new(e) as BoxError).boxed_unsync()))
}

fn plain_client(routed: &Routed<'_>, scheme: &str, address: &str) -> Result<Client, Status> {
    let mut config = ClientConfig::new(&format!("{scheme}://{address}"));
    config.tls = TlsOptions { insecure_skip_verify: true, ..TlsOptions::default() };
    config.http1_only = true;
    config.dial = Some(routed.context.server.pod_network.clone());
    Client::new(config).map_err(|e| Status::internal(e.to_string()))
}

fn pod_address(pod: &Object, port: &str) -> Result<String, Status> {
    let value = pod.as_value();
    let address = text(value, "/status/podIP");
    if !is_proxyable(address) {
        return Err(Status::bad_request("address not allowed"));
    }
    let first = list(value, "/spec/containers").iter().flat_map(|c| list(c, "/ports")).next();
    Ok(match (port, first) {
        ("", Some(first)) => format!("{}:{}", host(address), number(first, "/containerPort")),
        // The scheme's own port.
        ("", None) => host(address),
        (port, _) => format!("{}:{port}", host(address)),
    })
}

/// A ready endpoint of the service, at the port that is asked for by name or number.
async fn service_address(routed: &Routed<'_>, service: &Object, asked: &str) -> Result<String, Status> {
    let value = service.as_value();
    // A number is the Service's own port and stands for its name; a name is taken as it is, and none is the name of the
    // only port.
    let port_name = match asked.parse::<i64>() {
        Err(_) => asked.to_owned(),
        Ok(asked) => {
            let found = list(value, "/spec/ports").iter().find(|p| number(p, "/port") == asked);
            let missing = || format!("no service port {asked} found for service {:?}", service.name());
            text(found.ok_or_else(|| Status::service_unavailable(missing()))?, "/name").to_owned()
        }
    };
    let slices = registry::find("discovery.k8s.io", "v1", "endpointslices").expect("slices are registered");
    let cache = routed.context.server.stores.of(slices).cacher().clone();
    for slice in cache.snapshot(&slices.key_prefix(service.namespace())).await? {
        let slice = slice.object.as_value();
        if text(slice, "/metadata/labels/kubernetes.io~1service-name") != service.name() {
            continue;
        }
        let port =
            list(slice, "/ports").iter().find(|p| text(p, "/name") == port_name).map(|p| number(p, "/port"));
        let Some(port) = port else { continue };
        for endpoint in list(slice, "/endpoints") {
            let ready = endpoint.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true);
            let address = text(endpoint, "/addresses/0");
            if ready && is_proxyable(address) && is_of_a_pod(routed, service, endpoint, address).await {
                return Ok(format!("{}:{port}", host(address)));
            }
        }
    }
    Err(Status::service_unavailable(format!("no endpoints available for service {:?}", service.name())))
}

/// Whether an endpoint is a pod of the Service's namespace, at the address that the pod has.
async fn is_of_a_pod(routed: &Routed<'_>, service: &Object, endpoint: &Value, address: &str) -> bool {
    let namespace = service.namespace();
    if text(endpoint, "/targetRef/namespace") != namespace.unwrap_or_default() {
        return false;
    }
    let pods = registry::find("", "v1", "pods").expect("pods are registered");
    let store = routed.context.server.stores.of(pods);
    let pod = store.get(namespace, text(endpoint, "/targetRef/name"), At::Consistent).await;
    let has = |pod: &Value| list(pod, "/status/podIPs").iter().any(|ip| text(ip, "/ip") == address);
    pod.is_ok_and(|pod| has(pod.object.as_value()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_carry_scheme_and_port() {
        let parts = |name: &str| target(name).map(|t| (t.scheme, t.name, t.port));
        let some = |a: &str, b: &str, c: &str| Some((a.to_owned(), b.to_owned(), c.to_owned()));
        assert_eq!(parts("web"), some("http", "web", ""));
        assert_eq!(parts("web:http"), some("http", "web", "http"));
        assert_eq!(parts("https:web:8443"), some("https", "web", "8443"));
        assert_eq!(parts(":web:80"), some("http", "web", "80"));
        for wrong in ["", ":80", "ftp:web:21", "a:b:c:d", "https::443"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_addresses_of_other_machines_are_connected_to() {
        for allowed in ["10.244.0.5", "192.168.1.1", "8.8.8.8", "fd00::1"] {
            assert!(is_proxyable(allowed), "{allowed}");
        }
        for refused in [
            "",
            "localhost",
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
        ] {
            assert!(!is_proxyable(refused), "{refused}");
        }
    }
}
