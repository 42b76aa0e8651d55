//! The comparison: two sequences of statuses, two sets of events.
//!
//! A kubelet may join two neighbouring states into one, so a recorded state that lasted less than [`SHORT_SECONDS`] may be missing; and one
//! that is seen here for as short a time may be one that the recorded one joined. Everything else must be equal, in order.
//!
//! # In Kubernetes
//! Nothing like it.

use serde_json::{Value, json};

use crate::case::{Event, Recorded};
use crate::normal::{self, Names};

/// The relist comes once a second.
const SHORT_SECONDS: f64 = 1.2;
/// The same here, where the machine may be loaded.
const SHORT_SECONDS_HERE: f64 = 2.5;

/// A state of a pod, normalised, and how long it lasted.
#[derive(Clone, Debug)]
struct State {
    value: Value,
    seconds: f64,
}

/// The distinct states of one pod.
fn states(seen: &[Recorded], pod: &str, names: &Names) -> Vec<State> {
    let mut states: Vec<(f64, Value)> = Vec::new();
    for s in seen.iter().filter(|s| s.pod == pod) {
        let value = json!({
            "gone": s.kind == "DELETED",
            "deletionTimestamp": s.metadata.get("deletionTimestamp").is_some(),
            "deletionGracePeriodSeconds": s.metadata.get("deletionGracePeriodSeconds"),
            "nodeName": normal::value(&s.node_name, names),
            "status": normal::value(&s.status, names),
        });
        if states.last().is_none_or(|(_, last)| *last != value) {
            states.push((s.t, value));
        }
    }
    let until = |i: usize| states.get(i + 1).map_or(f64::MAX, |(t, _)| *t);
    states.iter().enumerate().map(|(i, (t, v))| State { value: v.clone(), seconds: until(i) - t }).collect()
}

/// What is wrong with the statuses of one pod.
pub fn statuses(recorded: &[Recorded], seen: &[Recorded], pod: &str, names: &Names) -> Vec<String> {
    let want = states(recorded, pod, &Names::default());
    let have = states(seen, pod, names);
    let mut problems = transition_times(seen, pod);
    let (mut w, mut h) = (0, 0);
    while w < want.len() || h < have.len() {
        let short = |list: &[State], limit: f64| list.iter().all(|s| s.seconds < limit);
        // The nearest pair of equal states with only short ones before it.
        let mut found = None;
        'search: for skip in 0..8 {
            for a in 0..=skip {
                let (i, j) = (w + a, h + skip - a);
                if i > want.len()
                    || j > have.len()
                    || !short(&want[w..i], SHORT_SECONDS)
                    || !short(&have[h..j], SHORT_SECONDS_HERE)
                {
                    continue;
                }
                let both_end = i == want.len() && j == have.len();
                let equal = i < want.len() && j < have.len() && want[i].value == have[j].value;
                if both_end || equal {
                    found = Some((i, j));
                    break 'search;
                }
            }
        }
        match found {
            Some((i, j)) => (w, h) = (i + 1, j + 1),
            None => {
                let long = |list: &[State], from: usize| {
                    let next = list.iter().skip(from).position(|s| s.seconds >= SHORT_SECONDS);
                    from + next.unwrap_or(0)
                };
                problems.push(mismatch(pod, &want, long(&want, w), &have, long(&have, h)));
                return problems;
            }
        }
    }
    problems
}

fn mismatch(pod: &str, want: &[State], w: usize, have: &[State], h: usize) -> String {
    let (Some(a), Some(b)) = (want.get(w), have.get(h)) else {
        let show = |s: Option<&State>| s.map_or("nothing".to_owned(), |s| brief(&s.value));
        return format!("{pod} state {w}: want {}, have {}", show(want.get(w)), show(have.get(h)));
    };
    let mut lines = Vec::new();
    differences("", &a.value, &b.value, &mut lines);
    format!(
        "{pod} state {w} ({:.1} s) / {h} ({:.1} s): {} | want {} | have {}",
        a.seconds.min(999.0),
        b.seconds.min(999.0),
        lines.into_iter().take(5).collect::<Vec<_>>().join("; "),
        brief(&a.value),
        brief(&b.value)
    )
}

