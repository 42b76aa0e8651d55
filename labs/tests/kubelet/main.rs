//! Recorded pods of a stock kubelet, run again here: the whole pipeline on real containers, each recorded case in a namespace
//! of its own, its statuses, events and outputs compared with what the stock one gave.
//!
//! The cases lie outside the repository (`STAGES_CASES_DIR/kubelet`, or `../shared/cases/kubelet`); where they are absent the test prints
//! `skipped` and passes. Cases that change the node (taints, drain) run alone, after the others.
//!
//! # In Kubernetes
//! Nothing like it: its end-to-end tests assert on single fields.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod case;
#[allow(dead_code, reason = "shared with the pipeline's tests, which use all of it")]
#[path = "../pipeline/cluster.rs"]
mod cluster;
mod compare;
mod live;
mod machine;
mod normal;
mod run;
mod steps;

use std::sync::Arc;
use std::time::Instant;

use case::Case;
use run::Outcome;

/// Cases that pass, at least. Raise it when more do.
const FLOOR: usize = 48;
/// Cases at a time: most of a case is waiting.
const AT_ONCE: usize = 8;

#[test]
fn recorded_pods_get_the_recorded_statuses_events_and_outputs() {
    let Some(dir) = case::folder() else {
        println!("skipped: no recorded kubelet cases (STAGES_CASES_DIR)");
        return;
    };
    if cluster::skip() {
        return;
    }
    let only = std::env::var("STAGES_KUBELET_CASES").unwrap_or_default();
    let wanted: Vec<&str> = only.split(',').filter(|n| !n.is_empty()).collect();
    let cases: Vec<Case> = case::load(&dir)
        .into_iter()
        .filter(|c| wanted.is_empty() || wanted.iter().any(|w| c.file.starts_with(w)))
        .collect();
    let begun = Instant::now();
    let mut here = machine::start();
    let shared = Arc::new(here.here());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (together, alone): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(|c| !c.changes_the_node());
    let mut outcomes = runtime.block_on(run::all(&shared, together, AT_ONCE));
    outcomes.extend(runtime.block_on(run::all(&shared, alone, 1)));
    drop(runtime);
    here.stop();
    report(&outcomes, begun, wanted.is_empty());
}

fn report(outcomes: &[(String, Outcome)], begun: Instant, whole: bool) {
    let (mut passed, mut failed, mut not_yet) = (0, 0, 0);
    for (file, outcome) in outcomes {
        match outcome {
            Outcome::NotYet(why) => {
                not_yet += 1;
                println!("not yet  {file}: {why}");
            }
            Outcome::Ran(problems) if problems.is_empty() => {
                passed += 1;
                println!("passed   {file}");
            }
            Outcome::Ran(problems) => {
                failed += 1;
                println!("failed   {file}: {} differences", problems.len());
                problems.iter().take(6).for_each(|p| println!("    {p}"));
            }
        }
    }
    println!(
        "kubelet cases: {passed} passed, {failed} failed, {not_yet} not yet, in {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    assert!(!whole || passed >= FLOOR, "{passed} recorded kubelet cases pass, {FLOOR} did");
}
