//! Each check complains about a bad template and is content with a good one.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

/// A Deployment with nothing to complain about, and its budget and Service.
fn good() -> Vec<Object> {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": 8080}});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {
        "securityContext": {"runAsNonRoot": true},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
        "containers": [{"name": "c", "image": "nginx:1.25", "ports": [{"containerPort": 8080, "name": "http"}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            "readinessProbe": probe("/ready"), "livenessProbe": probe("/live"),
            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}}]}});
    vec![
        object(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "d"}, "spec": {"replicas": 3, "template": template}}),
        ),
        object(json!({"kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "d"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}})),
        object(
            json!({"kind": "Service", "metadata": {"name": "web", "namespace": "d"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}}),
        ),
    ]
}

fn run(objects: &[Object], settings: &Settings) -> Vec<Outcome> {
    let given: Vec<(Object, String)> = objects.iter().map(|one| (one.clone(), "web.yaml".into())).collect();
    check(&given, &[], settings, "2026-01-01T00:00:00Z".parse().unwrap())
}

fn complaints(change: impl Fn(&mut Vec<Object>)) -> BTreeSet<&'static str> {
    let mut objects = good();
    change(&mut objects);
    run(&objects, &Settings::default()).iter().map(|one| one.check.id).collect()
}

#[test]
fn a_good_workload_has_no_complaint() {
    assert_eq!(complaints(|_| ()), BTreeSet::new());
}

#[test]
fn each_check_complains_about_its_own_fault_only() {
    const C: &str = "/spec/template/spec/containers/0";
    let spec = |tail: &str, value: Value| (format!("/spec/template/spec{tail}"), value);
    let container = |tail: &str, value: Value| (format!("{C}{tail}"), value);
    let cases = [
        ("image-tag", container("/image", json!("nginx"))),
        ("image-age", container("/image", json!("debian:20240101"))),
        ("pull-policy", container("/imagePullPolicy", json!("Never"))),
        (
            "requests",
            container("/resources", json!({"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}})),
        ),
        ("memory-limit", container("/resources/limits", json!({}))),
        ("limit-fits-request", container("/resources/limits/memory", json!("4Gi"))),
        ("readiness-probe", container("/readinessProbe", json!(null))),
        ("liveness-probe", container("/livenessProbe", json!(null))),
        ("host-path", spec("/volumes", json!([{"name": "h", "hostPath": {"path": "/var"}}]))),
        ("empty-dir-limit", spec("/volumes", json!([{"name": "h", "emptyDir": {}}]))),
        ("privileged", spec("/hostNetwork", json!(true))),
        ("run-as-non-root", spec("/securityContext", json!({}))),
        ("privilege-escalation", container("/securityContext/capabilities", json!({}))),
        ("read-only-root", container("/securityContext/readOnlyRootFilesystem", json!(false))),
        ("plain-secrets", container("/env", json!([{"name": "DB_PASSWORD", "value": "hunter2"}]))),
        ("grace-period", spec("/terminationGracePeriodSeconds", json!(0))),
        ("spread", spec("/topologySpreadConstraints", json!(null))),
        ("update-strategy", ("/spec/strategy/type".to_owned(), json!("Recreate"))),
        ("replicas", ("/spec/replicas".to_owned(), json!(1))),
    ];
    let mut checked: BTreeSet<&str> = cases.iter().map(|(id, _)| *id).collect();
    for (id, (field, value)) in cases {
        let found = complaints(|objects| match value.is_null() {
            true => drop(objects[0].remove(&field)),
            false => objects[0].set(&field, value.clone()),
        });
        assert_eq!(found, BTreeSet::from([id]), "{field}");
    }
    let without_budget = complaints(|objects| drop(objects.remove(1)));
    assert_eq!(without_budget, BTreeSet::from(["disruption-budget"]));
    let wrong_port = complaints(|objects| objects[2].set("/spec/ports/0/targetPort", 81));
    assert_eq!(wrong_port, BTreeSet::from(["service-port"]));
    let bare = object(
        json!({"kind": "Pod", "metadata": {"name": "p", "namespace": "x"}, "spec": good()[0].get("/spec/template/spec").cloned().unwrap()}),
    );
    let of_bare: BTreeSet<&str> = run(&[bare], &Settings::default()).iter().map(|one| one.check.id).collect();
    assert_eq!(of_bare, BTreeSet::from(["restart-policy"]));
    checked.extend(["disruption-budget", "service-port", "restart-policy"]);
    assert_eq!(checked, all().map(|check| check.id).collect());
}

#[test]
fn a_budget_that_allows_nothing_is_no_budget() {
    let found = complaints(|objects| objects[1].set("/spec/maxUnavailable", 0));
    assert_eq!(found, BTreeSet::from(["disruption-budget"]));
}

#[test]
fn a_secrets_value_is_never_shown() {
    let mut objects = good();
    objects[0].set("/spec/template/spec/containers/0/env", json!([{"name": "TOKEN", "value": "hunter2"}]));
    let outcomes = run(&objects, &Settings::default());
    let pages = [
        report::render(&outcomes),
        report::to_value(&outcomes, 0).to_string(),
        report::to_sarif(&outcomes).to_string(),
    ];
    assert!(pages.iter().all(|page| page.contains("TOKEN") && !page.contains("hunter2")));
}

#[test]
fn settings_change_severities_and_refuse_unknown_names() {
    let settings =
        Settings::parse("severities:\n  image-tag: info\n  requests: \"off\"\nmaxImageAgeDays: 10000\n")
            .unwrap();
    let mut objects = good();
    objects[0].set("/spec/template/spec/containers/0/image", "nginx");
    objects[0].set("/spec/template/spec/containers/0/resources/requests", json!({}));
    let outcomes = run(&objects, &settings);
    let found: Vec<_> = outcomes.iter().map(|one| (one.check.id, one.severity)).collect();
    assert_eq!(found, [("image-tag", Severity::Info)]);
    assert!(Settings::parse("severities: {nope: error}").is_err());
    assert!(Settings::parse("severities: {requests: loud}").is_err());
}

#[test]
fn sarif_has_the_file_and_the_level() {
    let mut objects = good();
    objects[0].set("/spec/template/spec/containers/0/image", "nginx");
    let sarif = report::to_sarif(&run(&objects, &Settings::default()));
    assert_eq!(sarif["version"], "2.1.0");
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&json!("image-tag"), &json!("error")));
    assert_eq!(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "web.yaml");
}
