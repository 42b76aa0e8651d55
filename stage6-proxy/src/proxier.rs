//! The proxier: watches Services and EndpointSlices, and keeps the kernel's rules alike.
//!
//! *Step 6 of a pod's journey.* Before: the pod is Ready and its address stands in an EndpointSlice. After: a packet to
//! the Service's address reaches it. The journey ends here.
//!
//! The loop has three sources of work: changes from the informers, which are collected in a
//! [`Tracker`]; a timer that says when the next sync may run ([`SyncRunner`]); and a slow one that looks whether the rules
//! are still there. The first sync waits until both kinds have been listed completely: rules made from half a
//! list would cut off Services that work.
//!
//! # Invariants
//! 1. Nothing is written before the first complete lists.
//! 2. Stopping leaves the rules in place: a restart of the proxy must not cut connections.
//!
//! # In Kubernetes
//! `syncProxyRules` and its callers in `pkg/proxy/{iptables,nftables}/proxier.go`, `cmd/kube-proxy/app/server.go`.
#![expect(clippy::disallowed_methods, reason = "shell: the clock")]

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use prometheus_client::registry::Registry;
use stage1_kubectl::client::Client;
use stage1_kubectl::journey::{Stage, object_name};
use stage1_kubectl::journey_step;
use stage3_controllers::indexer::Cached as _;
use stage3_controllers::informer::factory::InformerFactory;
use stage3_controllers::informer::{Event, Store, Subscription};
use stage3_controllers::serving::{HealthCheck, Serving, ServingCertificate, serve};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::backend::{Backend, detect_mode};
use crate::conntrack::{delete, stale_connections};
use crate::health::{self, HEALTHZ_PORT, ProxyHealth, ServiceHealth};
use crate::metrics::Metrics;
use crate::options::{Config, ProxyMode};
use crate::proxy_state::{NodePortAddresses, NodeView, ProxyState, ServiceState, Tracker};
use crate::service_map::{NamespacedName, ServicePortName};
use crate::sync_runner::SyncRunner;
use crate::topology::LABEL_ZONE;

/// A proxy that can't start.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Neither nft nor iptables.
    #[error("{0}")]
    NoBackend(String),
    /// An address is taken.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
}

struct Proxier {
    config: Config,
    tracker: Tracker,
    backend: Backend,
    runner: SyncRunner,
    health: ProxyHealth,
    service_health: ServiceHealth,
    metrics: Metrics,
    /// What the kernel has, for telling what a change means.
    state: ProxyState,
    /// Something waits for a sync.
    dirty: bool,
}

/// Runs a node's proxy until the shutdown. Its rules stay.
///
/// # Errors
/// No program that writes rules, or an address that is taken; everything later is retried.
pub async fn run(config: Config, client: Client, shutdown: CancellationToken) -> Result<(), ProxyError> {
    let mode = detect_mode(config.mode).map_err(ProxyError::NoBackend)?;
    let factory = InformerFactory::new(client, shutdown.clone());
    let nodes: Store<Node> = factory.store();
    let services: Store<Service> = factory.store();
    let slices: Store<EndpointSlice> = factory.store();
    let lists_complete = {
        let (services, slices) = (services.clone(), slices.clone());
        HealthCheck::ready("sync", move || {
            let synced = services.has_synced() && slices.has_synced();
            if synced { Ok(()) } else { Err("Services and EndpointSlices are not listed yet".to_owned()) }
        })
    };
    if shutdown.run_until_cancelled(factory.wait_for_sync()).await.is_none() {
        return Ok(());
    }
    let node = nodes.list().into_iter().find(|node| node.object_name() == config.node_name);
    let view = node_view(&config, mode, node.as_deref());
    info!(%mode, node = config.node_name, node_ip = %view.node_ip, "Using {mode} Proxier");

    let health = ProxyHealth::default();
    let mut registry = Registry::default();
    let metrics = Metrics::new(&mut registry);
    serve_health(&config, &view, &health, lists_complete, registry, &shutdown).await?;
    let balancer_address = match &view.node_port_addresses {
        NodePortAddresses::All => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        NodePortAddresses::Only(_) => IpAddr::V4(view.node_ip),
    };
    let proxier = Proxier {
        tracker: Tracker::new(&config.node_name, view.zone.clone()),
        backend: Backend::new(mode, view),
        runner: SyncRunner::new(config.min_sync_period, Instant::now()),
        service_health: ServiceHealth::new(balancer_address, health.clone()),
        health,
        metrics,
        state: ProxyState::new(),
        dirty: true,
        config,
    };
    let (changes, slice_changes) = (services.subscribe(), slices.subscribe());
    proxier.watch(changes, slice_changes, nodes.subscribe(), (services, slices), shutdown).await;
    Ok(())
}

