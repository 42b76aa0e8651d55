//! Assembling the server: every part from flags and files, wired together once.
//!
//! # In Kubernetes
//! `cmd/kube-apiserver/app/server.go` (`CreateServerChain`).
#![expect(clippy::disallowed_methods, reason = "shell: reads and writes the port file")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::{Mutex, RwLock};
use rustls::server::danger::ClientCertVerifier;
use stage1_kubectl::state_dir::StateDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::open_store::read_text;
use super::{Part, SERVING_NAMES};
use crate::admission;
use crate::admission::policy::Policies;
use crate::admission::webhook::dispatch::Webhooks;
use crate::aggregation::{Aggregator, available};
use crate::allocator::repair;
use crate::allocator::service::ServiceAllocators;
use crate::allocator::{IpAllocator, PortAllocator};
use crate::audit::AuditLog;
use crate::audit::policy::Policy;
use crate::authentication::oidc::Oidc;
use crate::authentication::service_account::Signer;
use crate::authentication::token_file::TokenFile;
use crate::authentication::{Authenticator, x509};
use crate::authorization::follow;
use crate::bootstrap;
use crate::custom_resources::{self, CustomResources};
use crate::filters::fairness::Fairness;
use crate::filters::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::options::{ClusterFlags, parse_port_range};
use crate::pki::{Identity, Pki};
use crate::registry;
use crate::server::{self, ApiServer, tls};
use crate::storage::{Storage, compaction, etcd_api};
use crate::store::{Stores, event_ttl};
use crate::streaming::{KubeletClient, pod_network};
use crate::watch_cache::{At, Caches};

