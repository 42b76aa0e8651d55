//! Network namespaces of threads: make one, enter one, run an async runtime in one.
//!
//! *Step 5 of a pod's journey.* Before: [`super::plan_up`] wants a namespace. After: the kubelet's sockets
//! and the processes that it starts live in it.
//!
//! A network namespace belongs to a thread, not to a process: `setns` moves the calling thread, and what
//! that thread opens or starts afterwards (sockets, other threads, child processes) is inside. So one
//! process holds all nodes of a cluster, each with a tokio runtime whose threads have all moved.
//! Every thread moves itself in `on_thread_start`: tokio starts threads for blocking work from whatever
//! thread asks, and such a thread would otherwise inherit the asker's namespace.
//!
//! # Invariants
//! 1. No thread that the caller owns changes its namespace: work is done on threads made for it.
//!
//! # In Kubernetes
//! `containernetworking/plugins/pkg/ns` locks goroutines to threads for the same purpose.
#![expect(clippy::disallowed_methods, reason = "shell: opens and mounts namespaces")]

use std::fs::File;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{FsType, statfs};
use tokio::runtime::{Builder, Handle, Runtime};

/// A namespace that could not be made, entered or removed.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The file that names the namespace.
    #[error("cannot open network namespace {path}")]
    Open {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A system call.
    #[error("cannot {call} network namespace {path}")]
    Call {
        /// Which.
        call: &'static str,
        /// For which namespace.
        path: PathBuf,
        /// Why.
        source: nix::Error,
    },
    /// A thread or a runtime could not be started.
    #[error("cannot start a thread for network namespace {path}")]
    Thread {
        /// For which namespace.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn open(path: &Path) -> Result<File, NetnsError> {
    File::open(path).map_err(|source| NetnsError::Open { path: path.to_owned(), source })
}

/// Runs `work` on a thread of its own and waits for it.
fn on_new_thread<T: Send>(
    path: &Path,
    work: impl FnOnce() -> Result<T, NetnsError> + Send,
) -> Result<T, NetnsError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(scope, work)
            .map_err(|source| NetnsError::Thread { path: path.to_owned(), source })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Makes a namespace and keeps it alive by a mount at `path` (as `ip netns add` does).
///
/// # Errors
/// No rights (needs CAP_SYS_ADMIN), or no such folder and no right to make it.
pub fn create(path: &Path) -> Result<(), NetnsError> {
    let failed = |source| NetnsError::Open { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    if is_mounted(path) {
        return Ok(());
    }
    File::create(path).map_err(failed)?;
    on_new_thread(path, || {
        let call = |call| move |source| NetnsError::Call { call, path: path.to_owned(), source };
        unshare(CloneFlags::CLONE_NEWNET).map_err(call("unshare"))?;
        mount(Some("/proc/thread-self/ns/net"), path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .map_err(call("mount"))
    })
}

/// Unmounts and removes; a namespace that isn't there is success. It lives on while processes are in it.
///
/// # Errors
/// No rights.
pub fn remove(path: &Path) -> Result<(), NetnsError> {
    while is_mounted(path) {
        umount2(path, MntFlags::MNT_DETACH).map_err(|source| NetnsError::Call {
            call: "unmount",
            path: path.to_owned(),
            source,
        })?;
    }
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(NetnsError::Open { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Is a namespace mounted at the path (and not a plain file left by a killed process)?
pub fn is_mounted(path: &Path) -> bool {
    // NSFS_MAGIC of linux/magic.h: the file system of mounted namespaces.
    const NSFS_MAGIC: FsType = FsType(0x6e73_6673);
    statfs(path).is_ok_and(|stat| stat.filesystem_type() == NSFS_MAGIC)
}

/// Runs a future to its end on a thread inside the namespace (`None`: this one).
///
/// # Errors
/// The namespace can't be entered.
pub fn block_on_in<F, T>(netns: Option<&Path>, make: impl FnOnce() -> F + Send) -> Result<T, NetnsError>
where
    F: Future<Output = T>,
    T: Send,
{
    let path = netns.unwrap_or(Path::new("/proc/thread-self/ns/net"));
    on_new_thread(path, || {
        if netns.is_some() {
            setns(open(path)?, CloneFlags::CLONE_NEWNET).map_err(|source| NetnsError::Call {
                call: "enter",
                path: path.to_owned(),
                source,
            })?;
        }
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| NetnsError::Thread { path: path.to_owned(), source })?;
        Ok(runtime.block_on(make()))
    })
}

// ANCHOR: node-runtime
/// A tokio runtime all of whose threads live in a node's network namespace.
#[derive(Debug)]
pub struct NodeRuntime {
    runtime: Option<Runtime>,
}

impl NodeRuntime {
    /// Starts the runtime. `None`: no namespace of its own (simulated nodes, no root).
    ///
    /// # Errors
    /// The namespace isn't there or can't be entered.
    pub fn start(node_name: &str, netns: Option<&Path>) -> Result<Self, NetnsError> {
        let path = netns.map(Path::to_owned).unwrap_or_default();
        // Entered once here, on a thread that ends right after: a failure is an error, not a panic in a worker.
        block_on_in(netns, || async {})?;
        let namespace = netns.map(open).transpose()?.map(Arc::new);
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(node_name)
            .on_thread_start(move || {
                if let Some(namespace) = &namespace {
                    setns(namespace, CloneFlags::CLONE_NEWNET).expect("it was entered a moment ago");
                }
            })
            .enable_all()
            .build()
            .map_err(|source| NetnsError::Thread { path, source })?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Spawn with this; never `block_on` (that would run on the caller's thread, outside).
    pub fn handle(&self) -> Handle {
        self.runtime.as_ref().expect("present until drop").handle().clone()
    }
}

impl Drop for NodeRuntime {
    fn drop(&mut self) {
        // A runtime must not be dropped where blocking is forbidden; this variant doesn't block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
// ANCHOR_END: node-runtime
