//! The property that matters: remembering changes nothing. Random histories of a cluster; after each step a pod is
//! decided twice, by the scan and from memory, and every word of the two decisions must be the same.

use super::*;
use crate::cache::Cache;
use crate::decision::{Decision, decide, decide_remembering};
use crate::listers::{Labels, set};
use crate::profile::NodesToScore;
use crate::scheduling_queue::Nominator;
use proptest::prelude::*;
use serde_json::{Value, json};

/// How many shapes of pods there are.
const SHAPES: u8 = 14;

fn pod(name: &str, shape: u8, app: u8, priority: i32) -> Arc<PodInfo> {
    let selector = json!({"matchLabels": {"app": app.to_string()}});
    let term = |key: &str| json!({"topologyKey": key, "labelSelector": selector, "namespaceSelector": {"matchLabels": {"team": "a"}}});
    let plain = |key: &str| json!({"topologyKey": key, "labelSelector": selector});
    let required = |terms: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
    let preferred = |weight: i32, term: Value| json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]});
    let spread = |key: &str, when: &str, more: Value| {
        let mut constraint =
            json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector});
        more.as_object().into_iter().flatten().for_each(|(key, value)| constraint[key] = value.clone());
        constraint
    };
    let mut spec = json!({"priority": priority, "containers": [{"name": "c", "image": "img:1",
        "resources": {"requests": {"cpu": "700m", "memory": "300Mi"}}}]});
    match shape {
        1 => spec["nodeSelector"] = json!({"zone": "0"}),
        2 => spec["tolerations"] = json!([{"operator": "Exists"}]),
        3 => spec["affinity"] = json!({"podAffinity": required(json!([plain("zone")]))}),
        4 => spec["affinity"] = json!({"podAntiAffinity": required(json!([term("zone"), plain("host")]))}),
        5 => {
            spec["topologySpreadConstraints"] =
                json!([spread("zone", "DoNotSchedule", json!({"minDomains": 2}))])
        }
        6 => {
            spec["topologySpreadConstraints"] = json!([
                spread("zone", "ScheduleAnyway", json!({})),
                spread("kubernetes.io/hostname", "ScheduleAnyway", json!({}))
            ]);
        }
        7 => {
            spec["affinity"] = json!({"podAffinity": preferred(50, term("zone")), "podAntiAffinity": preferred(3, plain("host"))})
        }
        8 => {
            spec["topologySpreadConstraints"] = json!([spread(
                "host",
                "DoNotSchedule",
                json!({"nodeTaintsPolicy": "Honor", "nodeAffinityPolicy": "Ignore"})
            )]);
            spec["nodeSelector"] = json!({"zone": "1"});
        }
        9 => {
            let preference =
                json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}]});
            spec["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": preference}]}});
        }
        10 => spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]),
        11 => spec["containers"][0]["resources"] = json!({"requests": {"cpu": "3", "example.com/x": "1"}}),
        12 => {
            spec["affinity"] = json!({"podAffinity": required(json!([plain("zone"), plain("host")])), "podAntiAffinity": required(json!([plain("rack")]))})
        }
        13 => spec["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]),
        _ => {}
    }
    let namespace = if app == 2 { "x" } else { "w" };
    let pod = json!({"metadata": {"name": name, "namespace": namespace, "uid": name, "labels": {"app": app.to_string()}}, "spec": spec});
    Arc::new(PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap())))
}

fn node(at: u8, variant: u8) -> Arc<k8s_openapi::api::core::v1::Node> {
    let name = format!("n{at}");
    let mut labels = json!({"host": name, "kubernetes.io/hostname": name, "zone": (at % 3).to_string()});
    match variant {
        1 => labels["zone"] = "1".into(),
        2 => drop(labels.as_object_mut().unwrap().remove("zone")),
        3 => labels["rack"] = (at % 2).to_string().into(),
        _ => {}
    }
    let taints = match variant {
        4 => json!([{"key": "k", "effect": "NoSchedule"}]),
        5 => json!([{"key": "k", "effect": "PreferNoSchedule"}]),
        _ => json!([]),
    };
    let images =
        if variant == 6 { json!([{"names": ["img:1"], "sizeBytes": 400_000_000}]) } else { json!([]) };
    let extended = if variant == 7 { "2" } else { "0" };
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints, "unschedulable": variant == 8},
            "status": {"images": images, "allocatable": {"cpu": (2 + variant % 3).to_string(), "memory": "4Gi", "pods": "5", "example.com/x": extended}}
        }))
        .unwrap(),
    )
}

/// Everything that a decision says.
fn words(decision: &Decision) -> String {
    let refused =
        |statuses: &crate::node_to_status::NodeToStatus| format!("{:?}", statuses.iter().collect::<Vec<_>>());
    match decision {
        Decision::Bind { result, before } => format!(
            "{} {} {} {:?} {before:?} {}",
            result.suggested_host,
            result.evaluated_nodes,
            result.feasible_nodes,
            result.top,
            refused(&result.refused)
        ),
        Decision::Unschedulable { error, preemption } => {
            let nominated = preemption.nominated.as_ref().map(|candidate| {
                let victims: Vec<&str> = candidate.victims.iter().map(|victim| &*victim.key).collect();
                (candidate.node.clone(), victims, candidate.violations)
            });
            format!(
                "{error} {:?} {nominated:?} {} {}",
                error.rejectors(),
                preemption.clear_nomination,
                refused(&error.statuses)
            )
        }
    }
}

