use super::*;

fn pod(spec: serde_json::Value) -> Pod {
    serde_json::from_value(serde_json::json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}))
        .unwrap()
}

#[test]
fn qos_class_follows_requests_and_limits() {
    let q = |r: serde_json::Value| {
        pod(serde_json::json!({"containers": [{"name": "c", "resources": r}]})).qos_class()
    };
    assert_eq!(q(serde_json::json!({})), QosClass::BestEffort);
    assert_eq!(q(serde_json::json!({"requests": {"cpu": "1"}})), QosClass::Burstable);
    assert_eq!(q(serde_json::json!({"limits": {"cpu": "1", "memory": "1Mi"}})), QosClass::Guaranteed);
    assert_eq!(
        q(serde_json::json!({"limits": {"cpu": "1", "memory": "1Mi"}, "requests": {"cpu": "500m"}})),
        QosClass::Burstable
    );
}

#[test]
fn one_container_without_limits_makes_the_pod_burstable() {
    let p = pod(serde_json::json!({"containers": [
        {"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1Mi"}}}, {"name": "b"}]}));
    assert_eq!(p.qos_class(), QosClass::Burstable);
}

#[test]
fn sidecars_add_up_and_init_containers_count_by_their_peak() {
    let c = |n: &str, cpu: &str| serde_json::json!({"name": n, "resources": {"requests": {"cpu": cpu}}});
    let mut s = c("s", "50m");
    s["restartPolicy"] = "Always".into();
    let p = pod(serde_json::json!({"initContainers": [s, c("i", "300m")], "containers": [c("a", "100m")]}));
    assert_eq!(pod_total(&p, "cpu", Pick::Requests, milli_value), 350);
}

#[test]
fn only_name_and_image_change_the_hash() {
    let mut c = Container { name: "c".into(), image: Some("a:1".into()), ..Default::default() };
    let before = hash_container(&c);
    c.command = Some(vec!["x".into()]);
    assert_eq!(before, hash_container(&c));
    c.image = Some("a:2".into());
    assert_ne!(before, hash_container(&c));
}