/// Caches that admission reads: they are filled before the first request.
const ADMISSION_READS: [(&str, &str); 20] = [
    ("", "namespaces"),
    ("", "serviceaccounts"),
    ("", "secrets"),
    ("", "nodes"),
    ("", "services"),
    ("", "limitranges"),
    ("", "resourcequotas"),
    ("", "persistentvolumeclaims"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "storageclasses"),
    ("node.k8s.io", "runtimeclasses"),
    ("networking.k8s.io", "ingressclasses"),
    ("discovery.k8s.io", "endpointslices"),
    ("apiregistration.k8s.io", "apiservices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
];

/// The server and what its listeners need.
pub struct Assembled {
    /// The server.
    pub server: Arc<ApiServer>,
    /// Names and addresses of the serving certificate.
    pub names: Vec<String>,
    /// The address of the Service `kubernetes`.
    pub service_ip: IpAddr,
    /// CA of client certificates.
    pub client_ca_pem: String,
    /// CA of the certificate that other API servers know this one by.
    pub front_proxy_ca_pem: String,
}

/// Makes the server from its parts.
///
/// # Errors
/// A file can't be read, or says what it shouldn't.
pub async fn assemble(
    flags: &ClusterFlags,
    state_dir: &StateDir,
    pki: &Pki,
    storage: Arc<dyn Storage>,
    shutdown: &CancellationToken,
) -> anyhow::Result<Assembled> {
    let caches = Caches::new(storage.clone());
    background(shutdown, compaction::run(storage, compaction::COMPACTION_INTERVAL, shutdown.clone()));
    let authorizer = follow::start(&caches, shutdown).await;
    let client_ca_pem = match &flags.client_ca_file {
        Some(path) => read_text(path)?,
        None => pki.ca_pem().to_owned(),
    };
    let (front_proxy_ca_pem, front_proxy) = pki.front_proxy()?;
    let ips = IpAllocator::new(&flags.service_cluster_ip_range)?;
    let service_ip = first_address(&flags.service_cluster_ip_range)?;
    let (first, last) = parse_port_range(&flags.service_node_port_range).map_err(anyhow::Error::msg)?;
    let stores = Stores::new(caches.clone());
    let customs = CustomResources::new(stores.clone());
    let audit_path = flags.audit.audit_log_path.clone().unwrap_or_else(|| state_dir.logs().join("audit.log"));
    let metrics = Metrics::default();
    let (reads, writes) = (flags.max_requests_inflight, flags.max_mutating_requests_inflight);
    let fair = flags.enable_priority_and_fairness;
    let kubelet = Arc::new(kubelet_client(flags, pki)?);
    let pod_network = pod_network::dial(stores.clone(), kubelet.clone());
    let server = Arc::new(ApiServer {
        stores,
        customs: customs.clone(),
        authenticator: authenticator(flags, pki, &client_ca_pem, caches.clone())?,
        authorizer,
        admission: admission::Chain::with(&flags.enable_admission_plugins, &flags.disable_admission_plugins),
        policies: Policies::default(),
        webhooks: Webhooks::new(pod_network.clone()),
        allocators: Mutex::new(ServiceAllocators { ips, ports: PortAllocator::new(first, last) }),
        aggregator: Aggregator::new(
            (front_proxy.certificate_pem.into_bytes(), front_proxy.key_pem.into_bytes()),
            pod_network.clone(),
        ),
        kubelet,
        pod_network,
        fairness: fair.then(|| Fairness::new(reads + writes, metrics.flow.clone())),
        in_flight: if fair { InFlight::unlimited() } else { InFlight::new(reads, writes) },
        metrics,
        audit: audit_log(flags, &audit_path)?,
        addresses: RwLock::default(),
        shutdown: shutdown.clone(),
        ready: CancellationToken::new(),
    });
    for (group, resource) in ADMISSION_READS {
        let info = registry::find_group_resource(group, resource).expect("a built-in resource");
        server.stores.of(info).cacher().wait_for(At::Any).await.map_err(anyhow::Error::from)?;
    }
    customs.settle().await.map_err(anyhow::Error::from)?;
    background(shutdown, custom_resources::controller::run(customs, shutdown.clone()));
    let events = registry::find("", "v1", "events").expect("events are registered");
    background(shutdown, event_ttl::run(server.stores.of(events), flags.event_ttl, shutdown.clone()));
    background(shutdown, wait_ready(server.ready.clone(), available::run(server.clone())));
    background(shutdown, repair::run(server.clone(), repair::REPAIR_INTERVAL));
    let lease = bootstrap::identity_lease::run(
        server.stores.clone(),
        nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        uuid::Uuid::new_v4().to_string(),
        shutdown.clone(),
    );
    background(shutdown, wait_ready(server.ready.clone(), lease));
    let mut names: Vec<String> = SERVING_NAMES.iter().map(|n| (*n).to_owned()).collect();
    names.push(service_ip.to_string());
    names.extend(flags.bind_address.iter().chain(&flags.advertise_address).map(ToString::to_string));
    names.sort();
    names.dedup();
    Ok(Assembled { server, names, service_ip, client_ca_pem, front_proxy_ca_pem })
}

/// Runs beside the server, and not a step further once that is to stop: the store goes soon after.
fn background(shutdown: &CancellationToken, task: impl Future<Output = ()> + Send + 'static) {
    let shutdown = shutdown.clone();
    tokio::spawn(async move { shutdown.run_until_cancelled(task).await });
}

/// What needs the cluster's first objects.
async fn wait_ready(ready: CancellationToken, then: impl Future<Output = ()>) {
    ready.cancelled().await;
    then.await;
}

fn authenticator(
    flags: &ClusterFlags,
    pki: &Pki,
    client_ca_pem: &str,
    caches: Arc<Caches>,
) -> anyhow::Result<Authenticator> {
    let signing_key = match &flags.service_account_signing_key_file {
        Some(path) => read_text(path)?,
        None => pki.service_account_key_pem().to_owned(),
    };
    let tokens = match &flags.token_auth_file {
        Some(path) => TokenFile::parse(&read_text(path)?).map_err(anyhow::Error::msg)?,
        None => TokenFile::default(),
    };
    let oidc = flags.oidc.config().map_err(anyhow::Error::msg)?;
    let ca = match &flags.oidc.oidc_ca_file {
        Some(path) => Some(read_text(path)?.into_bytes()),
        None => tls::system_roots(),
    };
    Ok(Authenticator {
        oidc: oidc.map(|config| Oidc::new(config, ca)).transpose().map_err(anyhow::Error::msg)?,
        bootstrap_tokens: flags.enable_bootstrap_token_auth,
        certificates: Some(x509::Verifier::new(client_ca_pem).map_err(anyhow::Error::msg)?),
        service_accounts: Arc::new(Signer::new(&signing_key).map_err(anyhow::Error::msg)?),
        tokens,
        anonymous: flags.anonymous_auth,
        caches,
    })
}

fn audit_log(flags: &ClusterFlags, path: &std::path::Path) -> anyhow::Result<AuditLog> {
    let policy = match &flags.audit.audit_policy_file {
        None => Policy::metadata_of_everything(),
        Some(file) => Policy::parse(&read_text(file)?)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("audit policy {}", file.display()))?,
    };
    AuditLog::open(path, flags.audit.rotation(), policy)
        .with_context(|| format!("audit log {}", path.display()))
}

fn kubelet_client(flags: &ClusterFlags, pki: &Pki) -> anyhow::Result<KubeletClient> {
    let name = "kube-apiserver-kubelet-client";
    let identity = match (&flags.kubelet_client_certificate, &flags.kubelet_client_key) {
        (Some(certificate), Some(key)) => (read_text(certificate)?, read_text(key)?),
        _ => {
            let made = pki.client("apiserver-kubelet-client", &Identity::of_component(name))?;
            (made.certificate_pem, made.key_pem)
        }
    };
    let ca = flags.kubelet_certificate_authority.as_deref().map(read_text).transpose()?;
    let identity = (identity.0.into_bytes(), identity.1.into_bytes());
    Ok(KubeletClient::new(Some(identity), ca.map(String::into_bytes)))
}

