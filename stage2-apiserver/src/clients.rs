//! Clients: connections to programs outside, kept and used again.
//!
//! Webhooks and aggregated API servers are asked again and again. A connection costs a TLS handshake, so the client of each is kept, by
//! all that a connection depends on: where it goes and whom it believes. What changes one of these (a new endpoint, another CA) is
//! another client.
//!
//! # Invariants
//! 1. No more clients than the limit are kept.
//!
//! # In Kubernetes
//! `apiserver/pkg/util/webhook/client.go` (`ClientManager`, with a cache of its own), `client-go/transport/cache.go`.

use std::collections::HashMap;

use parking_lot::Mutex;
use stage1_kubectl::client::{Client, ClientConfig, ClientError, Dial};
use stage1_kubectl::tls::TlsOptions;

use crate::server::tls::system_roots;

/// More clients than this are programs that come and go: start over.
const MAX_CLIENTS: usize = 256;

/// What all clients of one sort have in common.
pub struct Sort {
    /// As which program they come.
    pub user_agent: &'static str,
    /// The certificate and key that they show.
    pub identity_pem: Option<(Vec<u8>, Vec<u8>)>,
    /// Longest answer that is read.
    pub max_response_bytes: usize,
    /// The way to pods.
    pub pod_network: Dial,
}

/// Where a connection goes, and whom it believes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// `https://HOST:PORT`
    pub server: String,
    /// The name of the certificate when it isn't the server's.
    pub certificate_name: Option<String>,
    /// Who must have signed it; empty: whom the system believes.
    pub ca_pem: Vec<u8>,
    /// Any certificate will do.
    pub insecure_skip_verify: bool,
}

/// The clients of one sort.
pub struct Clients {
    sort: Sort,
    kept: Mutex<HashMap<Place, Client>>,
}

impl Clients {
    /// None yet.
    pub fn new(sort: Sort) -> Self {
        Clients { sort, kept: Mutex::default() }
    }

    /// The client of a place.
    ///
    /// # Errors
    /// The place can't be read, such as a CA that is none.
    pub fn of(&self, place: Place) -> Result<Client, ClientError> {
        if let Some(client) = self.kept.lock().get(&place) {
            return Ok(client.clone());
        }
        let ca_pem = match place.ca_pem.is_empty() {
            false => place.ca_pem.clone(),
            true => system_roots().unwrap_or_default(),
        };
        let mut config = ClientConfig::new(&place.server).with_user_agent(self.sort.user_agent);
        config.tls = TlsOptions {
            ca_pem: Some(ca_pem),
            identity_pem: self.sort.identity_pem.clone(),
            insecure_skip_verify: place.insecure_skip_verify,
        };
        config.tls_server_name = place.certificate_name.clone();
        config.dial = Some(self.sort.pod_network.clone());
        config.http1_only = true;
        config.max_response_bytes = Some(self.sort.max_response_bytes);
        let client = Client::new(config)?;
        let mut kept = self.kept.lock();
        if kept.len() >= MAX_CLIENTS {
            kept.clear();
        }
        kept.insert(place, client.clone());
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_place_has_one_client_and_places_are_bounded() {
        let pod_network: Dial = Arc::new(|_, _| Box::pin(std::future::ready(Ok(None))));
        let sort = Sort { user_agent: "test", identity_pem: None, max_response_bytes: 1, pod_network };
        let clients = Clients::new(sort);
        let place = |port: usize| Place {
            server: format!("https://127.0.0.1:{port}"),
            certificate_name: None,
            ca_pem: Vec::new(),
            insecure_skip_verify: true,
        };
        for port in [1, 2, 1] {
            clients.of(place(port)).unwrap();
        }
        assert_eq!(clients.kept.lock().len(), 2);
        for port in 0..MAX_CLIENTS + 10 {
            clients.of(place(port)).unwrap();
        }
        assert!(clients.kept.lock().len() <= MAX_CLIENTS);
    }
}
