//! The index against a model that copies the whole map at every write.
//!
//! # In Kubernetes
//! etcd's `key_index_test.go` has tables; here a property drives a model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// All states of the store: state `i` is the map after revision `i`.
#[derive(Default)]
struct Model {
    states: Vec<BTreeMap<String, u64>>,
    log: Vec<(u64, String, bool)>,
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8),
    Delete(u8),
    Compact(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..6).prop_map(Step::Put),
        3 => (0u8..6).prop_map(Step::Delete),
        1 => (0u8..=255).prop_map(Step::Compact),
    ]
}

fn key(n: u8) -> String {
    format!("/{}/k{n}", if n.is_multiple_of(2) { "a" } else { "b" })
}

fn run(steps: &[Step]) -> (Mvcc, Model) {
    let mut mvcc = Mvcc::default();
    let mut model = Model { states: vec![BTreeMap::new()], log: Vec::new() };
    for step in steps {
        let next = mvcc.current().0 + 1;
        match step {
            Step::Put(n) | Step::Delete(n) => {
                let live = matches!(step, Step::Put(_));
                let mut state = model.states.last().cloned().unwrap();
                if live {
                    state.insert(key(*n), next);
                } else if state.remove(&key(*n)).is_none() {
                    continue; // storages refuse to delete what isn't there
                }
                mvcc.apply(&key(*n), Version { revision: Revision(next), live });
                model.states.push(state);
                model.log.push((next, key(*n), live));
            }
            Step::Compact(share) => {
                mvcc.compact(Revision(mvcc.current().0 * u64::from(*share) / 255));
            }
        }
    }
    (mvcc, model)
}

proptest! {
    #[test]
    fn reads_at_every_kept_revision_are_those_of_the_model(steps in prop::collection::vec(step(), 0..80), limit in 0usize..4) {
        let (mvcc, model) = run(&steps);
        for at in mvcc.compacted().0..=mvcc.current().0 {
            let state = &model.states[at as usize];
            for n in 0..6 {
                prop_assert_eq!(mvcc.get(&key(n), Revision(at)).map(|r| r.0), state.get(&key(n)).copied());
            }
            for prefix in ["/", "/a/", "/b/k1"] {
                let all: Vec<(String, u64)> =
                    state.iter().filter(|(k, _)| k.starts_with(prefix)).map(|(k, r)| (k.clone(), *r)).collect();
                let range = mvcc.range(prefix, None, limit, Revision(at));
                let shown = if limit == 0 { all.len() } else { limit.min(all.len()) };
                let found: Vec<(String, u64)> = range.found.iter().map(|(k, r)| (k.to_string(), r.0)).collect();
                prop_assert_eq!(&found, &all[..shown]);
                prop_assert_eq!(range.remaining as usize, all.len() - shown);
            }
        }
    }

    #[test]
    fn the_log_after_a_kept_revision_is_complete(steps in prop::collection::vec(step(), 0..80)) {
        let (mvcc, model) = run(&steps);
        for after in mvcc.compacted().0..=mvcc.current().0 {
            let want: Vec<(u64, String, bool)> = model.log.iter().filter(|e| e.0 > after).cloned().collect();
            let changes = mvcc.changes("/", Revision(after), mvcc.current());
            let got: Vec<(u64, String, bool)> =
                changes.iter().map(|c| (c.version.revision.0, c.key.to_string(), c.version.live)).collect();
            prop_assert_eq!(got, want);
            for change in changes {
                let before = &model.states[change.version.revision.0 as usize - 1];
                prop_assert_eq!(change.previous.map(|r| r.0), before.get(&*change.key).copied());
            }
        }
    }

    #[test]
    fn after_compaction_only_live_versions_are_old(steps in prop::collection::vec(step(), 0..80)) {
        let (mut mvcc, _) = run(&steps);
        let at = mvcc.current();
        mvcc.compact(at);
        for versions in mvcc.keys.values() {
            prop_assert_eq!(versions.len(), 1);
            prop_assert!(versions[0].live);
        }
        prop_assert_eq!(mvcc.log.len(), mvcc.keys.len());
    }
}

#[test]
fn a_write_is_refused_when_the_expectation_is_wrong() {
    let mut mvcc = Mvcc::default();
    assert_eq!(mvcc.check("/k", Expect::Absent), Ok(()));
    assert_eq!(mvcc.check("/k", Expect::At(Revision(1))), Err(None));
    mvcc.apply("/k", Version { revision: Revision(1), live: true });
    assert_eq!(mvcc.check("/k", Expect::Absent), Err(Some(Revision(1))));
    assert_eq!(mvcc.check("/k", Expect::At(Revision(1))), Ok(()));
    mvcc.apply("/k", Version { revision: Revision(2), live: false });
    assert_eq!(mvcc.check("/k", Expect::At(Revision(1))), Err(None));
    assert_eq!(mvcc.check("/k", Expect::Absent), Ok(()));
}
