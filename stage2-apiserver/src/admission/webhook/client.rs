//! The way to a webhook: its address, its connection, and what to say when there is none.
//!
//! A Service is resolved to one of its endpoints here, because the API server stands outside of the nodes' networks and their Service
//! rules; a pod is reached through its node ([`crate::streaming::pod_network`]); the certificate must still be that of `NAME.NAMESPACE.svc`. Connections are kept and used again.
//!
//! # In Kubernetes
//! `apiserver/pkg/util/webhook/client.go`, `kube-aggregator/pkg/apiserver/resolvers.go` (`NewEndpointServiceResolver`). Errors are Go's,
//! because people search for them. Left out: `auditing` of failed calls in the log.
#![expect(clippy::disallowed_methods, reason = "shell: chooses an endpoint by chance")]

use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use serde_json::Value;
use stage1_kubectl::client::{ClientError, Dial};
use stage1_kubectl::object::Object;

use super::{Place, Webhook};
use crate::admission::ObjectReader;
use crate::clients::{self, Clients, Sort};
use crate::decode;

/// Longest answer that is read: an object of the largest size as a patch, encoded, and room around it.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Where to connect, and under which name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// `https://HOST:PORT` to connect to.
    pub server: String,
    /// `HOST[:PORT]` as the request names it.
    pub authority: String,
    /// Path of the URL.
    pub path: String,
    /// The name of the certificate when it isn't the server's.
    pub certificate_name: Option<String>,
}

/// Calls programs outside by HTTPS.
pub struct Caller {
    clients: Clients,
}

impl Caller {
    /// With the way to pods.
    pub fn new(pod_network: Dial) -> Self {
        let clients = Clients::new(Sort {
            user_agent: "kube-apiserver-admission",
            identity_pem: None,
            max_response_bytes: MAX_ANSWER_BYTES,
            pod_network,
        });
        Caller { clients }
    }

    /// Posts a review and gives back the answer's JSON.
    ///
    /// # Errors
    /// What went wrong, as `failed calling webhook "…": ` continues.
    pub async fn call(
        &self,
        webhook: &Webhook,
        reader: &dyn ObjectReader,
        body: &Value,
    ) -> Result<Value, String> {
        let seconds = webhook.timeout_seconds;
        let failed = |why: String| format!("failed to call webhook: {why}");
        let post = |target: &Target| format!("Post \"{}\"", target.shown(seconds));
        let target = resolve(&webhook.place, reader, rand::random())
            .map_err(|(target, why)| failed(format!("{}: {why}", post(&target))))?;
        let client = self.clients.of(clients::Place {
            server: target.server.clone(),
            certificate_name: target.certificate_name.clone(),
            ca_pem: webhook.ca_bundle.clone(),
            insecure_skip_verify: false,
        });
        let client = client.map_err(|why| format!("could not get REST client: {why}"))?;
        let request = Request::post(format!("{}?timeout={seconds}s", target.path))
            .header(header::HOST, &target.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .body(Bytes::from(body.to_string()))
            .map_err(|error| failed(error.to_string()))?;
        let sent = tokio::time::timeout(Duration::from_secs(seconds), client.send(request)).await;
        match sent {
            Err(_) => Err(failed(format!("{}: context deadline exceeded", post(&target)))),
            Ok(Err(ClientError::Api(status))) => Err(failed(status.message)),
            Ok(Err(error)) => Err(failed(format!("{}: {error}", post(&target)))),
            Ok(Ok(answer)) => decode::any_object(answer.body()).map_err(failed),
        }
    }
}

impl Target {
    /// The URL as errors show it.
    fn shown(&self, seconds: u64) -> String {
        format!("https://{}{}?timeout={seconds}s", self.authority, self.path)
    }
}

/// Finds the address of a place; `random` chooses among several.
///
/// # Errors
/// The target as far as it is known, and why it can't be reached.
pub fn resolve(place: &Place, reader: &dyn ObjectReader, random: u64) -> Result<Target, (Target, String)> {
    match place {
        Place::Url(url) => {
            let rest = url.strip_prefix("https://").unwrap_or(url);
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            Ok(Target {
                server: format!("https://{authority}"),
                authority: authority.to_owned(),
                path: clean_path(path),
                certificate_name: None,
            })
        }
        Place::Service { namespace, name, path, port } => {
            let host = format!("{name}.{namespace}.svc");
            let mut target = Target {
                server: String::new(),
                authority: format!("{host}:{port}"),
                path: clean_path(path),
                certificate_name: Some(host),
            };
            match endpoint(reader, namespace, name, *port, random) {
                Ok(address) => {
                    target.server = format!("https://{address}");
                    Ok(target)
                }
                Err(why) => Err((target, why)),
            }
        }
    }
}

/// A path with one slash at its front and none at its end.
fn clean_path(path: &str) -> String {
    format!("/{}", path.trim_matches('/'))
}

/// The address of a ready endpoint of a Service's port; `random` chooses among them, so that the load is shared and one that is
/// dead without anybody having noticed isn't asked each time.
///
/// # Errors
/// In the words of the endpoint resolver.
pub fn endpoint(
    reader: &dyn ObjectReader,
    namespace: &str,
    name: &str,
    port: i64,
    random: u64,
) -> Result<String, String> {
    let service = reader.get("", "services", namespace, name);
    let service = service.ok_or_else(|| format!("service {name:?} not found"))?;
    let kind = service.get_str("/spec/type").unwrap_or("ClusterIP");
    if kind == "ExternalName" {
        let host = service.get_str("/spec/externalName").unwrap_or("");
        return Ok(format!("{host}:{port}"));
    }
    let ports = service.get("/spec/ports").and_then(Value::as_array).cloned().unwrap_or_default();
    let found = ports.iter().find(|p| p["port"].as_i64() == Some(port));
    let found = found.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let port_name = found["name"].as_str().unwrap_or("");
    let slices = reader.list("discovery.k8s.io", "endpointslices", namespace);
    let of_service = |s: &&std::sync::Arc<Object>| s.label("kubernetes.io/service-name") == Some(name);
    let mut found: Vec<String> =
        slices.iter().filter(of_service).flat_map(|slice| ready_addresses(slice, port_name)).collect();
    // A pod may be in two slices while it moves from one to the other.
    found.sort();
    found.dedup();
    let count = u64::try_from(found.len()).expect("a count");
    let chosen = random.checked_rem(count).and_then(|at| usize::try_from(at).ok());
    let chosen = chosen.map(|at| found.swap_remove(at));
    chosen.ok_or_else(|| format!("no endpoints available for service {name:?}"))
}

fn ready_addresses(slice: &Object, port_name: &str) -> Vec<String> {
    let list = |pointer: &str| slice.get(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    let ports = list("/ports");
    let port = ports.iter().find(|p| p["name"].as_str().unwrap_or("") == port_name);
    let Some(port) = port.and_then(|port| port["port"].as_i64()) else { return Vec::new() };
    let endpoints = list("/endpoints");
    let ready = endpoints.iter().filter(|e| e["conditions"]["ready"].as_bool() != Some(false));
    let addresses = ready.filter_map(|endpoint| endpoint["addresses"][0].as_str());
    let shown = |a: &str| if a.contains(':') { format!("[{a}]:{port}") } else { format!("{a}:{port}") };
    addresses.map(shown).collect()
}
