//! The journey: what each stage did for an object, and why.
//!
//! *All steps of a pod's journey.* Before: something decided. After: the web page and `kubectl why` show it.
//!
//! A pod passes six programs, and each knows only its own part. Each therefore reports its steps in one common form:
//! which stage, which object, what was decided, why, when. The steps are tracing events with the target `journey`;
//! [`crate::logging`] writes them as JSON lines into one file per cluster, which all processes append to.
//!
//! # Invariants
//! 1. A step is one line, written by one call, so that lines of several processes never mix.
//! 2. A step never holds a secret: it names objects, it doesn't show their contents.
//!
//! # In Kubernetes
//! No counterpart; the nearest are Events and the tracing of the API server and the kubelet.

pub mod digest;
pub mod lanes;
pub mod page;
pub mod trail;

use serde::{Deserialize, Serialize};

/// The target of journey events.
pub const TARGET: &str = "journey";

/// Which of the six stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum Stage {
    /// 1: say what you want.
    Kubectl,
    /// 2: remember it, tell everyone.
    ApiServer,
    /// 3: make it so.
    Controllers,
    /// 4: choose a node.
    Scheduler,
    /// 5: run it.
    Kubelet,
    /// 6: make it reachable.
    Proxy,
}

impl From<Stage> for u8 {
    fn from(stage: Stage) -> u8 {
        stage as u8 + 1
    }
}

impl TryFrom<u8> for Stage {
    type Error = String;
    fn try_from(number: u8) -> Result<Stage, String> {
        Ok(match number {
            1 => Stage::Kubectl,
            2 => Stage::ApiServer,
            3 => Stage::Controllers,
            4 => Stage::Scheduler,
            5 => Stage::Kubelet,
            6 => Stage::Proxy,
            other => return Err(format!("there is no stage {other}")),
        })
    }
}

/// One step of an object's journey.
// ANCHOR: journey-step
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Which stage.
    pub stage: Stage,
    /// `Pod default/web-0`: kind, then namespace and name.
    pub object: String,
    /// What was decided: `bound to node-2`.
    pub decided: String,
    /// Why: `highest score of 3 feasible nodes`.
    pub why: String,
    /// When, in microseconds since 1970.
    pub at_micros: i64,
    /// Where in the source: `stage4-scheduler/src/binding_cycle.rs:120`.
    pub source: String,
}
// ANCHOR_END: journey-step

/// Reports a step. Cheap when nobody listens.
pub fn record(step: &Step) {
    tracing::info!(
        target: TARGET,
        stage = u8::from(step.stage),
        object = step.object,
        decided = step.decided,
        why = step.why,
        at_micros = step.at_micros,
        source = step.source,
    );
}

/// The name of an object in a step: `Pod default/web`, `Node node-1`.
pub fn object_name(kind: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace.filter(|ns| !ns.is_empty()) {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Reports a step from where it is called: `journey_step!(Stage::Scheduler, object, decided, why)`. For shells: it reads the clock.
#[macro_export]
macro_rules! journey_step {
    ($stage:expr, $object:expr, $decided:expr, $why:expr $(,)?) => {
        $crate::journey::record_now($stage, $object, $decided, $why, concat!(file!(), ":", line!()))
    };
}

/// What [`crate::journey_step!`] calls.
#[expect(clippy::disallowed_methods, reason = "shell: stamps the step")]
pub fn record_now(
    stage: Stage,
    object: impl Into<String>,
    decided: impl Into<String>,
    why: impl Into<String>,
    source: &str,
) {
    if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
        return;
    }
    record(&Step {
        stage,
        object: object.into(),
        decided: decided.into(),
        why: why.into(),
        at_micros: jiff::Timestamp::now().as_microsecond(),
        source: source.into(),
    });
}
