//! Report: the outcome of workloads as lines of a table.
//!
//! # In Kubernetes
//! `test/integration/scheduler_perf` writes `BenchmarkPerfScheduling.json` files; people read its dashboard.

use super::in_memory::Outcome;
use super::workloads::Workload;

/// The head of the table.
pub const HEAD: &str = "| workload | nodes | pods/s | × floor | pods/s on the wall | median µs | slowest ms | utilisation | variance | MB |\n| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |";

/// One line of the table.
pub fn line(workload: &Workload, nodes: usize, outcome: &Outcome) -> String {
    format!(
        "| {} | {nodes} | {:.0} | {:.1} | {:.0} | {:.1} | {:.1} | {:.3} | {:.6} | {:.0} |",
        workload.name,
        outcome.rate(),
        outcome.rate() / workload.floor,
        outcome.wall_rate(),
        outcome.median.as_secs_f64() * 1e6,
        outcome.slowest.as_secs_f64() * 1e3,
        outcome.mean,
        outcome.variance,
        outcome.memory_bytes as f64 / 1e6,
    )
}

/// The plugins' shares, the largest first.
pub fn shares(outcome: &Outcome) -> String {
    let mut shares = outcome.shares.clone();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named = shares.iter().filter(|(_, share)| *share >= 0.01);
    named.map(|(name, share)| format!("{name} {:.0} %", share * 100.0)).collect::<Vec<_>>().join(", ")
}
