//! What a stock kubectl 1.32 sends for the same flags.

use super::*;

fn live() -> Object {
    let probe = json!({"tcpSocket": {"port": 80}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "labels": {"a": "b"}, "annotations": {"x": "y"}},
        "spec": {"nodeName": "n", "initContainers": [{"name": "i", "image": "i"}], "containers": [{
            "name": "c", "image": "i", "livenessProbe": probe, "securityContext": {"capabilities": {"add": ["X"]}},
        }]},
    });
    Object::from_value(pod).unwrap()
}

fn plan<'a>(args: &'a DebugArgs, profile: &str) -> Plan<'a> {
    let set_images = args.set_image.iter().filter_map(|pair| pair.split_once('='));
    let set_images = set_images.map(|(name, image)| (name.to_string(), image.to_string())).collect();
    Plan { args, profile: Profile::parse(profile).unwrap(), custom: None, set_images }
}

#[test]
fn each_profile_gives_the_ephemeral_container_its_rights() {
    let args = DebugArgs { image: "b".into(), command: vec!["sh".into()], ..DebugArgs::default() };
    let context = |profile: &str| {
        let pod = plan(&args, profile).with_ephemeral_container(&live(), "d").unwrap();
        pod.get("/spec/ephemeralContainers/0").unwrap()["securityContext"].clone()
    };
    assert_eq!(context("legacy"), Value::Null);
    assert_eq!(context("general"), json!({"capabilities": {"add": ["SYS_PTRACE"]}}));
    assert_eq!(context("baseline"), Value::Null);
    assert_eq!(context("netadmin"), json!({"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}}));
    assert_eq!(context("sysadmin"), json!({"privileged": true}));
    assert_eq!(context("restricted")["runAsNonRoot"], true);
    let pod = plan(&args, "legacy").with_ephemeral_container(&live(), "d").unwrap();
    let wanted = json!({"name": "d", "image": "b", "command": ["sh"], "resources": {}, "terminationMessagePolicy": "File"});
    assert_eq!(pod.get("/spec/ephemeralContainers/0"), Some(&wanted));
}

#[test]
fn a_copy_leaves_labels_probes_and_node_behind() {
    let args = DebugArgs { image: "b".into(), copy_to: "q".into(), ..DebugArgs::default() };
    let (copy, container) = plan(&args, "general").copy(&live(), || "d".into()).unwrap();
    assert_eq!(container, "d");
    assert_eq!(copy.get("/metadata"), Some(&json!({"name": "q", "namespace": "default"})));
    assert_eq!(copy.get("/spec/nodeName"), None);
    assert_eq!(copy.get("/spec/shareProcessNamespace"), Some(&json!(true)));
    assert_eq!(copy.get("/spec/containers/0").unwrap().get("livenessProbe"), None);
    let added = json!({"name": "d", "image": "b", "terminationMessagePolicy": "File",
        "securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}});
    assert_eq!(copy.get("/spec/containers/1"), Some(&added));
    let (legacy, _) = plan(&args, "legacy").copy(&live(), || "d".into()).unwrap();
    assert_eq!(legacy.annotation("x"), Some("y"));
    assert!(legacy.get("/spec/containers/0/livenessProbe").is_some() && legacy.labels().is_empty());
}

#[test]
fn images_alone_make_a_copy_that_keeps_everything() {
    let args = DebugArgs { set_image: vec!["*=z".into()], copy_to: "q".into(), ..DebugArgs::default() };
    let (copy, container) = plan(&args, "general").copy(&live(), || unreachable!()).unwrap();
    assert_eq!((container.as_str(), copy.get_str("/spec/containers/0/image")), ("", Some("z")));
    assert_eq!(copy.label("a"), Some("b"));
}

#[test]
fn a_nodes_pod_sees_the_node_as_far_as_the_profile_allows() {
    let args = DebugArgs { image: "b".into(), ..DebugArgs::default() };
    let node =
        Object::from_value(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})).unwrap();
    let pod = plan(&args, "general").for_node(&node, "abcde").unwrap();
    assert_eq!(pod.name(), "node-debugger-n-abcde");
    assert_eq!(pod.get_str("/spec/containers/0/volumeMounts/0/mountPath"), Some("/host"));
    assert_eq!(pod.get("/spec/hostPID"), Some(&json!(true)));
    let restricted = plan(&args, "restricted").for_node(&node, "abcde").unwrap();
    assert!(restricted.get("/spec/volumes").is_none() && restricted.get("/spec/hostPID").is_none());
}
