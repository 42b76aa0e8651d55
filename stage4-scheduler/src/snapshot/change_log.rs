//! Change log: which nodes of a snapshot changed, in order.
//!
//! Whoever remembers something about every node keeps a [`Mark`]: how far it has read. Next time it reads
//! on from there, and learns exactly which nodes to look at again. Several readers with marks of their own
//! share one log; the log knows none of them and forgets its oldest entries when it has become longer than
//! reading all nodes anew would cost. A reader that was away for so long hears "everything".
//!
//! # Invariants
//! 1. A node that changed after a mark is among the changes since that mark, or the answer is "everything".
//!
//! # In Kubernetes
//! `pkg/scheduler/backend/cache/cache.go` keeps the nodes in a list by generation for the same end.

/// How far somebody has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    era: u64,
    number: u64,
}

/// Positions of changed nodes, the latest last.
#[derive(Clone, Debug, Default)]
pub struct ChangeLog {
    /// Grows when positions lose their meaning, because nodes came or went.
    era: u64,
    /// Number of the first entry that is kept.
    first: u64,
    entries: Vec<u32>,
}

impl ChangeLog {
    /// Positions mean other nodes from now on.
    pub fn forget_all(&mut self) {
        self.era += 1;
        self.first = 0;
        self.entries.clear();
    }

    /// The node at this position changed; there are `nodes` of them.
    pub fn push(&mut self, at: usize, nodes: usize) {
        let limit = 1024.max(2 * nodes);
        if self.entries.len() >= limit {
            let gone = limit / 2;
            self.entries.drain(..gone);
            self.first += gone as u64;
        }
        self.entries.push(u32::try_from(at).expect("a cluster has fewer than four billion nodes"));
    }

    /// The present.
    pub fn mark(&self) -> Mark {
        Mark { era: self.era, number: self.first + self.entries.len() as u64 }
    }

    /// Positions of nodes that changed since; `None` if any of them may have.
    pub fn since(&self, mark: Mark) -> Option<&[u32]> {
        let from = mark.number.checked_sub(self.first).filter(|_| mark.era == self.era)?;
        self.entries.get(usize::try_from(from).ok()?..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_hears_what_it_has_not_read_or_that_it_missed_something() {
        let mut log = ChangeLog::default();
        log.forget_all();
        assert_eq!(log.since(Mark::default()), None, "nothing was read in this era");
        let start = log.mark();
        log.push(3, 10);
        log.push(5, 10);
        assert_eq!(log.since(start), Some(&[3, 5][..]));
        let later = log.mark();
        assert_eq!(log.since(later), Some(&[][..]));
        (0..2000).for_each(|_| log.push(1, 10));
        assert_eq!(log.since(start), None, "the oldest entries are gone");
        log.forget_all();
        assert_eq!(log.since(later), None, "positions have another meaning");
    }
}
