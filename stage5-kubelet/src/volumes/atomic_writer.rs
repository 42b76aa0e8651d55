//! The atomic writer: a whole set of files changes in one moment.
//!
//! *Step 5 of a pod's journey.* Before: [`super::payload`] computed the files. After: containers see all of the new ones, or all of the old ones.
//!
//! The files go into a folder with a fresh name; `..data` is a link to it, and what users see are links through `..data`. Renaming
//! a new link over `..data` is the one step that the kernel makes atomic.
//!
//! # Invariants
//! 1. A reader never sees files of two versions.
//! 2. Equal content is not written again.
//! 3. No path of the payload leaves the folder.
//!
//! # In Kubernetes
//! `pkg/volume/util/atomic_writer.go`.
#![expect(clippy::disallowed_methods, reason = "shell: writes files")]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Component, Path, PathBuf};

use super::payload::Payload;

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";

/// Group and permissions that `fsGroup` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// `securityContext.fsGroup`.
    pub fs_group: Option<u32>,
}

/// Writes `payload` below `target`; `version` names the new folder (a time and a random part).
///
/// # Errors
/// The disk refuses, or a path is not relative and clean.
pub fn write(target: &Path, payload: &Payload, version: &str, owner: Ownership) -> io::Result<bool> {
    for path in payload.keys() {
        check_path(path)?;
    }
    let link = target.join(DATA);
    let old = fs::read_link(&link).ok();
    if let Some(old) = &old
        && same_content(&target.join(old), payload)
    {
        return Ok(false);
    }
    let fresh = format!("..{version}");
    let dir = target.join(&fresh);
    make_dir(&dir, owner)?;
    for (path, file) in payload {
        let full = dir.join(path);
        make_parents(&dir, path, owner)?;
        fs::write(&full, &file.data)?;
        // With a group that reads, the file must be readable for it.
        let mode = if owner.fs_group.is_some() { file.mode | 0o440 } else { file.mode };
        chown(&full, file.owner, owner.fs_group)?;
        fs::set_permissions(&full, fs::Permissions::from_mode(mode))?;
    }
    let temporary = target.join(NEW_DATA);
    let _ = fs::remove_file(&temporary);
    symlink(&fresh, &temporary)?;
    lchown(&temporary, None, owner.fs_group)?;
    fs::rename(&temporary, &link)?;
    update_links(target, payload, owner)?;
    if let Some(old) = old {
        // Readers that opened a file of the old version keep it.
        let _ = fs::remove_dir_all(target.join(old));
    }
    Ok(true)
}

fn check_path(path: &str) -> io::Result<()> {
    let clean = Path::new(path).components().all(|c| matches!(c, Component::Normal(_)));
    let first = path.split('/').next().unwrap_or_default();
    if path.is_empty() || !clean || first.starts_with("..") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("invalid path {path:?} in volume")));
    }
    Ok(())
}

fn make_dir(dir: &Path, owner: Ownership) -> io::Result<()> {
    fs::create_dir(dir)?;
    chown(dir, None, owner.fs_group)?;
    let mode = if owner.fs_group.is_some() { 0o2755 } else { 0o755 };
    fs::set_permissions(dir, fs::Permissions::from_mode(mode))
}

fn make_parents(root: &Path, path: &str, owner: Ownership) -> io::Result<()> {
    let mut dir = root.to_path_buf();
    for part in Path::new(path).parent().into_iter().flat_map(Path::components) {
        dir.push(part);
        if !dir.is_dir() {
            make_dir(&dir, owner)?;
        }
    }
    Ok(())
}

fn same_content(dir: &Path, payload: &Payload) -> bool {
    let mut found = BTreeSet::new();
    collect(dir, &mut PathBuf::new(), &mut found);
    found.len() == payload.len()
        && payload.iter().all(|(path, file)| {
            found.contains(path.as_str()) && fs::read(dir.join(path)).is_ok_and(|data| data == file.data)
        })
}

fn collect(root: &Path, below: &mut PathBuf, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(root.join(&*below)).into_iter().flatten().flatten() {
        below.push(entry.file_name());
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            collect(root, below, found);
        } else {
            found.insert(below.display().to_string());
        }
        below.pop();
    }
}

/// One link for each first part of a path; links to what is gone are removed.
fn update_links(target: &Path, payload: &Payload, owner: Ownership) -> io::Result<()> {
    let wanted: BTreeSet<&str> = payload.keys().filter_map(|p| p.split('/').next()).collect();
    for name in &wanted {
        let link = target.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(DATA).join(name), &link)?;
            lchown(&link, None, owner.fs_group)?;
        }
    }
    for entry in fs::read_dir(target)?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !wanted.contains(&*name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::payload::File;
    use super::*;

    fn payload(files: &[(&str, &str)]) -> Payload {
        files
            .iter()
            .map(|(p, d)| ((*p).to_owned(), File { data: d.as_bytes().to_vec(), mode: 0o644, owner: None }))
            .collect()
    }

    #[test]
    fn an_update_replaces_everything_at_once_and_equal_content_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let write = |files: &[(&str, &str)], v: &str| {
            write(dir.path(), &payload(files), v, Ownership::default()).unwrap()
        };
        assert!(write(&[("a", "1"), ("d/b", "2")], "v1"));
        assert_eq!(fs::read_to_string(dir.path().join("d/b")).unwrap(), "2");
        assert!(!write(&[("a", "1"), ("d/b", "2")], "v2"));
        assert!(write(&[("a", "3")], "v3"));
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "3");
        let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["..data", "..v3", "a"]);
    }

    #[test]
    fn paths_out_of_the_volume_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["../x", "/x", "a/../../x", "", "..x"] {
            assert!(
                write(dir.path(), &payload(&[(path, "1")]), "v", Ownership::default()).is_err(),
                "{path}"
            );
        }
    }
}