struct World {
    cache: Cache,
    snapshot: Snapshot,
    nominator: Nominator,
    memory: EquivalenceCache,
    profile: Profile,
    placed: usize,
    /// Decisions that came from memory.
    remembered: usize,
}

impl World {
    fn new(percentage: u32) -> Self {
        let mut cache = Cache::default();
        // More than the hundred below which all nodes are looked at.
        (0..120u8).for_each(|at| drop(cache.set_node(node(at, at % 9))));
        let listers = Arc::make_mut(&mut cache.listers);
        set(
            &mut listers.namespaces,
            "w",
            Some(Arc::new(Labels::from([("team".to_owned(), "a".to_owned())]))),
        );
        World {
            cache,
            snapshot: Snapshot::default(),
            nominator: Nominator::default(),
            memory: EquivalenceCache::default(),
            profile: Profile { nodes_to_score: NodesToScore::Percentage(percentage), ..Profile::default() },
            placed: 0,
            remembered: 0,
        }
    }

    /// Decides both ways, compares, and carries out.
    fn place(&mut self, shape: u8, app: u8, priority: i32, chance: u64) -> Result<(), TestCaseError> {
        let newcomer = pod(&format!("p{}", self.placed), shape, app, priority);
        self.placed += 1;
        self.cache.update(&mut self.snapshot);
        self.nominator.update(&mut self.snapshot);
        let scanned = decide(&self.profile, &newcomer, &self.snapshot, chance);
        let turn = self.memory.turn;
        let remembered =
            decide_remembering(&mut self.memory, &self.profile, &newcomer, &self.snapshot, chance);
        self.remembered += usize::from(self.memory.turn > turn);
        prop_assert_eq!(words(&remembered), words(&scanned), "shape {} app {}", shape, app);
        match scanned {
            Decision::Bind { result, .. } => {
                self.snapshot.start_node_index =
                    (self.snapshot.start_node_index + result.evaluated_nodes) % self.snapshot.nodes().len();
                self.cache.assume(newcomer, &result.suggested_host);
            }
            Decision::Unschedulable { preemption, .. } => {
                if let Some(candidate) = preemption.nominated {
                    self.nominator.set(&newcomer, Some(&candidate.node));
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn remembering_changes_nothing(
        percentage in prop_oneof![Just(1u32), Just(50), Just(100)],
        favourites in proptest::collection::vec((0..SHAPES, 0u8..3), 1..5),
        history in proptest::collection::vec((0u8..16, any::<u8>(), any::<u8>(), any::<u64>()), 1..90),
    ) {
        let mut world = World::new(percentage);
        for (what, a, b, chance) in history {
            match what {
                0 => drop(world.cache.set_node(node(a % 120, b % 10))),
                1 => drop(world.cache.remove_pod(&format!("p{}", usize::from(a) % (world.placed + 1)))),
                2 if a % 4 == 0 => drop(world.cache.remove_node(&format!("n{}", b % 120))),
                3 => {
                    let listers = Arc::make_mut(&mut world.cache.listers);
                    let labels = if a % 2 == 0 { Labels::new() } else { Labels::from([("team".to_owned(), "a".to_owned())]) };
                    set(&mut listers.namespaces, "w", Some(Arc::new(labels)));
                }
                4 => {
                    let listers = Arc::make_mut(&mut world.cache.listers);
                    let selector = Labels::from([("app".to_owned(), (b % 3).to_string())]);
                    listers.set_service("w", "s", (a % 2 == 0).then_some(selector));
                }
                5 => world.nominator.remove(&format!("p{}", usize::from(a) % (world.placed + 1))),
                _ => {
                    let (shape, app) = favourites[usize::from(a) % favourites.len()];
                    world.place(shape, app, i32::from(b % 4 == 0), chance)?;
                }
            }
        }
    }
}

#[test]
fn a_crowd_is_decided_from_memory_and_a_single_pod_is_not() {
    let mut world = World::new(100);
    for _ in 0..40 {
        world.place(0, 0, 0, 7).unwrap();
        world.place(6, 1, 0, 7).unwrap();
    }
    assert_eq!(world.remembered, 78, "all but the first of each kind");
    world.place(13, 0, 0, 7).unwrap();
    world.place(13, 0, 0, 7).unwrap();
    assert_eq!(world.remembered, 78, "pods with volumes are left to the scan");
}

#[test]
fn a_nominated_pod_counts_for_the_others_of_its_kind() {
    // The first pods fill the nodes that have the resource; of the rest some are promised room by preemption.
    let mut world = World::new(1);
    for at in 0..60 {
        world.place(11, 0, i32::from(at % 3 == 0), 1).unwrap();
    }
    assert!(world.remembered > 0 && !world.snapshot.nobody_is_nominated());
}