async fn serve_health(
    config: &Config,
    view: &NodeView,
    health: &ProxyHealth,
    ready: HealthCheck,
    registry: Registry,
    shutdown: &CancellationToken,
) -> Result<(), ProxyError> {
    let address = config.healthz_bind_address.unwrap_or(SocketAddr::new(view.node_ip.into(), HEALTHZ_PORT));
    health::serve(health.clone(), address, shutdown.clone())
        .await
        .map_err(|source| ProxyError::Listen { address, source })?;
    let live = health.clone();
    let serving = Serving {
        component: "kube-proxy".to_owned(),
        checks: vec![
            HealthCheck::live("rules", move || {
                let healthy = live.is_healthy(Timestamp::now());
                if healthy { Ok(()) } else { Err("rules are not up to date".to_owned()) }
            }),
            ready,
        ],
        metrics: Arc::new(registry),
        certificate: ServingCertificate::SelfSigned,
    };
    // Metrics are not worth failing for: another kube-proxy may run in the same namespace.
    if let Err(error) = serve(serving, config.metrics_bind_address, shutdown.clone()).await {
        warn!(%error, "Cannot serve metrics");
    }
    Ok(())
}

/// What rules depend on besides Services: flags and the Node object.
fn node_view(config: &Config, mode: ProxyMode, node: Option<&Node>) -> NodeView {
    let addresses: Vec<Ipv4Addr> = node
        .and_then(|node| node.status.as_ref()?.addresses.as_ref())
        .into_iter()
        .flatten()
        .filter(|address| address.type_ == "InternalIP")
        .filter_map(|address| address.address.parse().ok())
        .collect();
    let node_ip = config.node_ip.or(addresses.first().copied()).unwrap_or(Ipv4Addr::LOCALHOST);
    let chosen = || {
        let of_node = addresses.iter().copied().chain([node_ip]);
        let ranges = &config.node_port_addresses;
        let mut chosen: Vec<_> =
            of_node.filter(|ip| ranges.iter().any(|range| range.contains(*ip))).collect();
        chosen.dedup();
        chosen
    };
    let everywhere = config.node_port_addresses.iter().any(crate::packet::Cidr::is_zero);
    let node_port_addresses = match (mode, config.node_port_addresses.is_empty()) {
        (ProxyMode::Nftables, true) => NodePortAddresses::Only(vec![node_ip]),
        (ProxyMode::Iptables, true) => NodePortAddresses::All,
        (ProxyMode::Iptables, false) if everywhere => NodePortAddresses::All,
        (_, false) => NodePortAddresses::Only(chosen()),
    };
    NodeView {
        node_name: config.node_name.clone(),
        node_ip,
        zone: node.and_then(|node| node.label(LABEL_ZONE)).map(str::to_owned),
        local_detector: config.local_detector.clone(),
        node_port_addresses,
        localhost_node_ports: mode == ProxyMode::Iptables && config.localhost_node_ports,
        masquerade_all: config.masquerade_all,
        // The counters would have to be made by another netlink protocol first; rules do without them.
        nfacct: false,
    }
}

impl Proxier {
    async fn watch(
        mut self,
        mut services: Subscription<Service>,
        mut slices: Subscription<EndpointSlice>,
        mut nodes: Subscription<Node>,
        (all_services, all_slices): (Store<Service>, Store<EndpointSlice>),
        shutdown: CancellationToken,
    ) {
        // The snapshots are in the subscriptions already: taken up before the first sync.
        while let Some(Some(event)) = services.next().now_or_never() {
            self.on_service(event, &all_services);
        }
        while let Some(Some(event)) = slices.next().now_or_never() {
            self.on_slice(event, &all_slices);
        }
        let mut check = tokio::time::interval(self.config.sync_period);
        check.reset();
        let mut retry = Duration::ZERO;
        loop {
            let wait = match (self.dirty, self.runner.ask(Instant::now())) {
                (false, _) => None,
                (true, Ok(())) => Some(retry),
                (true, Err(wait)) => Some(wait.max(retry)),
            };
            let due = async move {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Changes first: a sync should carry all that is known.
                biased;
                () = shutdown.cancelled() => return,
                Some(event) = services.next() => self.on_service(event, &all_services),
                Some(event) = slices.next() => self.on_slice(event, &all_slices),
                Some(event) = nodes.next() => self.on_node(&event),
                () = due => {
                    let synced = self.sync().await;
                    retry = if synced { Duration::ZERO } else { (retry * 2).clamp(Duration::from_secs(1), Duration::from_secs(30)) };
                }
                _ = check.tick() => {
                    self.backend.check().await;
                    self.dirty |= self.backend.needs_full_sync();
                }
            }
        }
    }

