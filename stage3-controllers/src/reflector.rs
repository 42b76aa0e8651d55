//! Reflector: list once, then watch, and never lose a change in between.
//!
//! *Step 2 of a pod's journey.* Before: the API server stored a change and told its watchers. After: [`crate::indexer`] keeps the copy.
//!
//! A controller needs the state of the world and every change after it. The API gives two calls: `list`
//! answers with the state and the revision at which it was read, `watch` from that revision brings each later
//! change in order. The reflector glues the two together. It is a state machine without any I/O: it says which
//! request it wants next ([`Reflector::request`]) and is told what was heard ([`Reflector::step`]); the shell in
//! [`crate::informer`] does HTTP and back-off.
//!
//! The subtle thing is what each failure costs. A watch that merely ends is opened again from the last revision
//! heard: nothing is lost and nothing is listed again. Bookmarks move that revision forward when nothing
//! happens, so that a quiet watch does not fall behind the server's history. Only `410 Gone` (the server has
//! forgotten the history from there) makes us list again, and the second such answer asks for a list
//! straight from the store, because a lagging cache could answer with the same old revision for ever.
//!
//! # Invariants
//! 1. In `Watching`, every change up to `resource_version` has been handed out.
//! 2. A new list is asked for at the start and after 410, never for another reason.
//! 3. A list replaces everything: objects that vanished while we did not look are noticed.
//!
//! # In Kubernetes
//! `client-go/tools/cache/reflector.go`. Left out: streaming lists (`sendInitialEvents`), paging of the list, resync periods.

/// Where the reflector stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reflector {
    /// Nothing is known, or what was known is too old. Left by a complete list.
    Listing {
        /// Ask the store itself and not a cache: the last list's revision was already forgotten.
        consistent: bool,
    },
    /// Every change up to `resource_version` is known. Left by 410 only.
    Watching {
        /// Revision up to which all was heard.
        resource_version: String,
        /// Whether anything was heard since the list; decides how a 410 is answered.
        progressed: bool,
    },
}

/// The request that brings the reflector on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// List everything; `resource_version` is `0` (any cache will do) or empty (the newest).
    List {
        /// `0` or empty.
        resource_version: &'static str,
    },
    /// Watch from this revision, with bookmarks.
    Watch {
        /// Revision after which changes are wanted.
        resource_version: String,
    },
}

/// What the shell heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<T> {
    /// A complete list, read at this revision.
    Listed {
        /// All objects.
        items: Vec<T>,
        /// Revision of the list.
        resource_version: String,
    },
    /// An object was added or changed; `resource_version` is its new one.
    Changed(T, String),
    /// An object was deleted at this revision.
    Deleted(T, String),
    /// Nothing happened up to this revision.
    Bookmark(String),
    /// The server no longer has the history that we asked for (410).
    Gone,
    /// The stream ended, or the request failed, for any other reason.
    Closed,
}

/// The change to make to the local copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta<T> {
    /// These are all the objects there are.
    Replace(Vec<T>, String),
    /// This object is new or changed.
    Upsert(T),
    /// This object is gone since this revision.
    Remove(T, String),
    /// Nothing changed up to this revision.
    Advance(String),
}

// ANCHOR: reflector
impl Reflector {
    /// The start: nothing is known.
    pub fn new() -> Reflector {
        Reflector::Listing { consistent: false }
    }

    /// What to ask the API server next.
    pub fn request(&self) -> Request {
        match self {
            Reflector::Listing { consistent: false } => Request::List { resource_version: "0" },
            Reflector::Listing { consistent: true } => Request::List { resource_version: "" },
            Reflector::Watching { resource_version, .. } => {
                Request::Watch { resource_version: resource_version.clone() }
            }
        }
    }

    /// Takes in what was heard; returns the next state and the change to the local copy, if any.
    pub fn step<T>(self, heard: Heard<T>) -> (Reflector, Option<Delta<T>>) {
        let watching = |resource_version: String| Reflector::Watching { resource_version, progressed: true };
        match (self, heard) {
            (_, Heard::Listed { items, resource_version }) => (
                Reflector::Watching { resource_version: resource_version.clone(), progressed: false },
                Some(Delta::Replace(items, resource_version)),
            ),
            // Events can only come from a watch; one that arrives in Listing would be a shell's mistake: ignored.
            (
                state @ Reflector::Listing { .. },
                Heard::Changed(..) | Heard::Deleted(..) | Heard::Bookmark(_),
            ) => (state, None),
            (Reflector::Watching { .. }, Heard::Changed(object, version)) => {
                (watching(version), Some(Delta::Upsert(object)))
            }
            (Reflector::Watching { .. }, Heard::Deleted(object, version)) => {
                (watching(version.clone()), Some(Delta::Remove(object, version)))
            }
            (Reflector::Watching { .. }, Heard::Bookmark(version)) => {
                (watching(version.clone()), Some(Delta::Advance(version)))
            }
            (Reflector::Listing { .. }, Heard::Gone) => (Reflector::Listing { consistent: true }, None),
            (Reflector::Watching { progressed, .. }, Heard::Gone) => {
                (Reflector::Listing { consistent: !progressed }, None)
            }
            (state, Heard::Closed) => (state, None),
        }
    }
}
// ANCHOR_END: reflector

