//! Pod list: a node's pods, so that a copy of the node doesn't copy them.
//!
//! A snapshot holds on to a node while the cache goes on changing its own copy of it. With a plain list each change would copy
//! all pods of the node: nothing for a node of thirty, most of the scheduler's time for one that holds thirty thousand.
//! So the list is cut: pods that came a while ago lie in *full* blocks that all copies share, and only the last few are a
//! list of the copy's own. A pod that goes takes the last one's place behind it; the block it was in is copied then.
//!
//! # Invariants
//! 1. Every block is full.
//! 2. A copy doesn't see later changes of the original, nor the other way round.
//!
//! # In Kubernetes
//! `NodeInfo.Snapshot` copies `[]*PodInfo`.

use std::sync::Arc;

use crate::pod_info::PodInfo;

/// Pods in a block: a copy of the list copies at most so many, and one pointer per block each time a block gets full.
const BLOCK: usize = 32;

/// Pods in no order.
#[derive(Clone, Debug, Default)]
pub struct PodList {
    full: Arc<Vec<Block>>,
    last: Vec<Arc<PodInfo>>,
}

impl PodList {
    /// How many.
    pub fn len(&self) -> usize {
        self.full.len() * BLOCK + self.last.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty() && self.full.is_empty()
    }

    /// All of them.
    pub fn iter<'l>(&'l self) -> Iter<'l> {
        let of_block: fn(&'l Block) -> std::slice::Iter<'l, Arc<PodInfo>> = |block| block.iter();
        self.full.iter().flat_map(of_block).chain(&self.last)
    }

    /// Adds one.
    pub fn push(&mut self, pod: Arc<PodInfo>) {
        self.last.push(pod);
        if self.last.len() == BLOCK {
            Arc::make_mut(&mut self.full).push(self.last.drain(..).collect());
        }
    }

    /// Takes a pod out, if it is there.
    pub fn take(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        // From the end: most often it is the pod that was assumed a moment ago and is now confirmed.
        let position = |pods: &[Arc<PodInfo>]| pods.iter().rposition(|pod| &*pod.uid == uid);
        if let Some(at) = position(&self.last) {
            return Some(self.last.swap_remove(at));
        }
        let find = |(number, block): (usize, &Block)| Some((number, position(block)?));
        let (number, at) = self.full.iter().enumerate().rev().find_map(find)?;
        let full = Arc::make_mut(&mut self.full);
        if self.last.is_empty() {
            self.last.extend(full.pop()?.iter().cloned());
            if number == full.len() {
                return Some(self.last.swap_remove(at));
            }
        }
        let filler = self.last.pop()?;
        Some(std::mem::replace(&mut Arc::make_mut(&mut full[number])[at], filler))
    }
}

type Block = Arc<[Arc<PodInfo>]>;
type Blocks<'l> = std::iter::FlatMap<
    std::slice::Iter<'l, Block>,
    std::slice::Iter<'l, Arc<PodInfo>>,
    fn(&'l Block) -> std::slice::Iter<'l, Arc<PodInfo>>,
>;
/// The pods of a list.
pub type Iter<'l> = std::iter::Chain<Blocks<'l>, std::slice::Iter<'l, Arc<PodInfo>>>;

impl<'l> IntoIterator for &'l PodList {
    type Item = &'l Arc<PodInfo>;
    type IntoIter = Iter<'l>;

    fn into_iter(self) -> Iter<'l> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn pod(number: u8) -> Arc<PodInfo> {
        Arc::new(PodInfo { uid: number.to_string().into(), ..PodInfo::default() })
    }

    fn uids(list: &PodList) -> BTreeSet<String> {
        let uids: Vec<String> = list.iter().map(|pod| pod.uid.to_string()).collect();
        let different: BTreeSet<String> = uids.iter().cloned().collect();
        assert_eq!((uids.len(), different.len()), (list.len(), list.len()), "each once");
        different
    }

    proptest! {
        #[test]
        fn a_list_is_a_set_and_a_copy_stays_as_it_is(history in proptest::collection::vec((any::<u8>(), 0u8..9), 1..400)) {
            let (mut list, mut set) = (PodList::default(), BTreeSet::new());
            let mut copies = Vec::new();
            for (number, what) in history {
                let taken = list.take(&number.to_string());
                prop_assert_eq!(taken.map(|pod| pod.uid.to_string()), set.take(&number.to_string()));
                if what > 1 {
                    list.push(pod(number));
                    set.insert(number.to_string());
                }
                if what == 8 {
                    copies.push((list.clone(), set.clone()));
                }
            }
            copies.push((list, set));
            for (list, set) in copies {
                prop_assert_eq!(list.is_empty(), set.is_empty());
                prop_assert_eq!(uids(&list), set);
            }
        }
    }
}
