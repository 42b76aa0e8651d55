//! The keys of the book's questions: what a stage says when it is asked what the reader is asked.
//!
//! A chapter's file says for each question whether its answer is computed. Those answers are computed here, by the very functions that the
//! chapter prints, and compared with the words that the page shows.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod early;
mod late;

use std::collections::BTreeMap;
use std::path::Path;

use labs::book::front_matter::{Key, Question, parse};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A Kubernetes object, as short as a question needs it.
fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A number in the words of the book.
fn word(number: usize) -> &'static str {
    ["none", "one", "two", "three", "four", "five", "six"][number]
}

fn capital(text: &str) -> String {
    text[..1].to_uppercase() + &text[1..]
}

type Compute = fn() -> Vec<String>;

/// By `id/predict` or `id/quiz`.
fn computed() -> BTreeMap<&'static str, Vec<String>> {
    let early: [(&str, Compute); 11] = [
        ("s1-url/predict", early::paths),
        ("s1-url/quiz", early::path_of_a_node),
        ("s1-apply/predict", early::a_field_that_left_the_file),
        ("s1-apply/quiz", early::how_containers_merge),
        ("s1-watch/predict", early::after_a_watch_ended),
        ("s1-watch/quiz", early::what_notin_selects),
        ("s2-gates/quiz", early::stage_of_an_exceeded_quota),
        ("s2-watch-cache/predict", early::what_a_watcher_hears),
        ("s3-loop/predict", early::after_one_of_two_pods),
        ("s3-rollout/predict", early::limits_of_a_rollout),
        ("s4-schedule/predict", early::an_idle_node_that_is_promised),
    ];
    let late: [(&str, Compute); 12] = [
        ("s4-refusal/predict", late::three_nodes_refuse),
        ("s4-queue/quiz", late::does_a_label_give_memory),
        ("s5-actions/predict", late::a_container_that_runs),
        ("s5-actions/quiz", late::a_second_init_container_failed),
        ("s5-failing/predict", late::the_fifth_start),
        ("s5-failing/quiz", late::readiness_restarts),
        ("s5-status/predict", late::patience_with_a_node),
        ("s5-status/quiz", late::phase_of_a_crash_loop),
        ("s6-rules/quiz", late::share_of_an_endpoint),
        ("s6-dialects/predict", late::dice_of_iptables),
        ("s6-names/predict", late::questions_for_a_name),
        ("s6-names/quiz", late::a_headless_name),
    ];
    early.into_iter().chain(late).map(|(id, compute)| (id, compute())).collect()
}

#[test]
fn the_stages_answer_the_questions_of_the_book_as_the_book_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("book/src");
    let mut computed = computed();
    let (mut asked, mut fixed) = (0, 0);
    let mut dirs = vec![root];
    while let Some(dir) = dirs.pop() {
        for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                dirs.push(path.clone());
            }
            let front = path.extension().is_some_and(|e| e == "yaml") && path.with_extension("md").exists();
            if !front {
                continue;
            }
            let matter = parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
            for (name, Question { key, answer, .. }) in [("predict", &matter.predict), ("quiz", &matter.quiz)]
            {
                let id = format!("{}/{name}", matter.id);
                asked += 1;
                match key {
                    Key::Computed => assert_eq!(Some(answer), computed.remove(id.as_str()).as_ref(), "{id}"),
                    Key::Run => {}
                    Key::Fixed => fixed += 1,
                }
            }
        }
    }
    assert_eq!(computed, BTreeMap::new(), "computed, but asked by no chapter");
    assert!(asked >= 36 && fixed * 2 < asked, "{fixed} of {asked} answers are only written");
}
