//! Workloads: nodes and pods as `scheduler_perf` has them, from a name and a size.
//!
//! A node has 4 CPUs, 32 GiB and room for 110 pods; a pod asks for 100m and 500Mi. What distinguishes the workloads is what their
//! pods want of nodes and of each other. Sizes are upstream's for 500 and 5,000 nodes and in proportion for others.
//!
//! Upstream adds a disturbing pod (one that must preempt, one that fits nowhere) five times a second, whatever the speed. Here one
//! comes with every 115th measured pod, which is as many as upstream has at its floor: a faster scheduler isn't let off.
//!
//! # In Kubernetes
//! `test/integration/scheduler_perf/*/performance-config.yaml` and `templates/`.

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use serde_json::{Value, json};

/// One workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Upstream's name.
    pub name: &'static str,
    /// Pods a second that upstream's CI demands with 5,000 nodes (15,000 for daemons).
    pub floor: f64,
    /// Pods that are there before, per node.
    init_per_node: f64,
    /// Pods that are measured, per node.
    measured_per_node: f64,
}

const fn workload(name: &'static str, floor: f64, init_per_node: f64, measured_per_node: f64) -> Workload {
    Workload { name, floor, init_per_node, measured_per_node }
}

/// All of them.
pub const WORKLOADS: [Workload; 16] = [
    workload("SchedulingBasic", 680.0, 0.2, 2.0),
    workload("SchedulingDaemonset", 1100.0, 0.0, 2.0),
    workload("SchedulingNodeAffinity", 220.0, 1.0, 2.0),
    workload("TopologySpreading", 460.0, 1.0, 1.0),
    workload("PreferredTopologySpreading", 340.0, 1.0, 1.0),
    workload("DefaultTopologySpreading", 160.0, 1.0, 2.0),
    workload("SchedulingWithNodeInclusionPolicy", 270.0, 0.0, 0.8),
    workload("SchedulingPodAffinity", 35.0, 1.0, 1.0),
    workload("SchedulingPodAntiAffinity", 60.0, 0.2, 0.4),
    workload("SchedulingPreferredPodAffinity", 90.0, 1.0, 1.0),
    workload("SchedulingPreferredPodAntiAffinity", 90.0, 1.0, 1.0),
    workload("SchedulingRequiredPodAntiAffinityWithNSSelector", 24.0, 0.5, 0.4),
    workload("MixedSchedulingBasePod", 140.0, 2.0, 1.0),
    workload("Unschedulable", 590.0, 0.02, 2.0),
    workload("Unschedulable20k", 600.0, 4.0, 2.0),
    workload("PreemptionAsync", 570.0, 4.0, 1.0),
];

/// The workload of that name.
pub fn find(name: &str) -> Option<Workload> {
    WORKLOADS.into_iter().find(|workload| workload.name == name)
}

/// What a workload amounts to at one size.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Nodes to make.
    pub nodes: Vec<Node>,
    /// Namespaces to make.
    pub namespaces: Vec<Namespace>,
    /// A service's namespace, name and selector, if pods are spread by one.
    pub service: Option<(String, String, (String, String))>,
    /// Pods that are placed before the clock runs.
    pub init: Vec<Pod>,
    /// Pods that are measured.
    pub measured: Vec<Pod>,
    /// Pods that come in between, one with every so many measured ones.
    pub churn: Vec<Pod>,
}

/// So many measured pods for one that disturbs.
pub const MEASURED_PER_CHURN: usize = 115;