    fn changed(&mut self, changed: bool) {
        if changed {
            self.dirty = true;
            self.health.queued(Timestamp::now());
        }
    }

    fn on_service(&mut self, event: Event<Service>, store: &Store<Service>) {
        let changed = match event {
            Event::Added(service) | Event::Modified { new: service, .. } => self.tracker.service(&service),
            Event::Deleted(service) => self.tracker.service_deleted(&NamespacedName {
                namespace: service.object_namespace().to_owned(),
                name: service.object_name().to_owned(),
            }),
            Event::Resync => {
                let known: Vec<NamespacedName> = self.tracker.services().cloned().collect();
                let present = store.list();
                let is_present = |key: &NamespacedName| {
                    present.iter().any(|service| {
                        service.object_name() == key.name && service.object_namespace() == key.namespace
                    })
                };
                let gone: Vec<_> = known.into_iter().filter(|key| !is_present(key)).collect();
                let removed = gone.iter().map(|key| self.tracker.service_deleted(key)).collect::<Vec<_>>();
                let updated = present.iter().map(|service| self.tracker.service(service)).collect::<Vec<_>>();
                removed.into_iter().chain(updated).any(|changed| changed)
            }
        };
        self.changed(changed);
    }

    fn on_slice(&mut self, event: Event<EndpointSlice>, store: &Store<EndpointSlice>) {
        let changed = match event {
            Event::Added(slice) => self.tracker.slice(&slice, false),
            // A slice may be handed to another Service by its label.
            Event::Modified { old, new } if old.metadata.labels != new.metadata.labels => {
                self.tracker.slice(&old, true) | self.tracker.slice(&new, false)
            }
            Event::Modified { new, .. } => self.tracker.slice(&new, false),
            Event::Deleted(slice) => self.tracker.slice(&slice, true),
            Event::Resync => self.tracker.replace_slices(&store.list()),
        };
        self.changed(changed);
    }

    fn on_node(&mut self, event: &Event<Node>) {
        let Some(node) = event.object().filter(|node| node.object_name() == self.config.node_name) else {
            return;
        };
        let deleted = matches!(event, Event::Deleted(_)) || node.is_being_deleted();
        self.health.node_deleting(deleted);
        let changed = self.tracker.set_zone(node.label(LABEL_ZONE).map(str::to_owned));
        self.changed(changed);
    }

    /// One sync; `false`: it failed and must be repeated.
    async fn sync(&mut self) -> bool {
        let started = Instant::now();
        self.runner.ran(started);
        let changed = self.tracker.take();
        let full = self.backend.needs_full_sync();
        let stale: Vec<_> = changed
            .iter()
            .flat_map(|(name, after)| stale_connections(name, self.state.get(name), after.as_ref()))
            .collect();
        for (name, state) in &changed {
            match state {
                Some(state) => self.state.insert(name.clone(), state.clone()),
                None => self.state.remove(name),
            };
        }
        let result = if full {
            self.backend.sync_full(&self.state).await
        } else {
            self.backend.sync_changes(&changed).await
        };
        let took = started.elapsed();
        self.metrics.synced(full, took, result.is_ok());
        if let Err(error) = result {
            // The backend has forgotten its rules: the repetition is a full sync and carries these changes.
            error!(%error, "Sync failed");
            self.dirty = true;
            return false;
        }
        delete(&stale).await;
        self.dirty = false;
        self.health.updated(Timestamp::now());
        self.service_health.sync(&health_check_ports(&self.state)).await;
        report(&changed, took, &self.config.node_name);
        true
    }
}

/// Service → (port, endpoints on this node).
fn health_check_ports(state: &ProxyState) -> HashMap<NamespacedName, (u16, usize)> {
    let with_port = state.iter().filter(|(_, service)| service.port.health_check_node_port != 0);
    with_port
        .map(|(name, service)| {
            let count = service.endpoints.local.len();
            (name.service.clone(), (service.port.health_check_node_port, count))
        })
        .collect()
}

/// The last step of the journey.
fn report(changed: &BTreeMap<ServicePortName, Option<ServiceState>>, took: Duration, node: &str) {
    for (name, state) in changed {
        let object = object_name("Service", Some(&name.service.namespace), &name.service.name);
        let micros = took.as_micros();
        match state {
            Some(state) => {
                let count = state.endpoints.all.len();
                let noun = if count == 1 { "endpoint" } else { "endpoints" };
                let decided = format!("{count} {noun} programmed in {micros} µs");
                journey_step!(Stage::Proxy, object, decided, format!("{name} changed, rules of {node}"));
            }
            None => {
                let decided = format!("rules removed in {micros} µs");
                journey_step!(Stage::Proxy, object, decided, format!("{name} is gone, rules of {node}"));
            }
        }
    }
}
