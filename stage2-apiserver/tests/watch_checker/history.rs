//! The history: what all watchers together know, and whether each of them knows its part of it.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::watcher::{Event, Key, Scope, Seen, Segment};
use super::writer::{Acknowledged, Told};

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub key: Key,
    /// `None`: deleted.
    pub content: Option<String>,
    pub half: String,
}

/// Changes by revision.
#[derive(Debug, Default)]
pub struct History {
    changes: BTreeMap<u64, Change>,
    /// What somebody watched: a namespace (`None`: all of them) from one revision to another. A change that came while all were
    /// listing again is nobody's event.
    watched: Vec<(Option<String>, u64, u64)>,
    contradictions: Vec<String>,
}

impl History {
    /// From watchers of everything (they see each change as it was) and from the writers.
    pub fn of(seen: &[Seen], acknowledged: &[Acknowledged]) -> History {
        let mut history = History::default();
        let whole = seen.iter().filter(|watcher| watcher.scope.half.is_none());
        for watcher in whole.clone() {
            let part = |segment: &Segment| (watcher.scope.namespace.clone(), segment.from, segment.to);
            history.watched.extend(watcher.segments.iter().map(part));
        }
        for event in whole.flat_map(|w| &w.segments).flat_map(|s| &s.events).filter(|e| e.kind != "BOOKMARK")
        {
            let content = (event.kind != "DELETED").then(|| event.content.clone());
            let change = Change { key: event.key.clone(), content, half: event.half.clone() };
            if let Some(other) = history.changes.insert(event.revision, change.clone())
                && other != change
            {
                history.contradictions.push(format!("revision {}: {other:?} and {change:?}", event.revision));
            }
        }
        for write in acknowledged {
            // No two writes write the same, so none changes nothing: at its revision is what it wrote.
            if let Some(known) = history.changes.get(&write.revision)
                && (known.key != write.key || known.content.as_ref() != Some(&write.content))
            {
                history.contradictions.push(format!("revision {}: {known:?} and {write:?}", write.revision));
            }
        }
        history
    }

    /// Whether somebody would have seen a change of a namespace at a revision.
    fn is_watched(&self, namespace: &str, revision: u64) -> bool {
        self.watched.iter().any(|(scope, from, to)| {
            scope.as_deref().is_none_or(|scope| scope == namespace) && (from + 1..=*to).contains(&revision)
        })
    }

    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// What is wrong with what a watcher saw.
    pub fn check(&self, seen: &Seen) -> Vec<String> {
        let mut wrong = self.contradictions.clone();
        let mut before = 0;
        for segment in &seen.segments {
            if segment.from < before {
                wrong.push(format!("a list went back from {before} to {}", segment.from));
            }
            before = segment.to;
            wrong.extend(order(segment));
            wrong.extend(self.content(segment, &seen.scope));
        }
        wrong
    }

    /// The list is the history's state at its revision; the events are all changes after it, no others.
    fn content(&self, segment: &Segment, scope: &Scope) -> Vec<String> {
        let mut wrong = Vec::new();
        // What the list says stands for what came before the history began.
        let mut state: BTreeMap<Key, Event> = segment.listed.clone();
        let mut expected: Vec<(u64, &'static str, Key)> = Vec::new();
        // What a watcher heard last before a kill may have reached nobody else; it still is what this watcher goes on from.
        let (told, untold): (Vec<&Event>, Vec<&Event>) = segment
            .events
            .iter()
            .filter(|event| event.kind != "BOOKMARK")
            .partition(|event| self.is_watched(&event.key.0, event.revision));
        let mut untold = untold.into_iter().peekable();
        for (revision, change) in
            self.changes.range((Bound::Excluded(segment.from), Bound::Included(segment.to.max(segment.from))))
        {
            while let Some(event) = untold.next_if(|event| event.revision < *revision) {
                match event.kind.as_str() {
                    "DELETED" => drop(state.remove(&event.key)),
                    _ => drop(state.insert(event.key.clone(), event.clone())),
                }
            }
            if scope.namespace.as_ref().is_some_and(|namespace| *namespace != change.key.0) {
                continue;
            }
            let was = state.contains_key(&change.key);
            let is = change.content.is_some() && scope.half.as_ref().is_none_or(|half| *half == change.half);
            let kind = match (was, is) {
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
                (false, false) => continue,
            };
            expected.push((*revision, kind, change.key.clone()));
            if is {
                let content = change.content.clone().unwrap_or_default();
                let event = Event {
                    kind: kind.into(),
                    key: change.key.clone(),
                    revision: *revision,
                    content,
                    half: change.half.clone(),
                };
                state.insert(change.key.clone(), event);
            } else {
                state.remove(&change.key);
            }
        }
        for (at, (revision, kind, key)) in expected.iter().enumerate() {
            match told.get(at) {
                Some(event) if event.revision == *revision && event.kind == *kind && event.key == *key => {}
                other => {
                    wrong.push(format!(
                        "{scope:?} after {}: expected {kind} {key:?} at {revision}, got {other:?}",
                        segment.from
                    ));
                    return wrong;
                }
            }
        }
        if told.len() > expected.len() {
            wrong.push(format!("{scope:?}: nobody else saw {:?}", told[expected.len()]));
        }
        wrong
    }

    /// Every write that the server acknowledged happened, as it was written.
    pub fn check_acknowledged(&self, told: &Told, witness: &Seen) -> Vec<String> {
        let happened = |write: &&Acknowledged| match self.is_watched(&write.key.0, write.revision) {
            true => self.changes.get(&write.revision).is_some_and(|change| {
                change.key == write.key && change.content.as_ref() == Some(&write.content)
            }),
            // Nobody watched: it came just before a kill. The next list has it, or something newer in its place, or somebody deleted it.
            false => {
                let next = witness.segments.iter().find(|segment| segment.from >= write.revision);
                next.is_some_and(|segment| match segment.listed.get(&write.key) {
                    Some(event) if event.revision == write.revision => event.content == write.content,
                    Some(event) => event.revision > write.revision,
                    None => told.deletions.iter().any(|deletion| deletion.may_follow(write)),
                })
            }
        };
        let lost = told.writes.iter().filter(|write| !happened(write));
        lost.map(|write| format!("lost: {write:?}")).collect()
    }
}

/// The present is what a watcher's last list and the events after it lead to.
pub fn check_end(witness: &Seen, now: &Segment) -> Vec<String> {
    let last = witness.segments.last().expect("it listed");
    let mut state: BTreeMap<&Key, u64> =
        last.listed.iter().map(|(key, event)| (key, event.revision)).collect();
    for event in last.events.iter().filter(|event| event.kind != "BOOKMARK") {
        match event.kind.as_str() {
            "DELETED" => drop(state.remove(&event.key)),
            _ => drop(state.insert(&event.key, event.revision)),
        }
    }
    // What came after the watcher's end is none of its business.
    let is_older = |revision: u64| revision <= last.to;
    let present: BTreeMap<&Key, u64> = now.listed.iter().map(|(key, event)| (key, event.revision)).collect();
    let wrong = |(key, revision): (&&Key, &u64)| {
        (present.get(*key) != Some(revision)).then(|| format!("{key:?}: {revision} isn't there"))
    };
    let missing = state.iter().filter_map(wrong);
    let unheard = present.iter().filter(|(key, revision)| is_older(**revision) && !state.contains_key(**key));
    missing.chain(unheard.map(|(key, revision)| format!("{key:?}: {revision} was never told"))).collect()
}

/// Ordered, unique, and bookmarks that are true.
fn order(segment: &Segment) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut last = segment.from;
    for event in &segment.events {
        let fits = if event.kind == "BOOKMARK" { event.revision >= last } else { event.revision > last };
        if !fits {
            wrong.push(format!("{event:?} after revision {last}"));
        }
        last = last.max(event.revision);
    }
    wrong
}

