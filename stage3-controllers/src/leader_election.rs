//! Leader election: of several controller managers, one works.
//!
//! *Before step 1 of a pod's journey.* After: [`crate::manager`] starts the controllers.
//!
//! A Lease names its holder and when the holder renewed it last. Whoever finds it free, or not renewed for its
//! whole duration, writes its own name into it; the API server's conflict check lets one of two contenders
//! through. The decision is [`next`], a pure function; the shell reads and writes the Lease every two seconds.
//!
//! The subtle thing: nobody trusts another machine's clock. A contender measures the lease's age from the moment
//! when *it* first saw this record, on its own clock, and never by the time written in it. And the holder stops
//! leading by itself when it could not renew for `renew_deadline`, which is shorter than the duration after which
//! others take over: so there is never a moment with two leaders, as long as clocks run equally fast.
//!
//! # Invariants
//! 1. A record that changed within `lease_duration` (by the observer's clock) is never taken from its holder.
//! 2. A holder that could not renew for `renew_deadline` no longer leads.
//! 3. `leaseTransitions` grows by one with each change of the holder, and only then.
//!
//! # In Kubernetes
//! `client-go/tools/leaderelection/leaderelection.go`, same defaults. Left out: coordinated leader election, jitter.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

pub mod elector;

/// After this time without renewal others may take over. Shorter: a slow API server costs the leadership.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// The holder stops when it could not renew for this long. Must be shorter than the lease duration.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Time between two tries.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// What this contender saw last, and when by its own clock.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Observation {
    /// The record.
    pub record: LeaseSpec,
    /// When this contender first saw exactly this record, since its start.
    pub since: Duration,
}

impl Observation {
    /// Takes in what was read; the age starts anew only when the record differs.
    pub fn observe(&mut self, record: &LeaseSpec, now: Duration) {
        if self.record != *record {
            *self = Observation { record: record.clone(), since: now };
        }
    }
}

/// What to do with the Lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Another one holds it.
    Wait {
        /// Who.
        holder: String,
    },
    /// Write this record: it acquires or renews the lease.
    Write(Box<LeaseSpec>),
}

// ANCHOR: leader-election
/// Decides what contender `identity` does next. `now` is its own clock since its start, `wall` the time to write down.
pub fn next(identity: &str, seen: Option<&Observation>, now: Duration, wall: Timestamp) -> Next {
    let mut record = LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(LEASE_DURATION.as_secs() as i32),
        acquire_time: Some(MicroTime(wall)),
        renew_time: Some(MicroTime(wall)),
        lease_transitions: Some(0),
        ..LeaseSpec::default()
    };
    let Some(seen) = seen else { return Next::Write(Box::new(record)) };
    let holder = seen.record.holder_identity.as_deref().unwrap_or_default();
    let duration = Duration::from_secs(seen.record.lease_duration_seconds.unwrap_or(0).max(0) as u64);
    if holder != identity && !holder.is_empty() && now < seen.since + duration {
        return Next::Wait { holder: holder.to_owned() };
    }
    let transitions = seen.record.lease_transitions.unwrap_or(0);
    if holder == identity {
        record.acquire_time = seen.record.acquire_time.clone();
        record.lease_transitions = Some(transitions);
    } else {
        record.lease_transitions = Some(transitions + 1);
    }
    Next::Write(Box::new(record))
}
// ANCHOR_END: leader-election

/// The record that gives the lease up, so that the next leader need not wait.
pub fn release(record: &LeaseSpec, wall: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(wall)),
        renew_time: Some(MicroTime(wall)),
        ..record.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> (Duration, Timestamp) {
        (Duration::from_secs(seconds), Timestamp::from_second(1_700_000_000 + seconds as i64).unwrap())
    }

    fn written(next: Next) -> LeaseSpec {
        match next {
            Next::Write(record) => *record,
            other => panic!("expected a write, got {other:?}"),
        }
    }

    #[test]
    fn a_free_lease_is_taken_and_a_held_one_is_not() {
        let (now, wall) = at(0);
        let first = written(next("a", None, now, wall));
        let seen = Observation { record: first, since: now };
        let (now, wall) = at(14);
        assert_eq!(next("b", Some(&seen), now, wall), Next::Wait { holder: "a".into() });
        let (now, wall) = at(15);
        let taken = written(next("b", Some(&seen), now, wall));
        assert_eq!((taken.holder_identity.as_deref(), taken.lease_transitions), (Some("b"), Some(1)));
    }

    #[test]
    fn renewing_keeps_the_acquire_time_and_the_transitions() {
        let (now, wall) = at(0);
        let first = written(next("a", None, now, wall));
        let seen = Observation { record: first.clone(), since: now };
        let (now, wall) = at(2);
        let second = written(next("a", Some(&seen), now, wall));
        assert_eq!((second.acquire_time, second.lease_transitions), (first.acquire_time, Some(0)));
    }

    #[test]
    fn a_holder_with_a_wrong_clock_keeps_its_lease_while_it_renews() {
        // The holder's clock is years behind: the times in its record say "expired" all the time.
        let mut seen = Observation::default();
        for second in 0..60 {
            let past = Timestamp::from_second(second / 2).unwrap();
            let record = written(next("a", None, Duration::ZERO, past));
            let (now, wall) = at(second as u64);
            seen.observe(&record, now);
            assert_eq!(next("b", Some(&seen), now, wall), Next::Wait { holder: "a".into() });
        }
    }

    #[test]
    fn a_released_lease_is_free_at_once() {
        let (now, wall) = at(0);
        let record = release(&written(next("a", None, now, wall)), wall);
        let seen = Observation { record, since: now };
        assert_eq!(written(next("b", Some(&seen), now, wall)).lease_transitions, Some(1));
    }
}
