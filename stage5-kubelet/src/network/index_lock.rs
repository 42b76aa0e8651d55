//! The lock of a cluster's number: one process, one bridge.
//!
//! *Step 5 of a pod's journey.* Before: [`super::execute::claim`] looks for a free number. After: it is this process's until it ends.
//!
//! A bridge's mark says which state directory it was made for; it doesn't say whether that cluster runs. A lock does: the kernel lets go
//! of it when the process ends, however it ends. The file tells who holds it, so that a second start for the same state directory (whose
//! first one may have lost its files: somebody deleted the directory) is refused instead of taking the first one's bridge and sockets.
//!
//! # Invariants
//! 1. Who holds the lock holds it on the file that the path names: a file is removed only under its lock, and a lock on a removed file
//!    doesn't count.
//!
//! # In Kubernetes
//! No counterpart.
#![expect(clippy::disallowed_methods, reason = "shell: files")]

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::ClusterNetwork;

/// Where the locks are; like the bridges, they are the machine's.
const LOCK_DIR: &str = "/run/six-stages";

/// A number that is ours.
#[derive(Debug)]
pub struct IndexLock {
    path: PathBuf,
    _file: Flock<File>,
}

/// Who has a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process.
    pub pid: String,
    /// Its mark.
    pub owner: String,
}

impl IndexLock {
    /// Takes the cluster's number, or says who has it.
    ///
    /// # Errors
    /// The lock's file can't be made.
    pub fn take(cluster: &ClusterNetwork) -> io::Result<Result<Self, Holder>> {
        Self::take_in(Path::new(LOCK_DIR), cluster)
    }

    fn take_in(folder: &Path, cluster: &ClusterNetwork) -> io::Result<Result<Self, Holder>> {
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
        let path = folder.join(format!("{}.lock", cluster.bridge()));
        loop {
            let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(mut file) => {
                    let named = std::fs::metadata(&path).ok().map(|named| named.ino());
                    if named != Some(file.metadata()?.ino()) {
                        continue;
                    }
                    file.set_len(0)?;
                    file.write_all(format!("{}\n{}\n", std::process::id(), cluster.owner).as_bytes())?;
                    return Ok(Ok(Self { path, _file: file }));
                }
                Err((_, nix::errno::Errno::EWOULDBLOCK)) => {
                    let text = std::fs::read_to_string(&path).unwrap_or_default();
                    let mut lines = text.lines().map(str::to_owned);
                    let (pid, owner) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
                    return Ok(Err(Holder { pid, owner }));
                }
                Err((_, errno)) => return Err(errno.into()),
            }
        }
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        // Still locked: the field is dropped after this.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_holder_who_is_named_to_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = |index, owner: &str| ClusterNetwork { index, owner: owner.to_owned() };
        let first = IndexLock::take_in(dir.path(), &cluster(7, "six-stages:/a")).unwrap().expect("free");
        let holder =
            IndexLock::take_in(dir.path(), &cluster(7, "six-stages:/b")).unwrap().expect_err("taken");
        assert_eq!(holder, Holder { pid: std::process::id().to_string(), owner: "six-stages:/a".to_owned() });
        IndexLock::take_in(dir.path(), &cluster(8, "six-stages:/b"))
            .unwrap()
            .expect("another number is free");
        drop(first);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no file is left");
        IndexLock::take_in(dir.path(), &cluster(7, "six-stages:/b")).unwrap().expect("free again");
    }

    #[test]
    fn a_lock_on_a_removed_file_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = ClusterNetwork { index: 1, owner: "o".to_owned() };
        let first = IndexLock::take_in(dir.path(), &cluster).unwrap().expect("free");
        std::fs::remove_file(&first.path).unwrap();
        let second = IndexLock::take_in(dir.path(), &cluster).unwrap().expect("a new file, a new lock");
        IndexLock::take_in(dir.path(), &cluster).unwrap().expect_err("which the next one respects");
        drop(second);
    }
}
