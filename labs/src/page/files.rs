//! Files: what of the disk may be shown.
//!
//! Two places only: the book's source (pages and pictures) and the crates' Rust sources (the lines that decided a step). A name is
//! checked as text, and what it leads to is checked again on the disk, because a link inside could lead out.
//!
//! # Invariants
//! 1. Nothing outside the two places is read, whatever the name or a link says.
//! 2. No file larger than [`MAX_BYTES`] is read.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes; the API server's `/logs` guards its directory in the same way.
#![expect(clippy::disallowed_methods, reason = "shell: reads the book and the sources")]

use std::path::{Component, Path, PathBuf};

use serde::Serialize;

/// Larger files are not shown.
pub const MAX_BYTES: u64 = 4 << 20;
/// Lines shown before and behind the one that decided.
pub const AROUND: usize = 8;

/// The repository.
#[derive(Debug, Clone)]
pub struct Repository {
    root: PathBuf,
}

/// A line of the source and those around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Excerpt {
    /// The file, from the repository.
    pub path: String,
    /// The line that decided, from 1.
    pub line: usize,
    /// The number of the first line shown.
    pub first: usize,
    /// The lines.
    pub lines: Vec<String>,
}

/// Reads `stage4-scheduler/src/binding_cycle.rs:84`.
#[must_use]
pub fn place(at: &str) -> Option<(&Path, usize)> {
    let (path, line) = at.rsplit_once(':')?;
    let path = Path::new(path);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let mut parts = path.components().filter_map(|part| part.as_os_str().to_str());
    let krate = parts.next().is_some_and(|krate| krate == "labs" || krate.starts_with("stage"));
    let source = parts.next() == Some("src") && path.extension().is_some_and(|extension| extension == "rs");
    let line = line.parse().ok().filter(|line| *line > 0)?;
    (plain && krate && source).then_some((path, line))
}

/// Cuts a line and those around it.
#[must_use]
pub fn excerpt(path: &Path, text: &str, line: usize) -> Option<Excerpt> {
    let first = line.saturating_sub(AROUND).max(1);
    let lines: Vec<String> =
        text.lines().take(line.saturating_add(AROUND)).skip(first - 1).map(str::to_owned).collect();
    (first + lines.len() > line).then(|| Excerpt { path: path.display().to_string(), line, first, lines })
}

