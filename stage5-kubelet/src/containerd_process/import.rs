//! Importing images: what a machine without a registry has instead of a pull.
//!
//! *Step 5 of a pod's journey.* Before: `<state-dir>/images` holds archives. After: containerd has their images under the names that
//! manifests use.
//!
//! An import takes about as long as a small pull, so nobody waits for it but who needs an image: the node is Ready
//! meanwhile, as any node is that has yet to pull ([`crate::cri::containerd::Containerd::with_imports`]).
//!
//! # Invariants
//! 1. An archive is imported once for each version of its file.
//!
//! # In Kubernetes
//! No counterpart; administrators use `ctr images import` as we do.
#![expect(clippy::disallowed_methods, reason = "shell: files and a process")]

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use futures::{StreamExt as _, TryStreamExt as _};
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::config::{Layout, find};
use super::{ContainerdError, write};

/// Archives that are imported at a time: an import waits for the disk most of its time.
const PARALLEL_IMPORTS: usize = 4;

/// An import that goes on beside the node's start. Dropping it ends it.
pub struct Importing {
    done: CancellationToken,
    task: JoinHandle<()>,
}

impl Importing {
    /// Begins to import the archives of a folder; what comes of it is logged.
    pub fn start(layout: Layout, folder: PathBuf) -> Self {
        let done = CancellationToken::new();
        let guard = done.clone().drop_guard();
        let task = tokio::spawn(async move {
            // Also after a failure: what isn't there is pulled then, or its pod says why it can't be.
            let _done = guard;
            match import_images(&layout, &folder).await {
                Ok(0) => {}
                Ok(images) => info!(node = layout.node_name, images, "Imported images"),
                Err(error) => {
                    let error = format!("{:#}", anyhow::Error::from(error));
                    warn!(node = layout.node_name, error, "Not all images are imported");
                }
            }
        });
        Self { done, task }
    }

    /// Cancelled when nothing more is imported.
    pub fn done(&self) -> CancellationToken {
        self.done.clone()
    }
}

impl Drop for Importing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Imports the archives of a folder that this node doesn't have yet; returns how many those were.
///
/// # Errors
/// An archive that isn't an image; others may be imported.
pub async fn import_images(layout: &Layout, folder: &Path) -> Result<usize, ContainerdError> {
    let mut archives: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    archives.retain(|path| path.extension().is_some_and(|extension| extension == "tar"));
    archives.sort();
    let imports = archives.into_iter().map(|archive| import_once(layout, archive));
    let imported: Vec<bool> =
        futures::stream::iter(imports).buffer_unordered(PARALLEL_IMPORTS).try_collect().await?;
    Ok(imported.into_iter().filter(|new| *new).count())
}

/// Imports an archive that isn't imported yet; was it?
async fn import_once(layout: &Layout, archive: PathBuf) -> Result<bool, ContainerdError> {
    // A stamp of size and time says "this very file": an import takes 0.2 s, a look 0.
    let stamp = stamp(&archive).map_err(|source| ContainerdError::File { path: archive.clone(), source })?;
    let name = archive.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let stamp_path = layout.root.join("imported").join(name);
    if std::fs::read_to_string(&stamp_path).is_ok_and(|old| old == stamp) {
        return Ok(false);
    }
    import(layout, &archive).await?;
    write(&stamp_path, &stamp)?;
    Ok(true)
}

async fn import(layout: &Layout, archive: &Path) -> Result<(), ContainerdError> {
    let start = |source| ContainerdError::Start { program: "ctr".to_owned(), source };
    let output = Command::new(find("ctr").map_err(|why| start(io::Error::other(why)))?)
        .arg("--address")
        .arg(layout.socket())
        .args(["--namespace", "k8s.io", "images", "import", "--snapshotter"])
        .arg(if uses_native(layout) { "native" } else { "overlayfs" })
        .arg(archive)
        .stdin(Stdio::null())
        // A pipeline that stops doesn't wait for it.
        .kill_on_drop(true)
        .output()
        .await
        .map_err(start)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(ContainerdError::Import { path: archive.to_owned(), message })
}

fn uses_native(layout: &Layout) -> bool {
    std::fs::read_to_string(layout.config_path()).is_ok_and(|text| text.contains("snapshotter = \"native\""))
}

fn stamp(path: &Path) -> io::Result<String> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path)?;
    Ok(format!("{} {}.{}", metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}
