//! Cleaning: logs that grow, containers and sandboxes that nobody needs, images that fill the disk.
//!
//! *Beside the journey.* Before: containers came and went. After: the node has room for new ones.
//!
//! # Invariants
//! 1. A log is rotated, never cut: the runtime is told to open a new file before the old one is counted as old.
//! 2. A dead sandbox goes only when no container of it is wanted any more.
//! 3. Images are removed only above the threshold, unused ones first, never one that a container uses.
//!
//! # In Kubernetes
//! `pkg/kubelet/kuberuntime/kuberuntime_gc.go`, `pkg/kubelet/logs/container_log_manager.go`, `pkg/kubelet/images/image_gc_manager.go`. Left out:
//! compression of rotated logs, image ages.
#![expect(clippy::disallowed_methods, reason = "shell: renames and removes files")]

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::cri::{ContainerState, CriError, SandboxState};
use crate::kubelet::Kubelet;
use crate::runtime_view::labels;

/// Time between two looks at the logs.
const LOG_MONITOR_PERIOD: Duration = Duration::from_secs(10);
/// Every sixth look is a cleaning.
const GC_EVERY: u32 = 6;
/// Every thirtieth look is at the images.
const IMAGE_GC_EVERY: u32 = 30;
/// Above this share of the disk, in percent, images are removed …
pub const IMAGE_GC_HIGH_THRESHOLD_PERCENT: u64 = 85;
/// … until this share is reached.
pub const IMAGE_GC_LOW_THRESHOLD_PERCENT: u64 = 80;

/// Cleans until `shutdown`.
pub async fn run(kubelet: Arc<Kubelet>, shutdown: CancellationToken) {
    let mut tick = 0u32;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOG_MONITOR_PERIOD) => {}
            () = shutdown.cancelled() => return,
        }
        tick = tick.wrapping_add(1);
        if !kubelet.runtime.is_real() {
            continue;
        }
        let mut results = vec![kubelet.rotate_logs().await];
        if tick.is_multiple_of(GC_EVERY) {
            results.push(kubelet.collect_sandboxes().await);
            kubelet.images.collect_garbage(Timestamp::now());
        }
        if tick.is_multiple_of(IMAGE_GC_EVERY) {
            results.push(kubelet.collect_images().await);
        }
        for error in results.into_iter().filter_map(Result::err) {
            debug!(%error, "Garbage collection failed, will retry");
        }
    }
}

impl Kubelet {
    async fn rotate_logs(&self) -> Result<(), CriError> {
        for c in self.runtime.list_containers(None).await? {
            let name = c.labels.get(labels::CONTAINER_NAME).map(String::as_str).unwrap_or_default();
            let uid = c.labels.get(labels::POD_UID).map(String::as_str).unwrap_or_default();
            if c.state != ContainerState::Running || name.is_empty() {
                continue;
            }
            let dir = self.config.pod_logs_dir.join(pod_log_name(&c.labels, uid)).join(name);
            let Some((path, bytes)) = newest_log(&dir) else { continue };
            if bytes < self.config.container_log_max_size_bytes {
                continue;
            }
            rotate(&path, self.config.container_log_max_files, &now_suffix());
            self.runtime.reopen_container_log(&c.id).await?;
        }
        Ok(())
    }

    /// Removes dead sandboxes that have a newer one, and hold no container that is still wanted.
    async fn collect_sandboxes(&self) -> Result<(), CriError> {
        let (sandboxes, containers) =
            futures::try_join!(self.runtime.list_pod_sandbox(None), self.runtime.list_containers(None))?;
        let mut newest: BTreeMap<&str, u32> = BTreeMap::new();
        for s in &sandboxes {
            let n = newest.entry(&s.metadata.uid).or_default();
            *n = (*n).max(s.metadata.attempt);
        }
        let used: HashSet<&str> = containers.iter().map(|c| c.pod_sandbox_id.as_str()).collect();
        for s in &sandboxes {
            let old = newest.get(s.metadata.uid.as_str()).is_some_and(|n| *n > s.metadata.attempt);
            if old && s.state == SandboxState::NotReady && !used.contains(s.id.as_str()) {
                self.runtime.remove_pod_sandbox(&s.id).await?;
            }
        }
        Ok(())
    }

    async fn collect_images(&self) -> Result<(), CriError> {
        let Ok(fs) = nix::sys::statvfs::statvfs(&self.config.root_dir) else { return Ok(()) };
        let unit = fs.fragment_size();
        let high = self.config.image_gc_high_threshold_percent;
        let mut to_free =
            bytes_to_free((fs.blocks() - fs.blocks_free()) * unit, fs.blocks_available() * unit, high);
        if to_free == 0 {
            return Ok(());
        }
        let used: HashSet<String> =
            self.runtime.list_containers(None).await?.into_iter().map(|c| c.image_ref).collect();
        let mut images = self.runtime.list_images().await?;
        images.sort_by_key(|i| std::cmp::Reverse(i.size_bytes));
        for i in images.iter().filter(|i| !i.pinned && !used.contains(&i.id) && !is_pause(&i.repo_tags)) {
            if to_free == 0 {
                break;
            }
            info!(image = i.id, bytes = i.size_bytes, "Removing an unused image: the disk is full");
            self.runtime.remove_image(&i.id).await?;
            to_free = to_free.saturating_sub(i.size_bytes);
        }
        Ok(())
    }
}

