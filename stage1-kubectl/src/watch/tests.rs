use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn every_event_type_is_decoded() {
    let event = |text: &str| serde_json::from_str::<WatchEvent<Pod>>(text).unwrap();
    let WatchEvent::Added(pod) =
        event(r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}}"#)
    else {
        panic!("not added")
    };
    assert_eq!(pod.metadata.name.as_deref(), Some("a"));
    let late = event(r#"{"object":{"metadata":{"name":"a"}},"type":"DELETED"}"#);
    assert!(matches!(late, WatchEvent::Deleted(_)));
    let bookmark = json!({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "7",
        "annotations": {"k8s.io/initial-events-end": "true"}}}});
    let WatchEvent::Bookmark(bookmark) = event(&bookmark.to_string()) else { panic!("no bookmark") };
    assert_eq!(bookmark.resource_version, "7");
    assert!(bookmark.is_initial_events_end());
    let error = json!({"type": "ERROR", "object": Status::expired("too old resource version: 1 (2)")});
    let WatchEvent::Error(status) = event(&error.to_string()) else { panic!("no error") };
    assert_eq!(status.code, 410);
    assert!(serde_json::from_str::<WatchEvent<Pod>>(r#"{"type":"WHAT","object":{}}"#).is_err());
}

#[test]
fn invariant_1_a_line_without_end_is_refused() {
    let mut framer = LineFramer::new(10);
    framer.push(b"12345\n").unwrap();
    assert!(framer.push(b"12345678901").is_err());
    assert!(LineFramer::new(3).push(b"1234\n").is_err());
}

proptest! {
    #[test]
    fn lines_come_out_whole_however_they_are_cut(
        lines in proptest::collection::vec("[a-z]{1,20}", 0..8),
        cuts in proptest::collection::vec(1..9usize, 1..9)
    ) {
        let text: String = lines.iter().map(|l| format!("{l}\n")).collect();
        let mut framer = LineFramer::new(100);
        let (mut rest, mut cut) = (text.as_bytes(), cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at((*cut.next().unwrap()).min(rest.len()));
            framer.push(piece).unwrap();
            rest = tail;
        }
        let got: Vec<String> = std::iter::from_fn(|| framer.next_line())
            .map(|l| String::from_utf8(l.to_vec()).unwrap()).collect();
        prop_assert_eq!(got, lines);
    }
}
