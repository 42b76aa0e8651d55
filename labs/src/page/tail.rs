//! The tail: the journey file, followed as it grows.
//!
//! *All six steps of a pod's journey.* Before: a stage appended a line. After: [`super::journal`] has it, and every open page is told.
//!
//! The file may not be there yet (the cluster starts later), may be replaced (rotation) or cut (somebody emptied it). All three are
//! seen by asking for its identity and length ten times a second, which costs two system calls and works on every
//! file system.
//!
//! # Invariants
//! 1. A line is taken once, and only when it is complete.
//! 2. What stands in an old file before it was replaced is read to its end.
//! 3. A line that is no step is passed over; a line without an end doesn't fill the memory.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes; `pkg/kubelet/kuberuntime/logs` follows a container's log like this.

use std::io::{self, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stage1_kubectl::journey::Step;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

/// How often the file is looked at.
const PERIOD: Duration = Duration::from_millis(100);
/// Of a long file only so much of its end is read.
const MAX_PAST_BYTES: u64 = 32 << 20;
/// A longer line is no step.
const MAX_LINE_BYTES: usize = 1 << 20;
const CHUNK_BYTES: usize = 64 << 10;

/// Puts bytes together to lines, and lines to steps.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
    /// Inside a line that is too long, or whose beginning was not read.
    skipping: bool,
}

impl Lines {
    /// Takes bytes; answers with the steps that are complete now.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut bytes = bytes;
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(&bytes[..end]);
            if !self.skipping {
                steps.extend(serde_json::from_slice::<Step>(&self.rest).ok());
            }
            self.rest.clear();
            self.skipping = false;
            bytes = &bytes[end + 1..];
        }
        match self.rest.len() + bytes.len() <= MAX_LINE_BYTES {
            true => self.rest.extend_from_slice(bytes),
            false => {
                self.rest.clear();
                self.skipping = true;
            }
        }
        steps
    }
}

/// All steps of a file's text.
#[must_use]
pub fn steps_of(text: &str) -> Vec<Step> {
    let mut lines = Lines::default();
    let mut steps = lines.feed(text.as_bytes());
    steps.extend(lines.feed(b"\n"));
    steps
}

/// The file as it was opened.
struct Opened {
    file: File,
    inode: (u64, u64),
    at: u64,
    lines: Lines,
}

/// Follows a file; each look may bring steps.
pub struct Tail {
    path: PathBuf,
    opened: Option<Opened>,
    /// The first file may be long; those that replace it are read from their beginning.
    first: bool,
}

impl Tail {
    /// Of this file.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), opened: None, first: true }
    }

    /// Looks once.
    ///
    /// # Errors
    /// The file is there and can't be read.
    pub async fn look(&mut self) -> io::Result<Vec<Step>> {
        let mut steps = Vec::new();
        let metadata = match tokio::fs::metadata(&self.path).await {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let inode = metadata.as_ref().map(|metadata| (metadata.dev(), metadata.ino()));
        if let Some(opened) = &mut self.opened {
            let same = Some(opened.inode) == inode;
            let cut = same && metadata.as_ref().is_some_and(|metadata| metadata.len() < opened.at);
            if cut {
                opened.file.seek(SeekFrom::Start(0)).await?;
                (opened.at, opened.lines) = (0, Lines::default());
            }
            steps.extend(opened.read().await?);
            if !same {
                self.opened = None;
            }
        }
        if let (None, Some(metadata)) = (&self.opened, &metadata) {
            let mut opened = self.open(metadata.len()).await?;
            steps.extend(opened.read().await?);
            self.opened = Some(opened);
        }
        Ok(steps)
    }

    async fn open(&mut self, len: u64) -> io::Result<Opened> {
        let mut file = File::open(&self.path).await?;
        let metadata = file.metadata().await?;
        let at = if self.first { len.saturating_sub(MAX_PAST_BYTES) } else { 0 };
        self.first = false;
        file.seek(SeekFrom::Start(at)).await?;
        let lines = Lines { skipping: at > 0, ..Lines::default() };
        Ok(Opened { file, inode: (metadata.dev(), metadata.ino()), at, lines })
    }

    /// Follows for ever, handing over what comes.
    pub async fn follow(mut self, mut take: impl FnMut(Vec<Step>)) {
        loop {
            match self.look().await {
                Ok(steps) if steps.is_empty() => {}
                Ok(steps) => take(steps),
                Err(error) => {
                    tracing::warn!(path = %self.path.display(), %error, "Cannot read the journey file");
                    self.opened = None;
                }
            }
            tokio::time::sleep(PERIOD).await;
        }
    }
}

impl Opened {
    async fn read(&mut self) -> io::Result<Vec<Step>> {
        let mut steps = Vec::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = self.file.read(&mut chunk).await?;
            if count == 0 {
                return Ok(steps);
            }
            self.at += count as u64;
            steps.extend(self.lines.feed(&chunk[..count]));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "test")]
    use super::*;

    fn line(at: i64) -> String {
        format!(
            "{{\"stage\":4,\"object\":\"Pod d/p\",\"decided\":\"bound\",\"why\":\"\",\"at_micros\":{at},\"source\":\"\"}}\n"
        )
    }

    fn times(steps: &[Step]) -> Vec<i64> {
        steps.iter().map(|step| step.at_micros).collect()
    }

    #[test]
    fn a_line_counts_when_it_is_complete_and_nonsense_is_passed_over() {
        let mut lines = Lines::default();
        let (head, rest) = (line(1), line(2));
        let (half, other_half) = rest.split_at(9);
        assert_eq!(times(&lines.feed(format!("{head}not a step\n{half}").as_bytes())), [1]);
        assert_eq!(times(&lines.feed(other_half.as_bytes())), [2]);
        for _ in 0..20 {
            assert_eq!(lines.feed(&vec![b'x'; MAX_LINE_BYTES / 8]), []);
            assert!(lines.rest.len() <= MAX_LINE_BYTES);
        }
        assert_eq!(times(&lines.feed(format!("\n{}", line(3)).as_bytes())), [3]);
        assert_eq!(times(&steps_of(line(4).trim())), [4], "a last line without an end");
    }

    #[tokio::test]
    async fn a_file_is_followed_from_before_it_is_there_through_rotation_and_cutting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/journey.jsonl");
        let mut tail = Tail::new(&path);
        assert_eq!(tail.look().await.unwrap(), []);
        std::fs::create_dir(dir.path().join("logs")).unwrap();
        std::fs::write(&path, line(1)).unwrap();
        assert_eq!(times(&tail.look().await.unwrap()), [1]);
        assert_eq!(tail.look().await.unwrap(), []);
        let old = std::fs::read_to_string(&path).unwrap();
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(line(2).as_bytes()).unwrap();
        std::fs::rename(&path, dir.path().join("logs/journey.1")).unwrap();
        std::fs::write(&path, line(3)).unwrap();
        assert_eq!(times(&tail.look().await.unwrap()), [2, 3], "the end of the old one, then the new one");
        std::fs::write(&path, "").unwrap();
        assert_eq!(tail.look().await.unwrap(), []);
        std::fs::write(&path, &old).unwrap();
        assert_eq!(times(&tail.look().await.unwrap()), [1], "a file that was cut is read from its beginning");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(tail.look().await.unwrap(), []);
    }
}
