//! Front matter: what the book knows about a chapter, beside the chapter.
//!
//! Each chapter has a file of its own name that ends in `.yaml`: outcomes, what must be read before, how long it takes, the file of Kubernetes
//! that does the same, the labs, the task, and for each question where its answer comes from. Nothing of it may contradict
//! the page, the sources or the labs: whatever can be compared is compared here.
//!
//! A question's key is `computed` (a test runs the stage and gets these very words, see `labs/tests/answers`), `run` (the folded answer holds
//! commands that the test of the book types) or `fixed`, with a reason why nothing computes it.
//!
//! # Invariants
//! 1. A chapter needs only chapters that stand before it.
//! 2. What is red before a task is what the task's checks are called.
//! 3. What an experiment changes stands in its file, once: the change can be made.
//! 4. Minutes to read lie near what the page's length gives, minutes for labs are the labs' own.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::chapter::{Part, labs_of, parts_of};
use super::{Finding, Tree};

/// A chapter's file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontMatter {
    /// Stable for ever: `s4-refusal`.
    pub id: String,
    /// 1 to 6.
    pub stage: u8,
    /// The crate that it is about.
    #[serde(rename = "crate")]
    pub krate: String,
    /// How long it takes.
    pub minutes: Minutes,
    /// The object whose way is followed, from the repository.
    pub story: String,
    /// What a reader can do afterwards, as the page says it.
    pub outcomes: Vec<String>,
    /// Ids of the chapters to read before.
    pub needs: Vec<String>,
    /// The one that does this in Kubernetes.
    pub real_counterpart: Counterpart,
    /// Where the page says what is missing.
    pub left_out: String,
    /// Something to write or to change.
    pub task: Task,
    /// Words of steps, events or conditions that the crate says and a reader sees.
    pub see_it: Vec<String>,
    /// The labs, by symptom.
    pub break_it: Vec<String>,
    /// Where the answer of "Predict before you run" comes from.
    pub predict: Question,
    /// Where the answer of the quiz comes from.
    pub quiz: Question,
}

/// Minutes; `measured` counts the readers that they were measured with; 0: computed from the page's length and the labs' files, or guessed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Minutes {
    /// To read.
    pub read: u32,
    /// For the task.
    pub task: u32,
    /// For the labs: of each symptom the longest.
    pub lab: u32,
    /// Readers.
    pub measured: u32,
}

/// A file of Kubernetes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counterpart {
    /// `kubernetes/kubernetes`.
    pub repo: String,
    /// Its path.
    pub path: String,
    /// A name in it; empty: the file as a whole.
    #[serde(default)]
    pub symbol: String,
    /// The version that was looked at.
    pub checked_at: String,
}

/// What to write, and what is red before.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// A crate of `exercises/`; without one the task is an experiment with the source.
    #[serde(default)]
    pub exercise: Option<String>,
    /// Files to edit.
    pub files_to_edit: Vec<String>,
    /// Tests that fail: before the exercise, or with the experiment.
    pub expected_red: Vec<String>,
    /// The experiment itself: what to change in the first file.
    #[serde(default)]
    pub change: Vec<Change>,
}

/// A change of a source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// What stands there, once.
    pub from: String,
    /// What stands there then.
    pub to: String,
}

/// Where an answer comes from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Which of the three.
    pub key: Key,
    /// The computed words, each of which the folded answer contains.
    #[serde(default)]
    pub answer: Vec<String>,
    /// Why it is fixed.
    #[serde(default)]
    pub why: String,
}

/// A kind of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Key {
    /// A test runs the stage.
    Computed,
    /// Commands in the answer are typed.
    Run,
    /// Neither can be.
    Fixed,
}

/// What is known of the labs with one symptom.
#[derive(Debug, Clone, Copy, Default)]
pub struct LabFacts {
    easy: bool,
    twin: bool,
    minutes: u32,
}

/// The symptoms of the catalogue.
#[must_use]
pub fn lab_facts(tree: &Tree) -> BTreeMap<String, LabFacts> {
    let mut facts: BTreeMap<String, LabFacts> = BTreeMap::new();
    for (_, text) in tree.iter().filter(|(path, _)| path.starts_with("labs/catalog")) {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let Some(symptom) = value("symptom: ") else { continue };
        let control = text.contains("\n  stage: 0\n");
        let known = facts.entry(symptom.to_owned()).or_default();
        known.easy |= !control && value("difficulty: ").is_some_and(|stars| matches!(stars, "1" | "2"));
        known.twin |= value("twin: ").is_some();
        let minutes = value("minutes: ").and_then(|minutes| minutes.parse().ok()).unwrap_or(0);
        known.minutes = known.minutes.max(if control { 0 } else { minutes });
    }
    facts
}

