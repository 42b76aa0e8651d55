//! Node networks: every node of the cluster is a network namespace on one bridge of this machine.
//!
//! *Step 5 of a pod's journey.* Before: the API server runs and nothing else does. After:
//! [`crate::containerd_process`] and the kubelet run *inside* the namespace, and what they start inherits it.
//!
//! A cluster of three machines needs three routing tables, three conntrack tables, three sets of
//! firewall rules and three copies of port 10250. A network namespace is exactly that, without the
//! machines. The bridge is the switch between them, `10.210.K.1` is the host's own port on it, and
//! node I is plugged in at `10.210.K.(10+I)`. Each node routes the pod CIDRs of the others through
//! their addresses, which is all that "host-gw" networking in a real cluster does.
//!
//! This file decides, [`execute`] carries out: [`plan_up`] and [`plan_down`] turn the wish and what was
//! [`Observed`] into a list of [`NetworkOp`]s. A plan for a network that is already there is empty, so a
//! restart after `kill -9` adopts what still stands and repairs what doesn't.
//!
//! The subtle thing is who owns a bridge. Two clusters with different state directories run side by side, so the number is a race.
//! A process takes it by a lock that lasts as long as the process ([`index_lock`]); the bridge is created exclusively and carries
//! its owner's mark as link alias, which outlives a killed process. Whoever finds a stranger's lock, mark or address goes on to
//! the next number, and whoever cleans up looks at the mark first: a state directory may remember a number that is somebody else's by now.
//!
//! A node has no route to the outside: [`egress`] and [`loopback`] let its runtime pull images all the same.
//!
//! # Invariants
//! 1. Nothing outside of the cluster's own bridge, veth pairs and namespaces is touched: no rule and no
//!    route is added on the host. Nothing is removed below a bridge that bears another mark.
//! 2. `plan_up` of what `plan_up` made is empty.
//! 3. Pods keep their address on the way to other pods; only traffic that leaves the pod network
//!    takes the node's address.
//!
//! # In Kubernetes
//! No counterpart: machines, switches and routes are the administrator's (or the cloud provider's
//! route controller, or the CNI plugin's: flannel's host-gw backend does the same). Left out: IPv6.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub mod egress;
pub mod execute;
pub mod index_lock;
pub mod loopback;
pub mod netns;

/// All pods of all nodes (the controller manager's `--cluster-cidr`).
pub const CLUSTER_CIDR: Ipv4Cidr = Ipv4Cidr { address: Ipv4Addr::new(10, 244, 0, 0), prefix: 16 };
/// All Services of a default cluster (the API server's `--service-cluster-ip-range`).
pub const SERVICE_CIDR: Ipv4Cidr = Ipv4Cidr { address: Ipv4Addr::new(10, 96, 0, 0), prefix: 12 };
/// Where namespaces are mounted; the folder of `ip netns`, so that `ip netns exec` finds them too.
pub const NETNS_DIR: &str = "/run/netns";
/// A node's port on the bridge, as the node sees it.
pub const NODE_LINK: &str = "eth0";
/// Bridges are numbered 0 to 255 because the number is a byte of the address.
pub const MAX_CLUSTERS: u16 = 256;
/// Nodes have the host numbers 11 to 254.
pub const MAX_NODES: u32 = 244;

/// An IPv4 network: `10.244.1.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ipv4Cidr {
    /// An address in the network.
    pub address: Ipv4Addr,
    /// The number of leading bits that all addresses share, 0 to 32.
    pub prefix: u8,
}

impl fmt::Display for Ipv4Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Ipv4Cidr {
    /// Whether an address is in the network.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
        (u32::from(self.address) ^ u32::from(address)) & mask == 0
    }
}

/// What is not a CIDR.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not an IPv4 CIDR such as 10.244.0.0/24")]
pub struct CidrError(String);

impl FromStr for Ipv4Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let wrong = || CidrError(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let address = address.parse().map_err(|_| wrong())?;
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= 32).ok_or_else(wrong)?;
        Ok(Self { address, prefix })
    }
}

/// One cluster's share of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterNetwork {
    /// K of bridge `sixK` and `10.210.K.0/24`.
    pub index: u8,
    /// Whose bridge this is: the mark that the bridge carries as link alias.
    pub owner: String,
}

impl ClusterNetwork {
    /// The bridge's link name.
    pub fn bridge(&self) -> String {
        format!("six{}", self.index)
    }

