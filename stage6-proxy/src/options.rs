//! Options: kube-proxy's flags, and ours.
//!
//! *Beside the journey.* Before: the command line and a configuration file. After: [`Config`], checked.
//!
//! # In Kubernetes
//! `cmd/kube-proxy/app/options.go` and `kubeproxyconfig` v1alpha1, of which `--config` accepts the fields below; a
//! flag wins over the file here (there, the file wins and flags are ignored). Left out: IPVS, Windows.
#![expect(clippy::disallowed_methods, reason = "shell: reads the configuration file")]

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde::Deserialize;

use crate::health::HEALTHZ_PORT;
use crate::packet::Cidr;
use crate::proxy_state::LocalDetector;
use crate::sync_runner::{MIN_SYNC_PERIOD, SYNC_PERIOD};

/// How rules are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyMode {
    /// `nft`.
    Nftables,
    /// `iptables-restore`.
    Iptables,
}

impl fmt::Display for ProxyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
        })
    }
}

/// kube-proxy: makes Services reachable.
#[derive(Clone, Debug, Parser)]
#[command(name = "kube-proxy", version, about = "Makes Services reachable on this node")]
pub struct ProxyFlags {
    /// Configuration file (KubeProxyConfiguration)
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// How rules are written [default: nftables where nft works, else iptables]
    #[arg(long, value_enum)]
    pub proxy_mode: Option<ProxyMode>,
    /// The node's name, if it isn't the host's
    #[arg(long)]
    pub hostname_override: Option<String>,
    /// CIDRs of the node's addresses that accept NodePort connections, or "primary"
    /// [default: nftables: primary, iptables: all]
    #[arg(long, value_delimiter = ',')]
    pub nodeport_addresses: Vec<String>,
    /// Masquerade everything that goes to a Service
    #[arg(long)]
    pub masquerade_all: bool,
    /// The address of /healthz for load balancers [default: the node's address, port 10256]
    #[arg(long)]
    pub healthz_bind_address: Option<SocketAddr>,
    /// The address of /metrics [default: 127.0.0.1:10249]
    #[arg(long)]
    pub metrics_bind_address: Option<SocketAddr>,
}