/// The leaves that differ, as `path: want … have …`.
pub fn differences(path: &str, a: &Value, b: &Value, out: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: std::collections::BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            let null = Value::Null;
            for k in keys {
                differences(
                    &format!("{path}/{k}"),
                    x.get(k).unwrap_or(&null),
                    y.get(k).unwrap_or(&null),
                    out,
                );
            }
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            for (i, (x, y)) in x.iter().zip(y).enumerate() {
                differences(&format!("{path}/{i}"), x, y, out);
            }
        }
        _ if a != b => out.push(format!("{path}: want {a} have {b}")),
        _ => {}
    }
}

/// A state in a few words.
pub fn brief(v: &Value) -> String {
    let status = &v["status"];
    let mut words = vec![status["phase"].as_str().unwrap_or("-").to_owned()];
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for c in status[list].as_array().into_iter().flatten() {
            let (kind, state) = c["state"]
                .as_object()
                .and_then(|m| m.iter().next())
                .map_or(("-", Value::Null), |(k, v)| (k.as_str(), v.clone()));
            let reason = state["reason"].as_str().unwrap_or("");
            words.push(format!(
                "{}:{kind}/{reason}#{}{}",
                c["name"].as_str().unwrap_or(""),
                c["restartCount"],
                if c["ready"] == true { "+" } else { "-" }
            ));
        }
    }
    if v["deletionTimestamp"] == true {
        words.push(format!("grace={}", v["deletionGracePeriodSeconds"]));
    }
    if v["gone"] == true {
        words.push("gone".to_owned());
    }
    words.join(" ")
}

/// A condition's time changes with its answer, and only then.
fn transition_times(seen: &[Recorded], pod: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut last: std::collections::BTreeMap<String, (String, String)> = Default::default();
    for s in seen.iter().filter(|s| s.pod == pod) {
        for c in s.status["conditions"].as_array().into_iter().flatten() {
            let word = |k: &str| c[k].as_str().unwrap_or_default().to_owned();
            let now = (word("status"), word("lastTransitionTime"));
            if let Some(old) = last.insert(word("type"), now.clone()) {
                let wrong = if old.0 == now.0 { old.1 != now.1 } else { now.1 < old.1 };
                if wrong {
                    problems.push(format!("{pod}: condition {}: {old:?} became {now:?}", c["type"]));
                }
            }
        }
    }
    problems
}

/// Recorded by chance: a fresh namespace on a loaded machine.
fn accidental(message: &str) -> bool {
    message.contains("timed out waiting for the condition")
        || message.contains("failed to sync configmap cache")
}

fn key(e: &Event, names: &Names) -> (String, String, String, String, String) {
    let word = |s: &Option<String>| s.clone().unwrap_or_default();
    let message = normal::text(&word(&e.message), names);
    (word(&e.object), word(&e.kind), word(&e.reason), word(&e.field_path), message)
}

/// What is wrong with the events.
pub fn events(recorded: &[Event], seen: &[Event], names: &Names) -> Vec<String> {
    let set = |list: &[Event], names: &Names| {
        let keep = list.iter().filter(|e| e.object.as_deref().is_some_and(|o| o.starts_with("Pod/")));
        let keep = keep.filter(|e| !accidental(e.message.as_deref().unwrap_or_default()));
        keep.map(|e| key(e, names)).collect::<std::collections::BTreeSet<_>>()
    };
    let (want, have) = (set(recorded, &Names::default()), set(seen, names));
    let missing = want.difference(&have).map(|e| format!("event missing: {e:?}"));
    missing.chain(have.difference(&want).map(|e| format!("event too many: {e:?}"))).collect()
}
