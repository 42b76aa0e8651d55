//! All rules together: each fires on its own fault, and nothing fires where nothing is wrong.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::why::worlds::World;

#[test]
fn a_healthy_world_gives_no_finding() {
    let found = diagnose(&World::healthy().facts());
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(exit_code(&found), 0);
}

#[test]
fn each_rule_is_the_first_cause_in_the_world_of_its_fault() {
    let mut wrong = Vec::new();
    for (id, world) in rules::faults() {
        let facts = world.facts();
        let found = diagnose(&facts);
        let seen: Vec<&str> = found.iter().map(|one| one.rule.id).collect();
        if seen.first() != Some(&id) {
            wrong.push(format!("{id}: {seen:?}"));
        }
        for one in found.iter().filter(|one| one.rule.id == id) {
            assert!(!one.finding.evidence.is_empty(), "{id} has no evidence");
            assert!(
                !one.finding.message.is_empty() && one.finding.next.starts_with("kubectl "),
                "{id}: {one:#?}"
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_rule_has_a_world_with_its_fault() {
    let worlds: BTreeSet<&str> = rules::faults().iter().map(|(id, _)| *id).collect();
    let rules: BTreeSet<&str> = rules::ALL.iter().map(|rule| rule.id).collect();
    assert_eq!(worlds, rules);
}

#[test]
fn rules_have_unique_names_and_explain_each_other_without_cycles() {
    let ids: BTreeMap<&str, &Rule> = rules::ALL.iter().map(|rule| (rule.id, *rule)).collect();
    assert_eq!(ids.len(), rules::ALL.len());
    for rule in rules::ALL {
        if let Explained::By(causes) = rule.explained {
            assert!(causes.iter().all(|cause| ids.contains_key(cause)), "{} names an unknown cause", rule.id);
        }
        // Follow the causes upwards: more steps than rules mean a cycle.
        let mut reached = vec![*rule];
        for _ in 0..rules::ALL.len() {
            let above = |one: &&Rule| {
                rules::ALL.iter().filter(|cause| rank::explains(cause, one)).copied().collect::<Vec<_>>()
            };
            reached = reached.iter().flat_map(above).collect();
            reached.dedup_by_key(|one| one.id);
            reached.truncate(200);
        }
        assert!(reached.is_empty(), "{} is explained in a circle", rule.id);
    }
}

#[test]
fn commands_that_are_proposed_change_nothing() {
    let changing = [
        "apply",
        "create",
        "delete",
        "edit",
        "patch",
        "replace",
        "scale",
        "set",
        "label",
        "annotate",
        "rollout undo",
        "rollout restart",
        "rollout resume",
        "taint",
        "cordon",
        "uncordon",
        "drain",
        "exec",
        "expose",
        "run",
    ];
    let says = |command: &str| {
        changing
            .iter()
            .find(|verb| command.split(" -").next().unwrap_or_default().contains(&format!(" {verb} ")))
    };
    for (id, world) in rules::faults() {
        for one in diagnose(&world.facts()) {
            assert_eq!(says(&one.finding.next), None, "{id}: {}", one.finding.next);
        }
    }
    for rule in rules::ALL {
        assert_eq!(says(rule.first_command), None, "{}", rule.id);
    }
}

#[test]
fn a_consequence_stands_under_its_cause() {
    let world = World::healthy()
        .waiting(
            "web-a",
            "ImagePullBackOff",
            "Back-off pulling image \"nginx:1.52\": ErrImagePull: not found",
        )
        .waiting(
            "web-b",
            "ImagePullBackOff",
            "Back-off pulling image \"nginx:1.52\": ErrImagePull: not found",
        );
    let found = diagnose(&world.facts());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].rule.id, "image-not-found");
    assert!(found[0].consequences.iter().any(|(rule, _)| rule.id == "no-ready-endpoints"), "{found:#?}");
    assert_eq!(found[0].finding.object.kind, "Deployment");
    assert_eq!(found[0].finding.affects.iter().filter(|one| one.kind == "Pod").count(), 2);
}

#[test]
fn the_json_has_its_version_and_every_part() {
    let facts = World::healthy().crashed("web-a", 137, "OOMKilled").unseen("nodes").facts();
    let value = report::to_value(&facts, &diagnose(&facts));
    assert_eq!(value["apiVersion"], "why.six-stages/v1");
    assert_eq!(
        (&value["stage"], &value["exitCode"], &value["severity"]),
        (&json!(5), &json!(3), &json!("error"))
    );
    let cause = &value["causes"][0];
    assert_eq!((&cause["rule"], &cause["mechanism"]), (&json!("oom-killed"), &json!("oom-killed")));
    assert_eq!(cause["object"], json!({"kind": "Deployment", "namespace": "default", "name": "web"}));
    assert_eq!(cause["path"], ".spec.template.spec.containers[0].resources.limits.memory");
    assert!(
        cause["evidence"].as_array().is_some_and(|all| all.iter().any(|one| one["value"] == "OOMKilled"))
    );
    let stages: Vec<&serde_json::Value> =
        cause["ruledOut"].as_array().unwrap().iter().map(|one| &one["stage"]).collect();
    assert_eq!(stages, [1, 2, 3, 4]);
    assert_eq!(value["unseen"][0]["what"], "nodes");
    let page = report::render(&facts, &diagnose(&facts), false);
    assert!(page.starts_with("⑤ kubelet: ") && page.contains("not seen: nodes"), "{page}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Invariant 3: any number of apps, pods, old restarts, other schedulers and taints that are tolerated.
    #[test]
    fn healthy_worlds_give_no_finding(apps in proptest::collection::vec((1..5usize, 0..3u8), 0..6), focus in any::<bool>()) {
        let mut world = World::empty();
        for (at, (pods, kind)) in apps.iter().enumerate() {
            let names: Vec<String> = (0..*pods).map(|pod| format!("p{pod}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let app = format!("app{at}");
            world = world.app(&app, &names);
            let pod = format!("Pod/{app}-p0");
            world = match kind {
                // An old restart is history.
                1 => world
                    .set(&pod, "/status/containerStatuses/0/restartCount", json!(3))
                    .set(&pod, "/status/containerStatuses/0/lastState", json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": worlds::ago(86_400)}})),
                // Another scheduler has done its work; an old event tells that it was hard.
                2 => world
                    .set(&pod, "/spec/schedulerName", json!("other"))
                    .event(&pod, "Warning", "FailedScheduling", "0/2 nodes are available: 2 Insufficient cpu."),
                _ => world,
            };
        }
        if focus && !apps.is_empty() {
            world = world.focus(&["Deployment/app0", "Pod/app0-p0"]);
        }
        let found = diagnose(&world.facts());
        prop_assert!(found.is_empty(), "{:#?}", found);
    }
}
