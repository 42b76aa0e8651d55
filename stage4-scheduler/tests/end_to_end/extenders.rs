//! Extenders over HTTP: filter, grade, preempt, bind; failing, ignorable, and not interested.

use serde_json::{Value, json};

use crate::harness::{Harness, node, pod};
use crate::webhook::{answer_all, listen};

fn names(body: &Value) -> Vec<String> {
    let names = body["NodeNames"].as_array().cloned().unwrap_or_default();
    names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_filters_grades_and_binds() {
    let harness = Harness::start().await;
    let (url, questions) = listen().await;
    let admin = harness.client.clone();
    let asked = answer_all(questions, move |verb, body| match verb {
        "filter" => {
            let stay: Vec<String> = names(body).into_iter().filter(|name| name != "n1").collect();
            (200, json!({"nodeNames": stay, "failedNodes": {"n1": "the webhook says no"}}))
        }
        "prioritize" => (200, json!([{"Host": "n2", "Score": 1}, {"Host": "n3", "Score": 10}])),
        "bind" => {
            let (client, body) = (admin.clone(), body.clone());
            tokio::spawn(async move {
                let name = body["PodName"].as_str().unwrap();
                let path = format!("/api/v1/namespaces/w/pods/{name}/binding");
                let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                    "target": {"kind": "Node", "name": body["Node"]}});
                let request = http::Request::post(path).header("content-type", "application/json");
                let _: Value =
                    client.request(request.body(binding.to_string().into()).unwrap()).await.unwrap();
            });
            (200, json!({"Error": ""}))
        }
        _ => (404, Value::Null),
    });
    let file = format!(
        "extenders:\n- {{urlPrefix: '{url}', filterVerb: filter, prioritizeVerb: prioritize, weight: 5, bindVerb: bind, nodeCacheCapable: true}}\n"
    );
    let (scheduler, _stop) = harness.scheduler(&file).await;
    for name in ["n1", "n2", "n3"] {
        harness.create(&node(name, "4")).await;
    }
    harness.seen(&scheduler, (3, 0)).await;
    harness.create(&pod("p", "1")).await;
    assert_eq!(harness.bound("p").await, "n3");
    let asked = asked.lock();
    let verbs: Vec<&str> = asked.iter().map(|(verb, _)| verb.as_str()).collect();
    assert_eq!(verbs, ["filter", "prioritize", "bind"]);
    assert_eq!(asked[0].1["Pod"]["metadata"]["name"], "p");
    assert_eq!(names(&asked[1].1).len(), 2);
    assert_eq!(asked[2].1["Node"], "n3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_extender_fails_the_pod_unless_it_is_ignorable() {
    let harness = Harness::start().await;
    let (url, questions) = listen().await;
    answer_all(questions, |_, _| (500, json!({})));
    let file = |ignorable: bool| {
        format!(
            "profiles:\n- schedulerName: {}\nextenders:\n- {{urlPrefix: '{url}', filterVerb: filter, ignorable: {ignorable}}}\n",
            if ignorable { "lenient" } else { "strict" }
        )
    };
    let (_strict, _stop) = harness.scheduler(&file(false)).await;
    let (_lenient, _stop_too) = harness.scheduler(&file(true)).await;
    harness.create(&node("n1", "4")).await;
    for name in ["strict", "lenient"] {
        let mut pod = pod(name, "1");
        pod["spec"]["schedulerName"] = name.into();
        harness.create(&pod).await;
    }
    assert_eq!(harness.bound("lenient").await, "n1");
    let said = harness
        .wait_for("the webhook's failure", || async {
            let message = harness.pod_scheduled("strict").await["message"].as_str().unwrap_or("").to_owned();
            message.starts_with("failed filter").then_some(message)
        })
        .await;
    assert_eq!(said, format!("failed filter with extender at URL {url}/filter, code 500"));
    assert_eq!(harness.pod_scheduled("strict").await["reason"], "SchedulerError");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_is_asked_only_about_pods_that_want_its_resources_and_no_node_is_a_refusal() {
    let harness = Harness::start().await;
    let (url, questions) = listen().await;
    let asked = answer_all(questions, |_, body| {
        let nodes = body["Nodes"]["items"].as_array().cloned().unwrap_or_default();
        let failed = nodes
            .iter()
            .map(|node| (node["metadata"]["name"].as_str().unwrap().to_owned(), json!("no GPU for you")));
        (200, json!({"Nodes": {"items": []}, "FailedNodes": failed.collect::<serde_json::Map<_, _>>()}))
    });
    let file = format!(
        "extenders:\n- {{urlPrefix: '{url}', filterVerb: filter, managedResources: [{{name: example.com/gpu, ignoredByScheduler: true}}]}}\n"
    );
    let (scheduler, _stop) = harness.scheduler(&file).await;
    harness.create(&node("n1", "4")).await;
    harness.seen(&scheduler, (1, 0)).await;
    harness.create(&pod("plain", "1")).await;
    assert_eq!(harness.bound("plain").await, "n1");
    assert!(asked.lock().is_empty());
    let mut gpu = pod("gpu", "1");
    gpu["spec"]["containers"][0]["resources"] = json!({"limits": {"example.com/gpu": "1"}});
    harness.create(&gpu).await;
    // The node has no such resource, and the scheduler doesn't count it: only the webhook says no.
    let message = harness.refusal("gpu", "Unschedulable").await;
    assert!(message.starts_with("0/1 nodes are available: 1 no GPU for you. preemption: "), "{message}");
    assert_eq!(asked.lock()[0].1["Nodes"]["items"][0]["metadata"]["name"], "n1");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_has_a_say_in_who_is_evicted() {
    let harness = Harness::start().await;
    let (url, questions) = listen().await;
    let asked = answer_all(questions, |_, body| {
        let mut victims = body["NodeNameToMetaVictims"].as_object().cloned().unwrap_or_default();
        victims.remove("n1");
        (200, json!({"nodeNameToMetaVictims": victims}))
    });
    let file =
        format!("extenders:\n- {{urlPrefix: '{url}', preemptVerb: preempt, nodeCacheCapable: true}}\n");
    let (scheduler, _stop) = harness.scheduler(&file).await;
    for (name, old) in [("n1", "old1"), ("n2", "old2")] {
        harness.create(&node(name, "1")).await;
        let mut old = pod(old, "1");
        old["spec"]["nodeName"] = name.into();
        harness.create(&old).await;
    }
    harness.seen(&scheduler, (2, 2)).await;
    let mut vip = pod("vip", "1");
    vip["spec"]["priorityClassName"] = "system-cluster-critical".into();
    harness.create(&vip).await;
    // Both nodes are as good; the webhook allows only the second.
    harness
        .wait_for("eviction of old2", || async {
            let old = harness.get("/api/v1/namespaces/w/pods/old2").await;
            old["metadata"]["deletionTimestamp"].is_string().then_some(())
        })
        .await;
    assert!(harness.get("/api/v1/namespaces/w/pods/old1").await["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(asked.lock()[0].1["NodeNameToMetaVictims"].as_object().unwrap().len(), 2);
}