#[test]
fn a_lost_write_is_noticed() {
    use std::time::{Duration, Instant};

    use super::writer::Deletion;

    let now = Instant::now();
    let key = ("default".to_owned(), "cm-1".to_owned());
    let event = |revision: u64, content: &str| Event {
        kind: "ADDED".into(),
        key: key.clone(),
        revision,
        content: content.into(),
        half: "a".into(),
    };
    let segment = Segment { listed: BTreeMap::new(), from: 10, events: vec![event(12, "mine")], to: 20 };
    let witness = Seen { scope: Scope::all(), segments: vec![segment], resumed: 0 };
    let write = |revision: u64, content: &str| Acknowledged {
        key: key.clone(),
        revision,
        content: content.into(),
        sent: now,
    };
    let lost = |writes: Vec<Acknowledged>, deletions: Vec<Deletion>| {
        let history = History::of(std::slice::from_ref(&witness), &writes);
        history.check_acknowledged(&Told { writes, deletions }, &witness).len()
    };
    assert_eq!(lost(vec![write(12, "mine")], vec![]), 0);
    assert_eq!(lost(vec![write(12, "another's")], vec![]), 1, "something else is there");
    assert_eq!(lost(vec![write(13, "b")], vec![]), 1, "a watcher would have seen it");
    let unseen = || vec![write(9, "c")];
    assert_eq!(lost(unseen(), vec![]), 1, "nobody deleted it, and the list doesn't have it");
    let deletion = |answered| vec![Deletion { key: key.clone(), answered }];
    assert_eq!(lost(unseen(), deletion(Some(now + Duration::from_secs(1)))), 0);
    assert_eq!(lost(unseen(), deletion(None)), 0);
    assert_eq!(lost(unseen(), deletion(now.checked_sub(Duration::from_secs(1)))), 1, "it was deleted before");
    let history = History::of(std::slice::from_ref(&witness), &[write(12, "another's")]);
    assert_eq!(history.check(&witness).len(), 1, "two say different things of one revision");
}

#[test]
fn what_only_one_watcher_heard_is_where_it_goes_on_from() {
    let key = ("default".to_owned(), "cm-1".to_owned());
    let event = |kind: &str, revision: u64, half: &str| Event {
        kind: kind.into(),
        key: key.clone(),
        revision,
        content: revision.to_string(),
        half: half.into(),
    };
    let segment = |from, events: Vec<Event>, to| Segment { listed: BTreeMap::new(), from, events, to };
    // Those who watch everything listed again at 15, after a kill at 12.
    let relisted = vec![segment(10, vec![], 12), segment(15, vec![event("MODIFIED", 16, "a")], 20)];
    let whole = Seen { scope: Scope::all(), segments: relisted, resumed: 0 };
    let scope = Scope { half: Some("b".into()), ..Scope::all() };
    let history = History::of(std::slice::from_ref(&whole), &[]);
    let wrong = |events| history.content(&segment(10, events, 20), &scope).len();
    assert_eq!(wrong(vec![event("ADDED", 13, "b"), event("DELETED", 16, "b")]), 0);
    assert_eq!(wrong(vec![event("DELETED", 16, "b")]), 1, "it never was there");
    assert_eq!(wrong(vec![event("ADDED", 13, "b")]), 1, "it left");
}
