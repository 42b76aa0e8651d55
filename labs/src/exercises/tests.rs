//! The runner, on a copy of the exercises without cargo.

#![allow(clippy::disallowed_methods, reason = "test")]

use super::*;

fn copy() -> (tempfile::TempDir, Exercises) {
    let dir = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("TASK.md", "# Do it\n\nNow.\n"),
        ("HINTS.md", "- one\n- two\n"),
        ("Cargo.toml", "[features]\nsolution = [\"check\"]\n"),
        ("src/starter.rs", "todo!()\n"),
        ("src/solution.rs", "done\n"),
        ("src/answer.rs", "todo!()\n"),
        ("tests/check.rs", "fn the_starter_fails_every_check() {}\n"),
    ] {
        let path = dir.path().join("exercises/controller").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let exercises = Exercises::find(&dir.path().join("exercises")).unwrap();
    (dir, exercises)
}

fn named(command: fn(String) -> ExerciseCommand) -> ExerciseCommand {
    command("controller".to_owned())
}

#[test]
fn hints_come_one_after_another_and_then_again() {
    let (_dir, exercises) = copy();
    let hint = || exercises.run(&named(|name| ExerciseCommand::Hint { name })).unwrap().1;
    assert_eq!([hint(), hint(), hint()], ["Hint 1 of 2: one\n", "Hint 2 of 2: two\n", "Hint 1 of 2: one\n"]);
    assert_eq!(exercises.progress()["controller"].hints, 3);
    assert!(exercises.run(&ExerciseCommand::Progress).unwrap().1.contains("\"hints\": 3"));
}

#[test]
fn reset_puts_the_starter_back_and_keeps_the_answer() {
    let (dir, exercises) = copy();
    let answer = dir.path().join("exercises/controller/src/answer.rs");
    let reset = || exercises.run(&named(|name| ExerciseCommand::Reset { name })).unwrap().1;
    assert_eq!(reset(), "controller is as it was.\n");
    std::fs::write(&answer, "mine\n").unwrap();
    assert!(reset().starts_with("controller is as it was; yours is in "));
    assert_eq!(std::fs::read_to_string(&answer).unwrap(), "todo!()\n");
    assert_eq!(std::fs::read_to_string(dir.path().join("target/controller-answer.rs")).unwrap(), "mine\n");
}

#[test]
fn the_list_says_how_far_one_is() {
    let (_dir, exercises) = copy();
    let list = || exercises.run(&ExerciseCommand::List).unwrap().1;
    assert!(list().starts_with("controller         new    Do it\n"), "{}", list());
    exercises.note("controller", |reached| reached.runs = 1).unwrap();
    assert!(list().starts_with("controller         begun  Do it\n"));
    exercises.note("controller", |reached| reached.passed = true).unwrap();
    assert!(list().starts_with("controller         done   Do it\n"));
    let unknown = exercises.run(&ExerciseCommand::Hint { name: "no".to_owned() }).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no exercise \"no\": controller");
}

#[test]
fn what_an_exercise_lacks_is_named() {
    let all = defects("x", |_| None);
    assert_eq!(all.len(), 6, "{all:?}");
    let (dir, _) = copy();
    let read = |file: &str| std::fs::read_to_string(dir.path().join("exercises/controller").join(file)).ok();
    assert_eq!(defects("x", read), Vec::<String>::new());
}

#[test]
fn a_starter_and_a_solution_promise_the_same() {
    let file = |text: &str| format!("use x;\n/// Doc.\npub struct A;\n\nimpl B for A {{\n    {text}\n}}\n");
    assert_eq!(promised(&file("todo!()")), ["pub struct A;", "impl B for A"]);
    assert_eq!(promised(&file("todo!()")), promised(&file("done()")));
    assert_ne!(promised(&file("todo!()")), promised(&file("pub fn more() {}")));
}

#[test]
fn every_exercise_of_the_repository_is_whole() {
    let exercises = Exercises::find(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let names = exercises.names().unwrap();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        assert_eq!(defects(&name, |file| exercises.read(&name, file).ok()), Vec::<String>::new());
    }
}
