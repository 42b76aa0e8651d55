//! Bench: how many pods a second, on clusters that nobody has to own.
//!
//! *Beside a pod's journey through this stage.* The workloads are those of Kubernetes' own `scheduler_perf`, by name and in
//! kind: so many nodes, so many pods that are there already, so many that are measured. Each has a *floor*: the pods a second that
//! upstream's CI demands of the Go scheduler for it. What is measured here is printed beside that.
//!
//! Two ways to run one. [`in_memory`]: the scheduler alone, with an API server that is a function call; `cargo bench
//! -p stage4-scheduler`. [`live`]: on any real API server, with nodes and pods that it makes and removes again; `kube-scheduler bench`.
//!
//! Throughput says nothing if pods are placed badly. So the balance, the standard deviation of the nodes' CPU utilisation, stands
//! beside it.
//!
//! # In Kubernetes
//! `test/integration/scheduler_perf`. Left out: its workloads about volumes, gates and dynamic resources.

pub mod in_memory;
pub mod live;
pub mod report;
pub mod timed;
pub mod workloads;