/// How much must go: nothing below the high threshold (and nothing at all when that is 100), else down to the low one. Usage is what `df` shows: a disk of which a part can be
/// used by nobody is not full for that.
pub fn bytes_to_free(used: u64, available: u64, high_threshold_percent: u64) -> u64 {
    let all = used + available;
    if all == 0 || high_threshold_percent >= 100 || used * 100 / all < high_threshold_percent {
        return 0;
    }
    used.saturating_sub(all / 100 * IMAGE_GC_LOW_THRESHOLD_PERCENT)
}

/// The sandbox image is in no container's list and yet always in use.
fn is_pause(tags: &[String]) -> bool {
    tags.iter().any(|t| t.contains("/pause:"))
}

fn pod_log_name(l: &BTreeMap<String, String>, uid: &str) -> String {
    let get = |k: &str| l.get(k).map(String::as_str).unwrap_or_default();
    format!("{}_{}_{uid}", get(labels::POD_NAMESPACE), get(labels::POD_NAME))
}

/// The current log of a container's log folder: `N.log` with the greatest N.
fn newest_log(dir: &Path) -> Option<(PathBuf, u64)> {
    let files = std::fs::read_dir(dir).ok()?.flatten();
    let number = |e: &std::fs::DirEntry| e.file_name().to_str()?.strip_suffix(".log")?.parse::<u32>().ok();
    let newest = files.filter_map(|e| Some((number(&e)?, e))).max_by_key(|(n, _)| *n)?.1;
    Some((newest.path(), newest.metadata().ok()?.len()))
}

fn now_suffix() -> String {
    Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string()
}

/// Renames a log out of the way and removes the oldest ones, so that with the new file `max_files` remain.
pub fn rotate(path: &Path, max_files: usize, suffix: &str) {
    let rotated = PathBuf::from(format!("{}.{suffix}", path.display()));
    if std::fs::rename(path, rotated).is_err() {
        return;
    }
    let mut old = rotated_files(path);
    let keep = max_files.saturating_sub(1);
    let surplus = old.len().saturating_sub(keep);
    for file in old.drain(..surplus) {
        let _ = std::fs::remove_file(file);
    }
}

/// The rotated files of a log, oldest first.
pub fn rotated_files(path: &Path) -> Vec<PathBuf> {
    let prefix = format!("{}.", path.file_name().and_then(|n| n.to_str()).unwrap_or_default());
    let dir = path.parent().map(std::fs::read_dir);
    let all = dir.into_iter().flatten().flatten().flatten().map(|e| e.path());
    let mut old: Vec<PathBuf> = all
        .filter(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(&prefix)))
        .collect();
    old.sort();
    old
}

/// How often a container was started, by the names of its log files: `0.log`, `1.log.20240101-000000`, …
pub fn restart_count_of_logs(names: impl Iterator<Item = String>) -> i32 {
    let number = |name: String| name.split_once(".log")?.0.parse::<i32>().ok();
    names.filter_map(number).filter(|number| *number >= 0).max().map_or(0, |last| last.saturating_add(1))
}

/// Removes the log of a container that was removed, its rotated files too.
pub fn remove_logs(log_path: &str) {
    let path = Path::new(log_path);
    if log_path.is_empty() {
        return;
    }
    for file in rotated_files(path) {
        let _ = std::fs::remove_file(file);
    }
    let _ = std::fs::remove_file(path);
}

/// Removes the log folder of a pod.
pub fn remove_pod_logs(pod_logs_dir: &Path, uid: &str) {
    let suffix = format!("_{uid}");
    for entry in std::fs::read_dir(pod_logs_dir).into_iter().flatten().flatten() {
        if !uid.is_empty() && entry.file_name().to_str().is_some_and(|n| n.ends_with(&suffix)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_files_tell_how_often_a_container_was_started() {
        let count = |names: &[&str]| restart_count_of_logs(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&["0.log"]), 1);
        assert_eq!(count(&["2.log", "10.log.20240101-000000", "x.log", "9"]), 11);
    }

    #[test]
    fn images_go_only_when_the_disk_is_full_as_df_shows_it() {
        assert_eq!(bytes_to_free(57, 35, 85), 0);
        assert_eq!(bytes_to_free(9000, 1000, 85), 1000);
        assert_eq!(bytes_to_free(9000, 1000, 100), 0, "100 turns it off");
        assert_eq!(bytes_to_free(0, 0, 85), 0);
    }

    #[test]
    fn rotation_keeps_the_newest_files_and_leaves_room_for_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        for i in 0..7 {
            std::fs::write(&log, format!("{i}")).unwrap();
            rotate(&log, 5, &format!("2026113{i}-000000"));
        }
        let left: Vec<_> = rotated_files(&log).iter().map(|p| std::fs::read_to_string(p).unwrap()).collect();
        assert_eq!(left, ["3", "4", "5", "6"]);
        remove_logs(log.to_str().unwrap());
        assert!(rotated_files(&log).is_empty());
    }
}
