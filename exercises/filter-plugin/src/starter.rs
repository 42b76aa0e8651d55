//! A plugin that refuses nodes with the label `example.org/retires: soon` to pods that don't carry the label `example.org/short: "true"`.
#![allow(unused_variables, unused_imports, reason = "the bodies are yours to write")]

use stage4_scheduler::framework::{ClusterEvent, Hint, Plugin, PreFilter, Status};
use stage4_scheduler::pod_info::PodInfo;
use stage4_scheduler::snapshot::Snapshot;

/// The reason that users read in the event.
pub const ERR_REASON: &str = "node(s) retire soon";

/// Keeps pods off nodes that retire soon.
#[derive(Debug, Default)]
pub struct RetiresSoon;

impl Plugin for RetiresSoon {
    fn name(&self) -> &'static str {
        "RetiresSoon"
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        todo!("skip short pods; otherwise return the rule that is asked for each node")
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        todo!("which event could lift the refusal?")
    }
}
