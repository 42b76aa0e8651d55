//! `kubectl journey -w`: each step as it happens.
//!
//! Three watches (the pod, its events, the EndpointSlices) and the journey file say *that* something has happened; what it
//! was is found by looking again. A step is printed once. With `-o json` each line is an object: `{"type": "step", "step": …}`, or
//! `{"type": "next", "next": …}` when another stage is waited for.
//!
//! # Invariants
//! 1. A step that was printed is never printed again.
//!
//! # In Kubernetes
//! No counterpart.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{BoxStream, select_all};
use serde_json::json;

use super::{JourneyArgs, observe};
use crate::commands::listing::bare;
use crate::context::Context;
use crate::failure::Failure;
use crate::journey::digest::Told;
use crate::journey::lanes::{Hop, Journey, step_value};
use crate::journey::page;
use crate::object::Object;
use crate::printers::terminal::escaped;
use crate::request::{self, WatchParams};
use crate::resource::GroupVersionResource;
use crate::watch::decode_events;

/// How often the journey file is looked at.
const FILE_PERIOD: Duration = Duration::from_millis(200);
/// Without any news the watches are begun anew after this time.
const WATCH_PERIOD: Duration = Duration::from_secs(240);
/// Changes come in bursts.
const SETTLE: Duration = Duration::from_millis(50);

/// Runs until it is interrupted, or the object is gone.
///
/// # Errors
/// The object isn't there.
pub async fn run(ctx: &Context, args: &JourneyArgs) -> Result<(), Failure> {
    let mut seen = Seen::default();
    loop {
        let journey = observe(ctx, args).await?;
        ctx.print(&escaped(&seen.news(&journey, args.output == "json")));
        let mut changes = changes(ctx, &journey.object).await?;
        let deadline = tokio::time::sleep(WATCH_PERIOD);
        tokio::pin!(deadline);
        let mut size = file_size(ctx, args);
        let mut tick = tokio::time::interval(FILE_PERIOD);
        loop {
            let changed = tokio::select! {
                change = changes.next() => match change {
                    Some(()) => true,
                    None => break,
                },
                () = &mut deadline => break,
                _ = tick.tick() => {
                    let now = file_size(ctx, args);
                    std::mem::replace(&mut size, now) != now
                }
            };
            if changed {
                tokio::time::sleep(SETTLE).await;
                let journey_now = observe(ctx, args).await?;
                ctx.print(&escaped(&seen.news(&journey_now, args.output == "json")));
                // A pod has taken the place of its owner: other watches are needed.
                if journey_now.object.uid() != journey.object.uid() {
                    break;
                }
            }
        }
        tokio::time::sleep(SETTLE).await;
    }
}

/// What was printed already.
#[derive(Debug, Default)]
struct Seen {
    steps: BTreeSet<(String, String, String)>,
    start: Option<i64>,
    title: String,
    next: Option<Hop>,
}

impl Seen {
    /// The text of what is new.
    fn news(&mut self, journey: &Journey, as_json: bool) -> String {
        let mut text = String::new();
        if self.title != journey.title {
            self.title.clone_from(&journey.title);
            match as_json {
                true => text += &format!("{}\n", json!({"type": "object", "journey": journey.to_value()})),
                false => text += &format!("{}, through the six stages\n\n", journey.title),
            }
        }
        for told in journey.told() {
            let start = *self.start.get_or_insert(told.step.at_micros);
            if self.steps.insert(key(&told)) {
                match as_json {
                    true => text += &format!("{}\n", json!({"type": "step", "step": step_value(&told)})),
                    false => text += &page::line(&Told { times: 1, ..told }, &journey.title, start, false),
                }
            }
        }
        let next = journey.next_hop();
        if self.next != next {
            let hop = next.as_ref().map(|hop| json!({"stage": hop.stage, "text": hop.text}));
            match (&next, as_json) {
                (_, true) => text += &format!("{}\n", json!({"type": "next", "next": hop})),
                (Some(hop), false) => {
                    text += &format!("{} {:>10}  {}\n", page::sign(hop.stage), "→", hop.text)
                }
                (None, false) => text += "  every stage has done its part\n",
            }
            self.next = next;
        }
        text
    }
}

fn key(told: &Told) -> (String, String, String) {
    let step = &told.step;
    (format!("{:?} {}", step.stage, step.object), step.decided.clone(), step.why.clone())
}

/// A unit for each change of the object, its events, and the slices of its namespace.
async fn changes(ctx: &Context, object: &Object) -> Result<BoxStream<'static, ()>, Failure> {
    let name = object.name();
    let resource = ctx.discovery().await?.for_kind(&object.gvk()).cloned();
    let events = bare(&GroupVersionResource::new("", "v1", "events"), true);
    let slices = bare(&GroupVersionResource::new("discovery.k8s.io", "v1", "endpointslices"), true);
    let pods = bare(&GroupVersionResource::new("", "v1", "pods"), true);
    let mut wanted = vec![(events, Some(format!("involvedObject.name={name}"))), (slices, None)];
    if object.kind() != "Pod" {
        wanted.push((pods, None));
    }
    wanted.extend(resource.map(|resource| (resource, Some(format!("metadata.name={name}")))));
    let client = ctx.client().await?;
    let mut streams: Vec<BoxStream<'static, ()>> = Vec::new();
    for (resource, field_selector) in wanted {
        let params = WatchParams { field_selector, ..WatchParams::default() };
        // What may not be watched is heard of by the others.
        if let Ok(response) = client.stream(request::watch(&resource, object.namespace(), &params)).await {
            let events = decode_events::<Object, _>(response.into_body(), client.config().server.clone());
            streams.push(events.map(|_| ()).boxed());
        }
    }
    Ok(select_all(streams).boxed())
}

fn file_size(ctx: &Context, args: &JourneyArgs) -> u64 {
    let file = args.journey_file.clone().or_else(|| ctx.journey_file());
    file.and_then(|file| std::fs::metadata(file).ok()).map_or(0, |meta| meta.len())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::journey::{Stage, Step};

    fn journey(decided: &[&str]) -> Journey {
        let object =
            Object::from_value(json!({"kind": "Pod", "metadata": {"name": "p", "namespace": "d"}})).unwrap();
        let step = |(at, decided): (usize, &&str)| Step {
            stage: Stage::Kubelet,
            object: "Pod d/p".into(),
            decided: (*decided).into(),
            why: String::new(),
            at_micros: at as i64 * 1000,
            source: String::new(),
        };
        Journey {
            object,
            title: "Pod d/p".into(),
            has_owner: false,
            steps: decided.iter().enumerate().map(step).collect(),
        }
    }

    #[test]
    fn a_step_is_told_once_and_the_next_hop_when_it_changes() {
        let mut seen = Seen::default();
        let first = seen.news(&journey(&["pulled"]), false);
        assert!(first.contains("pulled") && first.contains("nobody has bound this pod yet"), "{first}");
        let second = seen.news(&journey(&["pulled", "created"]), false);
        assert!(
            second.contains("created") && !second.contains("pulled") && !second.contains("→"),
            "{second}"
        );
        assert_eq!(seen.news(&journey(&["pulled", "created"]), false), "");
    }

    #[test]
    fn each_line_of_the_json_is_an_object() {
        let text = Seen::default().news(&journey(&["pulled"]), true);
        let kinds: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(kinds, ["object", "step", "next"]);
    }
}
