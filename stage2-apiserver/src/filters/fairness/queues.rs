//! Queues: the seats of one level, and flows that take turns for them.
//!
//! # Invariants
//! 1. A flow that has waited and got a seat stands behind all others that wait.
//! 2. Who comes while somebody waits, waits too.
//!
//! # In Kubernetes
//! `apiserver/pkg/util/flowcontrol/fairqueuing`. Left out: virtual time; a turn is one request, whatever it costs.

use std::collections::{HashMap, VecDeque};

/// Seats, and who waits for them.
#[derive(Debug)]
pub struct Queues<T> {
    seats: usize,
    taken: usize,
    /// Flows with somebody waiting, next first.
    turns: VecDeque<String>,
    waiting: HashMap<String, VecDeque<T>>,
}

impl<T> Queues<T> {
    /// So many seats, all free.
    pub fn new(seats: usize) -> Self {
        Queues { seats, taken: 0, turns: VecDeque::new(), waiting: HashMap::new() }
    }

    /// Another number of seats; who has one keeps it.
    pub fn set_seats(&mut self, seats: usize) {
        self.seats = seats;
    }

    /// Takes a seat, if one is free and nobody waits.
    pub fn enter(&mut self) -> bool {
        let free = self.taken < self.seats && self.turns.is_empty();
        self.taken += usize::from(free);
        free
    }

    /// Waits in a flow's queue; false if that is full of others who still wait.
    pub fn wait(&mut self, flow: &str, who: T, limit: usize, is_gone: impl FnMut(&T) -> bool) -> bool {
        let mut queue = self.waiting.get(flow).map_or(0, VecDeque::len);
        if queue >= limit {
            queue = self.forget(flow, is_gone);
        }
        if queue >= limit {
            return false;
        }
        if queue == 0 {
            self.turns.push_back(flow.to_owned());
        }
        self.waiting.entry(flow.to_owned()).or_default().push_back(who);
        true
    }

    /// Takes those out of a queue who wait no longer; how many are left.
    fn forget(&mut self, flow: &str, mut is_gone: impl FnMut(&T) -> bool) -> usize {
        let Some(queue) = self.waiting.get_mut(flow) else { return 0 };
        queue.retain(|who| !is_gone(who));
        let left = queue.len();
        if left == 0 {
            self.waiting.remove(flow);
            self.turns.retain(|turn| turn != flow);
        }
        left
    }

    /// A seat becomes free.
    pub fn leave(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }

    // ANCHOR: next-turn
    /// Who gets a free seat: the first of the flow whose turn it is.
    pub fn seat_next(&mut self) -> Option<T> {
        if self.taken >= self.seats {
            return None;
        }
        let flow = self.turns.pop_front()?;
        let queue = self.waiting.get_mut(&flow)?;
        let who = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&flow);
        } else {
            self.turns.push_back(flow);
        }
        self.taken += usize::from(who.is_some());
        who
    }
    // ANCHOR_END: next-turn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_take_turns_however_many_one_of_them_sends() {
        let mut queues = Queues::new(1);
        assert!(queues.enter() && !queues.enter());
        for number in 0..5 {
            assert!(queues.wait("loud", format!("loud{number}"), 5, |_| false));
        }
        assert!(!queues.wait("loud", "one too many".into(), 5, |_| false));
        assert!(queues.wait("quiet", "quiet0".into(), 5, |_| false));
        let mut order = Vec::new();
        for _ in 0..6 {
            queues.leave();
            order.extend(queues.seat_next());
            assert!(queues.seat_next().is_none(), "there is one seat");
        }
        assert_eq!(order, ["loud0", "quiet0", "loud1", "loud2", "loud3", "loud4"]);
    }

    #[test]
    fn nobody_overtakes_who_waits() {
        let mut queues = Queues::new(1);
        assert!(queues.enter());
        assert!(queues.wait("a", 1, 1, |_| false));
        queues.leave();
        assert!(!queues.enter(), "the seat is for who waits");
        assert_eq!(queues.seat_next(), Some(1));
        queues.set_seats(2);
        assert!(queues.enter());
    }

    #[test]
    fn who_went_away_leaves_room_in_the_queue() {
        let mut queues = Queues::new(1);
        assert!(queues.enter());
        assert!(queues.wait("a", 1, 2, |_| false) && queues.wait("a", 2, 2, |_| false));
        assert!(!queues.wait("a", 3, 2, |_| false));
        assert!(queues.wait("a", 3, 2, |who| *who == 1));
        assert!(queues.wait("a", 4, 2, |_| true), "all of them went");
        queues.leave();
        assert_eq!((queues.seat_next(), queues.seat_next()), (Some(4), None));
    }
}