/// The file beside a chapter.
#[must_use]
pub fn beside(page: &Path) -> PathBuf {
    page.with_extension("yaml")
}

/// Reads a chapter's file.
///
/// # Errors
/// In words.
pub fn parse(text: &str) -> Result<FrontMatter, String> {
    let documents = stage1_kubectl::manifest::documents(text, "front matter").map_err(|e| e.to_string())?;
    let [document] = <[_; 1]>::try_from(documents).map_err(|_| "one document is expected".to_owned())?;
    serde_json::from_value(document).map_err(|error| error.to_string())
}

/// Compares a chapter's file with everything that it speaks of. `before` are the ids of the chapters that stand before it.
#[must_use]
pub fn check(page: &Path, text: &str, tree: &Tree, before: &[String]) -> Vec<Finding> {
    let path = beside(page);
    let finding = |message: String| Finding { page: path.clone(), line: 1, message };
    let Some(yaml) = tree.get(&path) else { return vec![finding("the chapter has no front matter".into())] };
    let matter = match parse(yaml) {
        Ok(matter) => matter,
        Err(error) => return vec![finding(error)],
    };
    let parts = parts_of(text);
    let mut found = Vec::new();
    let mut demand = |holds: bool, message: String| {
        if !holds {
            found.push(message);
        }
    };
    place(page, &matter, before, &mut demand);
    reading(&matter, super::reading::minutes(page, text, tree), &mut demand);
    contents(&matter, &parts, tree, &mut demand);
    task(&matter, &part(&parts, "Your turn"), tree, &mut demand);
    for (name, question) in [("Predict before you run", &matter.predict), ("Quiz", &matter.quiz)] {
        asked(name, question, &part(&parts, name), &mut demand);
    }
    found.into_iter().map(finding).collect()
}

type Demand<'a> = &'a mut dyn FnMut(bool, String);

