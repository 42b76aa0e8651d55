//! In memory: the scheduler alone, against an API server that is a function call.
//!
//! Everything between the watch and the binding is the real thing: pods are parsed and queued, popped, decided on a snapshot, assumed;
//! the binding's echo comes back through the event handlers; victims of preemption disappear at once, and their going wakes
//! whoever waits for it. Only HTTP, events and conditions are missing. One thread does it all, so a rate here is that of one core: of
//! the time that the thread had on it, as the kernel counts it, so that other work on the machine changes the figure little.
//!
//! # In Kubernetes
//! `test/integration/scheduler_perf` runs against a real API server and etcd in the same process.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock and the process' memory")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use nix::time::ClockId;

use super::timed::{Shares, timed};
use super::workloads::{MEASURED_PER_CHURN, Plan};
use crate::decision::decide;
use crate::decision::{Decision, decide_remembering};
use crate::equivalence_cache::EquivalenceCache;
use crate::event_handlers::State;
use crate::listers::set;
use crate::profile::{NodesToScore, Profile};
use crate::profiles::Profiles;
use crate::snapshot::Snapshot;

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// With the equivalence cache, as the scheduler runs; else every decision is a scan.
    pub remember: bool,
    /// `percentageOfNodesToScore`; 0 is Kubernetes' adaptive share.
    pub percentage: u32,
    /// With stopwatches in the plugins.
    pub timed: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Measured pods that were bound.
    pub bound: usize,
    /// How long that took, by the clock on the wall.
    pub elapsed: Duration,
    /// How long the thread had a core meanwhile.
    pub on_core: Duration,
    /// The slowest and the median decision.
    pub slowest: Duration,
    /// The median decision.
    pub median: Duration,
    /// Mean CPU utilisation of the nodes, 0 to 1.
    pub mean: f64,
    /// Its variance: less is better balanced.
    pub variance: f64,
    /// Pods evicted.
    pub victims: usize,
    /// The process' memory in bytes, afterwards.
    pub memory_bytes: u64,
    /// Share of each plugin in the time of all plugins, if timed.
    pub shares: Vec<(&'static str, f64)>,
}

impl Outcome {
    /// Pods a second of the core.
    pub fn rate(&self) -> f64 {
        self.bound as f64 / self.on_core.as_secs_f64()
    }

    /// Pods a second by the clock on the wall.
    pub fn wall_rate(&self) -> f64 {
        self.bound as f64 / self.elapsed.as_secs_f64()
    }
}

struct Cluster {
    state: State,
    snapshot: Snapshot,
    memory: Option<EquivalenceCache>,
    profile: Arc<Profile>,
    chance: u64,
    started: Instant,
    decisions: Vec<Duration>,
    outcome: Outcome,
}

/// Runs a workload.
pub fn run(plan: &Plan, options: Options) -> Outcome {
    let nodes_to_score = match options.percentage {
        0 => NodesToScore::Adaptive,
        share => NodesToScore::Percentage(share),
    };
    let profile = Profile { nodes_to_score, ..Profile::default() };
    let (profile, shares) = if options.timed { timed(profile) } else { (profile, Shares::new()) };
    let profiles = Arc::new(Profiles::new(vec![profile]));
    let Some(profile) = profiles.of(&crate::pod_info::PodInfo::default()).cloned() else {
        return Outcome::default();
    };
    let mut cluster = Cluster {
        state: State::new(profiles),
        snapshot: Snapshot::default(),
        memory: options.remember.then(EquivalenceCache::default),
        profile,
        chance: 0x9E37_79B9_7F4A_7C15,
        started: Instant::now(),
        decisions: Vec::new(),
        outcome: Outcome::default(),
    };
    cluster.furnish(plan);
    cluster.arrive(&plan.init);
    cluster.place_all(&[]);
    (cluster.outcome, cluster.decisions) = Default::default();
    shares.iter().for_each(|(_, nanos)| nanos.store(0, std::sync::atomic::Ordering::Relaxed));
    let (begin, had) = (Instant::now(), on_core());
    cluster.arrive(&plan.measured);
    cluster.place_all(&plan.churn);
    cluster.outcome.elapsed = begin.elapsed();
    cluster.outcome.on_core = match on_core() {
        Some(has) => has.saturating_sub(had.unwrap_or_default()),
        None => cluster.outcome.elapsed,
    };
    cluster.finish(&shares)
}

