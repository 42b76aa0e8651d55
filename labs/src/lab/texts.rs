//! What the labs and exercises say: the sentences of verdicts, probes, tables and refusals.
//!
//! They stand in `labs/catalog/texts/en.json`; the texts of a single lab (the page, its hints, its debrief) stand in the lab's own file.
//! A verdict is a word of a closed list with a sentence about what was seen; the sentence is looked up here and tested against
//! fixtures where the verdict is made.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::sync::LazyLock;

use crate::texts::{Texts, Values};

static ENGLISH: LazyLock<Texts> =
    LazyLock::new(|| Texts::of_file(include_str!("../../catalog/texts/en.json")));

/// A sentence, with its places filled in.
pub(crate) fn say(key: &str, values: Values<'_>) -> String {
    ENGLISH.say(key, values)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "test: reads and writes files")]
mod tests {
    use std::path::Path;

    use super::*;

    /// The code of labs and exercises, without its tests.
    fn code() -> String {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut dirs = vec![src.join("lab")];
        let mut text = String::new();
        for file in ["exercises.rs", "exercises/experiments.rs", "page/desk.rs"] {
            text.push_str(&std::fs::read_to_string(src.join(file)).unwrap());
        }
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap().flatten() {
                let path = entry.path();
                match path.is_dir() {
                    true => dirs.push(path),
                    false if path.ends_with("tests.rs") || path.ends_with("texts.rs") => {}
                    false => text.push_str(&std::fs::read_to_string(path).unwrap()),
                }
            }
        }
        text
    }

    #[test]
    fn every_sentence_that_is_asked_for_is_there_and_every_one_there_is_asked_for() {
        let code = code();
        let asked =
            regex::Regex::new(r#"(?:\bsay|\bhead|Ruling::new)\(\s*(?:Verdict::\w+,\s*)?"([a-z.-]+)""#)
                .unwrap();
        let asked: Vec<&str> =
            asked.captures_iter(&code).map(|found| found.get(1).unwrap().as_str()).collect();
        assert!(asked.len() > 40, "{asked:?}");
        let missing: Vec<&&str> = asked.iter().filter(|key| ENGLISH.get(key).is_none()).collect();
        assert!(missing.is_empty(), "asked for, but not in en.json: {missing:?}");
        let idle: Vec<&str> = ENGLISH.keys().filter(|key| !code.contains(&format!("\"{key}\""))).collect();
        assert!(idle.is_empty(), "in en.json, but asked for nowhere: {idle:?}");
    }
}
