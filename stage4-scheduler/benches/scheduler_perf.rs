//! Upstream's `scheduler_perf` workloads, scheduler only, against an API in memory.
//!
//! `cargo bench -p stage4-scheduler --bench scheduler_perf -- [--plain] [--percentage N] [--curve] [--shares] [--nodes N,M] [WORKLOAD…]`

use stage4_scheduler::bench::in_memory::{Options, run};
use stage4_scheduler::bench::report;
use stage4_scheduler::bench::workloads::{WORKLOADS, Workload, find};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let given = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let value = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|at| arguments.get(at + 1));
    let percentage = value("--percentage").and_then(|share| share.parse().ok()).unwrap_or(0);
    let options = Options { remember: !given("--plain"), percentage, timed: false };
    let named: Vec<Workload> = arguments.iter().filter_map(|argument| find(argument)).collect();
    let workloads = if named.is_empty() { WORKLOADS.to_vec() } else { named };
    let sizes: Vec<usize> = match value("--nodes") {
        Some(list) => list.split(',').filter_map(|size| size.parse().ok()).collect(),
        None if given("--curve") => vec![100, 200, 500, 1000, 2000, 5000, 10_000],
        None => vec![500, 5000],
    };
    println!("{}", report::HEAD);
    for workload in workloads {
        for &nodes in &sizes {
            // Upstream measures daemons among 15,000 nodes.
            let nodes = if workload.name == "SchedulingDaemonset" && nodes == 5000 { 15_000 } else { nodes };
            let plan = workload.plan(nodes, "bench");
            println!("{}", report::line(&workload, nodes, &run(&plan, options)));
            if given("--shares") {
                println!("  {}", report::shares(&run(&plan, Options { timed: true, ..options })));
            }
        }
    }
}
