//! Places: emptyDir and hostPath.
//!
//! *Step 5 of a pod's journey.* Before: a volume of the spec. After: a folder (or a file of the host) that can be mounted.
//!
//! # Invariants
//! 1. A hostPath is checked, and created only where its type says `OrCreate`.
//! 2. An emptyDir in memory never holds more than its limit.
//!
//! # In Kubernetes
//! `pkg/volume/emptydir/empty_dir.go`, `pkg/volume/hostpath/host_path.go`, `pkg/volume/volume_linux.go` (`SetVolumeOwnership`). Left out: huge
//! pages as a medium, quotas.
#![expect(clippy::disallowed_methods, reason = "shell: makes folders and mounts")]

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::VolumeError;

/// Makes an emptyDir on disk, open to every user of the pod.
///
/// # Errors
/// The disk refuses.
pub fn empty_dir(path: &Path) -> Result<(), VolumeError> {
    let failed = || VolumeError::io(format!("mkdir {}", path.display()));
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(failed())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).map_err(failed())
}

/// Makes an emptyDir in memory, at most `size_bytes` large.
///
/// # Errors
/// The kernel refuses.
pub fn memory_dir(path: &Path, size_bytes: u64) -> Result<(), VolumeError> {
    let failed = || VolumeError::io(format!("mount tmpfs {}", path.display()));
    if is_mount_point(path) {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(failed())?;
    let size = if size_bytes == 0 { String::new() } else { format!("size={size_bytes},") };
    // Pages of secrets must not be swapped out; kernels before 6.4 don't know the option.
    let try_mount =
        |options: &str| mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(options));
    try_mount(&format!("{size}noswap,mode=1777"))
        .or_else(|_| try_mount(&format!("{size}mode=1777")))
        .map_err(|e| failed()(e.into()))
}

/// Whether something is mounted there.
pub fn is_mount_point(path: &Path) -> bool {
    let (Ok(own), Some(Ok(parent))) = (fs::symlink_metadata(path), path.parent().map(fs::symlink_metadata))
    else {
        return false;
    };
    own.dev() != parent.dev()
}

/// Unmounts whatever is mounted at or below a path; deepest first.
pub fn unmount_below(root: &Path) {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let prefix = root.display().to_string();
    let mut points: Vec<&str> = table.lines().filter_map(|l| l.split(' ').nth(4)).collect();
    points.retain(|p| *p == prefix || p.strip_prefix(&prefix).is_some_and(|rest| rest.starts_with('/')));
    points.sort_by_key(|p| std::cmp::Reverse(p.len()));
    for point in points {
        // A busy mount is detached: it vanishes when its last user does.
        let _ = umount2(point, MntFlags::MNT_DETACH);
    }
}

/// Checks a path of the host, or makes it.
///
/// # Errors
/// It is of another type, or cannot be made.
pub fn host_path(path: &Path, wanted: &str) -> Result<(), VolumeError> {
    let meta = fs::metadata(path).ok();
    let is = |check: fn(&fs::FileType) -> bool| meta.as_ref().is_some_and(|m| check(&m.file_type()));
    let wrong = |what: &str| Err(VolumeError::HostPathType(format!("{} is not {what}", path.display())));
    let failed = || VolumeError::io(format!("create {}", path.display()));
    match wanted {
        "Directory" if !is(fs::FileType::is_dir) => wrong("a directory"),
        "File" if !is(fs::FileType::is_file) => wrong("a file"),
        "Socket" if !is(|t| t.is_socket()) => wrong("a socket file"),
        "CharDevice" if !is(|t| t.is_char_device()) => wrong("a character device"),
        "BlockDevice" if !is(|t| t.is_block_device()) => wrong("a block device"),
        "DirectoryOrCreate" if meta.is_none() => {
            fs::create_dir_all(path).map_err(failed())?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(failed())
        }
        "DirectoryOrCreate" if !is(fs::FileType::is_dir) => wrong("a directory"),
        "FileOrCreate" if meta.is_none() => {
            fs::OpenOptions::new().create(true).append(true).open(path).map_err(failed())?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(failed())
        }
        "FileOrCreate" if !is(fs::FileType::is_file) => wrong("a file"),
        _ => Ok(()),
    }
}

/// Gives a volume to the pod's group: `fsGroup`.
///
/// # Errors
/// The disk refuses.
pub fn set_volume_ownership(root: &Path, group: u32, read_only: bool) -> Result<(), VolumeError> {
    let failed = || VolumeError::io(format!("chown {}", root.display()));
    change_ownership(root, group, if read_only { 0o440 } else { 0o660 }).map_err(failed())
}

fn change_ownership(path: &Path, group: u32, mask: u32) -> std::io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    std::os::unix::fs::lchown(path, None, Some(group))?;
    if meta.file_type().is_symlink() {
        return Ok(());
    }
    let mut mode = meta.mode() | mask;
    if meta.is_dir() {
        // Files made later inherit the group.
        mode |= 0o2110;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))?;
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            change_ownership(&entry?.path(), group, mask)?;
        }
    }
    Ok(())
}

/// Makes a file that only the container's user and root write: a termination message.
///
/// # Errors
/// The disk refuses.
pub fn world_writable_file(path: &Path) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, b"")?;
    chown(path, None, None)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))
}
