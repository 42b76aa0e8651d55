//! Elector: the shell of leader election. Reads and writes the Lease, and says when we lead and when no longer.
//!
//! Every [`RETRY_PERIOD`] it reads the Lease, asks [`next`] and writes what it says. A conflict means that another contender
//! was faster: nothing to do but to look again.
//!
//! # In Kubernetes
//! `client-go/tools/leaderelection/leaderelection.go` (`acquire`, `renew`), `resourcelock/leaselock.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock and talks to the API server")]

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use stage1_kubectl::client::{Api, Client, ClientError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{LEASE_DURATION, Next, Observation, RENEW_DEADLINE, RETRY_PERIOD, next, release};

/// One contender for one Lease.
pub struct Elector {
    api: Api<Lease>,
    name: String,
    namespace: String,
    identity: String,
    times: Times,
    started: Instant,
    seen: Option<Observation>,
}

/// How long what may take; see the constants for what each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// [`LEASE_DURATION`].
    pub lease_duration: Duration,
    /// [`RENEW_DEADLINE`].
    pub renew_deadline: Duration,
    /// [`RETRY_PERIOD`].
    pub retry_period: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Times { lease_duration: LEASE_DURATION, renew_deadline: RENEW_DEADLINE, retry_period: RETRY_PERIOD }
    }
}

impl Elector {
    /// A contender `identity` (host name and a random part) for the Lease `namespace/name`.
    pub fn new(client: &Client, namespace: &str, name: &str, identity: &str) -> Elector {
        Elector {
            api: client.namespaced::<Lease>(namespace),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
            times: Times::default(),
            started: Instant::now(),
            seen: None,
        }
    }

    /// With other times than Kubernetes' defaults.
    #[must_use]
    pub fn with_times(mut self, times: Times) -> Elector {
        self.times = times;
        self
    }

    /// Waits until this contender leads; `false`: `shutdown` came first.
    pub async fn acquire(&mut self, shutdown: &CancellationToken) -> bool {
        info!(lease = %format!("{}/{}", self.namespace, self.name), "Attempting to acquire leader lease...");
        loop {
            match self.try_once().await {
                Ok(true) => {
                    info!(lease = %format!("{}/{}", self.namespace, self.name), "Successfully acquired lease");
                    return true;
                }
                Ok(false) => {}
                Err(error) => warn!(%error, "Error retrieving or updating lock"),
            }
            tokio::select! {
                () = tokio::time::sleep(self.times.retry_period) => {}
                () = shutdown.cancelled() => return false,
            }
        }
    }

    /// Renews until the lease is lost, or until `shutdown`, when it is given up.
    pub async fn hold(&mut self, shutdown: &CancellationToken) {
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.times.retry_period) => {}
                () = shutdown.cancelled() => return self.give_up().await,
            }
            // A request that hangs must not carry us over the deadline.
            let left = self.times.renew_deadline.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.try_once()).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => return warn!(lease = %self.name, "Lost lease"),
                Ok(Err(error)) => warn!(%error, "Failed to renew lease"),
                Err(_) => {}
            }
            if renewed.elapsed() >= self.times.renew_deadline {
                return warn!(lease = %self.name, "Failed to renew lease before the deadline");
            }
        }
    }

    async fn try_once(&mut self) -> Result<bool, ClientError> {
        let now = self.started.elapsed();
        let current = match self.api.get(&self.name).await {
            Ok(lease) => Some(lease),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        match current.as_ref().and_then(|lease| lease.spec.as_ref()) {
            Some(record) => self
                .seen
                .get_or_insert_with(|| Observation { record: record.clone(), since: now })
                .observe(record, now),
            None => self.seen = None,
        }
        let mut record = match next(&self.identity, self.seen.as_ref(), now, Timestamp::now()) {
            Next::Wait { .. } => return Ok(false),
            Next::Write(record) => *record,
        };
        record.lease_duration_seconds = i32::try_from(self.times.lease_duration.as_secs()).ok();
        let written = match current {
            Some(lease) => self.api.replace(&self.name, &Lease { spec: Some(record), ..lease }).await,
            None => {
                let metadata = ObjectMeta {
                    name: Some(self.name.clone()),
                    namespace: Some(self.namespace.clone()),
                    ..ObjectMeta::default()
                };
                self.api.create(&Lease { metadata, spec: Some(record) }).await
            }
        };
        match written {
            Ok(lease) => {
                self.seen = lease.spec.map(|record| Observation { record, since: now });
                Ok(true)
            }
            Err(error) if error.is_conflict() || error.is_already_exists() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn give_up(&mut self) {
        let released = async {
            let lease = self.api.get(&self.name).await?;
            let Some(record) = lease
                .spec
                .as_ref()
                .filter(|record| record.holder_identity.as_deref() == Some(&self.identity))
            else {
                return Ok(());
            };
            let spec = Some(release(record, Timestamp::now()));
            self.api.replace(&self.name, &Lease { spec, ..lease.clone() }).await.map(|_| ())
        };
        // At the end of the process nobody waits for an answer that does not come.
        if let Ok(Err(error)) = tokio::time::timeout(Duration::from_secs(1), released).await {
            warn!(%error, "Failed to release lock");
        }
    }
}

/// Runs `lead` while this contender holds the Lease. Returns when it ended, when the lease was lost, or on `shutdown`.
pub async fn run_leading<F>(
    mut elector: Elector,
    shutdown: CancellationToken,
    lead: impl FnOnce(CancellationToken) -> F,
) where
    F: Future<Output = ()> + Send,
{
    if !elector.acquire(&shutdown).await {
        return;
    }
    let leading = shutdown.child_token();
    let work = lead(leading.clone());
    tokio::pin!(work);
    // On shutdown: end the work first, give the lease up after it, so that two never work at once.
    let held = async {
        let keep = CancellationToken::new();
        tokio::select! {
            () = elector.hold(&keep) => None,
            () = shutdown.cancelled() => Some(()),
        }
    };
    let finish = tokio::select! {
        () = &mut work => Some(()),
        ended = held => ended,
    };
    leading.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(10), &mut work).await;
    if finish.is_some() {
        elector.give_up().await;
    }
}
