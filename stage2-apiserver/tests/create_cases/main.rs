//! The recorded creates: each answer of a stock API server against our write path, without HTTP and without a store.
//!
//! Prints passed and failed per kind, with the names of the failing cases; `CASE=part-of-a-name` shows the difference of matching cases.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test: reads recorded cases")]

mod cases;
mod world;

use std::collections::BTreeMap;

use world::World;

/// Passes may not fall under this.
const FLOOR: usize = 1256;

#[test]
fn recorded_creates_are_answered_as_recorded() {
    let Some(folder) = cases::folder("server/create") else {
        println!("skipped: no cases");
        return;
    };
    let only = std::env::var("CASE").ok();
    let (mut passed, mut failed): (BTreeMap<String, usize>, BTreeMap<String, Vec<String>>) =
        Default::default();
    for case in cases::load(&folder) {
        if only.as_ref().is_some_and(|part| !case.name.contains(part.as_str())) {
            continue;
        }
        let answer = World::for_case(&case).replay(&case);
        match cases::compare(&case, &answer) {
            Ok(()) => *passed.entry(case.kind.clone()).or_default() += 1,
            Err(difference) => {
                if only.is_some() || std::env::var_os("DIFF").is_some() {
                    println!("{}: {difference}", case.name);
                }
                failed.entry(case.kind.clone()).or_default().push(case.name.clone());
            }
        }
    }
    let total: usize = passed.values().sum();
    let wrong: usize = failed.values().map(Vec::len).sum();
    for (kind, names) in &failed {
        println!(
            "{kind}: {} passed, {} failed: {}",
            passed.get(kind).unwrap_or(&0),
            names.len(),
            names.join(" ")
        );
    }
    println!("server/create: {total} passed, {wrong} failed");
    assert!(only.is_some() || total >= FLOOR, "{total} passes, at least {FLOOR} are known to pass");
}
