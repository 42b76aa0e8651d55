//! The index of facts: events by uid, owners, blame.

use serde_json::json;

use crate::why::worlds::World;

#[test]
fn an_event_of_an_earlier_pod_with_the_same_name_is_not_this_pods() {
    let facts = World::healthy().event("Pod/web-a", "Warning", "Failed", "old").change("Event/e0", |event| {
        event.set("/involvedObject/uid", "another");
    });
    let facts = facts.facts();
    let pod = facts.find("Pod", "default", "web-a").unwrap();
    assert!(facts.event(pod, "Failed", "").is_none());
}

#[test]
fn the_template_is_blamed_when_it_says_the_same_as_the_pod() {
    let facts = World::healthy().facts();
    let pod = facts.find("Pod", "default", "web-a").unwrap();
    let (owner, field) = facts.blame(pod, "/spec/containers/0/image");
    assert_eq!((owner.kind(), field.as_str()), ("Deployment", "/spec/template/spec/containers/0/image"));
    let facts = World::healthy().set("Pod/web-a", "/spec/containers/0/image", json!("other")).facts();
    let pod = facts.find("Pod", "default", "web-a").unwrap();
    assert_eq!(facts.blame(pod, "/spec/containers/0/image").0.kind(), "Pod");
}

#[test]
fn the_focus_hides_other_pods_but_keeps_them_for_sums() {
    let facts = World::healthy().focus(&["Pod/web-a"]).facts();
    assert_eq!(facts.pods().count(), 1);
    assert!(facts.all("Pod").len() > 1);
}