/// The first address of a range, which the Service `kubernetes` has.
fn first_address(cidr: &str) -> anyhow::Result<IpAddr> {
    let network = cidr.split('/').next().unwrap_or("");
    let network: Ipv4Addr = network.parse().with_context(|| format!("service cluster IP range {cidr}"))?;
    Ok(Ipv4Addr::from(u32::from(network) + 1).into())
}

/// The verifier of client certificates for the handshake.
///
/// # Errors
/// The CA can't be read.
pub fn client_verifier(ca_pem: &str) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    Ok(x509::Verifier::new(ca_pem).map_err(anyhow::Error::msg)?.for_handshake())
}

/// Serves on every bind address; the answer is the first address.
///
/// # Errors
/// An address can't be bound.
pub async fn listen_all(
    flags: &ClusterFlags,
    state_dir: &StateDir,
    pki: &Pki,
    server: &Arc<ApiServer>,
    names: &[String],
) -> anyhow::Result<(SocketAddr, Vec<JoinHandle<()>>)> {
    let (certificate, key) = match (&flags.tls_cert_file, &flags.tls_private_key_file) {
        (Some(certificate), Some(key)) => (read_text(certificate)?, read_text(key)?),
        _ => {
            let made = pki.serving("apiserver", "kube-apiserver", names)?;
            (made.certificate_pem, made.key_pem)
        }
    };
    let client_ca = flags.client_ca_file.as_deref().map(read_text).transpose()?;
    let verifier = client_verifier(client_ca.as_deref().unwrap_or_else(|| pki.ca_pem()))?;
    let tls = server::tls::server_config(certificate.as_bytes(), key.as_bytes(), verifier)?;
    let mut port = remembered_port(flags, state_dir);
    let mut first = None;
    let mut tasks = Vec::new();
    for ip in &flags.bind_address {
        let address = SocketAddr::new(*ip, port);
        let listening = server::listen(server.clone(), address, tls.clone()).await;
        let (bound, task) = listening.with_context(|| {
            format!("listening on {address} (another cluster's port? --secure-port 0 takes a free one)")
        })?;
        port = bound.port();
        first.get_or_insert(bound);
        tasks.push(task);
    }
    let first = first.context("--bind-address names no address")?;
    std::fs::write(port_file(state_dir), first.port().to_string()).context("remembering the port")?;
    Ok((first, tasks))
}

/// Lets etcdctl look into a store of our own, with the certificates that etcd would have.
///
/// # Errors
/// The store is etcd, which has a port, or the port is taken.
pub async fn serve_store(
    pki: &Pki,
    store: Option<Arc<dyn Storage>>,
    port: u16,
    stop: &CancellationToken,
) -> anyhow::Result<Part> {
    let store = store.context("--store-client-port is for the embedded store: etcd has a port of its own")?;
    let files = pki.etcd_files().context("the store's certificates")?;
    let (certificate, key) = (read_text(&files.server_certificate)?, read_text(&files.server_key)?);
    let verifier = x509::required(&read_text(&files.ca)?).map_err(anyhow::Error::msg)?;
    let tls = server::tls::server_config(certificate.as_bytes(), key.as_bytes(), verifier)?;
    let listening = etcd_api::listen(store, port, tls, stop.clone()).await;
    let (address, task) = listening.with_context(|| format!("listening on 127.0.0.1:{port} for etcdctl"))?;
    tracing::info!(
        "etcdctl --endpoints=https://{address} --cacert={} --cert={pki}.crt --key={pki}.key",
        files.ca.display(),
        pki = files.ca.with_file_name("../apiserver-etcd-client").display(),
    );
    Ok(Part::Task("the store's port".into(), task))
}

fn port_file(state_dir: &StateDir) -> std::path::PathBuf {
    state_dir.root().join("apiserver.port")
}

/// Port 0 means a free one; the cluster keeps the one that it had.
fn remembered_port(flags: &ClusterFlags, state_dir: &StateDir) -> u16 {
    let remembered = || std::fs::read_to_string(port_file(state_dir)).ok()?.trim().parse().ok();
    match flags.secure_port {
        0 => remembered().unwrap_or(0),
        port => port,
    }
}

/// Takes what stored Services have.
///
/// # Errors
/// The store can't be read.
pub async fn rebuild_allocators(server: &ApiServer) -> anyhow::Result<()> {
    let info = registry::find("", "v1", "services").expect("services are registered");
    let cache = server.stores.of(info).cacher().clone();
    cache.wait_for(At::Consistent).await?;
    let services = cache.snapshot(&info.key_prefix(None)).await?;
    server.allocators.lock().rebuild(services.iter().map(|cached| &cached.object));
    Ok(())
}
