//! Repair: what is taken and belongs to no Service is given back, what a Service has and isn't taken is taken.
//!
//! An allocation is given back when its write fails. But a client may go away, or the store may fall silent, just while the Service is being
//! written: then nobody knows whether it was. Such a value stays taken, and is looked at again from time to time. A value that no Service
//! has may also be one whose write is still on its way, so it is given back only when it was found without a Service several times in a row,
//! over a time in which every write has long ended.
//!
//! # Invariants
//! 1. A value of a stored Service is never given back.
//! 2. A value whose write is on its way is never given back.
//!
//! # In Kubernetes
//! `pkg/registry/core/service/{ipallocator,portallocator}/controller/repair.go`. Left out: events about what was found.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use stage1_kubectl::object::Object;

use super::service::{ServiceAllocators, addresses, node_ports};
use crate::registry;
use crate::server::ApiServer;
use crate::validation::fields::child;
use crate::watch_cache::At;

/// Pause between two looks.
pub const REPAIR_INTERVAL: Duration = Duration::from_secs(3 * 60);
/// Looks that must find a value without a Service before it is given back.
const LOOKS_BEFORE_RELEASE: u32 = 3;

/// How often each value was found without a Service.
#[derive(Debug, Default)]
pub struct Repair {
    ips: HashMap<Ipv4Addr, u32>,
    ports: HashMap<i64, u32>,
}

impl Repair {
    /// Looks once. `services` were read while the allocators were locked.
    pub fn look<'a>(
        &mut self,
        allocators: &mut ServiceAllocators,
        services: impl IntoIterator<Item = &'a Object>,
    ) {
        let (mut ips, mut ports): (HashSet<Ipv4Addr>, HashSet<i64>) = Default::default();
        for service in services {
            let spec = child(service.as_value(), "spec");
            ips.extend(addresses(spec));
            ports.extend(node_ports(spec));
        }
        for ip in &ips {
            allocators.ips.allocate(*ip);
        }
        for port in &ports {
            allocators.ports.allocate(*port);
        }
        let lost = allocators.ips.taken().filter(|ip| !ips.contains(ip));
        for ip in count(&mut self.ips, lost) {
            allocators.ips.release(ip);
        }
        let lost = allocators.ports.taken().filter(|port| !ports.contains(port));
        for port in count(&mut self.ports, lost) {
            allocators.ports.release(port);
        }
    }
}

/// Counts what is lost, forgets what no longer is, and gives out what was lost often enough.
fn count<T: Copy + Eq + std::hash::Hash>(
    counted: &mut HashMap<T, u32>,
    lost: impl Iterator<Item = T>,
) -> Vec<T> {
    let now: HashMap<T, u32> =
        lost.map(|value| (value, counted.get(&value).map_or(1, |looks| looks + 1))).collect();
    let (due, waiting): (HashMap<T, u32>, _) =
        now.into_iter().partition(|(_, looks)| *looks >= LOOKS_BEFORE_RELEASE);
    *counted = waiting;
    due.into_keys().collect()
}

/// Looks again and again.
pub async fn run(server: Arc<ApiServer>, interval: Duration) {
    let info = registry::find("", "v1", "services").expect("services are registered");
    let mut repair = Repair::default();
    loop {
        tokio::time::sleep(interval).await;
        let cache = server.stores.of(info).cacher().clone();
        if cache.wait_for(At::Consistent).await.is_err() {
            continue;
        }
        // In this order: what is taken between the two would look lost, and what is given back would be taken again.
        let mut allocators = server.allocators.lock();
        let services = cache.present(&info.key_prefix(None));
        repair.look(&mut allocators, services.iter().map(|cached| &cached.object));
    }
}
