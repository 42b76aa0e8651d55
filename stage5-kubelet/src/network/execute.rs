//! Node networks, carried out: the only file that talks rtnetlink.
//!
//! *Step 5 of a pod's journey.* Before: [`super::plan_up`] and its kin decided. After: the kernel has it.
//!
//! Steps are executed in order; those for one namespace that follow each other share a thread that has
//! entered it, because a netlink socket speaks for the namespace that it was opened in.
//!
//! # Invariants
//! 1. `EEXIST` of an addition and "not there" of a removal are success: a plan may be repeated.
//! 2. A bridge is ours when its number is locked by us, and we created it or its alias is our mark.
//!
//! # In Kubernetes
//! No counterpart; see [`super`].
#![expect(clippy::disallowed_methods, reason = "shell: netlink, /proc/sys, nft")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use futures::TryStreamExt as _;
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::{Handle, LinkBridge, LinkUnspec, LinkVeth, RouteMessageBuilder, new_connection};
use tracing::debug;

use super::index_lock::IndexLock;
use super::netns::{self, NetnsError};
use super::{ClusterNetwork, Ipv4Cidr, MAX_CLUSTERS, NETNS_DIR, NetworkOp, Observed, Place};

/// What the kernel refused.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A namespace.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// A netlink request.
    #[error("cannot carry out {op}")]
    Netlink {
        /// The step.
        op: String,
        /// The kernel's answer.
        source: rtnetlink::Error,
    },
    /// A link that should be there.
    #[error("network link {0} not found")]
    NoLink(String),
    /// A file, a socket or a program.
    #[error("cannot carry out {op}")]
    Io {
        /// The step.
        op: String,
        /// Why.
        source: std::io::Error,
    },
    /// A process of the same state directory.
    #[error("process {0} still runs a cluster of this state directory")]
    Running(String),
    /// All bridges are taken.
    #[error("no free bridge name six0 to six255")]
    NoBridge,
}

/// A cluster's number, ours for as long as this is kept.
#[derive(Debug)]
pub struct Claim {
    /// The number and the mark.
    pub network: ClusterNetwork,
    _lock: IndexLock,
}

/// Finds or makes the cluster's bridge: `preferred` (from an earlier run) first, then the first free number.
///
/// # Errors
/// No rights for netlink, 256 clusters, or one of the same owner that runs.
pub fn claim(owner: &str, preferred: Option<u8>) -> Result<Claim, NetworkError> {
    let all = (0..MAX_CLUSTERS).filter_map(|index| u8::try_from(index).ok());
    for index in preferred.into_iter().chain(all) {
        let network = ClusterNetwork { index, owner: owner.to_owned() };
        let taken = IndexLock::take(&network);
        let lock = match taken
            .map_err(|source| NetworkError::Io { op: "lock a bridge's number".to_owned(), source })?
        {
            Ok(lock) => lock,
            Err(holder) if holder.owner == owner => return Err(NetworkError::Running(holder.pid)),
            Err(_) => continue,
        };
        let observed = observe()?;
        if observed.is_strangers(&network) || observed.uses_addresses_of(&network) {
            continue;
        }
        if netns::block_on_in(None, || claim_one(&network))?? {
            return Ok(Claim { network, _lock: lock });
        }
    }
    Err(NetworkError::NoBridge)
}

async fn claim_one(cluster: &ClusterNetwork) -> Result<bool, NetworkError> {
    let handle = &connect()?;
    let name = cluster.bridge();
    let failed = |source| NetworkError::Netlink { op: format!("add bridge {name}"), source };
    match handle.link().add(LinkBridge::new(&name).build()).execute().await {
        Ok(()) => {
            let index = link_index(handle, &name).await?;
            let marked = LinkUnspec::new_with_index(index).alias(cluster.owner.clone()).build();
            handle.link().set(marked).execute().await.map_err(failed)?;
        }
        Err(error) if is_errno(&error, nix::errno::Errno::EEXIST) => {
            // Asked once more: who doesn't know of the lock may have made it since.
            if alias(handle, &name).await?.as_deref() != Some(cluster.owner.as_str()) {
                return Ok(false);
            }
        }
        Err(error) => return Err(failed(error)),
    }
    let address = Ipv4Cidr { address: cluster.gateway(), prefix: 24 };
    execute_one(handle, &NetworkOp::AddAddress { place: Place::Host, link: name.clone(), address }).await?;
    execute_one(handle, &NetworkOp::SetUp { place: Place::Host, link: name }).await?;
    Ok(true)
}

