//! The archive between the two sides of `cp`: packed here, or unpacked with suspicion.
//!
//! # Invariants
//! 1. Unpacking writes nothing outside of the target, and makes no link: what an archive names is judged by its cleaned path.
//! 2. Every name in an archive begins with what was asked for; one that doesn't was tampered with.
//!
//! # In Kubernetes
//! `makeTar`, `recursiveTar` and `untarAll` in `kubectl/pkg/cmd/cp/cp.go`. Left out: patterns in the local path.
#![expect(clippy::disallowed_methods, reason = "shell: reads and writes the user's files")]

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// How an archive is unpacked.
pub(super) struct Unpacking {
    /// What every name begins with.
    pub prefix: String,
    /// Where it goes instead.
    pub target: String,
    /// What the user can do about links.
    pub hint: String,
}

/// Packs a file or a folder under a new name.
pub(super) fn pack(from: &Path, name: &str, to: impl Write) -> io::Result<()> {
    let mut archive = tar::Builder::new(to);
    archive.follow_symlinks(false);
    // A file's holes travel as zeros: GNU's sparse entries are unknown to busybox, and to the reader of archives in Go.
    archive.sparse(false);
    pack_into(&mut archive, from, Path::new(name))?;
    archive.finish()
}

fn pack_into(archive: &mut tar::Builder<impl Write>, from: &Path, name: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(from)?;
    if !kind.is_dir() {
        return archive.append_path_with_name(from, name);
    }
    let mut entries = fs::read_dir(from)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    if entries.is_empty() {
        // A folder with something in it is made by what is in it.
        return archive.append_dir(name, from);
    }
    entries.iter().try_for_each(|entry| pack_into(archive, &entry.path(), &name.join(entry.file_name())))
}

/// Where an entry lands: the target and the rest of its name; and whether that is inside of the target.
fn landing(target: &Path, rest: &str) -> (PathBuf, bool) {
    let (mut path, mut depth, mut inside) = (target.to_path_buf(), 0_usize, true);
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                inside &= depth > 0;
                depth = depth.saturating_sub(1);
                path.pop();
            }
            part => {
                depth += 1;
                path.push(part);
            }
        }
    }
    (path, inside)
}

/// Unpacks what comes out of a container.
// ANCHOR: unpack
pub(super) fn unpack(plan: &Unpacking, from: impl Read, warnings: &mut impl Write) -> io::Result<()> {
    let target = Path::new(&plan.target);
    let mut hinted = false;
    let mut archive = tar::Archive::new(from);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let Some(rest) = name.strip_prefix(&plan.prefix) else {
            return Err(io::Error::other("tar contents corrupted"));
        };
        let (path, inside) = landing(target, rest);
        if !inside {
            let shown = path.display().to_string();
            writeln!(warnings, "warning: file {shown:?} is outside target destination, skipping")?;
            continue;
        }
        let kind = entry.header().entry_type();
        if kind.is_symlink() {
            let link = entry.link_name_bytes().map(|l| String::from_utf8_lossy(&l).into_owned());
            let (shown, link) = (path.display().to_string(), link.unwrap_or_default());
            let hint = if hinted { String::new() } else { format!(" (consider using \"{}\")", plan.hint) };
            hinted = true;
            writeln!(warnings, "warning: skipping symlink: {shown:?} -> {link:?}{hint}")?;
            continue;
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        match kind.is_dir() {
            true => fs::create_dir_all(&path)?,
            false => {
                let opened = fs::File::create(&path);
                let mut file = opened.map_err(|e| io::Error::new(e.kind(), open_error(&path, &e)))?;
                io::copy(&mut entry, &mut file)?;
            }
        }
    }
    // What comes behind the archive's end must be read, or the other side can't finish.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(drop)
}
// ANCHOR_END: unpack

fn open_error(path: &Path, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::IsADirectory => "is a directory".to_string(),
        io::ErrorKind::PermissionDenied => "permission denied".to_string(),
        _ => error.to_string(),
    };
    format!("open {}: {why}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, kind, content) in entries {
            let mut header = tar::Header::new_gnu();
            // `set_path` refuses what an attacker would write.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            if kind.is_symlink() {
                header.set_link_name(content).unwrap();
                header.set_size(0);
                header.set_cksum();
                builder.append(&header, io::empty()).unwrap();
            } else {
                header.set_size(content.len() as u64);
                header.set_cksum();
                builder.append(&header, content.as_bytes()).unwrap();
            }
        }
        builder.into_inner().unwrap()
    }

    fn unpacked(target: &Path, bytes: &[u8]) -> (io::Result<()>, String) {
        let plan = Unpacking {
            prefix: "data".into(),
            target: target.to_str().unwrap().into(),
            hint: "kubectl exec".into(),
        };
        let mut warnings = Vec::new();
        let result = unpack(&plan, bytes, &mut warnings);
        (result, String::from_utf8(warnings).unwrap())
    }

    #[test]
    fn what_is_packed_is_what_is_unpacked() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("a/b")).unwrap();
        fs::create_dir(from.path().join("empty")).unwrap();
        fs::write(from.path().join("a/b/c"), "text").unwrap();
        let mut bytes = Vec::new();
        pack(from.path(), "data", &mut bytes).unwrap();
        let target = to.path().join("copy");
        let (result, warnings) = unpacked(&target, &bytes);
        result.unwrap();
        assert_eq!(warnings, "");
        assert_eq!(fs::read_to_string(target.join("a/b/c")).unwrap(), "text");
        assert!(target.join("empty").is_dir());
    }

    #[test]
    fn a_file_with_holes_is_packed_as_a_plain_file() {
        let from = tempfile::tempdir().unwrap();
        let path = from.path().join("holes");
        fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let mut bytes = Vec::new();
        pack(&path, "data", &mut bytes).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entry = archive.entries().unwrap().next().unwrap().unwrap();
        assert_eq!((entry.header().entry_type(), entry.size()), (tar::EntryType::Regular, 1 << 20));
    }

    #[test]
    fn invariant_1_nothing_is_written_outside_of_the_target_and_links_are_skipped() {
        use tar::EntryType::{Regular, Symlink};
        let to = tempfile::tempdir().unwrap();
        let target = to.path().join("copy");
        let bytes = archive(&[
            ("data/../../evil", Regular, "no"),
            ("data/link", Symlink, "/etc"),
            ("data/link2", Symlink, "/etc"),
            ("data/link/passwd", Regular, "no"),
            ("data/good/../fine", Regular, "yes"),
        ]);
        let (result, warnings) = unpacked(&target, &bytes);
        result.unwrap();
        assert!(!to.path().join("evil").exists());
        assert!(warnings.contains("is outside target destination, skipping"), "{warnings}");
        assert_eq!(warnings.matches("skipping symlink").count(), 2);
        assert_eq!(warnings.matches("consider using").count(), 1);
        // The link was not made: what hides behind it lands in a plain folder.
        assert!(target.join("link").is_dir() && !target.join("link").is_symlink());
        assert_eq!(fs::read_to_string(target.join("fine")).unwrap(), "yes");
    }

    #[test]
    fn invariant_2_a_name_that_was_not_asked_for_is_tampering() {
        let to = tempfile::tempdir().unwrap();
        let bytes = archive(&[("other/file", tar::EntryType::Regular, "no")]);
        assert_eq!(unpacked(to.path(), &bytes).0.unwrap_err().to_string(), "tar contents corrupted");
    }
}