impl Cluster {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn furnish(&mut self, plan: &Plan) {
        let now = self.now();
        for node in &plan.nodes {
            self.state.set_node(Arc::new(node.clone()), now);
        }
        let listers = Arc::make_mut(&mut self.state.cache.listers);
        for namespace in &plan.namespaces {
            let labels = Arc::new(namespace.metadata.labels.clone().unwrap_or_default());
            set(&mut listers.namespaces, namespace.metadata.name.as_deref().unwrap_or(""), Some(labels));
        }
        if let Some((namespace, name, (key, value))) = &plan.service {
            listers.set_service(namespace, name, Some([(key.clone(), value.clone())].into()));
        }
    }

    fn arrive(&mut self, pods: &[Pod]) {
        for pod in pods {
            let now = self.now();
            self.state.set_pod(Arc::new(pod.clone()), now);
        }
    }

    /// Places what is queued; `churn` comes in between.
    fn place_all(&mut self, churn: &[Pod]) {
        let mut churn = churn.iter();
        let mut since_churn = 0;
        while self.place_one() {
            since_churn += 1;
            if since_churn >= MEASURED_PER_CHURN
                && let Some(pod) = churn.next()
            {
                since_churn = 0;
                self.arrive(std::slice::from_ref(pod));
            }
        }
    }

    fn place_one(&mut self) -> bool {
        let now = self.now();
        let Some(pod) = self.state.queue.pop(now) else { return false };
        // A pod that fits nowhere comes back for ever: after some tries the bench forgets it.
        if pod.attempts > 3 {
            self.state.queue.delete(&pod.info.uid);
            return true;
        }
        self.state.cache.update(&mut self.snapshot);
        self.state.queue.nominator.update(&mut self.snapshot);
        // Xorshift: ties are broken evenly, and in every run alike.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        let before = Instant::now();
        let decision = match &mut self.memory {
            Some(memory) => decide_remembering(memory, &self.profile, &pod.info, &self.snapshot, self.chance),
            None => decide(&self.profile, &pod.info, &self.snapshot, self.chance),
        };
        self.decisions.push(before.elapsed());
        match decision {
            Decision::Bind { result, .. } => {
                let node = &result.suggested_host;
                self.snapshot.start_node_index =
                    (self.snapshot.start_node_index + result.evaluated_nodes) % self.snapshot.nodes().len();
                self.state.queue.nominator.remove(&pod.info.uid);
                self.state.cache.assume(pod.info.clone(), node);
                self.state.cache.finish_binding(&pod.info.uid, now);
                self.state.queue.done(&pod.info.uid);
                let mut bound = (*pod.info.pod).clone();
                bound.spec.get_or_insert_default().node_name = Some(node.to_string());
                self.state.set_pod(Arc::new(bound), now);
                self.outcome.bound += usize::from(pod.info.priority == 0);
            }
            Decision::Unschedulable { error, preemption } => {
                if let Some(candidate) = &preemption.nominated {
                    self.state.queue.nominator.set(&pod.info, Some(&candidate.node));
                }
                self.state.queue.return_refused(pod, error.rejectors(), now);
                for victim in preemption.nominated.iter().flat_map(|candidate| &candidate.victims) {
                    self.state.remove_pod(&victim.uid, now);
                    self.outcome.victims += 1;
                }
            }
        }
        true
    }

    fn finish(mut self, shares: &Shares) -> Outcome {
        let used = |node: &crate::node_info::NodeInfo| {
            node.requested.cpu_millis as f64 / node.allocatable().cpu_millis.max(1) as f64
        };
        self.state.cache.update(&mut self.snapshot);
        let shares_of_nodes: Vec<f64> = self.snapshot.nodes().iter().map(|node| used(node)).collect();
        let count = shares_of_nodes.len().max(1) as f64;
        let mean = shares_of_nodes.iter().sum::<f64>() / count;
        let variance = shares_of_nodes.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / count;
        self.decisions.sort_unstable();
        let nanos =
            |nanos: &std::sync::atomic::AtomicU64| nanos.load(std::sync::atomic::Ordering::Relaxed) as f64;
        let all: f64 = shares.iter().map(|(_, share)| nanos(share)).sum::<f64>().max(1.0);
        Outcome {
            mean,
            variance,
            slowest: self.decisions.last().copied().unwrap_or_default(),
            median: self.decisions.get(self.decisions.len() / 2).copied().unwrap_or_default(),
            memory_bytes: resident_bytes(),
            shares: shares.iter().map(|(name, share)| (*name, nanos(share) / all)).collect(),
            ..self.outcome
        }
    }
}

/// How long this thread has had a core; `None` where there is no such clock. (What /proc says of it moves by whole ticks.)
fn on_core() -> Option<Duration> {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().ok().map(Duration::from)
}

/// Resident memory of this process in bytes; 0 where there is no `/proc`.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}
