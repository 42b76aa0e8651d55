//! Aggregation: groups that another API server answers.
//!
//! *Step 2 of a pod's journey, for what isn't ours.* Before: the request is authenticated and authorised here. After: an `APIService` names the
//! Service of the server whose group it is, and that server's answer is passed on, byte by byte, as it comes ([`proxy`]).
//!
//! To a client it all looks like one server: the groups of the others stand in discovery beside ours ([`discovery`]), and `kubectl top`
//! doesn't know that its numbers come from elsewhere. Whether the other server is there, and what it serves, is asked from time to time
//! ([`available`]) and noted in the APIService's condition `Available`.
//!
//! The other server must know who asks, and can't ask for a password: it trusts us. We show a client certificate of our own
//! (`front-proxy-client`) and say in headers whom we have recognised. So headers of that name that a *client* sent must never pass, or
//! anybody could be anybody; neither must the client's own credentials.
//!
//! # Invariants
//! 1. `X-Remote-*` headers that arrive there are ours.
//! 2. Authorization headers stay here.
//! 3. A group that this server itself serves is never another's.
//!
//! # In Kubernetes
//! `kube-aggregator/pkg/apiserver`, `kube-aggregator/pkg/controllers/status/remote`. Left out: upgrades (exec through an aggregated server),
//! their schemas in OpenAPI. There a server that was found unavailable isn't asked; here it is, as soon as it has an endpoint.

pub mod available;
pub mod discovery;
pub mod proxy;

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::Value;
use stage1_kubectl::client::{Client, Dial};
use stage1_kubectl::object::Object;

use crate::admission::ObjectReader;
use crate::admission::webhook::client::endpoint;
use crate::clients::{Clients, Place, Sort};
use crate::registry;

/// Group of APIServices.
pub const GROUP: &str = "apiregistration.k8s.io";
/// Longest discovery document that is read.
const MAX_DOCUMENT_BYTES: usize = 8 * 1024 * 1024;

/// Connections to other API servers, what we show there, and what they said that they serve.
pub struct Aggregator {
    clients: Clients,
    /// The last resource list of each APIService, by its name.
    known: Mutex<HashMap<String, Arc<Value>>>,
}

/// Where a request for another server goes.
pub struct Target {
    /// `10.0.0.7:443`
    pub address: String,
    /// `metrics-server.kube-system.svc`
    pub host: String,
    /// The connection.
    pub client: Client,
}

impl Aggregator {
    /// With the certificate and key that say who we are, and the way to pods.
    pub fn new(identity_pem: (Vec<u8>, Vec<u8>), pod_network: Dial) -> Self {
        let clients = Clients::new(Sort {
            user_agent: "kube-aggregator",
            identity_pem: Some(identity_pem),
            max_response_bytes: MAX_DOCUMENT_BYTES,
            pod_network,
        });
        Aggregator { clients, known: Mutex::default() }
    }

    /// The way to an APIService's server; `random` chooses among several endpoints.
    ///
    /// # Errors
    /// There is none.
    pub fn target(&self, service: &Object, reader: &dyn ObjectReader, random: u64) -> Result<Target, String> {
        let text = |field: &str| service.get_str(&format!("/spec/service/{field}")).unwrap_or("");
        let (namespace, name) = (text("namespace"), text("name"));
        let port = service.get_i64("/spec/service/port").unwrap_or(443);
        let address = endpoint(reader, namespace, name, port, random)?;
        let host = format!("{name}.{namespace}.svc");
        let client = self.clients.of(Place {
            server: format!("https://{address}"),
            certificate_name: Some(host.clone()),
            ca_pem: STANDARD.decode(service.get_str("/spec/caBundle").unwrap_or("")).unwrap_or_default(),
            insecure_skip_verify: service.get("/spec/insecureSkipTLSVerify").and_then(Value::as_bool)
                == Some(true),
        });
        let client = client.map_err(|error| error.to_string())?;
        Ok(Target { address, host, client })
    }
}

/// Whether another server answers for this APIService.
pub fn is_remote(service: &Object) -> bool {
    service.get("/spec/service").is_some_and(Value::is_object)
}

/// The APIService of a path, if another server answers it.
pub fn service_of(path: &str, reader: &dyn ObjectReader) -> Option<Arc<Object>> {
    let mut words = path.strip_prefix("/apis/")?.split('/');
    let (group, version) = (words.next()?, words.next().filter(|version| !version.is_empty())?);
    if !registry::versions(group).is_empty() {
        return None;
    }
    reader.get(GROUP, "apiservices", "", &format!("{version}.{group}")).filter(|service| is_remote(service))
}