impl Repository {
    /// The given one, else where this program was built, else the working directory.
    ///
    /// # Errors
    /// There is no book there.
    pub fn find(given: Option<&Path>) -> anyhow::Result<Self> {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned);
        let here = std::env::current_dir().ok();
        let places = match given {
            Some(given) => vec![given.to_owned()],
            None => built.into_iter().chain(here).collect(),
        };
        let found = places.iter().find(|place| place.join("book/src/SUMMARY.md").is_file());
        let Some(root) = found else {
            let names: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            anyhow::bail!(
                "no book/src/SUMMARY.md in {}: name the repository with --repository",
                names.join(" or ")
            );
        };
        Ok(Self { root: root.canonicalize()? })
    }

    /// A page or picture of the book, by its path in the book's source.
    #[must_use]
    pub fn book(&self, path: &str) -> Option<Vec<u8>> {
        self.read(&self.root.join("book/src"), Path::new(path))
    }

    /// A text that a page includes, by its path from the repository: Rust source, or a file of the book.
    #[must_use]
    pub fn include(&self, path: &Path) -> Option<String> {
        String::from_utf8(self.read(&self.root, path)?).ok()
    }

    /// The lines around a place.
    #[must_use]
    pub fn excerpt(&self, at: &str) -> Option<Excerpt> {
        let (path, line) = place(at)?;
        excerpt(path, &self.include(path)?, line)
    }

    fn read(&self, within: &Path, path: &Path) -> Option<Vec<u8>> {
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return None;
        }
        let real = within.join(path).canonicalize().ok()?;
        let small = std::fs::metadata(&real).is_ok_and(|file| file.is_file() && file.len() <= MAX_BYTES);
        let allowed = real.starts_with(within.canonicalize().ok()?) && self.shows(&real);
        (allowed && small).then(|| std::fs::read(&real).ok())?
    }

    /// Whether a file, links followed, is a source or a part of the book: not `.git`, not what was built.
    fn shows(&self, real: &Path) -> bool {
        let Ok(path) = real.strip_prefix(&self.root) else { return false };
        let mut parts = path.components().filter_map(|part| part.as_os_str().to_str());
        let folder = parts.next().unwrap_or_default();
        let known = matches!(folder, "book" | "labs" | "exercises") || folder.starts_with("stage");
        known && parts.all(|part| !part.starts_with('.') && part != "target")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rust_sources_of_our_crates_are_places() {
        assert_eq!(
            place("stage4-scheduler/src/a/b.rs:84"),
            Some((Path::new("stage4-scheduler/src/a/b.rs"), 84))
        );
        for bad in [
            "",
            "stage4-scheduler/src/b.rs",
            "stage4-scheduler/src/b.rs:0",
            "stage4-scheduler/src/../../secret.rs:1",
            "/etc/stage/src/x.rs:1",
            "../stage1-kubectl/src/lib.rs:1",
            "stage1-kubectl/Cargo.toml:1",
            "other/src/lib.rs:1",
            "stage1-kubectl/src/../src/lib.rs:1",
        ] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_excerpt_has_eight_lines_on_each_side_where_there_are_some() {
        let text: String = (1..=30).map(|line| format!("line {line}\n")).collect();
        let cut = |line| excerpt(Path::new("x.rs"), &text, line);
        let middle = cut(20).unwrap();
        assert_eq!((middle.first, middle.lines.len(), middle.lines[8].as_str()), (12, 17, "line 20"));
        assert_eq!((cut(1).unwrap().first, cut(1).unwrap().lines.len()), (1, 9));
        assert_eq!(cut(30).unwrap().lines.last().unwrap(), "line 30");
        assert_eq!(cut(31), None);
    }

    #[test]
    fn a_link_that_leads_out_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("repository");
        std::fs::create_dir_all(root.join("book/src")).unwrap();
        std::fs::write(root.join("book/src/SUMMARY.md"), "# Summary\n").unwrap();
        std::fs::write(dir.path().join("secret.md"), "secret").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret.md"), root.join("book/src/link.md")).unwrap();
        let repository = Repository::find(Some(&root)).unwrap();
        assert_eq!(repository.book("SUMMARY.md").as_deref(), Some(&b"# Summary\n"[..]));
        for path in ["link.md", "../../../secret.md", "/etc/passwd", "none.md"] {
            assert_eq!(repository.book(path), None, "{path}");
        }
        assert!(Repository::find(Some(dir.path())).unwrap_err().to_string().contains("--repository"));
    }

    #[test]
    fn a_link_leads_nowhere_that_isnt_shown_and_a_line_out_of_reach_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let make = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        make("book/src/SUMMARY.md", "# Summary\n");
        make("stage1-x/src/a.rs", "one\ntwo\n");
        make(".git/config", "secret");
        make("stage1-x/target/b.rs", "built");
        std::os::unix::fs::symlink("../../.git/config", dir.path().join("stage1-x/src/git.rs")).unwrap();
        std::os::unix::fs::symlink("../target/b.rs", dir.path().join("stage1-x/src/built.rs")).unwrap();
        let repository = Repository::find(Some(dir.path())).unwrap();
        assert_eq!(repository.excerpt("stage1-x/src/a.rs:2").unwrap().lines, ["one", "two"]);
        for hidden in ["stage1-x/src/git.rs:1", "stage1-x/src/built.rs:1"] {
            assert_eq!(repository.excerpt(hidden), None, "{hidden}");
        }
        assert_eq!(repository.include(Path::new(".git/config")), None);
        assert_eq!(repository.excerpt(&format!("stage1-x/src/a.rs:{}", usize::MAX)), None);
    }
}
