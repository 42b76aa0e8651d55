//! Plugins of a program's own at the points after the decision: Reserve, Permit, PostBind.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use stage4_scheduler::configuration::plugin_sets::Point;
use stage4_scheduler::configuration::registry::Registry;
use stage4_scheduler::framework::{Permit, Plugin, Status};
use stage4_scheduler::pod_info::PodInfo;
use stage4_scheduler::profile::SharedPlugin;
use stage4_scheduler::waiting_pods::WaitingPods;

use crate::harness::{Harness, node, pod};

/// All or nothing: pods wait until there are two of them. Notes what it is told.
struct Pair {
    waiting: WaitingPods,
    told: Arc<Mutex<Vec<String>>>,
    patience: Duration,
}

impl Plugin for Pair {
    fn name(&self) -> &'static str {
        "Pair"
    }

    fn reserve(&self, pod: &PodInfo, node: &str) -> Status {
        self.told.lock().push(format!("reserve {} {node}", pod.name()));
        if pod.name() == "unwanted" { Status::unschedulable("not you") } else { Status::success() }
    }

    fn unreserve(&self, pod: &PodInfo, node: &str) {
        self.told.lock().push(format!("unreserve {} {node}", pod.name()));
    }

    fn permit(&self, _pod: &PodInfo, _node: &str) -> Permit {
        let others = self.waiting.uids();
        if others.is_empty() {
            return Permit::Wait(self.patience);
        }
        others.iter().for_each(|uid| self.waiting.allow(uid, "Pair"));
        Permit::Allow
    }

    fn post_bind(&self, pod: &PodInfo, _node: &str) {
        self.told.lock().push(format!("post_bind {}", pod.name()));
    }
}

const FILE: &str = "profiles:\n- plugins: {multiPoint: {enabled: [{name: Pair}]}}\n";

fn registry(waiting: &WaitingPods, told: &Arc<Mutex<Vec<String>>>, patience: Duration) -> Registry {
    let (waiting, told) = (waiting.clone(), told.clone());
    let mut registry = Registry::default();
    let factory = move |_: &serde_json::Value| -> Result<SharedPlugin, String> {
        Ok(Arc::new(Pair { waiting: waiting.clone(), told: told.clone(), patience }))
    };
    registry.register("Pair", &[Point::Reserve, Point::Permit, Point::PostBind], Arc::new(factory));
    registry
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_waits_for_its_permit_and_gives_its_room_back_when_it_is_refused() {
    let harness = Harness::start().await;
    let (waiting, told) = (WaitingPods::default(), Arc::default());
    let registry = registry(&waiting, &told, Duration::from_secs(60));
    let (scheduler, _stop) = harness.scheduler_with(FILE, &registry, waiting.clone()).await;
    harness.create(&node("n1", "2")).await;
    harness.seen(&scheduler, (1, 0)).await;
    harness.create(&pod("unwanted", "1")).await;
    assert_eq!(harness.refusal("unwanted", "Unschedulable").await, "not you");
    harness.create(&pod("one", "1")).await;
    harness.wait_for("one waits", || async { (waiting.uids().len() == 1).then_some(()) }).await;
    assert_eq!(harness.node_of("one").await, None);
    harness.create(&pod("two", "1")).await;
    assert_eq!((harness.bound("one").await, harness.bound("two").await), ("n1".to_owned(), "n1".to_owned()));
    harness
        .wait_for("both are told", || async {
            let told = told.lock();
            ["post_bind one", "post_bind two"].iter().all(|line| told.iter().any(|t| t == line)).then_some(())
        })
        .await;
    let told = told.lock();
    assert_eq!(told[..2], ["reserve unwanted n1", "unreserve unwanted n1"]);
    // Nothing was left of the one that was refused: both others fit.
    assert_eq!(scheduler.state.lock().cache.sizes(), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_waits_too_long_is_refused_with_the_time() {
    let harness = Harness::start().await;
    let (waiting, told) = (WaitingPods::default(), Arc::default());
    let registry = registry(&waiting, &told, Duration::from_millis(200));
    let (_scheduler, _stop) = harness.scheduler_with(FILE, &registry, waiting).await;
    harness.create(&node("n1", "2")).await;
    harness.create(&pod("alone", "1")).await;
    let message = harness
        .wait_for("the end of its patience", || async {
            let message = harness.pod_scheduled("alone").await["message"].as_str().unwrap_or("").to_owned();
            message.starts_with("rejected").then_some(message)
        })
        .await;
    assert_eq!(message, "rejected due to timeout after waiting 200ms at plugin Pair");
}
