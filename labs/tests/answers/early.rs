//! Stages ① to ④: paths, patches, watches, gates, loops, and a node that is full of promises.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::api::apps::v1::{DeploymentSpec, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::patch::merge_keys::{MergeStrategy, Schema};
use stage1_kubectl::patch::three_way::three_way;
use stage1_kubectl::resource::{GroupVersionKind, GroupVersionResource, of};
use stage1_kubectl::selector::LabelSelector;
use stage1_kubectl::why::rules;
use stage2_apiserver::storage::{KeyValue, Revision, WatchItem};
use stage2_apiserver::watch_cache::CacheEvent;
use stage2_apiserver::watch_cache::window::Window;
use stage3_controllers::action::Action;
use stage3_controllers::deployment::limits::{max_surge, max_unavailable};
use stage3_controllers::reflector::{Heard, Reflector, Request};
use stage3_controllers::replica_set;
use stage4_scheduler::listers::Listers;
use stage4_scheduler::node_info::NodeInfo;
use stage4_scheduler::pod_info::PodInfo;
use stage4_scheduler::profile::Profile;
use stage4_scheduler::schedule_pod::schedule_pod;
use stage4_scheduler::snapshot::Snapshot;

use crate::{capital, object, word};

pub fn paths() -> Vec<String> {
    let path = |group: &str, resource: &str, namespace: Option<&str>, name: &str| {
        GroupVersionResource::new(group, "v1", resource).path(namespace, Some(name), None)
    };
    vec![
        path("", "pods", Some("default"), "nginx"),
        path("apps", "deployments", Some("default"), "web"),
        path("", "nodes", None, "NAME"),
    ]
}

/// The context's namespace counts only where the resource has one.
pub fn path_of_a_node() -> Vec<String> {
    let nodes = of::<Node>();
    vec![nodes.path(nodes.namespaced.then_some("default"), None, None)]
}

/// The file said 2, somebody scaled to 5, the file says nothing.
pub fn a_field_that_left_the_file() -> Vec<String> {
    let deployment = |spec: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec});
    let gvk = GroupVersionKind::new("apps", "v1", "Deployment");
    let [before, now, live] = [json!({"replicas": 2}), json!({}), json!({"replicas": 5})].map(deployment);
    let patch = three_way(&before, &now, &live, &gvk).unwrap();
    let mut patched = Object::from_value(now).unwrap();
    stage2_apiserver::defaults::apply(&mut patched, &gvk);
    vec![format!("`{}`", patched.get("/spec/replicas").unwrap()), patch.to_string()]
}

pub fn how_containers_merge() -> Vec<String> {
    let pod_spec = Schema::Kind("Pod").field("spec").1;
    let (containers, container) = pod_spec.field("containers");
    assert_eq!(container.field("args").0.strategy, MergeStrategy::Default, "plain words are replaced");
    let MergeStrategy::MergeBy(key) = containers.strategy else { panic!("{containers:?}") };
    vec![format!("`{key}`")]
}

pub fn after_a_watch_ended() -> Vec<String> {
    let (heard, _) =
        Reflector::new().step(Heard::Listed { items: vec!["a"], resource_version: "119".to_owned() });
    let (heard, _) = heard.step(Heard::Changed("a", "120".to_owned()));
    let (ended, _) = heard.step(Heard::<&str>::Closed);
    let Request::Watch { resource_version } = ended.request() else { panic!("{ended:?}") };
    let (gone, _) = ended.step(Heard::<&str>::Gone);
    let again = matches!(gone.request(), Request::List { .. });
    vec![resource_version, if again { "list again" } else { "watch again" }.to_owned()]
}

pub fn what_notin_selects() -> Vec<String> {
    let selector = LabelSelector::parse("env notin (test)").unwrap();
    let labels = |value: &str| BTreeMap::from([("env".to_owned(), value.to_owned())]);
    let asked = [
        ("`env=prod`", labels("prod")),
        ("`env=test`", labels("test")),
        ("no label at all", BTreeMap::new()),
    ];
    asked.iter().filter(|(_, labels)| selector.matches(labels)).map(|(name, _)| (*name).to_owned()).collect()
}

pub fn stage_of_an_exceeded_quota() -> Vec<String> {
    let rule = rules::ALL.iter().find(|rule| rule.id == "quota-exceeded").unwrap();
    vec![format!("Stage {}", stage1_kubectl::journey::page::sign(rule.stage))]
}

/// The label of a pod that a watcher selects changes.
pub fn what_a_watcher_hears() -> Vec<String> {
    let pod = |app: &str| {
        Bytes::from(
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "labels": {"app": app}}})
                .to_string(),
        )
    };
    let key = || "/registry/pods/default/p".to_owned();
    let mut window = Window::new(10);
    window.replace(vec![KeyValue { key: key(), value: pod("web"), revision: Revision(5) }], Revision(5));
    let previous = KeyValue { key: key(), value: pod("web"), revision: Revision(5) };
    let item =
        WatchItem { key: key(), revision: Revision(6), value: Some(pod("old")), previous: Some(previous) };
    let event = window.apply(item).unwrap();
    match event.project(&|object: &Object| object.label("app") == Some("web")) {
        Some(CacheEvent::Object(kind, _)) => vec![format!("`{}`", kind.as_str())],
        other => panic!("{other:?}"),
    }
}

pub fn after_one_of_two_pods() -> Vec<String> {
    let set: ReplicaSet = object(
        json!({"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}}}),
    );
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]);
    let pod: Pod = object(json!({"metadata": {"name": "web-a", "namespace": "default", "uid": "p",
        "labels": {"app": "web"}, "ownerReferences": owner}}));
    let world = replica_set::World {
        replica_set: Arc::new(set),
        pods: vec![Arc::new(pod)],
        related_on_node: BTreeMap::new(),
        failure: None,
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    let actions = replica_set::reconcile(&world);
    let made = actions.iter().filter(|action| matches!(action, Action::Create { .. })).count();
    vec![format!("creates {}", word(made))]
}

pub fn limits_of_a_rollout() -> Vec<String> {
    let spec: DeploymentSpec = object(json!({"replicas": 4, "selector": {}, "template": {},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}}));
    let number = |count: i32| word(usize::try_from(count).unwrap());
    vec![capital(number(4 + max_surge(&spec))), number(4 - max_unavailable(&spec)).to_owned()]
}

/// 4 CPUs, of which 3.5 are requested; one is asked for.
pub fn an_idle_node_that_is_promised() -> Vec<String> {
    let pod = |name: &str, cpu: &str| {
        Arc::new(PodInfo::new(Arc::new(object(
            json!({"metadata": {"name": name, "namespace": "d", "uid": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}),
        ))))
    };
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}});
    let mut node = NodeInfo::of(Arc::new(object(node)));
    node.add_pod(pod("sleeper", "3500m"));
    let snapshot = Snapshot::new(vec![Arc::new(node)], Arc::new(Listers::default()));
    let refused = schedule_pod(&Profile::default(), &pod("new", "1"), &snapshot, 0).unwrap_err();
    vec![format!("`{refused}`")]
}
