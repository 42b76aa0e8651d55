//! Proxies: HTTP through the API server to a pod, a service or a node's kubelet.
//!
//! `…/services/web:http/proxy/index.html` asks one of the Service's ready endpoints for `/index.html`. The name in the path
//! may carry a scheme and a port: `https:web:8443`, `web:http`, `web`.
//!
//! # Invariants
//! 1. Credentials of the request (Authorization, client certificate) are never passed on.
//!
//! # In Kubernetes
//! `pkg/registry/core/{pod,service,node}/strategy.go` (`ResourceLocation`), `apimachinery/pkg/util/proxy/`. Left out:
//! rewriting of links in HTML, upgrades through service proxies.

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

fn target(name: &str) -> Target {
    let parts: Vec<&str> = name.split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [scheme, name, port] => (*scheme, *name, *port),
        [name, port] => ("", *name, *port),
        _ => ("", name, ""),
    };
    let scheme = if scheme.is_empty() { "http" } else { scheme };
    Target { scheme: scheme.into(), name: name.into(), port: port.into() }
}

/// Passes a request on to what the path names.
///
/// # Errors
/// 404, 503 when a service has no ready endpoint, 500 when nobody answers.
pub async fn handle(routed: &Routed<'_>, request: Request<Incoming>) -> Result<Answer, Status> {
    let target = target(&routed.context.info.name);
    let store = routed.context.server.stores.of(routed.resource);
    let namespace = if routed.resource.namespaced { routed.context.namespace() } else { None };
    let found = store.get(namespace, &target.name, At::Consistent).await?;
    let client = match routed.resource.resource {
        "nodes" => routed.context.server.kubelet.of_node(&found.object)?,
        "pods" => plain_client(&target.scheme, &pod_address(&found.object, &target.port)?)?,
        _ => plain_client(&target.scheme, &service_address(routed, &found.object, &target.port).await?)?,
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
    let (head, body) = response.into_parts();
    Ok(Response::from_parts(head, body.map_err(|e| Box::new(e) as BoxError).boxed_unsync()))
}

fn plain_client(scheme: &str, address: &str) -> Result<Client, Status> {
    let mut config = ClientConfig::new(&format!("{scheme}://{address}"));
    config.tls = TlsOptions { insecure_skip_verify: true, ..TlsOptions::default() };
    config.http1_only = true;
    Client::new(config).map_err(|e| Status::internal(e.to_string()))
}

fn pod_address(pod: &Object, port: &str) -> Result<String, Status> {
    let value = pod.as_value();
    let address = text(value, "/status/podIP");
    if address.is_empty() {
        return Err(Status::bad_request("address not allowed"));
    }
    let first = list(value, "/spec/containers").iter().flat_map(|c| list(c, "/ports")).next();
    let port = match (port, first) {
        ("", Some(first)) => number(first, "/containerPort").to_string(),
        ("", None) => "80".to_owned(),
        (port, _) => port.to_owned(),
    };
    Ok(format!("{address}:{port}"))
}

/// A ready endpoint of the service, at the port that is asked for by name or number.
async fn service_address(routed: &Routed<'_>, service: &Object, asked: &str) -> Result<String, Status> {
    let value = service.as_value();
    let ports = list(value, "/spec/ports");
    let chosen = ports
        .iter()
        .find(|p| asked.is_empty() || text(p, "/name") == asked || number(p, "/port").to_string() == asked);
    let unavailable =
        |why: &str| Status::service_unavailable(format!("{why} for service {:?}", service.name()));
    let port_name = text(chosen.ok_or_else(|| unavailable("no service port found"))?, "/name").to_owned();
    let slices = registry::find("discovery.k8s.io", "v1", "endpointslices").expect("slices are registered");
    let cache = routed.context.server.stores.of(slices).cacher().clone();
    for slice in cache.snapshot(&slices.key_prefix(service.namespace())).await? {
        let slice = slice.object.as_value();
        if text(slice, "/metadata/labels/kubernetes.io~1service-name") != service.name() {
            continue;
        }
        let port =
            list(slice, "/ports").iter().find(|p| text(p, "/name") == port_name).map(|p| number(p, "/port"));
        let ready = list(slice, "/endpoints")
            .iter()
            .find(|e| e.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true));
        if let (Some(port), Some(ready)) = (port, ready) {
            return Ok(format!("{}:{port}", text(ready, "/addresses/0")));
        }
    }
    Err(unavailable("no endpoints available"))
}
