//! Cluster DNS: names for Services and pods.
//!
//! *Step 6 of a pod's journey.* Before: a Service has an address that answers. After: a program asks for
//! `web.default.svc.cluster.local` (or just `web`) and gets it.
//!
//! The API server's objects *are* the zone: a Service with a cluster IP is an A record, a headless one has an A
//! record for each ready endpoint, a named port is an SRV record. So there is no zone file and no database, only
//! the informers' copies, and a name answers as soon as the watch event has arrived.
//!
//! One server for the cluster listens at the host's address on the node bridge. The Service `kube-dns` at 10.96.0.10 has an
//! EndpointSlice that names this address, so pods reach it by the rules of this very stage. Names outside of the
//! cluster's domain are forwarded, byte for byte, to the resolvers of the host.
//!
//! [`zone`] is the data, [`answer`] the pure function from question to answer, [`server`] the sockets.
//!
//! # Invariants
//! 1. A name that exists with another type gets an empty answer, not NXDOMAIN: else a resolver that asks for AAAA
//!    first would give up on A.
//!
//! # In Kubernetes
//! CoreDNS with its plugins `kubernetes` and `forward`; the names are those of the DNS specification 1.1.0
//! (`kubernetes/dns`). Left out: IPv6, zone transfers, caching, PTR records of endpoints without a hostname.

use std::net::Ipv4Addr;

pub mod answer;
pub mod server;
pub mod zone;

/// The cluster's domain (`--cluster-domain` of the kubelet).
pub const CLUSTER_DOMAIN: &str = "cluster.local";
/// The Service `kube-dns` (`--cluster-dns` of the kubelet).
pub const CLUSTER_DNS_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// How long an answer may be remembered, in seconds. Longer, and a client of a headless Service talks to dead pods.
pub const TTL_SECONDS: u32 = 5;