fn part(parts: &[Part<'_>], name: &str) -> String {
    parts.iter().find(|part| part.name == name).map(|part| part.lines.join("\n")).unwrap_or_default()
}

fn place(page: &Path, matter: &FrontMatter, before: &[String], demand: Demand<'_>) {
    let stage = format!("stage{}", matter.stage);
    let beside = page.strip_prefix("book/src").unwrap_or(page).to_string_lossy().starts_with(&stage);
    demand(beside, format!("stage {} is not where the page stands", matter.stage));
    demand(matter.krate.starts_with(&stage), format!("crate {} is not of {stage}", matter.krate));
    demand(
        matter.id.starts_with(&format!("s{}-", matter.stage)),
        format!("id {} is not of {stage}", matter.id),
    );
    demand(!before.contains(&matter.id), format!("id {} is taken", matter.id));
    for need in matter.needs.iter().filter(|need| !before.contains(need)) {
        demand(false, format!("needs {need}, which no earlier chapter is"));
    }
    let minutes = &matter.minutes;
    demand(minutes.read > 0 && minutes.task > 0 && minutes.lab > 0, "minutes must be more than 0".into());
}

fn reading(matter: &FrontMatter, computed: usize, demand: Demand<'_>) {
    let said = matter.minutes.read as usize;
    let near = said.abs_diff(computed) <= (computed / 3).max(5);
    demand(near, format!("read: {said} minutes, but the page's length gives {computed}"));
}

fn contents(matter: &FrontMatter, parts: &[Part<'_>], tree: &Tree, demand: Demand<'_>) {
    let outcomes: Vec<String> = part(parts, "You will be able to")
        .lines()
        .filter_map(|line| line.strip_prefix("- "))
        .map(|line| line.trim_end_matches([';', '.']).to_owned())
        .collect();
    demand(outcomes == matter.outcomes, format!("outcomes are not those of the page: {outcomes:?}"));
    let story = Path::new(&matter.story);
    demand(tree.contains_key(story), format!("story: there is no {}", matter.story));
    let before = part(parts, "Before this stage");
    demand(before.contains(&matter.story), format!("\"Before this stage\" doesn't include {}", matter.story));
    let trace = format!("traces/stage{}.txt}}}}", matter.stage);
    demand(before.contains(&trace), format!("\"Before this stage\" doesn't include {trace}"));
    let (real, counterpart) = (part(parts, "Read the real one"), &matter.real_counterpart);
    demand(
        real.contains(&format!("`{}`", counterpart.path)),
        format!("the page doesn't name {}", counterpart.path),
    );
    let symbol = counterpart.symbol.is_empty() || real.contains(&format!("`{}`", counterpart.symbol));
    demand(symbol, format!("the page doesn't name {}", counterpart.symbol));
    let left_out = part(parts, "What we left out").contains(&format!("({})", matter.left_out));
    demand(left_out, format!("\"What we left out\" doesn't lead to {}", matter.left_out));
    for word in matter.see_it.iter().filter(|word| !says(&matter.krate, word, tree)) {
        demand(false, format!("see_it: nothing in {} says {word:?}", matter.krate));
    }
    demand(!matter.see_it.is_empty(), "see_it is empty".into());
    let break_it = part(parts, "Break it");
    let named: Vec<&str> = labs_of(&break_it).collect();
    demand(named == matter.break_it, format!("break_it is not what the page starts: {named:?}"));
    let facts = lab_facts(tree);
    let of = |has: fn(&LabFacts) -> bool| matter.break_it.iter().any(|lab| facts.get(lab).is_some_and(has));
    demand(of(|facts| facts.easy), "break_it has no easy lab".into());
    demand(of(|facts| facts.twin), "break_it has no lab with a look-alike".into());
    let take =
        matter.break_it.iter().filter_map(|lab| facts.get(lab)).map(|facts| facts.minutes).sum::<u32>();
    demand(take == matter.minutes.lab, format!("lab: the labs of break_it take {take} minutes"));
}

/// Whether a crate's source says a word.
fn says(krate: &str, word: &str, tree: &Tree) -> bool {
    let source = Path::new(krate).join("src");
    tree.iter()
        .any(|(path, text)| path.starts_with(&source) && !path.ends_with("tests.rs") && text.contains(word))
}

fn task(matter: &FrontMatter, page: &str, tree: &Tree, demand: Demand<'_>) {
    let task = &matter.task;
    for file in &task.files_to_edit {
        demand(tree.contains_key(Path::new(file)), format!("task: there is no {file}"));
        demand(page.contains(file), format!("\"Your turn\" doesn't name {file}"));
    }
    demand(!task.files_to_edit.is_empty() && !task.expected_red.is_empty(), "the task is empty".into());
    for red in task.expected_red.iter().filter(|red| !page.contains(&format!("`{red}`"))) {
        demand(false, format!("\"Your turn\" doesn't name {red}"));
    }
    match &task.exercise {
        Some(name) => {
            demand(task.change.is_empty(), "an exercise changes nothing".into());
            let checks = tree.get(&Path::new("exercises").join(name).join("tests/check.rs"));
            let mut checks = checks.map(|text| tests_in(text)).unwrap_or_default();
            checks.retain(|check| check != "the_starter_fails_every_check");
            demand(
                checks == task.expected_red,
                format!("expected_red is not what {name} checks: {checks:?}"),
            );
            demand(
                page.contains(&format!("exercises run {name}")),
                format!("\"Your turn\" doesn't run {name}"),
            );
        }
        None => {
            experiment(task, tree, demand);
            let there = |test: &String| {
                tree.iter().any(|(path, text)| {
                    path.starts_with(&matter.krate) && text.contains(&format!("fn {test}("))
                })
            };
            for test in task.expected_red.iter().filter(|test| !there(test)) {
                demand(false, format!("expected_red: {} has no test {test}", matter.krate));
            }
        }
    }
}

fn experiment(task: &Task, tree: &Tree, demand: Demand<'_>) {
    let file = task.files_to_edit.first().map(PathBuf::from).unwrap_or_default();
    let source = tree.get(&file).map_or("", String::as_str);
    demand(!task.change.is_empty(), "the experiment doesn't say what it changes".into());
    for Change { from, to } in &task.change {
        let times = source.matches(from.as_str()).count();
        demand(times == 1, format!("change: {from:?} stands {times} times in {}", file.display()));
        demand(from != to, format!("change: {from:?} stays as it is"));
    }
}

/// Names of the tests of a file.
pub(super) fn tests_in(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let after = lines.windows(2).filter(|pair| pair[0].trim() == "#[test]").map(|pair| pair[1]);
    after.filter_map(|line| line.trim().strip_prefix("fn ")?.split('(').next()).map(str::to_owned).collect()
}

fn asked(name: &str, question: &Question, page: &str, demand: Demand<'_>) {
    let folded = page.split_once("<details>").map(|(_, folded)| folded).unwrap_or_default();
    demand(!folded.is_empty(), format!("{name:?} has no folded answer"));
    match question.key {
        Key::Computed => {
            demand(!question.answer.is_empty(), format!("{name:?} is computed and has no answer"));
            for word in question.answer.iter().filter(|word| !folded.contains(word.as_str())) {
                demand(false, format!("the answer of {name:?} doesn't say {word:?}"));
            }
        }
        Key::Run => {
            let typed = !super::console::steps(folded).is_empty();
            demand(typed, format!("{name:?} is run, but its answer has no command"));
        }
        Key::Fixed => demand(!question.why.is_empty(), format!("{name:?} is fixed without a reason")),
    }
}

#[cfg(test)]
mod tests;
