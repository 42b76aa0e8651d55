//! The rules of the repository that a machine can check: layout, module docs, dependency direction, the book.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use labs::book::chapter::{check_chapter, is_chapter, symptoms};
use labs::book::{Finding, Tree, appendix, check_page, console, front_matter};
use labs::page::story;

const MAX_LINES: usize = 400;
const STAGES: [&str; 6] = [
    "stage1-kubectl",
    "stage2-apiserver",
    "stage3-controllers",
    "stage4-scheduler",
    "stage5-kubelet",
    "stage6-proxy",
];
/// Who may use whom; `pipeline` marks those that only `pipeline.rs`, `main.rs` and tests may name.
const MAY_USE: [(&str, &[&str], &[&str]); 7] = [
    ("stage1-kubectl", &[], &[]),
    ("stage2-apiserver", &["stage1-kubectl"], &[]),
    ("stage3-controllers", &["stage1-kubectl"], &["stage2-apiserver"]),
    ("stage4-scheduler", &["stage1-kubectl", "stage3-controllers"], &[]),
    ("stage5-kubelet", &["stage1-kubectl", "stage3-controllers"], &["stage4-scheduler"]),
    ("stage6-proxy", &["stage1-kubectl", "stage3-controllers"], &["stage5-kubelet"]),
    ("labs", &STAGES, &[]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every text file of the repository, by its path from the root.
fn tree() -> Tree {
    let mut tree = Tree::new();
    let mut dirs = vec![root()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let relative = path.strip_prefix(root()).unwrap().to_owned();
            if name == ".git" {
                continue;
            }
            if path.is_dir() {
                let built = name == "target" || relative == Path::new("book/book");
                if !built {
                    dirs.push(path);
                }
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                tree.insert(relative, text);
            }
        }
    }
    tree
}

fn rust_files(tree: &Tree) -> impl Iterator<Item = (&Path, &str)> {
    tree.iter()
        .filter(|(path, _)| path.extension().is_some_and(|e| e == "rs"))
        .map(|(p, t)| (p.as_path(), t.as_str()))
}

fn assert_none(what: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{what}:\n  {}", findings.join("\n  "));
}

#[test]
fn no_file_holds_two_ideas() {
    let tree = tree();
    let long: Vec<String> = rust_files(&tree)
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(path, lines)| format!("{}: {lines} lines, at most {MAX_LINES}", path.display()))
        .collect();
    assert_none("files too long to read in one sitting", &long);
}

#[test]
fn file_names_are_nouns_that_one_would_search_for() {
    let tree = tree();
    let bad: Vec<String> = rust_files(&tree)
        .filter(|(path, _)| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            ["mod", "util", "utils", "common", "helper", "helpers", "misc", "types"].contains(&&*stem)
        })
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert_none("file names that say nothing", &bad);
}

#[test]
fn every_module_tells_its_story() {
    let tree = tree();
    let bad: Vec<String> = rust_files(&tree)
        .filter(|(path, _)| {
            let in_src = path.components().nth(1).is_some_and(|part| part.as_os_str() == "src");
            in_src
                && !path.ends_with("tests.rs")
                && !path.components().any(|part| part.as_os_str() == "tests")
        })
        .filter_map(|(path, text)| {
            let doc: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
            let entry = path.ends_with("lib.rs") || path.ends_with("main.rs");
            let told = doc.iter().any(|line| line.starts_with("//! # In Kubernetes"));
            (!entry && !told || doc.is_empty())
                .then(|| format!("{}: no `//! # In Kubernetes` section", path.display()))
        })
        .collect();
    assert_none("modules without their story", &bad);
}

