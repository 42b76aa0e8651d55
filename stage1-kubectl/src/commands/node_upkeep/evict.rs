//! Pods go: evicted or deleted, and waited for until they are gone.
//!
//! An eviction that a PodDisruptionBudget refuses is asked for again every five seconds, until `--timeout` is over; all pods go at the same
//! time. A pod is gone when nobody has its name, or somebody else has it.
//!
//! # In Kubernetes
//! `kubectl/pkg/drain/drain.go`. Left out: servers before 1.22, which have no `policy/v1`.
#![expect(clippy::disallowed_methods, reason = "shell: waits for pods to go")]

use std::time::Duration;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{DrainArgs, DryRun};
use crate::client::ClientError;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request;
use crate::resource::GroupVersionResource;
use crate::status::Status;
use crate::time::{format_duration, parse_duration};

/// The pause after a budget said no.
const EVICTION_RETRY: Duration = Duration::from_secs(5);
/// How often it is looked whether a pod is gone.
const GONE_INTERVAL: Duration = Duration::from_secs(1);

/// Evicts (or deletes) pods and waits until they are gone.
///
/// # Errors
/// One for each pod that can't go, or didn't in time.
pub(super) async fn all(ctx: &Context, args: &DrainArgs, pods: &[Object]) -> Result<(), Failure> {
    let dry_run = DryRun::parse(&args.nodes.dry_run)?;
    let limit = parse_duration(&args.timeout).unwrap_or_default();
    let deadline = limit.is_positive().then(|| Instant::now() + limit.unsigned_abs());
    let going = Going { ctx, args, dry_run, limit, deadline };
    if dry_run == DryRun::Client {
        for pod in pods {
            going.say("evicting", pod);
        }
        return Ok(());
    }
    let results = futures::future::join_all(pods.iter().map(|pod| going.remove(pod))).await;
    Failure::collect(results.into_iter().filter_map(Result::err).collect())
}

struct Going<'a> {
    ctx: &'a Context,
    args: &'a DrainArgs,
    dry_run: DryRun,
    limit: SignedDuration,
    deadline: Option<Instant>,
}

impl Going<'_> {
    fn say(&self, verb: &str, pod: &Object) {
        let namespace = pod.namespace().unwrap_or_default();
        self.ctx.print(&format!("{verb} pod {namespace}/{}{}\n", pod.name(), self.dry_run.suffix()));
    }

    async fn remove(&self, pod: &Object) -> Result<(), Failure> {
        let (name, namespace) = (pod.name(), pod.namespace().unwrap_or_default());
        let pods = GroupVersionResource::new("", "v1", "pods");
        let path = pods.path(Some(namespace), Some(name), None);
        let mut options = json!({});
        if self.args.grace_period >= 0 {
            options["gracePeriodSeconds"] = self.args.grace_period.into();
        }
        if self.dry_run == DryRun::Server {
            options["dryRun"] = json!(["All"]);
        }
        let done = match self.args.disable_eviction {
            true => {
                let request = request::request(Method::DELETE, &path, Some(&options));
                match self.ctx.client().await?.request::<Value>(request).await {
                    Err(error) if !error.is_not_found() => return Err(error.into()),
                    _ => "deleted",
                }
            }
            false => {
                self.evict(pod, &path, &options).await?;
                "evicted"
            }
        };
        if self.dry_run != DryRun::None {
            return Ok(());
        }
        self.wait_until_gone(pod, &path).await.map_err(|failure| match self.args.disable_eviction {
            true => failure,
            false => {
                let what =
                    format!("error when waiting for pod {name:?} in namespace {namespace:?} to terminate");
                Failure::message(format!("{what}: {}", super::reason(&failure)))
            }
        })?;
        self.ctx.print(&format!("pod/{name} {done}\n"));
        Ok(())
    }

    async fn evict(&self, pod: &Object, path: &str, options: &Value) -> Result<(), Failure> {
        let (name, namespace) = (pod.name(), pod.namespace().unwrap_or_default());
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace}, "deleteOptions": options});
        let what = format!("error when evicting pods/{name:?} -n {namespace:?}");
        loop {
            self.say("evicting", pod);
            if self.is_over() {
                return Err(Failure::message(format!("{what}: {}", self.time_is_over())));
            }
            let request = request::request(Method::POST, &format!("{path}/eviction"), Some(&eviction));
            match self.ctx.client().await?.request::<Value>(request).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() => return Ok(()),
                // The budget has no room now; it may have later.
                Err(ClientError::Api(status)) if status.code == 429 => {
                    self.ctx.warn(&format!("{what} (will retry after 5s): {}\n", status.message));
                }
                // Its namespace is ending, so it will be deleted without us.
                Err(ClientError::Api(status)) if is_ending(&status) => {
                    let place = format!("pod {name:?} from terminating namespace {namespace:?}");
                    let why = &status.message;
                    self.ctx.warn(&format!("error when evicting {place} (will retry after 5s): {why}\n"));
                }
                Err(error) => {
                    let why = super::reason(&Failure::from(error));
                    return Err(Failure::message(format!("{what}: {why}")));
                }
            }
            sleep(EVICTION_RETRY).await;
        }
    }

    async fn wait_until_gone(&self, pod: &Object, path: &str) -> Result<(), Failure> {
        let seconds = self.args.skip_wait_for_delete_timeout;
        loop {
            let request = request::request(Method::GET, path, None);
            match self.ctx.client().await?.request::<Object>(request).await {
                Ok(there) if there.uid() != pod.uid() => return Ok(()),
                Ok(there) if super::verdict::goes_for_long(&there, seconds, Timestamp::now()) => {
                    let name = pod.name();
                    let why = format!("has DeletionTimestamp older than {seconds} seconds, skipping");
                    self.ctx.print(&format!("pod {name:?} {why}\n"));
                    return Ok(());
                }
                Ok(_) if self.is_over() => return Err(Failure::message(self.time_is_over())),
                Ok(_) => sleep(GONE_INTERVAL).await,
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn time_is_over(&self) -> String {
        format!("global timeout reached: {}", format_duration(self.limit))
    }
}

/// The server takes no more evictions in a namespace that is going.
fn is_ending(status: &Status) -> bool {
    status.code == 403 && status.causes().iter().any(|cause| cause.reason == "NamespaceTerminating")
}
