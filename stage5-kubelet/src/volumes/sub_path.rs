//! Sub paths: one folder or file of a volume instead of the whole.
//!
//! *Step 5 of a pod's journey.* Before: a volume is ready and a mount names a `subPath` in it. After: that place alone is mounted.
//!
//! The volume belongs to the pod, so the pod may put a link there that leads out of it (`/etc`), and may do so between our check and
//! the runtime's mount. Therefore the place is opened with the kernel's own guard against leaving the volume, and what is
//! handed on is a bind mount of the opened file, not a path that could be changed afterwards.
//!
//! # Invariants
//! 1. What is mounted lies in the volume, whatever the pod does to it meanwhile.
//!
//! # In Kubernetes
//! `pkg/volume/util/subpath/subpath_linux.go` (after CVE-2017-1002101).
#![expect(clippy::disallowed_methods, reason = "shell: opens files and mounts")]

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, fchmod, fstat, mkdirat};

/// What could not be done.
#[derive(Debug, thiserror::Error)]
pub enum SubPathError {
    /// The folder does not exist and could not be made in the volume.
    #[error("failed to create subPath directory")]
    Create(#[source] std::io::Error),
    /// It could not be bound.
    #[error("failed to prepare subPath")]
    Prepare(#[source] std::io::Error),
}

fn guarded(flags: OFlag) -> OpenHow {
    OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS)
}

/// Opens a place in the volume, making the missing folders.
fn open_in_volume(volume: &Path, sub_path: &Path) -> std::io::Result<OwnedFd> {
    if !sub_path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)) {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "subPath must be relative and without '..'",
        ));
    }
    let root = open(volume, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    match openat2(&root, sub_path, guarded(OFlag::O_PATH)) {
        Ok(fd) => return Ok(fd),
        Err(nix::errno::Errno::ENOENT) => {}
        Err(e) => return Err(e.into()),
    }
    let permissions = Mode::from_bits_truncate(fstat(&root)?.st_mode);
    let mut dir = root.try_clone()?;
    let mut so_far = PathBuf::new();
    for part in sub_path.components().filter(|c| matches!(c, Component::Normal(_))) {
        so_far.push(part);
        dir = match openat2(&root, &so_far, guarded(OFlag::O_PATH | OFlag::O_DIRECTORY)) {
            Ok(next) => next,
            Err(nix::errno::Errno::ENOENT) => {
                mkdirat(&dir, Path::new(part.as_os_str()), Mode::S_IRWXU)?;
                let made = openat2(&root, &so_far, guarded(OFlag::O_RDONLY | OFlag::O_DIRECTORY))?;
                // As the volume itself, whatever our umask is: the pod's user must be able to write here, too.
                fchmod(&made, permissions)?;
                made
            }
            Err(e) => return Err(e.into()),
        };
    }
    Ok(dir)
}

/// Binds `sub_path` of a volume to `target` (a fresh path of ours) and returns it.
///
/// # Errors
/// The place leads out of the volume, or the kernel refuses.
pub fn prepare(volume: &Path, sub_path: &str, target: &Path) -> Result<PathBuf, SubPathError> {
    let fd = open_in_volume(volume, Path::new(sub_path)).map_err(SubPathError::Create)?;
    bind(&fd, target).map_err(SubPathError::Prepare)?;
    Ok(target.to_path_buf())
}

fn bind(fd: &OwnedFd, target: &Path) -> std::io::Result<()> {
    let source = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let is_dir = fs::metadata(&source)?.is_dir();
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    if is_dir {
        fs::create_dir_all(target)?;
    } else if !target.exists() {
        fs::write(target, b"")?;
    }
    let none: Option<&str> = None;
    mount(Some(source.as_str()), target, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_folders_are_made_and_links_out_of_the_volume_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(open_in_volume(dir.path(), Path::new("a/b")).is_ok());
        assert!(dir.path().join("a/b").is_dir());
        std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("in")).unwrap();
        assert!(open_in_volume(dir.path(), Path::new("out")).is_err());
        assert!(open_in_volume(dir.path(), Path::new("out/x")).is_err());
        assert!(open_in_volume(dir.path(), Path::new("../x")).is_err());
        assert!(open_in_volume(dir.path(), Path::new("in/b")).is_ok());
    }
}