/// The part of a KubeProxyConfiguration that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    mode: String,
    #[serde(rename = "clusterCIDR")]
    cluster_cidr: String,
    hostname_override: String,
    node_port_addresses: Option<Vec<String>>,
    healthz_bind_address: String,
    metrics_bind_address: String,
    detect_local_mode: String,
    detect_local: DetectLocal,
    iptables: Mode,
    nftables: Mode,
    client_connection: ClientConnection,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DetectLocal {
    bridge_interface: String,
    interface_name_prefix: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Mode {
    masquerade_all: bool,
    localhost_node_ports: Option<bool>,
    min_sync_period: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClientConnection {
    kubeconfig: String,
}

/// What is wrong with the options.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The file can't be read.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file isn't a KubeProxyConfiguration.
    #[error("{path}: {message}")]
    Parse {
        /// Which.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// A value is out of its range.
    #[error("invalid {field} {value:?}")]
    Invalid {
        /// Flag or field.
        field: &'static str,
        /// Its value.
        value: String,
    },
}

/// The checked configuration of one proxier.
#[derive(Clone, Debug)]
pub struct Config {
    /// `None`: the best that works.
    pub mode: Option<ProxyMode>,
    /// The node that rules are for.
    pub node_name: String,
    /// The node's address; `None`: asked from the Node object.
    pub node_ip: Option<Ipv4Addr>,
    /// Where pods are.
    pub local_detector: LocalDetector,
    /// CIDRs of NodePort addresses; empty: the mode's default.
    pub node_port_addresses: Vec<Cidr>,
    /// NodePorts at 127.0.0.1 (iptables mode).
    pub localhost_node_ports: bool,
    /// Masquerade everything.
    pub masquerade_all: bool,
    /// Time between syncs under load.
    pub min_sync_period: Duration,
    /// How often rules are checked.
    pub sync_period: Duration,
    /// `/healthz` for load balancers; `None`: the node's address.
    pub healthz_bind_address: Option<SocketAddr>,
    /// `/metrics`.
    pub metrics_bind_address: SocketAddr,
    /// The kubeconfig named in the file.
    pub kubeconfig: Option<PathBuf>,
}

impl Config {
    /// The configuration of a pipeline's node.
    pub fn for_node(node_name: &str, node_ip: Option<Ipv4Addr>) -> Self {
        Self {
            mode: None,
            node_name: node_name.to_owned(),
            node_ip,
            local_detector: LocalDetector::ClusterCidr(DEFAULT_CLUSTER_CIDR.parse().expect("a CIDR")),
            node_port_addresses: Vec::new(),
            localhost_node_ports: true,
            masquerade_all: false,
            min_sync_period: MIN_SYNC_PERIOD,
            sync_period: SYNC_PERIOD,
            healthz_bind_address: None,
            metrics_bind_address: SocketAddr::from(([127, 0, 0, 1], 10249)),
            kubeconfig: None,
        }
    }

    /// Reads flags and file. `cluster_cidr` is the flag `--cluster-cidr`, which stage 3 has too; the file wins.
    ///
    /// # Errors
    /// A file that can't be read, a value that makes no sense.
    pub fn new(flags: &ProxyFlags, cluster_cidr: &str, node_name: &str) -> Result<Self, OptionsError> {
        let file = flags.config.as_deref().map(read).transpose()?.unwrap_or_default();
        let node_name =
            [flags.hostname_override.as_deref().unwrap_or_default(), &file.hostname_override, node_name]
                .into_iter()
                .find(|name| !name.is_empty())
                .unwrap_or_default()
                .to_lowercase();
        let mut config = Self::for_node(&node_name, None);
        config.mode = match (flags.proxy_mode, file.mode.as_str()) {
            (Some(mode), _) => Some(mode),
            (None, "") => None,
            (None, text) => Some(parse("mode", text, |text| ProxyMode::from_str(text, true).ok())?),
        };
        config.local_detector = local_detector(cluster_cidr, &file)?;
        let addresses = if flags.nodeport_addresses.is_empty() {
            file.node_port_addresses.clone().unwrap_or_default()
        } else {
            flags.nodeport_addresses.clone()
        };
        for address in addresses.iter().filter(|address| *address != "primary") {
            config.node_port_addresses.push(parse("nodePortAddresses", address, |text| text.parse().ok())?);
        }
        config.masquerade_all =
            flags.masquerade_all || file.iptables.masquerade_all || file.nftables.masquerade_all;
        config.localhost_node_ports = file.iptables.localhost_node_ports.unwrap_or(true);
        let period = [&file.nftables.min_sync_period, &file.iptables.min_sync_period];
        if let Some(text) = period.into_iter().find(|text| !text.is_empty() && *text != "0s") {
            config.min_sync_period = parse("minSyncPeriod", text, |text| {
                text.parse::<jiff::SignedDuration>().ok()?.try_into().ok()
            })?;
        }
        config.healthz_bind_address = address(
            "healthzBindAddress",
            flags.healthz_bind_address,
            &file.healthz_bind_address,
            HEALTHZ_PORT,
        )?;
        if let Some(metrics) =
            address("metricsBindAddress", flags.metrics_bind_address, &file.metrics_bind_address, 10249)?
        {
            config.metrics_bind_address = metrics;
        }
        let kubeconfig = file.client_connection.kubeconfig;
        config.kubeconfig = (!kubeconfig.is_empty()).then(|| PathBuf::from(kubeconfig));
        Ok(config)
    }
}

/// All pods of the default cluster.
pub const DEFAULT_CLUSTER_CIDR: &str = "10.244.0.0/16";

fn parse<T>(field: &'static str, text: &str, parser: impl Fn(&str) -> Option<T>) -> Result<T, OptionsError> {
    parser(text).ok_or_else(|| OptionsError::Invalid { field, value: text.to_owned() })
}

fn address(
    field: &'static str,
    flag: Option<SocketAddr>,
    text: &str,
    port: u16,
) -> Result<Option<SocketAddr>, OptionsError> {
    if flag.is_some() || text.is_empty() {
        return Ok(flag);
    }
    let parsed = |text: &str| text.parse().ok().or_else(|| Some(SocketAddr::new(text.parse().ok()?, port)));
    parse(field, text, parsed).map(Some)
}

fn local_detector(cluster_cidr: &str, file: &File) -> Result<LocalDetector, OptionsError> {
    Ok(match file.detect_local_mode.as_str() {
        "BridgeInterface" => LocalDetector::BridgeInterface(file.detect_local.bridge_interface.clone()),
        "InterfaceNamePrefix" => {
            LocalDetector::InterfaceNamePrefix(file.detect_local.interface_name_prefix.clone())
        }
        "" | "ClusterCIDR" => {
            let text = if file.cluster_cidr.is_empty() { cluster_cidr } else { &file.cluster_cidr };
            // Dual-stack clusters name two, joined by a comma.
            let first = text.split(',').find(|cidr| !cidr.contains(':')).unwrap_or_default();
            match first {
                "" => LocalDetector::None,
                first => LocalDetector::ClusterCidr(parse("clusterCIDR", first, |text| text.parse().ok())?),
            }
        }
        other => return Err(OptionsError::Invalid { field: "detectLocalMode", value: other.to_owned() }),
    })
}

fn read(path: &Path) -> Result<File, OptionsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| OptionsError::Read { path: path.to_owned(), source })?;
    let failed =
        |error: &dyn fmt::Display| OptionsError::Parse { path: path.to_owned(), message: error.to_string() };
    let value: serde_json::Value = serde_yaml::from_str(&text).map_err(|error| failed(&error))?;
    if value["kind"] != "KubeProxyConfiguration" {
        return Err(failed(&format!("kind is {}, not KubeProxyConfiguration", value["kind"])));
    }
    // `null` stands for "default" everywhere in this kind.
    let without_nulls = drop_nulls(value);
    serde_json::from_value(without_nulls).map_err(|error| failed(&error))
}

fn drop_nulls(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, drop_nulls(value)))
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests;
