//! Appendices: what the module docs say of Kubernetes, collected.
//!
//! Every module ends its story with `# In Kubernetes`: the file that does this in Kubernetes, and what was left out here. Two pages of the
//! book are nothing but these sections: the map of files, and the list of what is missing. They are made, never
//! written, and a test compares the committed pages with the docs of today.
//!
//! # Invariants
//! 1. Same sources, same pages.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::fmt::Write as _;
use std::path::Path;

use super::Tree;

/// The generated pages: path in the repository, and text.
#[must_use]
pub fn pages(tree: &Tree) -> [(&'static str, String); 2] {
    [("book/src/source-map.md", source_map(tree)), ("book/src/left-out.md", left_out(tree))]
}

const MADE: &str =
    "<!-- Made from module docs: run `STAGES_BLESS=1 cargo test -p labs --test tidy`, don't edit. -->\n";

/// Which file of Kubernetes does what this file does.
#[must_use]
pub fn source_map(tree: &Tree) -> String {
    let mut page = format!(
        "# From Kubernetes' files to ours\n\n{MADE}\nWhere to look in Kubernetes, by our file. Paths are below `kubernetes/kubernetes`, unless they say otherwise.\n"
    );
    each_stage(tree, &mut page, "| ours | in Kubernetes |\n|---|---|\n", |counterpart| {
        let (text, _) = split(counterpart);
        (!text.is_empty()).then_some(text)
    });
    page
}

/// What is not here.
#[must_use]
pub fn left_out(tree: &Tree) -> String {
    let mut page = format!(
        "# What we left out\n\n{MADE}\nWhat Kubernetes has and this does not, by the file where it would be.\n"
    );
    each_stage(tree, &mut page, "| file | left out |\n|---|---|\n", |counterpart| split(counterpart).1);
    page
}

fn each_stage(tree: &Tree, page: &mut String, head: &str, cell: impl Fn(&str) -> Option<String>) {
    let mut stage = "";
    for (path, text) in tree {
        let Some((name, _)) = in_source(path) else { continue };
        let Some(cell) = counterpart(text).and_then(|text| cell(&text)) else { continue };
        if name != stage {
            let _ = write!(page, "\n## {name}\n\n{head}");
            stage = name;
        }
        let file = path.strip_prefix(Path::new(name).join("src")).unwrap_or(path);
        let _ = writeln!(page, "| `{}` | {} |", file.display(), cell.replace('|', "\\|"));
    }
}

/// The crate of a source file that is no test.
fn in_source(path: &Path) -> Option<(&str, &Path)> {
    let mut parts = path.components();
    let name = parts.next()?.as_os_str().to_str()?;
    let source = parts.next()?.as_os_str() == "src" && path.extension().is_some_and(|e| e == "rs");
    let test = path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests");
    (name.starts_with("stage") && source && !test).then_some((name, parts.as_path()))
}

/// The section `# In Kubernetes` of a module doc, as one line.
fn counterpart(text: &str) -> Option<String> {
    let doc = text.lines().map_while(|line| line.strip_prefix("//!"));
    let section = doc.skip_while(|line| line.trim() != "# In Kubernetes").skip(1);
    let lines: Vec<&str> = section
        .map(str::trim)
        .take_while(|line| !line.starts_with('#'))
        .filter(|line| !line.is_empty())
        .collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// Where it is, and what is left out.
fn split(counterpart: &str) -> (String, Option<String>) {
    match counterpart.split_once("Left out") {
        None => (counterpart.trim().to_owned(), None),
        Some((place, rest)) => {
            let out = rest.trim_start_matches(|c: char| c != ':' && c != ' ').trim_start_matches([':', ' ']);
            (place.trim().to_owned(), (!out.is_empty()).then(|| capital(out)))
        }
    }
}

fn capital(text: &str) -> String {
    let mut signs = text.trim().chars();
    let first = signs.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", signs.as_str())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn sections_become_rows_and_tests_are_no_sources() {
        let doc = "//! Title.\n//!\n//! # In Kubernetes\n//! `pkg/a.go`,\n//! `b.go`. Left out: cats | dogs.\n\nuse x;\n";
        let tree = Tree::from([
            (PathBuf::from("stage1-kubectl/src/a.rs"), doc.to_owned()),
            (PathBuf::from("stage1-kubectl/src/a/tests.rs"), doc.to_owned()),
            (
                PathBuf::from("stage1-kubectl/src/b.rs"),
                "//! B.\n//!\n//! # In Kubernetes\n//! Nothing.\n".to_owned(),
            ),
            (PathBuf::from("labs/src/c.rs"), doc.to_owned()),
        ]);
        let map = source_map(&tree);
        assert!(
            map.ends_with("|---|---|\n| `a.rs` | `pkg/a.go`, `b.go`. |\n| `b.rs` | Nothing. |\n"),
            "{map}"
        );
        let out = left_out(&tree);
        assert!(
            out.ends_with(
                "## stage1-kubectl\n\n| file | left out |\n|---|---|\n| `a.rs` | Cats \\| dogs. |\n"
            ),
            "{out}"
        );
    }
}
