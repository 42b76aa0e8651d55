//! Probes: asking a container how it is.
//!
//! *Step 5 of a pod's journey.* Before: a container runs. After: `started` lets the next sidecar start, `ready` lets traffic in, a failed
//! liveness kills it.
//!
//! Each probe is a small state machine ([`ProbeState`]): it counts equal answers in a row and changes its mind only when a threshold
//! is reached. The asking itself ([`prober`]) and the clock ([`manager`]) are shells around it.
//!
//! The three kinds differ only in what they begin with and in what they wait for. Liveness begins healthy: a container is
//! not killed before it was asked. Readiness begins unready. While a startup probe has not succeeded, the two others are not asked.
//!
//! # Invariants
//! 1. A result changes only after `failureThreshold` (`successThreshold`) equal answers in a row.
//! 2. A new container id starts from the beginning.
//! 3. After a liveness or startup failure the probe holds still until the container is replaced.
//!
//! # In Kubernetes
//! `pkg/kubelet/prober/worker.go`. Left out: jitter of the first run after a kubelet restart.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Probe};

use crate::runtime_view::ProbeResult;

pub mod grpc;
pub mod manager;
pub mod prober;

/// Which question a probe answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProbeKind {
    /// Shall it be restarted?
    Liveness,
    /// May it get traffic?
    Readiness,
    /// Has it come up?
    Startup,
}

impl ProbeKind {
    /// The word that begins an `Unhealthy` event.
    pub fn as_str(self) -> &'static str {
        match self {
            ProbeKind::Liveness => "Liveness",
            ProbeKind::Readiness => "Readiness",
            ProbeKind::Startup => "Startup",
        }
    }

    /// The probe of this kind in a container's spec.
    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            ProbeKind::Liveness => container.liveness_probe.as_ref(),
            ProbeKind::Readiness => container.readiness_probe.as_ref(),
            ProbeKind::Startup => container.startup_probe.as_ref(),
        }
    }

    /// What is assumed before the first answer.
    pub fn initial(self) -> ProbeResult {
        match self {
            ProbeKind::Liveness => ProbeResult::Success,
            ProbeKind::Readiness => ProbeResult::Failure,
            ProbeKind::Startup => ProbeResult::Unknown,
        }
    }
}

/// One answer of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Well.
    Success,
    /// Not well: the output.
    Failure(String),
    /// The question could not be asked: why.
    Errored(String),
}

/// What a probe needs to know of its container at one tick.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Id of the newest container.
    pub container_id: String,
    /// Whether it runs.
    pub running: bool,
    /// When it was started.
    pub started_at: Timestamp,
    /// Whether its startup probe, if any, has succeeded.
    pub started: bool,
}

/// What to do at one tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tick {
    /// Nothing.
    Idle,
    /// Store this result without asking.
    Set(ProbeResult),
    /// Ask.
    Ask,
}

/// The memory of one probe of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeState {
    container_id: String,
    last: Option<bool>,
    run: i32,
    on_hold: bool,
}

// ANCHOR: probe-state
impl ProbeState {
    /// Looks at the container before asking it.
    pub fn tick(
        &mut self,
        kind: ProbeKind,
        probe: &Probe,
        observed: Option<&Observed>,
        now: Timestamp,
    ) -> Tick {
        let Some(seen) = observed else { return Tick::Idle };
        if self.container_id != seen.container_id {
            *self = ProbeState { container_id: seen.container_id.clone(), ..ProbeState::default() };
            return Tick::Set(kind.initial());
        }
        if self.on_hold {
            return Tick::Idle;
        }
        if !seen.running {
            return Tick::Set(ProbeResult::Failure);
        }
        let delay = SignedDuration::from_secs(i64::from(probe.initial_delay_seconds.unwrap_or(0)));
        if now.duration_since(seen.started_at) < delay {
            return Tick::Idle;
        }
        // Before the startup probe succeeded only it is asked; afterwards only the others.
        if seen.started == (kind == ProbeKind::Startup) { Tick::Idle } else { Tick::Ask }
    }

    /// Counts one answer; returns the result when a threshold is reached.
    pub fn heard(&mut self, kind: ProbeKind, probe: &Probe, answer: &Answer) -> Option<ProbeResult> {
        let success = match answer {
            Answer::Success => true,
            Answer::Failure(_) => false,
            // Not being able to ask says nothing about the container.
            Answer::Errored(_) => return None,
        };
        self.run = if self.last == Some(success) { self.run + 1 } else { 1 };
        self.last = Some(success);
        let threshold =
            if success { probe.success_threshold.unwrap_or(1) } else { probe.failure_threshold.unwrap_or(3) };
        if self.run < threshold {
            return None;
        }
        if !success && kind != ProbeKind::Readiness {
            self.on_hold = true;
            self.run = 0;
        }
        Some(if success { ProbeResult::Success } else { ProbeResult::Failure })
    }
}
// ANCHOR_END: probe-state

/// Time between two questions.
pub fn period(probe: &Probe) -> std::time::Duration {
    std::time::Duration::from_secs(u64::try_from(probe.period_seconds.unwrap_or(10)).unwrap_or(10).max(1))
}

/// Time for one answer.
pub fn timeout(probe: &Probe) -> std::time::Duration {
    std::time::Duration::from_secs(u64::try_from(probe.timeout_seconds.unwrap_or(1)).unwrap_or(1).max(1))
}

#[cfg(test)]
mod tests;
