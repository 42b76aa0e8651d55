//! One good chapter, and each way in which its file can contradict the rest.

use super::*;

const PAGE: &str = "# Title\n## You will be able to\n- say a;\n- say b.\n## Before this stage\n{{#include ../../labs/web.yaml}}\n{{#include traces/stage4.txt}}\n\
## Predict before you run\n<details><summary>Answer</summary>\nNo: `one`.\n</details>\n\
## Your turn\n`exercises run filter`: `exercises/filter/src/answer.rs`, `red_one`\n\
## Break it\n`labs start silent`, `labs start said`\n\
## Quiz\n<details><summary>Answer</summary>\n```console\n$ ls\n```\n</details>\n\
## Read the real one\n`pkg/a.go`, `F`\n## What we left out\n[list](left-out.md#x)\n";
const YAML: &str = "id: s4-one\nstage: 4\ncrate: stage4-scheduler\nminutes: {read: 5, task: 5, lab: 5, measured: 0}\nstory: labs/web.yaml\n\
outcomes:\n- say a\n- say b\nneeds: [s3-x]\n\
real_counterpart: {repo: kubernetes/kubernetes, path: pkg/a.go, symbol: F, checked_at: v1.33}\nleft_out: left-out.md#x\n\
task:\n  exercise: filter\n  files_to_edit: [exercises/filter/src/answer.rs]\n  expected_red: [red_one]\n\
see_it: [bound to]\nbreak_it: [silent, said]\npredict:\n  key: computed\n  answer: [one]\nquiz:\n  key: run\n";

fn messages(from: &str, to: &str) -> Vec<String> {
    assert!(YAML.contains(from), "{from}");
    check_with(&YAML.replacen(from, to, 1), PAGE)
}

fn check_with(yaml: &str, page: &str) -> Vec<String> {
    let check = "#[test]\nfn red_one() {}\n#[test]\nfn the_starter_fails_every_check() {}\n";
    let files = [
        ("book/src/stage4.yaml", yaml),
        ("labs/web.yaml", "kind: Deployment"),
        ("exercises/filter/src/answer.rs", "one two two"),
        ("exercises/filter/tests/check.rs", check),
        ("stage4-scheduler/src/bind.rs", "fn guards() { say(\"bound to\") }"),
        ("labs/catalog/4-A.yaml", "id: 4-A\nsymptom: silent\ndifficulty: 3\nminutes: 3\ntwin: 4-B\n"),
        ("labs/catalog/4-D.yaml", "id: 4-D\nsymptom: said\ndifficulty: 1\nminutes: 2\n"),
    ];
    let tree: Tree = files.into_iter().map(|(path, text)| (PathBuf::from(path), text.to_owned())).collect();
    let found = super::check(
        Path::new("book/src/stage4.md"),
        page,
        &tree,
        &["s3-x".to_owned(), "s4-taken".to_owned()],
    );
    found.into_iter().map(|finding| finding.message).collect()
}

#[test]
fn a_chapter_and_a_file_that_agree_have_no_findings() {
    assert_eq!(check_with(YAML, PAGE), Vec::<String>::new());
}

