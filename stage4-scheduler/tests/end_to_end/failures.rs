//! What goes wrong in the middle of a cycle. A webhook holds the cycle where the test wants it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Harness, node, pod};
use crate::webhook::listen;

fn stay(body: &Value) -> Value {
    json!({"NodeNames": body["NodeNames"]})
}

fn file(url: &str) -> String {
    format!(
        "extenders:\n- {{urlPrefix: '{url}', filterVerb: filter, httpTimeout: 60s, nodeCacheCapable: true}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_refused_with_409_gives_the_room_back() {
    let harness = Harness::start().await;
    let (url, mut questions) = listen().await;
    let (scheduler, _stop) = harness.scheduler(&file(&url)).await;
    for name in ["n1", "n2"] {
        harness.create(&node(name, "1")).await;
    }
    harness.seen(&scheduler, (2, 0)).await;
    let mut held = pod("p", "1");
    held["metadata"]["finalizers"] = json!(["test/held"]);
    harness.create(&held).await;
    let question = questions.recv().await.unwrap();
    // It is deleted while we think, but held: the API server refuses to bind it.
    harness.delete("/api/v1/namespaces/w/pods/p").await;
    question.answer(200, json!({"NodeNames": ["n1"]}));
    harness
        .wait_for("the refusal", || async {
            let told = harness.events("p").await;
            let said = |event: &Value| {
                let message = event["message"].as_str().unwrap_or("");
                message.starts_with("running Bind plugin \"DefaultBinder\": ")
                    && message.ends_with("is being deleted, cannot be assigned to a host")
            };
            told.iter().any(said).then_some(())
        })
        .await;
    // Nothing is left of the assumption: both nodes are free for others.
    assert_eq!(scheduler.state.lock().cache.sizes(), (2, 0));
    let answers = tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            let body = stay(&question.body);
            question.answer(200, body);
        }
    });
    for name in ["q", "r"] {
        harness.create(&pod(name, "1")).await;
        harness.bound(name).await;
    }
    answers.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_vanishes_in_the_middle_of_a_cycle_is_survived() {
    let harness = Harness::start().await;
    let (url, mut questions) = listen().await;
    let (scheduler, _stop) = harness.scheduler(&file(&url)).await;
    harness.create(&node("n1", "1")).await;
    harness.seen(&scheduler, (1, 0)).await;
    harness.create(&pod("p", "1")).await;
    let question = questions.recv().await.unwrap();
    harness.delete("/api/v1/nodes/n1").await;
    harness
        .wait_for("the scheduler to see it", || async {
            scheduler.state.lock().cache.node("n1").is_none().then_some(())
        })
        .await;
    question.answer(200, json!({"NodeNames": ["n1"]}));
    // As in Kubernetes the binding is written: nobody forbids it, and the pod's garbage collection is another's task.
    // What must hold: the scheduler goes on, and a pod that comes later isn't placed on the node that is gone.
    harness.create(&node("n2", "1")).await;
    harness.create(&pod("q", "1")).await;
    let answers = tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            let body = stay(&question.body);
            question.answer(200, body);
        }
    });
    assert_eq!(harness.bound("q").await, "n2");
    answers.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_deleted_while_it_is_decided_doesnt_come_back() {
    let harness = Harness::start().await;
    let (url, mut questions) = listen().await;
    let (scheduler, _stop) = harness.scheduler(&file(&url)).await;
    harness.create(&node("n1", "1")).await;
    harness.seen(&scheduler, (1, 0)).await;
    harness.create(&pod("p", "1")).await;
    let question = questions.recv().await.unwrap();
    harness.delete("/api/v1/namespaces/w/pods/p").await;
    let uid = question.body["Pod"]["metadata"]["uid"].as_str().unwrap().to_owned();
    harness
        .wait_for("the scheduler to see it", || async {
            (!scheduler.state.lock().queue.contains(&uid)).then_some(())
        })
        .await;
    question.answer(200, json!({"NodeNames": ["n1"]}));
    harness
        .wait_for("the room to be free again", || async {
            let state = scheduler.state.lock();
            (state.cache.sizes() == (1, 0) && state.queue.uids().is_empty()).then_some(())
        })
        .await;
    let left = tokio::time::timeout(Duration::from_millis(300), questions.recv()).await;
    assert!(left.is_err(), "the pod was tried again");
}