/// What the host has: links with their marks and addresses, mounted namespaces.
///
/// # Errors
/// Netlink isn't available.
pub fn observe() -> Result<Observed, NetworkError> {
    let (links, addresses) = netns::block_on_in(None, observe_links)??;
    let namespaces = std::fs::read_dir(NETNS_DIR)
        .map(|entries| entries.filter_map(Result::ok).map(|entry| entry.path()).collect())
        .unwrap_or_default();
    let namespaces = Vec::into_iter(namespaces).filter(|path: &PathBuf| netns::is_mounted(path)).collect();
    Ok(Observed { links, addresses, namespaces })
}

type Links = (BTreeMap<String, Option<String>>, Vec<(String, Ipv4Addr)>);

async fn observe_links() -> Result<Links, NetworkError> {
    let failed = |op: &str| {
        let op = op.to_owned();
        move |source| NetworkError::Netlink { op, source }
    };
    let handle = connect()?;
    let links: Vec<_> = handle.link().get().execute().try_collect().await.map_err(failed("list links"))?;
    let mut names = BTreeMap::new();
    let mut found = BTreeMap::new();
    for link in links {
        let (mut name, mut alias) = (None, None);
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::IfName(text) => name = Some(text),
                LinkAttribute::IfAlias(text) => alias = Some(text),
                _ => {}
            }
        }
        if let Some(name) = name {
            names.insert(link.header.index, name.clone());
            found.insert(name, alias);
        }
    }
    let addresses: Vec<_> =
        handle.address().get().execute().try_collect().await.map_err(failed("list addresses"))?;
    let mut all = Vec::new();
    for message in addresses {
        let Some(link) = names.get(&message.header.index) else { continue };
        for attribute in message.attributes {
            if let AddressAttribute::Address(IpAddr::V4(address)) = attribute {
                all.push((link.clone(), address));
            }
        }
    }
    Ok((found, all))
}

/// Carries a plan out, in order.
///
/// # Errors
/// The first step that fails ends it; the same plan made anew goes on from there.
pub fn execute(plan: &[NetworkOp]) -> Result<(), NetworkError> {
    for run in plan.chunk_by(|a, b| a.place() == b.place()) {
        let place = run[0].place();
        let netns = match &place {
            Place::Host => None,
            Place::Namespace(path) => Some(path.as_path()),
        };
        netns::block_on_in(netns, || async {
            let handle = connect()?;
            for op in run {
                debug!(?op, "Network step");
                execute_one(&handle, op).await?;
            }
            Ok::<(), NetworkError>(())
        })??;
    }
    Ok(())
}

fn connect() -> Result<Handle, NetworkError> {
    let (connection, handle, _) = new_connection()
        .map_err(|source| NetworkError::Io { op: "open a netlink socket".to_owned(), source })?;
    tokio::spawn(connection);
    Ok(handle)
}

fn is_errno(error: &rtnetlink::Error, errno: nix::errno::Errno) -> bool {
    matches!(error, rtnetlink::Error::NetlinkError(message) if message.raw_code() == -(errno as i32))
}

async fn find_link(handle: &Handle, name: &str) -> Option<rtnetlink::packet_route::link::LinkMessage> {
    handle.link().get().match_name(name.to_owned()).execute().try_next().await.ok().flatten()
}

async fn link_index(handle: &Handle, name: &str) -> Result<u32, NetworkError> {
    let link = find_link(handle, name).await.ok_or_else(|| NetworkError::NoLink(name.to_owned()))?;
    Ok(link.header.index)
}

async fn alias(handle: &Handle, name: &str) -> Result<Option<String>, NetworkError> {
    let link = find_link(handle, name).await.ok_or_else(|| NetworkError::NoLink(name.to_owned()))?;
    Ok(link.attributes.into_iter().find_map(|attribute| match attribute {
        LinkAttribute::IfAlias(alias) => Some(alias),
        _ => None,
    }))
}