#[test]
fn stages_use_only_earlier_stages() {
    let tree = tree();
    let mut bad = Vec::new();
    for (path, text) in rust_files(&tree) {
        let Some((_, free, pipeline)) = MAY_USE.iter().find(|(name, ..)| path.starts_with(name)) else {
            continue;
        };
        let is_shell = ["pipeline.rs", "main.rs"].iter().any(|name| path.ends_with(name))
            || path
                .components()
                .any(|part| ["pipeline", "tests", "benches"].iter().any(|n| part.as_os_str() == *n));
        for stage in STAGES.iter().filter(|stage| !path.starts_with(stage)) {
            let named = text.lines().any(|line| {
                !line.trim_start().starts_with("//")
                    && line.contains(&format!("{}::", stage.replace('-', "_")))
            });
            let may = free.contains(stage) || (is_shell && pipeline.contains(stage));
            if named && !may && !path.starts_with(Path::new(&stage)) && !is_test(path) {
                bad.push(format!("{} uses {stage}", path.display()));
            }
        }
    }
    assert_none("dependencies against the direction of the pipeline", &bad);
}

fn is_test(path: &Path) -> bool {
    path.components().nth(1).is_some_and(|part| part.as_os_str() == "tests")
}

#[test]
fn manifests_follow_the_direction_of_the_pipeline() {
    let tree = tree();
    let mut bad = Vec::new();
    for (name, free, pipeline) in MAY_USE {
        let manifest = &tree[&Path::new(name).join("Cargo.toml")];
        let dependencies = manifest
            .split("[dependencies]")
            .nth(1)
            .unwrap_or_default()
            .split("\n[")
            .next()
            .unwrap_or_default();
        for stage in STAGES.iter().filter(|stage| **stage != name) {
            if dependencies.contains(stage) && !free.contains(stage) && !pipeline.contains(stage) {
                bad.push(format!("{name}/Cargo.toml depends on {stage}"));
            }
        }
    }
    assert_none("manifests against the direction of the pipeline", &bad);
}

#[test]
fn anchors_enclose_whole_items_of_at_most_60_lines() {
    let tree = tree();
    let mut bad = Vec::new();
    for (path, text) in
        rust_files(&tree).filter(|(path, _)| STAGES.iter().any(|stage| path.starts_with(stage)))
    {
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            if let Some(name) = line.trim().strip_prefix("// ANCHOR: ") {
                open.insert(name, at);
            } else if let Some(name) = line.trim().strip_prefix("// ANCHOR_END: ") {
                match open.remove(name) {
                    Some(start) if at - start > 61 => {
                        bad.push(format!("{}: {name} has over 60 lines", path.display()))
                    }
                    Some(_) => {}
                    None => bad.push(format!("{}: {name} ends without a start", path.display())),
                }
            }
        }
        bad.extend(open.keys().map(|name| format!("{}: {name} is never closed", path.display())));
    }
    assert_none("anchors", &bad);
}

#[test]
fn nothing_names_a_place_of_one_machine() {
    let tree = tree();
    let forbidden = [concat!("/wo", "rk/"), concat!("/home", "/"), concat!("/Us", "ers/")];
    let bad: Vec<String> = tree
        .iter()
        .filter(|(path, _)| !path.ends_with("Cargo.lock") && !path.ends_with("LICENSE"))
        .filter_map(|(path, text)| {
            let at = text.lines().position(|line| forbidden.iter().any(|place| line.contains(place)))?;
            Some(format!("{}:{}", path.display(), at + 1))
        })
        .collect();
    assert_none("absolute paths of one machine", &bad);
}

#[test]
fn every_page_of_the_book_holds_together() {
    let tree = tree();
    let symptoms = symptoms(&tree);
    let findings: Vec<String> = tree
        .iter()
        .filter(|(path, _)| path.starts_with("book/src") && path.extension().is_some_and(|e| e == "md"))
        .flat_map(|(path, text)| {
            let template = if is_chapter(path) { check_chapter(path, text, &symptoms) } else { Vec::new() };
            check_page(path, text, &tree).into_iter().chain(template)
        })
        .map(|Finding { page, line, message }| format!("{}:{line}: {message}", page.display()))
        .collect();
    assert_none("pages of the book", &findings);
}