impl Workload {
    /// Its objects for a cluster of that many nodes. All names begin with `prefix`, namespaces too.
    pub fn plan(&self, nodes: usize, prefix: &str) -> Plan {
        let count = |per_node: f64| (nodes as f64 * per_node) as usize;
        let (init, measured) = (count(self.init_per_node), count(self.measured_per_node));
        let space = |name: &str| format!("{prefix}-{name}");
        let make = |kind: Kind, namespace: &str, name: &str, count: usize| -> Vec<Pod> {
            (0..count).map(|at| pod(kind, &space(namespace), &format!("{name}-{at}"), prefix)).collect()
        };
        let devops = self.name.ends_with("WithNSSelector");
        let mut plan = Plan {
            nodes: (0..nodes).map(|at| node(self.name, prefix, at)).collect(),
            namespaces: ["sched-0", "sched-1"].map(|name| namespace(&space(name), devops)).into(),
            ..Plan::default()
        };
        let plain = Kind::Plain;
        (plan.init, plan.measured) = match self.name {
            "SchedulingDaemonset" => (vec![], make(Kind::Daemon, "sched-1", "d", measured)),
            "SchedulingNodeAffinity" => same(&make, Kind::NodeAffinity, init, measured),
            "TopologySpreading" => mixed(&make, plain, init, Kind::Spread, measured),
            "PreferredTopologySpreading" => mixed(&make, plain, init, Kind::SpreadPreferred, measured),
            "SchedulingWithNodeInclusionPolicy" => (vec![], make(Kind::Inclusion, "sched-1", "m", measured)),
            "SchedulingPodAffinity" => same(&make, Kind::Affinity, init, measured),
            "SchedulingPodAntiAffinity" => same(&make, Kind::AntiAffinity, init, measured),
            "SchedulingPreferredPodAffinity" => same(&make, Kind::AffinityPreferred, init, measured),
            "SchedulingPreferredPodAntiAffinity" => same(&make, Kind::AntiAffinityPreferred, init, measured),
            "SchedulingRequiredPodAntiAffinityWithNSSelector" => {
                same(&make, Kind::AntiAffinityNs, init, measured)
            }
            "DefaultTopologySpreading" => {
                plan.service =
                    Some((space("sched-1"), "all".to_owned(), ("app".to_owned(), "plain".to_owned())));
                same(&make, plain, init, measured)
            }
            "MixedSchedulingBasePod" => {
                let kinds = [
                    plain,
                    Kind::Affinity,
                    Kind::AntiAffinity,
                    Kind::AffinityPreferred,
                    Kind::AntiAffinityPreferred,
                ];
                let part =
                    |(at, kind): (usize, Kind)| make(kind, "sched-0", &format!("i{at}"), init / kinds.len());
                (
                    kinds.into_iter().enumerate().flat_map(part).collect(),
                    make(plain, "sched-1", "m", measured),
                )
            }
            "PreemptionAsync" => {
                plan.churn = make(Kind::Preemptor, "sched-1", "high", measured / MEASURED_PER_CHURN);
                mixed(&make, Kind::LowPriority, init, plain, measured)
            }
            "Unschedulable" | "Unschedulable20k" => {
                plan.churn = make(Kind::TooLarge, "sched-1", "large", measured / MEASURED_PER_CHURN);
                same(&make, plain, init, measured)
            }
            _ => same(&make, plain, init, measured),
        };
        plan
    }
}

type Make<'m> = &'m dyn Fn(Kind, &str, &str, usize) -> Vec<Pod>;

fn same(make: Make<'_>, kind: Kind, init: usize, measured: usize) -> (Vec<Pod>, Vec<Pod>) {
    mixed(make, kind, init, kind, measured)
}

fn mixed(make: Make<'_>, before: Kind, init: usize, kind: Kind, measured: usize) -> (Vec<Pod>, Vec<Pod>) {
    (make(before, "sched-0", "i", init), make(kind, "sched-1", "m", measured))
}

/// What a pod is like.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    LowPriority,
    Preemptor,
    TooLarge,
    Daemon,
    NodeAffinity,
    Spread,
    SpreadPreferred,
    Inclusion,
    Affinity,
    AntiAffinity,
    AntiAffinityNs,
    AffinityPreferred,
    AntiAffinityPreferred,
}

/// The only node that takes daemons, as upstream has it.
const DAEMON_NODE: usize = 0;

fn node(workload: &str, prefix: &str, at: usize) -> Node {
    let name = format!("{prefix}-node-{at}");
    let zones: &[&str] = match workload {
        "TopologySpreading" | "PreferredTopologySpreading" | "DefaultTopologySpreading" => {
            &["moon-1", "moon-2", "moon-3"]
        }
        "SchedulingPodAffinity" | "SchedulingNodeAffinity" | "MixedSchedulingBasePod" => &["zone1"],
        _ => &[],
    };
    let mut labels = json!({"kubernetes.io/hostname": name, "six-stages.dev/bench": prefix});
    if !zones.is_empty() {
        labels["topology.kubernetes.io/zone"] = zones[at % zones.len()].into();
    }
    let pods = if workload == "SchedulingDaemonset" { "1000000" } else { "110" };
    let (cpu, memory) = if workload == "SchedulingDaemonset" { ("1000000", "1000Ti") } else { ("4", "32Gi") };
    let size = json!({"cpu": cpu, "memory": memory, "pods": pods});
    let taints = if workload == "SchedulingWithNodeInclusionPolicy" && at % 5 == 4 {
        json!([{"key": "foo", "value": "", "effect": "NoSchedule"}])
    } else {
        json!([])
    };
    decode(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]}
    }))
}