#[test]
fn each_contradiction_is_found() {
    let cases = [
        ("stage: 4", "stage: 3", "stage 3 is not where the page stands"),
        ("crate: stage4-scheduler", "crate: stage5-kubelet", "crate stage5-kubelet is not of stage4"),
        ("id: s4-one", "id: s4-taken", "id s4-taken is taken"),
        ("needs: [s3-x]", "needs: [s6-y]", "needs s6-y, which no earlier chapter is"),
        ("read: 5", "read: 0", "minutes must be more than 0"),
        ("read: 5", "read: 9", "read: 9 minutes, but the page's length gives 1"),
        ("lab: 5", "lab: 6", "lab: the labs of break_it take 5 minutes"),
        ("- say b", "- say c", "outcomes are not those of the page: [\"say a\", \"say b\"]"),
        ("story: labs/web.yaml", "story: labs/gone.yaml", "story: there is no labs/gone.yaml"),
        ("path: pkg/a.go", "path: pkg/b.go", "the page doesn't name pkg/b.go"),
        ("symbol: F", "symbol: G", "the page doesn't name G"),
        ("left-out.md#x", "left-out.md#y", "\"What we left out\" doesn't lead to left-out.md#y"),
        ("[bound to]", "[flung at]", "see_it: nothing in stage4-scheduler says \"flung at\""),
        ("[silent, said]", "[said]", "break_it is not what the page starts: [\"silent\", \"said\"]"),
        ("[red_one]", "[red_two]", "\"Your turn\" doesn't name red_two"),
        ("exercise: filter", "exercise: sieve", "expected_red is not what sieve checks: []"),
        ("[exercises/filter/src/answer.rs]", "[gone.rs]", "task: there is no gone.rs"),
        ("answer: [one]", "answer: [two]", "the answer of \"Predict before you run\" doesn't say \"two\""),
        ("key: run", "key: fixed", "\"Quiz\" is fixed without a reason"),
    ];
    for (from, to, expected) in cases {
        let found = messages(from, to);
        assert!(found.iter().any(|message| message == expected), "{to}: {found:?}");
    }
    assert!(messages("key: run", "key: guessed")[0].contains("unknown variant"));
    assert!(messages("stage: 4", "stages: 4")[0].contains("stages"));
    let without = |part: &str| check_with(YAML, &PAGE.replacen(part, "", 1));
    assert!(without("$ ls\n").contains(&"\"Quiz\" is run, but its answer has no command".to_owned()));
    let traceless = without("{{#include traces/stage4.txt}}\n");
    assert_eq!(traceless, ["\"Before this stage\" doesn't include traces/stage4.txt}}"]);
}

#[test]
fn a_lab_that_is_easy_and_one_with_a_look_alike_are_asked_for() {
    let page = PAGE.replace("`labs start silent`, ", "");
    let found = check_with(&YAML.replace("[silent, said]", "[said]").replace("lab: 5", "lab: 2"), &page);
    assert_eq!(found, ["break_it has no lab with a look-alike"]);
    let page = PAGE.replace(", `labs start said`", "");
    let found = check_with(&YAML.replace("[silent, said]", "[silent]").replace("lab: 5", "lab: 3"), &page);
    assert_eq!(found, ["break_it has no easy lab"]);
}

#[test]
fn an_experiment_names_tests_of_its_crate_and_a_change_that_can_be_made() {
    let change = |from: &str, to: &str| {
        YAML.replace("  exercise: filter\n", &format!("  change: [{{from: {from}, to: {to}}}]\n"))
    };
    let yaml = change("one", "three");
    assert_eq!(check_with(&yaml, PAGE), ["expected_red: stage4-scheduler has no test red_one"]);
    let yaml = yaml.replace("[red_one]", "[guards]");
    let page = PAGE.replace("red_one", "guards");
    assert_eq!(check_with(&yaml, &page), Vec::<String>::new());
    let changed =
        |from: &str, to: &str| check_with(&change(from, to).replace("[red_one]", "[guards]"), &page);
    assert_eq!(changed("two", "three"), ["change: \"two\" stands 2 times in exercises/filter/src/answer.rs"]);
    assert_eq!(
        changed("gone", "three"),
        ["change: \"gone\" stands 0 times in exercises/filter/src/answer.rs"]
    );
    assert_eq!(changed("one", "one"), ["change: \"one\" stays as it is"]);
    let without = YAML.replace("  exercise: filter\n", "").replace("[red_one]", "[guards]");
    assert_eq!(check_with(&without, &page), ["the experiment doesn't say what it changes"]);
    let both = YAML.replace("  expected_red", "  change: [{from: one, to: three}]\n  expected_red");
    assert_eq!(check_with(&both, PAGE), ["an exercise changes nothing"]);
}