    /// The host's address on the bridge, where nodes reach the API server.
    pub fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 210, self.index, 1)
    }

    /// All addresses of the bridge and its nodes.
    pub fn subnet(&self) -> Ipv4Cidr {
        Ipv4Cidr { address: Ipv4Addr::new(10, 210, self.index, 0), prefix: 24 }
    }

    /// The place of node number `ordinal` (from 1) in this network.
    pub fn node(&self, ordinal: u32) -> NodeNetwork {
        debug_assert!((1..=MAX_NODES).contains(&ordinal), "node {ordinal} has no address");
        let host_number = u8::try_from(10 + ordinal).unwrap_or(u8::MAX);
        NodeNetwork {
            name: format!("node-{ordinal}"),
            netns: PathBuf::from(NETNS_DIR).join(format!("{}-node-{ordinal}", self.bridge())),
            host_link: format!("{}n{ordinal}", self.bridge()),
            peer_link: format!("{}p{ordinal}", self.bridge()),
            ip: Ipv4Addr::new(10, 210, self.index, host_number),
        }
    }
}

/// One node's place in the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeNetwork {
    /// The node's name: `node-1`.
    pub name: String,
    /// The file that keeps the namespace alive.
    pub netns: PathBuf,
    /// The host's end of the veth pair, a port of the bridge.
    pub host_link: String,
    /// The node's end before it is moved and renamed to [`NODE_LINK`].
    pub peer_link: String,
    /// The node's InternalIP.
    pub ip: Ipv4Addr,
}

/// In which network namespace an operation happens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The namespace that this process was started in.
    Host,
    /// The namespace that is mounted at this path.
    Namespace(PathBuf),
}

/// One step of a plan. Steps are idempotent: "it is already so" is success.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the ip(8) command that each variant names")]
pub enum NetworkOp {
    /// `ip netns add`
    AddNamespace { path: PathBuf },
    /// `ip netns del`
    RemoveNamespace { path: PathBuf },
    /// `ip link add HOST type veth peer name PEER`
    AddVeth { host: String, peer: String },
    /// `ip link set LINK netns PATH`, then `ip link set LINK name NAME` in there.
    MoveLink { link: String, netns: PathBuf, name: String },
    /// `ip link set LINK master BRIDGE`
    Attach { link: String, bridge: String },
    /// `ip link del`
    RemoveLink { link: String },
    /// `ip addr add`
    AddAddress { place: Place, link: String, address: Ipv4Cidr },
    /// `ip link set up`
    SetUp { place: Place, link: String },
    /// `ip route replace`
    ReplaceRoute { place: Place, destination: Ipv4Cidr, gateway: Ipv4Addr },
    /// `sysctl -w`; a key that this kernel doesn't have is skipped.
    Sysctl { place: Place, key: &'static str, value: &'static str },
    /// Traffic from `pods` to anything that is no pod leaves `link` with the node's address.
    Masquerade { place: Place, pods: Ipv4Cidr, link: String },
}

impl NetworkOp {
    /// Where the step is carried out.
    pub fn place(&self) -> Place {
        match self {
            Self::AddAddress { place, .. }
            | Self::SetUp { place, .. }
            | Self::ReplaceRoute { place, .. }
            | Self::Sysctl { place, .. }
            | Self::Masquerade { place, .. } => place.clone(),
            _ => Place::Host,
        }
    }
}

/// What the machine has of a cluster's network already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Links in the host's namespace: name → alias, which is a bridge's mark.
    pub links: BTreeMap<String, Option<String>>,
    /// Addresses of the links.
    pub addresses: Vec<(String, Ipv4Addr)>,
    /// Mounted namespaces.
    pub namespaces: Vec<PathBuf>,
}

impl Observed {
    fn has_link(&self, name: &str) -> bool {
        self.links.contains_key(name)
    }

    /// Whether the cluster's number belongs to somebody else: its bridge bears another mark.
    pub fn is_strangers(&self, cluster: &ClusterNetwork) -> bool {
        self.links.get(&cluster.bridge()).is_some_and(|alias| alias.as_deref() != Some(&cluster.owner))
    }

    /// Whether a link that isn't the cluster's own has an address among the cluster's: a VPN, another program's bridge.
    pub fn uses_addresses_of(&self, cluster: &ClusterNetwork) -> bool {
        let own = cluster.bridge();
        self.addresses.iter().any(|(link, address)| *link != own && cluster.subnet().contains(*address))
    }

    fn has_namespace(&self, path: &PathBuf) -> bool {
        self.namespaces.contains(path)
    }
}

// ANCHOR: plan-up
/// The steps from what is there to a bridge with these nodes on it.
///
/// The bridge itself exists already: creating it is how the cluster's number was won (see [`execute::claim`]).
pub fn plan_up(cluster: &ClusterNetwork, nodes: &[NodeNetwork], observed: &Observed) -> Vec<NetworkOp> {
    let mut plan = Vec::new();
    for node in nodes {
        let plugged_in = observed.has_namespace(&node.netns) && observed.has_link(&node.host_link);
        if plugged_in {
            continue;
        }
        // Half a node (a killed start, a deleted veth) is made anew from the start: its namespace
        // may hold an eth0 without a peer.
        plan.extend(plan_node_down(node, observed));
        plan.extend(plan_node_up(cluster, node));
    }
    plan
}

