//! Scripts for the queue, and its shell on short delays.
//!
//! # In Kubernetes
//! `client-go/util/workqueue/queue_test.go`.

use super::*;
use expect_test::{Expect, expect};
use std::fmt::Write as _;

/// Runs a script of `add K`, `get`, `done K` and prints what the queue answers.
fn check(script: &str, expected: Expect) {
    let mut queue = Queue::new();
    let mut tokens: Vec<InFlight<String>> = Vec::new();
    let mut output = String::new();
    for line in script.split(';').map(str::trim) {
        let (verb, key) = line.split_once(' ').unwrap_or((line, ""));
        let answer = match verb {
            "add" => format!("wake={}", queue.add(key.to_owned())),
            "get" => match queue.take() {
                Some(token) => {
                    let answer = token.key().clone();
                    tokens.push(token);
                    answer
                }
                None => "nothing".to_owned(),
            },
            "done" => {
                let index = tokens.iter().position(|token| token.key() == key).unwrap();
                format!("again={}", queue.done(tokens.remove(index)))
            }
            other => panic!("unknown verb {other}"),
        };
        writeln!(output, "{line}: {answer}").unwrap();
    }
    expected.assert_eq(&output);
}

#[test]
fn a_key_added_twice_is_handed_out_once() {
    check(
        "add a; add b; add a; get; get; get",
        expect![[r#"
        add a: wake=true
        add b: wake=true
        add a: wake=false
        get: a
        get: b
        get: nothing
    "#]],
    );
}

#[test]
fn a_key_added_in_flight_comes_again_after_done() {
    check(
        "add a; get; add a; get; done a; get; done a; get",
        expect![[r#"
        add a: wake=true
        get: a
        add a: wake=false
        get: nothing
        done a: again=true
        get: a
        done a: again=false
        get: nothing
    "#]],
    );
}

#[test]
fn delays_double_up_to_the_maximum() {
    let mut limiter = RateLimiter::default();
    let delays: Vec<u128> = (0..20).map(|_| limiter.when(&"a", Duration::ZERO).as_millis()).collect();
    assert_eq!(delays[..4], [5, 10, 20, 40]);
    assert_eq!(delays[19], 1_000_000);
    limiter.forget(&"a");
    assert_eq!(limiter.when(&"a", Duration::ZERO).as_millis(), 5);
}

#[test]
fn the_bucket_spreads_a_storm_of_failures() {
    let mut limiter = RateLimiter::default();
    let delays: Vec<u128> = (0..121).map(|n| limiter.when(&n, Duration::ZERO).as_millis()).collect();
    assert_eq!(delays[99], 5, "the burst goes through");
    assert_eq!(delays[120], 2100, "then ten a second");
}

#[test]
fn the_earliest_of_several_delays_counts() {
    let mut delayed = Delayed::new();
    assert!(delayed.insert("a", Duration::from_secs(30)));
    assert!(delayed.insert("a", Duration::from_secs(5)));
    assert!(!delayed.insert("a", Duration::from_secs(10)));
    assert_eq!(delayed.due(Duration::from_secs(6)), ["a"]);
    assert_eq!(delayed.due(Duration::from_secs(60)), Vec::<&str>::new());
}

#[tokio::test]
async fn a_delayed_key_is_handed_out_when_due() {
    let queue = WorkQueue::new();
    queue.add_after("late", Duration::from_millis(40));
    queue.add_after("soon", Duration::from_millis(5));
    let first = queue.get().await.unwrap();
    assert_eq!(*first.key(), "soon");
    queue.done(first);
    let second = queue.get().await.unwrap();
    assert_eq!(*second.key(), "late");
    queue.done(second);
}

#[tokio::test]
async fn an_earlier_delay_wakes_a_worker_that_sleeps_for_a_later_one() {
    let queue = WorkQueue::new();
    queue.add_after("late", Duration::from_secs(3600));
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|token| token.key().to_string()) }
    });
    tokio::task::yield_now().await;
    queue.add_after("soon", Duration::from_millis(5));
    assert_eq!(worker.await.unwrap().as_deref(), Some("soon"));
}

#[tokio::test]
async fn shutdown_drains_and_then_ends_every_worker() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.shut_down();
    queue.add("b");
    let token = queue.get().await.unwrap();
    assert_eq!(*token.key(), "a");
    queue.done(token);
    let others: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn({
                let queue = queue.clone();
                async move { queue.get().await.is_none() }
            })
        })
        .collect();
    for other in others {
        assert!(other.await.unwrap());
    }
}
