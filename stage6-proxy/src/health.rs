//! Health: is this proxy alive, and does this node have endpoints for a load balancer?
//!
//! *Beside the journey.* Load balancers outside of the cluster ask two questions, both by plain HTTP, because that is what
//! load balancers speak.
//!
//! `:10256/healthz` says whether the proxy keeps up: a change that waits for its sync longer than twice the sync
//! period means that something hangs. It also fails when the node is being deleted, so that balancers drain it. For
//! a Service with `externalTrafficPolicy: Local`, `:healthCheckNodePort/` says whether *this* node has
//! endpoints of it: 200 with their number, or 503.
//!
//! # Invariants
//! 1. A health check port is open exactly as long as a Service names it.
//!
//! # In Kubernetes
//! `pkg/proxy/healthcheck/{proxy_health,service_health}.go`. These two are the only servers without TLS.
#![expect(clippy::disallowed_methods, reason = "shell: listens")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use crate::service_map::NamespacedName;
use crate::sync_runner::SYNC_PERIOD;

/// The port of `/healthz` and `/livez`.
pub const HEALTHZ_PORT: u16 = 10256;

/// When the proxy last did what.
#[derive(Debug, Default)]
struct Times {
    /// The oldest change that no sync has taken up yet.
    queued: Option<Timestamp>,
    /// The last sync that succeeded.
    updated: Option<Timestamp>,
    /// The node is being deleted.
    node_deleting: bool,
}

/// The proxy's own health.
#[derive(Clone, Debug, Default)]
pub struct ProxyHealth {
    times: Arc<Mutex<Times>>,
}

impl ProxyHealth {
    /// A change waits.
    pub fn queued(&self, now: Timestamp) {
        self.times.lock().queued.get_or_insert(now);
    }

    /// A sync succeeded.
    pub fn updated(&self, now: Timestamp) {
        let mut times = self.times.lock();
        times.queued = None;
        times.updated = Some(now);
    }

    /// The node's deletion began (or it turned out not to have).
    pub fn node_deleting(&self, deleting: bool) {
        self.times.lock().node_deleting = deleting;
    }

    /// Are the rules up to date, or late by no more than is usual?
    pub fn is_healthy(&self, now: Timestamp) -> bool {
        let times = self.times.lock();
        let patience = jiff::SignedDuration::try_from(SYNC_PERIOD * 2).unwrap_or(jiff::SignedDuration::MAX);
        times.updated.is_some() && times.queued.is_none_or(|queued| now.duration_since(queued) < patience)
    }

    fn answer(&self, path: &str, now: Timestamp) -> Response<Full<Bytes>> {
        let healthy = self.is_healthy(now);
        let times = self.times.lock();
        let (known, ok) = match path {
            // A node that is going away is not to be sent traffic to, but its proxy lives.
            "/healthz" => (true, healthy && !times.node_deleting),
            "/livez" => (true, healthy),
            _ => (false, false),
        };
        if !known {
            return respond(StatusCode::NOT_FOUND, "404 page not found\n".to_owned());
        }
        let updated = if healthy { now } else { times.updated.unwrap_or(Timestamp::UNIX_EPOCH) };
        let mut body =
            format!("{{\"lastUpdated\": \"{}\",\"currentTime\": \"{}\"", go_time(updated), go_time(now));
        if path == "/healthz" {
            body.push_str(&format!(", \"nodeEligible\": {}", !times.node_deleting));
        }
        body.push('}');
        respond(if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body)
    }
}

/// As Go prints a time.
fn go_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S.%9f +0000 UTC").to_string()
}

fn respond(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert("content-type", http::HeaderValue::from_static("application/json"));
    headers.insert("x-content-type-options", http::HeaderValue::from_static("nosniff"));
    response
}

/// Serves `/healthz` and `/livez` until the shutdown.
///
/// # Errors
/// The address is taken.
pub async fn serve(
    health: ProxyHealth,
    address: SocketAddr,
    shutdown: CancellationToken,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let answer = move |path: &str| health.answer(path, Timestamp::now());
    tokio::spawn(accept(listener, Arc::new(answer), shutdown));
    Ok(bound)
}

type Answer = dyn Fn(&str) -> Response<Full<Bytes>> + Send + Sync;