impl Default for Reflector {
    fn default() -> Self {
        Reflector::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn listed(items: &[u32], version: &str) -> Heard<u32> {
        Heard::Listed { items: items.to_vec(), resource_version: version.into() }
    }

    #[test]
    fn a_closed_watch_is_opened_again_from_the_last_revision_heard() {
        let (state, _) = Reflector::new().step(listed(&[], "5"));
        let (state, _) = state.step(Heard::Changed(1, "7".into()));
        let (state, delta) = state.step(Heard::<u32>::Closed);
        assert_eq!(delta, None);
        assert_eq!(state.request(), Request::Watch { resource_version: "7".into() });
    }

    #[test]
    fn a_bookmark_moves_the_revision_on() {
        let (state, _) = Reflector::new().step(listed(&[], "5"));
        let (state, delta) = state.step(Heard::<u32>::Bookmark("90".into()));
        assert_eq!(delta, Some(Delta::Advance("90".into())));
        assert_eq!(state.request(), Request::Watch { resource_version: "90".into() });
    }

    #[test]
    fn gone_lists_again_and_gone_at_once_lists_from_the_store() {
        let (state, _) = Reflector::new().step(listed(&[1], "5"));
        let (first, _) = state.clone().step(Heard::Changed(1, "6".into()));
        let (first, _) = first.step(Heard::<u32>::Gone);
        assert_eq!(first.request(), Request::List { resource_version: "0" });
        let (second, _) = state.step(Heard::<u32>::Gone);
        assert_eq!(second.request(), Request::List { resource_version: "" });
    }

    /// Promise 1: whatever the interruptions, the copy ends as the server's state.
    #[test]
    fn interruptions_lose_nothing() {
        for interrupt_at in 0..20_u32 {
            let history: Vec<(bool, u32)> = (0..20).map(|n| (n % 3 != 2, n % 5)).collect();
            let state_at = |revision: u32| {
                let mut set = BTreeSet::new();
                for (added, item) in &history[..revision as usize] {
                    if *added {
                        set.insert(*item)
                    } else {
                        set.remove(item)
                    };
                }
                set
            };
            let mut reflector = Reflector::new();
            let mut copy = BTreeSet::new();
            let mut apply = |reflector: Reflector, heard| {
                let (next, delta) = reflector.step(heard);
                match delta {
                    Some(Delta::Replace(items, _)) => copy = items.into_iter().collect(),
                    Some(Delta::Upsert(item)) => drop(copy.insert(item)),
                    Some(Delta::Remove(item, _)) => drop(copy.remove(&item)),
                    _ => {}
                }
                next
            };
            let mut interrupted = false;
            let mut steps = 0;
            loop {
                steps += 1;
                assert!(steps < 100, "must come to an end");
                match reflector.request() {
                    Request::List { .. } => {
                        let at = if interrupted { 15 } else { 3 };
                        let items = state_at(at).into_iter().collect();
                        reflector =
                            apply(reflector, Heard::Listed { items, resource_version: at.to_string() });
                    }
                    Request::Watch { resource_version } => {
                        let from: u32 = resource_version.parse().unwrap();
                        if from == 20 {
                            break;
                        }
                        if from >= interrupt_at && !interrupted {
                            interrupted = true;
                            let heard = if interrupt_at % 2 == 0 { Heard::Gone } else { Heard::Closed };
                            reflector = apply(reflector, heard);
                            continue;
                        }
                        let (added, item) = history[from as usize];
                        let version = (from + 1).to_string();
                        let heard =
                            if added { Heard::Changed(item, version) } else { Heard::Deleted(item, version) };
                        reflector = apply(reflector, heard);
                    }
                }
            }
            assert_eq!(copy, state_at(20), "interrupted at {interrupt_at}");
        }
    }
}