#[test]
fn what_is_said_about_a_chapter_agrees_with_the_chapter_the_sources_and_the_labs() {
    let tree = tree();
    let summary = &tree[Path::new("book/src/SUMMARY.md")];
    let pages = console::reading_order(summary).into_iter().map(|page| Path::new("book/src").join(page));
    let (mut before, mut findings) = (Vec::new(), Vec::new());
    for page in pages.filter(|page| is_chapter(page)) {
        findings.extend(front_matter::check(&page, &tree[&page], &tree, &before));
        let known = tree.get(&front_matter::beside(&page)).and_then(|text| front_matter::parse(text).ok());
        before.extend(known.map(|matter| matter.id));
    }
    let findings: Vec<String> =
        findings.iter().map(|found| format!("{}: {}", found.page.display(), found.message)).collect();
    assert_none("front matter", &findings);
    assert!(before.len() >= 18, "three chapters a stage: {before:?}");
    for stage in 1..=6 {
        let chapters = before.iter().filter(|id| id.starts_with(&format!("s{stage}-"))).count();
        assert!(chapters >= 3, "stage {stage} has {chapters} chapters");
    }
}

#[test]
fn the_triage_page_leads_to_every_lab_that_there_is_and_to_no_other() {
    let tree = tree();
    let page = &tree[Path::new("book/src/triage.md")];
    let (_, part) = page.split_once("\n## Which lab?\n").unwrap();
    let part = part.split("\n## ").next().unwrap();
    let started: std::collections::BTreeSet<&str> =
        part.split("`labs start ").skip(1).filter_map(|rest| rest.split('`').next()).collect();
    let known = symptoms(&tree);
    assert_eq!(started, known.iter().map(String::as_str).collect(), "symptoms");
    let ids: Vec<&str> = tree
        .keys()
        .filter(|path| path.starts_with("labs/catalog") && path.extension().is_some_and(|e| e == "yaml"))
        .filter_map(|path| path.file_stem()?.to_str())
        .filter(|id| !id.starts_with('0'))
        .collect();
    let (last, first) = ids.split_last().unwrap();
    let list = format!("today: {} and {last}.", first.join(", "));
    assert!(part.contains(&list), "{list}");
}

#[test]
fn the_recording_points_to_lines_that_record_steps() {
    let tree = tree();
    let file = Path::new(story::RECORDING_FILE);
    let stale = story::stale(&tree[file], &|path| tree.get(path).cloned());
    if std::env::var_os("STAGES_BLESS").is_some() {
        let mut text = tree[file].clone();
        for (old, new) in stale.iter().filter_map(|(old, new)| Some((old, new.as_ref()?))) {
            text = text.replace(&format!("\"{old}\""), &format!("\"{new}\""));
        }
        std::fs::write(root().join(file), text).unwrap();
        return;
    }
    let moved: Vec<String> = stale.iter().map(|(old, new)| format!("{old}, now {new:?}")).collect();
    assert_none(
        "places that record nothing any more: run STAGES_BLESS=1 cargo test -p labs --test tidy",
        &moved,
    );
}

#[test]
fn every_page_is_in_the_summary() {
    let tree = tree();
    let listed = labs::book::console::reading_order(&tree[Path::new("book/src/SUMMARY.md")]);
    let bad: Vec<String> = tree
        .keys()
        .filter_map(|path| path.strip_prefix("book/src").ok())
        .filter(|page| page.extension().is_some_and(|e| e == "md") && *page != Path::new("SUMMARY.md"))
        .filter(|page| !listed.iter().any(|name| Path::new(name) == *page))
        .map(|page| page.display().to_string())
        .collect();
    assert_none("pages that nobody would find", &bad);
}

#[test]
fn the_appendices_and_traces_say_what_they_are_made_from() {
    let tree = tree();
    let made = appendix::pages(&tree).map(|(path, page)| (path.to_owned(), page));
    for (path, page) in made.into_iter().chain(story::traces()) {
        if std::env::var_os("STAGES_BLESS").is_some() {
            std::fs::create_dir_all(root().join(&path).parent().unwrap()).unwrap();
            std::fs::write(root().join(&path), &page).unwrap();
            continue;
        }
        let committed = tree.get(Path::new(&path)).map_or("", String::as_str);
        let stale = committed.lines().zip(page.lines()).position(|(old, new)| old != new);
        assert!(
            committed == page,
            "{path} is stale from line {:?} on: run STAGES_BLESS=1 cargo test -p labs --test tidy",
            stale.map(|at| at + 1)
        );
    }
}
