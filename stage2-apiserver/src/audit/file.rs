//! The audit file: a writer that starts a new file when one is full, and removes the oldest.
//!
//! # Invariants
//! 1. A line is never split over two files.
//!
//! # In Kubernetes
//! `gopkg.in/natefinch/lumberjack.v2`, as `--audit-log-maxsize`, `--audit-log-maxbackup` and `--audit-log-maxage` set it up. Left out:
//! compression.
#![expect(clippy::disallowed_methods, reason = "shell: writes files and reads the clock")]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

/// Megabytes of a file when nothing else is said.
const DEFAULT_MAX_MEGABYTES: u64 = 100;

/// When files are rotated and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes of a file; 0 for the default.
    pub max_bytes: u64,
    /// Old files that are kept; 0 for all.
    pub max_backups: usize,
    /// Days that old files are kept; 0 for ever.
    pub max_age_days: i64,
}

/// The file that is written now.
pub struct RotatingFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    size: u64,
}

impl RotatingFile {
    /// Opens (or creates, 0600) the file.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn open(path: &Path, rotation: Rotation) -> std::io::Result<Self> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let file = open(path)?;
        let size = file.metadata()?.len();
        Ok(RotatingFile { path: path.to_owned(), rotation, file, size })
    }

    /// Appends a line.
    ///
    /// # Errors
    /// The disk is full, or gone.
    pub fn write_line(&mut self, line: &[u8]) -> std::io::Result<()> {
        let limit = match self.rotation.max_bytes {
            0 => DEFAULT_MAX_MEGABYTES << 20,
            bytes => bytes,
        };
        if self.size > 0
            && self.size + line.len() as u64 > limit
            && let Err(error) = self.rotate(Timestamp::now())
        {
            // The open file still takes lines: too long a log is better than none.
            tracing::warn!(path = %self.path.display(), %error, "Cannot rotate the audit log");
        }
        self.file.write_all(line)?;
        self.size += line.len() as u64;
        Ok(())
    }

    fn rotate(&mut self, now: Timestamp) -> std::io::Result<()> {
        match std::fs::rename(&self.path, free_backup_name(&self.path, now)) {
            // Somebody moved it, or an earlier try went no further than here.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        self.file = open(&self.path)?;
        self.size = 0;
        let mut outcome = Ok(());
        for old in expired(backups(&self.path)?, &self.rotation, now) {
            // One that can't be removed doesn't keep the others.
            outcome = outcome.and(std::fs::remove_file(old));
        }
        outcome
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Stem and extension of the file's name: `audit`, `.log`.
fn parts(path: &Path) -> (String, String) {
    let part = |part: Option<&std::ffi::OsStr>| part.map(|p| p.to_string_lossy().into_owned());
    let extension = part(path.extension()).map(|e| format!(".{e}")).unwrap_or_default();
    (part(path.file_stem()).unwrap_or_default(), extension)
}

const STAMP: &str = "%Y-%m-%dT%H-%M-%S";

/// `audit-2026-06-01T12-00-00.123.log`.
fn backup_name(path: &Path, now: Timestamp) -> PathBuf {
    let (stem, extension) = parts(path);
    let millis = now.subsec_millisecond();
    path.with_file_name(format!("{stem}-{}.{millis:03}{extension}", now.strftime(STAMP)))
}

/// A name that no file has: two files may be full within a millisecond, and the second mustn't take the first one's place.
fn free_backup_name(path: &Path, now: Timestamp) -> PathBuf {
    let mut later = (0..).map(|millis| backup_name(path, now + SignedDuration::from_millis(millis)));
    later.find(|name| !name.exists()).expect("time goes on")
}

/// Old files with their times.
fn backups(path: &Path) -> std::io::Result<Vec<(Timestamp, PathBuf)>> {
    let (stem, extension) = parts(path);
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let stamp = name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&extension));
        let time = stamp.and_then(|stamp| stamp.split_once('.')).and_then(|(seconds, millis)| {
            let time = jiff::civil::DateTime::strptime(STAMP, seconds).ok()?;
            let time = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
            Some(time + SignedDuration::from_millis(millis.parse().ok()?))
        });
        found.extend(time.map(|time| (time, entry.path())));
    }
    Ok(found)
}

/// Which old files go.
fn expired(mut backups: Vec<(Timestamp, PathBuf)>, rotation: &Rotation, now: Timestamp) -> Vec<PathBuf> {
    backups.sort();
    backups.reverse();
    let too_old = |at: &Timestamp| {
        rotation.max_age_days > 0
            && now.duration_since(*at) > SignedDuration::from_hours(24 * rotation.max_age_days)
    };
    let too_many = |index: usize| rotation.max_backups > 0 && index >= rotation.max_backups;
    let gone = backups.iter().enumerate().filter(|(index, (at, _))| too_many(*index) || too_old(at));
    gone.map(|(_, (_, path))| path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_makes_room_for_a_new_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit.log");
        let rotation = Rotation { max_bytes: 10, ..Rotation::default() };
        let mut file = RotatingFile::open(&path, rotation).expect("opened");
        file.write_line(b"12345678\n").expect("written");
        file.write_line(b"abcdefgh\n").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "abcdefgh\n");
        let old = backups(&path).expect("listed");
        assert_eq!(old.len(), 1);
        assert_eq!(std::fs::read_to_string(&old[0].1).expect("there"), "12345678\n");
    }

    #[test]
    fn files_that_are_full_at_once_are_all_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit.log");
        let mut file = RotatingFile::open(&path, Rotation::default()).expect("opened");
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().expect("a time");
        for line in ["1\n", "2\n", "3\n"] {
            file.write_line(line.as_bytes()).expect("written");
            file.rotate(now).expect("rotated");
        }
        let mut old = backups(&path).expect("listed");
        old.sort();
        let texts: Vec<String> =
            old.iter().map(|(_, path)| std::fs::read_to_string(path).expect("there")).collect();
        assert_eq!(texts, ["1\n", "2\n", "3\n"]);
    }

    #[test]
    fn a_file_that_somebody_moved_is_made_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit.log");
        let rotation = Rotation { max_bytes: 10, ..Rotation::default() };
        let mut file = RotatingFile::open(&path, rotation).expect("opened");
        file.write_line(b"12345678\n").expect("written");
        std::fs::rename(&path, directory.path().join("elsewhere")).expect("moved");
        file.write_line(b"abcdefgh\n").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "abcdefgh\n");
    }

    #[test]
    fn the_oldest_go_first() {
        let at = |day: i64| {
            let time: Timestamp = "2026-06-01T00:00:00Z".parse().expect("a time");
            (time + SignedDuration::from_hours(24 * day), PathBuf::from(format!("{day}")))
        };
        let now = at(10).0;
        let old = vec![at(1), at(9), at(5)];
        let gone = |max_backups, max_age_days| {
            let rotation = Rotation { max_backups, max_age_days, ..Rotation::default() };
            expired(old.clone(), &rotation, now)
        };
        assert!(gone(0, 0).is_empty());
        assert_eq!(gone(2, 0), [PathBuf::from("1")]);
        assert_eq!(gone(0, 3), [PathBuf::from("5"), "1".into()]);
    }
}