async fn execute_one(handle: &Handle, op: &NetworkOp) -> Result<(), NetworkError> {
    let name_of = |op: &NetworkOp| format!("{op:?}");
    let done = match op {
        NetworkOp::AddNamespace { path } => return Ok(netns::create(path)?),
        NetworkOp::RemoveNamespace { path } => return Ok(netns::remove(path)?),
        NetworkOp::Sysctl { key, value, .. } => {
            return set_sysctl(key, value).map_err(|source| NetworkError::Io { op: name_of(op), source });
        }
        NetworkOp::Masquerade { pods, link, .. } => {
            return masquerade(*pods, link).map_err(|source| NetworkError::Io { op: name_of(op), source });
        }
        NetworkOp::MoveLink { link, netns, name } => return move_link(handle, link, netns, name).await,
        NetworkOp::AddVeth { host, peer } => {
            handle.link().add(LinkVeth::new(host, peer).build()).execute().await
        }
        NetworkOp::Attach { link, bridge } => {
            let bridge = link_index(handle, bridge).await?;
            let port = LinkUnspec::new_with_name(link).controller(bridge).build();
            handle.link().set(port).execute().await
        }
        NetworkOp::RemoveLink { link } => match find_link(handle, link).await {
            Some(found) => handle.link().del(found.header.index).execute().await,
            None => Ok(()),
        },
        NetworkOp::AddAddress { link, address, .. } => {
            let index = link_index(handle, link).await?;
            handle.address().add(index, address.address.into(), address.prefix).execute().await
        }
        NetworkOp::SetUp { link, .. } => {
            handle.link().set(LinkUnspec::new_with_name(link).up().build()).execute().await
        }
        NetworkOp::ReplaceRoute { destination, gateway, .. } => {
            let route = RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(destination.address, destination.prefix)
                .gateway(*gateway)
                .build();
            handle.route().add(route).replace().execute().await
        }
    };
    match done {
        Err(error) if is_errno(&error, nix::errno::Errno::EEXIST) => Ok(()),
        Err(source) => Err(NetworkError::Netlink { op: name_of(op), source }),
        Ok(()) => Ok(()),
    }
}

async fn move_link(handle: &Handle, link: &str, netns: &Path, name: &str) -> Result<(), NetworkError> {
    let op = || format!("move link {link} to {}", netns.display());
    let namespace = std::fs::File::open(netns).map_err(|source| NetworkError::Io { op: op(), source })?;
    // Moved and renamed in one request: the host may well have an eth0 of its own.
    let moved = LinkUnspec::new_with_index(link_index(handle, link).await?)
        .setns_by_fd(namespace.as_raw_fd())
        .name(name)
        .build();
    handle.link().set(moved).execute().await.map_err(|source| NetworkError::Netlink { op: op(), source })
}

fn set_sysctl(key: &str, value: &str) -> std::io::Result<()> {
    match std::fs::write(Path::new("/proc/sys").join(key), value) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Pods leave the pod network with the node's address: what ip-masq-agent does in real clusters.
///
/// `nft` when there, else `iptables`: a node without both can't have Services either.
fn masquerade(pods: Ipv4Cidr, link: &str) -> std::io::Result<()> {
    let nft = format!(
        "add table ip six-stages\n\
         add chain ip six-stages postrouting {{ type nat hook postrouting priority srcnat ; }}\n\
         flush chain ip six-stages postrouting\n\
         add rule ip six-stages postrouting ip saddr {pods} ip daddr != {pods} oifname {link} masquerade\n"
    );
    let pods = pods.to_string();
    let rule = ["POSTROUTING", "-s", &pods, "!", "-d", &pods, "-o", link, "-j", "MASQUERADE"];
    match run(Command::new("nft").args(["-f", "-"]), &nft) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if run(Command::new("iptables").args(["-w", "-t", "nat", "-C"]).args(rule), "").is_err() {
                return run(Command::new("iptables").args(["-w", "-t", "nat", "-A"]).args(rule), "");
            }
            Ok(())
        }
        result => result,
    }
}

fn run(command: &mut Command, stdin: &str) -> std::io::Result<()> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(stdin.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(std::io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
