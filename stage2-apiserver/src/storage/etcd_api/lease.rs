//! Leases: keys that go by themselves unless somebody keeps them alive.
//!
//! They live in memory: a restart forgets them, and what they held stays. The API server itself uses none (Events are swept).
//!
//! # In Kubernetes
//! etcd's `server/lease/lessor.go`. Left out: leases that survive a restart.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock, draws ids")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Response;
use hyper::body::Incoming;
use parking_lot::Mutex;

use super::Server;
use super::grpc::{Body, Failure, Messages, framed, streaming};
use super::messages as pb;
use crate::storage::{Expect, Write};

const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct Lease {
    seconds: i64,
    expires: Instant,
    keys: BTreeSet<String>,
}

/// All leases.
#[derive(Default)]
pub struct Leases {
    by_id: Mutex<BTreeMap<i64, Lease>>,
}

fn not_found() -> Failure {
    Failure::new(5, "etcdserver: requested lease not found")
}

fn lasting(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}

impl Leases {
    /// The lease of a key; 0: none.
    pub fn of(&self, key: &str) -> i64 {
        let leases = self.by_id.lock();
        leases.iter().find(|(_, lease)| lease.keys.contains(key)).map_or(0, |(id, _)| *id)
    }

    /// A lease must be there to be used; 0 means none.
    ///
    /// # Errors
    /// It isn't.
    pub fn check(&self, id: i64) -> Result<(), Failure> {
        if id == 0 || self.by_id.lock().contains_key(&id) { Ok(()) } else { Err(not_found()) }
    }

    /// Ties a key to a lease (0: to none).
    pub fn attach(&self, id: i64, key: &str) {
        self.detach(key);
        if let Some(lease) = self.by_id.lock().get_mut(&id) {
            lease.keys.insert(key.to_owned());
        }
    }

    /// A key is tied to nothing any more.
    pub fn detach(&self, key: &str) {
        for lease in self.by_id.lock().values_mut() {
            lease.keys.remove(key);
        }
    }

    fn prolong(&self, id: i64, now: Instant) -> i64 {
        let mut leases = self.by_id.lock();
        let Some(lease) = leases.get_mut(&id) else { return 0 };
        lease.expires = now + lasting(lease.seconds);
        lease.seconds
    }

    fn expired(&self, now: Instant) -> Vec<i64> {
        self.by_id.lock().iter().filter(|(_, lease)| lease.expires <= now).map(|(id, _)| *id).collect()
    }
}

impl Server {
    /// Grants a lease.
    ///
    /// # Errors
    /// The id is taken, or the time makes no sense.
    pub async fn grant(&self, request: &pb::LeaseGrantRequest) -> Result<pb::LeaseGrantResponse, Failure> {
        if !(1..=9_000_000_000).contains(&request.ttl) {
            return Err(Failure::new(11, "etcdserver: too large lease TTL"));
        }
        let header = self.header().await?;
        let mut leases = self.leases.by_id.lock();
        let id = if request.id == 0 { i64::from(rand::random::<u32>()) + 1 } else { request.id };
        if leases.contains_key(&id) {
            return Err(Failure::new(9, "etcdserver: lease already exists"));
        }
        let expires = Instant::now() + lasting(request.ttl);
        leases.insert(id, Lease { seconds: request.ttl, expires, keys: BTreeSet::new() });
        Ok(pb::LeaseGrantResponse { header, id, ttl: request.ttl, error: String::new() })
    }

    /// Ends a lease, and its keys with it.
    ///
    /// # Errors
    /// It isn't there.
    pub async fn revoke(&self, request: &pb::LeaseRevokeRequest) -> Result<pb::HeaderOnly, Failure> {
        let lease = self.leases.by_id.lock().remove(&request.id).ok_or_else(not_found)?;
        for key in lease.keys {
            self.storage.commit(&key, Expect::Anything, Write::Delete).await?;
        }
        Ok(pb::HeaderOnly { header: self.header().await? })
    }

    /// How long a lease lasts; -1 for one that isn't there.
    ///
    /// # Errors
    /// The store is away.
    pub async fn time_to_live(
        &self,
        request: &pb::LeaseTimeToLiveRequest,
    ) -> Result<pb::LeaseTimeToLiveResponse, Failure> {
        let header = self.header().await?;
        let leases = self.leases.by_id.lock();
        let mut response =
            pb::LeaseTimeToLiveResponse { header, id: request.id, ttl: -1, ..Default::default() };
        if let Some(lease) = leases.get(&request.id) {
            let left = lease.expires.saturating_duration_since(Instant::now());
            response.ttl = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
            response.granted_ttl = lease.seconds;
            let keys = lease.keys.iter().filter(|_| request.keys);
            response.keys = keys.map(|key| key.clone().into_bytes().into()).collect();
        }
        Ok(response)
    }

    /// All leases.
    ///
    /// # Errors
    /// The store is away.
    pub async fn list_leases(&self) -> Result<pb::LeaseLeasesResponse, Failure> {
        let header = self.header().await?;
        let leases = self.leases.by_id.lock().keys().map(|id| pb::LeaseStatus { id: *id }).collect();
        Ok(pb::LeaseLeasesResponse { header, leases })
    }
}

/// Prolongs leases as long as the client asks for it.
pub fn keep_alive(server: Arc<Server>, body: Incoming) -> Response<Body> {
    let (out, response) = streaming();
    tokio::spawn(async move {
        let mut requests = Messages::new(body);
        while let Ok(Some(request)) = requests.next::<pb::LeaseKeepAliveRequest>().await {
            let ttl = server.leases.prolong(request.id, Instant::now());
            let answer = server.header().await.map(|header| {
                framed(&pb::LeaseGrantResponse { header, id: request.id, ttl, error: String::new() })
            });
            if out.send(answer).await.is_err() {
                return;
            }
        }
    });
    response
}

/// Ends leases whose time is over, until the server stops.
pub async fn expire(server: Arc<Server>) {
    let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
    loop {
        ticks.tick().await;
        for id in server.leases.expired(Instant::now()) {
            if let Err(failure) = server.revoke(&pb::LeaseRevokeRequest { id }).await {
                tracing::warn!(id, failure.message, "A lease that is over could not be ended");
            }
        }
    }
}