fn namespace(name: &str, devops: bool) -> Namespace {
    let labels = if devops { json!({"team": "devops"}) } else { json!({}) };
    decode(json!({"metadata": {"name": name, "labels": labels}}))
}

fn pod(kind: Kind, namespace: &str, name: &str, prefix: &str) -> Pod {
    let near = |color: &str, key: &str| {
        json!({"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": key,
            "namespaces": [format!("{prefix}-sched-0"), format!("{prefix}-sched-1")]})
    };
    let (host, zone) = ("kubernetes.io/hostname", "topology.kubernetes.io/zone");
    let required = |terms: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
    let preferred = |term: Value| json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]});
    let spread = |when: &str| json!([{"maxSkew": 5, "topologyKey": zone, "whenUnsatisfiable": when, "labelSelector": {"matchLabels": {"color": "blue"}}}]);
    let (color, cpu, more) = match kind {
        Kind::Plain => ("", "100m", json!({})),
        Kind::LowPriority => ("", "900m", json!({})),
        Kind::Preemptor => ("", "3000m", json!({"priority": 10})),
        Kind::TooLarge => ("", "9000m", json!({"priority": 10})),
        Kind::Daemon => {
            let field = json!([{"key": "metadata.name", "operator": "In", "values": [format!("{prefix}-node-{DAEMON_NODE}")]}]);
            let terms = json!({"nodeSelectorTerms": [{"matchFields": field}]});
            ("", "100m", json!({"affinity": {"nodeAffinity": required(terms)}}))
        }
        Kind::NodeAffinity => {
            let zones = json!([{"key": zone, "operator": "In", "values": ["zone1", "zone2"]}]);
            let terms = json!({"nodeSelectorTerms": [{"matchExpressions": zones}]});
            ("", "100m", json!({"affinity": {"nodeAffinity": required(terms)}}))
        }
        Kind::Spread => ("blue", "100m", json!({"topologySpreadConstraints": spread("DoNotSchedule")})),
        Kind::SpreadPreferred => {
            ("blue", "100m", json!({"topologySpreadConstraints": spread("ScheduleAnyway")}))
        }
        Kind::Inclusion => {
            let constraint = json!({"maxSkew": 1, "topologyKey": host, "whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": {"color": "foo"}}});
            ("foo", "100m", json!({"topologySpreadConstraints": [constraint]}))
        }
        Kind::Affinity => {
            ("blue", "100m", json!({"affinity": {"podAffinity": required(json!([near("blue", zone)]))}}))
        }
        Kind::AntiAffinity => (
            "green",
            "100m",
            json!({"affinity": {"podAntiAffinity": required(json!([near("green", host)]))}}),
        ),
        Kind::AntiAffinityNs => {
            let term = json!({"labelSelector": {"matchLabels": {"color": "green"}}, "topologyKey": host,
                "namespaceSelector": {"matchLabels": {"team": "devops"}}});
            ("green", "100m", json!({"affinity": {"podAntiAffinity": required(json!([term]))}}))
        }
        Kind::AffinityPreferred => {
            ("red", "100m", json!({"affinity": {"podAffinity": preferred(near("red", host))}}))
        }
        Kind::AntiAffinityPreferred => {
            ("yellow", "100m", json!({"affinity": {"podAntiAffinity": preferred(near("yellow", host))}}))
        }
    };
    let labels = if color.is_empty() { json!({"app": "plain"}) } else { json!({"color": color}) };
    let container = json!({"name": "pause", "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": cpu, "memory": "500Mi"}, "limits": {"cpu": cpu, "memory": "500Mi"}}});
    let mut spec = json!({"containers": [container], "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    decode(
        json!({"metadata": {"name": name, "namespace": namespace, "labels": labels, "uid": format!("{namespace}/{name}")}, "spec": spec}),
    )
}

fn decode<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("the templates are valid objects")
}