async fn accept(listener: TcpListener, answer: Arc<Answer>, shutdown: CancellationToken) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = shutdown.cancelled() => return,
        };
        let answer = Arc::clone(&answer);
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let response = answer(request.uri().path());
            async move { Ok::<_, Infallible>(response) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(10))
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        let until = shutdown.clone();
        tokio::spawn(async move {
            let _ =
                tokio::time::timeout(Duration::from_secs(30), until.run_until_cancelled(connection)).await;
        });
    }
}

/// One health check port.
#[derive(Debug)]
struct ServicePortServer {
    port: u16,
    local_endpoints: Arc<Mutex<usize>>,
    _stop: DropGuard,
}

/// The health check ports of all Services.
#[derive(Debug)]
pub struct ServiceHealth {
    address: IpAddr,
    health: ProxyHealth,
    servers: HashMap<NamespacedName, ServicePortServer>,
}

impl ServiceHealth {
    /// Ports will be opened at that address.
    pub fn new(address: IpAddr, health: ProxyHealth) -> Self {
        Self { address, health, servers: HashMap::new() }
    }

    /// Makes the ports those of `wanted`: Service → (port, endpoints on this node).
    pub async fn sync(&mut self, wanted: &HashMap<NamespacedName, (u16, usize)>) {
        self.servers
            .retain(|service, server| wanted.get(service).is_some_and(|(port, _)| *port == server.port));
        for (service, (port, endpoints)) in wanted {
            if let Some(server) = self.servers.get(service) {
                *server.local_endpoints.lock() = *endpoints;
                continue;
            }
            match self.open(service.clone(), *port, *endpoints).await {
                Ok(server) => {
                    self.servers.insert(service.clone(), server);
                }
                Err(error) => warn!(%service, port, %error, "Cannot open health check node port"),
            }
        }
    }

    async fn open(
        &self,
        service: NamespacedName,
        port: u16,
        endpoints: usize,
    ) -> std::io::Result<ServicePortServer> {
        let listener = TcpListener::bind((self.address, port)).await?;
        let local_endpoints = Arc::new(Mutex::new(endpoints));
        let (count, health) = (Arc::clone(&local_endpoints), self.health.clone());
        let answer =
            move |_: &str| service_answer(&service, *count.lock(), health.is_healthy(Timestamp::now()));
        let stop = CancellationToken::new();
        tokio::spawn(accept(listener, Arc::new(answer), stop.clone()));
        Ok(ServicePortServer { port, local_endpoints, _stop: stop.drop_guard() })
    }
}

fn service_answer(service: &NamespacedName, endpoints: usize, healthy: bool) -> Response<Full<Bytes>> {
    let (namespace, name) = (&service.namespace, &service.name);
    let body = format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": \"{namespace}\",\n\t\t\"name\": \"{name}\"\n\t}},\n\t\"localEndpoints\": {endpoints},\n\t\"serviceProxyHealthy\": {healthy}\n}}"
    );
    let ok = endpoints > 0 && healthy;
    let mut response = respond(if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body);
    response.headers_mut().insert("x-load-balancing-endpoint-weight", endpoints.into());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn a_proxy_is_healthy_until_a_change_waits_too_long() {
        let health = ProxyHealth::default();
        assert!(!health.is_healthy(at(0)), "it never synced");
        health.updated(at(0));
        assert!(health.is_healthy(at(9999)), "nothing waits");
        health.queued(at(10_000));
        health.queued(at(10_050));
        assert!(health.is_healthy(at(10_059)));
        assert!(!health.is_healthy(at(10_060)), "the oldest change counts");
        health.updated(at(10_061));
        assert!(health.is_healthy(at(10_061)));
    }

    #[test]
    fn a_node_that_goes_away_fails_healthz_but_not_livez() {
        let health = ProxyHealth::default();
        health.updated(at(0));
        health.node_deleting(true);
        assert_eq!(health.answer("/healthz", at(1)).status(), 503);
        assert_eq!(health.answer("/livez", at(1)).status(), 200);
        assert_eq!(health.answer("/other", at(1)).status(), 404);
    }

    #[test]
    fn a_load_balancer_is_told_the_number_of_local_endpoints() {
        let service = NamespacedName { namespace: "w".to_owned(), name: "s".to_owned() };
        assert_eq!(service_answer(&service, 0, true).status(), 503);
        let response = service_answer(&service, 2, true);
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-load-balancing-endpoint-weight"], "2");
    }
}