fn plan_node_up(cluster: &ClusterNetwork, node: &NodeNetwork) -> Vec<NetworkOp> {
    let inside = Place::Namespace(node.netns.clone());
    let sysctl = |key, value| NetworkOp::Sysctl { place: inside.clone(), key, value };
    vec![
        NetworkOp::AddNamespace { path: node.netns.clone() },
        NetworkOp::AddVeth { host: node.host_link.clone(), peer: node.peer_link.clone() },
        NetworkOp::Attach { link: node.host_link.clone(), bridge: cluster.bridge() },
        NetworkOp::SetUp { place: Place::Host, link: node.host_link.clone() },
        NetworkOp::MoveLink {
            link: node.peer_link.clone(),
            netns: node.netns.clone(),
            name: NODE_LINK.to_owned(),
        },
        NetworkOp::SetUp { place: inside.clone(), link: "lo".to_owned() },
        NetworkOp::AddAddress {
            place: inside.clone(),
            link: NODE_LINK.to_owned(),
            address: Ipv4Cidr { address: node.ip, prefix: 24 },
        },
        NetworkOp::SetUp { place: inside.clone(), link: NODE_LINK.to_owned() },
        NetworkOp::ReplaceRoute {
            place: inside.clone(),
            destination: Ipv4Cidr { address: Ipv4Addr::UNSPECIFIED, prefix: 0 },
            gateway: cluster.gateway(),
        },
        // A node forwards between its pods and the other nodes.
        sysctl("net/ipv4/ip_forward", "1"),
        // Without this, a Service whose endpoint is on the same bridge gets answers past conntrack,
        // from the pod's address instead of the Service's, and the client drops them.
        sysctl("net/bridge/bridge-nf-call-iptables", "1"),
        NetworkOp::Masquerade { place: inside, pods: CLUSTER_CIDR, link: NODE_LINK.to_owned() },
    ]
}
// ANCHOR_END: plan-up

fn plan_node_down(node: &NodeNetwork, observed: &Observed) -> Vec<NetworkOp> {
    let mut plan = Vec::new();
    for link in [&node.host_link, &node.peer_link] {
        if observed.has_link(link) {
            plan.push(NetworkOp::RemoveLink { link: link.clone() });
        }
    }
    if observed.has_namespace(&node.netns) {
        plan.push(NetworkOp::RemoveNamespace { path: node.netns.clone() });
    }
    plan
}

/// The steps that remove these nodes; none when the number is somebody else's.
pub fn plan_nodes_down(
    cluster: &ClusterNetwork,
    nodes: &[NodeNetwork],
    observed: &Observed,
) -> Vec<NetworkOp> {
    if observed.is_strangers(cluster) {
        return vec![];
    }
    nodes.iter().flat_map(|node| plan_node_down(node, observed)).collect()
}

/// The steps that remove these nodes and, last, the bridge; none when the number is somebody else's.
pub fn plan_down(cluster: &ClusterNetwork, nodes: &[NodeNetwork], observed: &Observed) -> Vec<NetworkOp> {
    let mut plan = plan_nodes_down(cluster, nodes, observed);
    if observed.has_link(&cluster.bridge()) && !observed.is_strangers(cluster) {
        plan.push(NetworkOp::RemoveLink { link: cluster.bridge() });
    }
    plan
}

/// Every node routes the pods of every other node through that node's address.
///
/// A node whose pod CIDR isn't known yet (no `spec.podCIDR`) has no routes to it.
pub fn plan_routes(nodes: &[(NodeNetwork, Option<Ipv4Cidr>)]) -> Vec<NetworkOp> {
    let mut plan = Vec::new();
    for (node, _) in nodes {
        for (other, pod_cidr) in nodes {
            if let (true, Some(destination)) = (node.name != other.name, *pod_cidr) {
                let place = Place::Namespace(node.netns.clone());
                plan.push(NetworkOp::ReplaceRoute { place, destination, gateway: other.ip });
            }
        }
    }
    plan
}

/// The nodes that a state directory's earlier run made and the coming one doesn't want.
///
/// None when the number is somebody else's.
pub fn surplus_nodes(cluster: &ClusterNetwork, observed: &Observed, wanted: u32) -> Vec<NodeNetwork> {
    if observed.is_strangers(cluster) {
        return vec![];
    }
    (wanted + 1..=MAX_NODES)
        .map(|ordinal| cluster.node(ordinal))
        .filter(|node| observed.has_namespace(&node.netns) || observed.has_link(&node.host_link))
        .collect()
}

#[cfg(test)]
mod tests;
