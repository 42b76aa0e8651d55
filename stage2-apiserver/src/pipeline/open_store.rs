//! Opening the store that [`super::choose_store`] chose, and saying which.
//!
//! *Step 2 of a pod's journey, before the first one.* After: [`crate::storage`] is there for everything else.
//!
//! # In Kubernetes
//! `cmd/kube-apiserver/app/options` and `storagebackend/factory`, which know etcd only.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context as _;
use stage1_kubectl::state_dir::StateDir;

use super::choose_store::{Choice, Etcd, Holds, Refusal, choose};
use crate::options::ClusterFlags;
use crate::pki::Pki;
use crate::storage::Storage;
use crate::storage::embedded::EmbeddedStorage;
use crate::storage::encryption::{self, EncryptedStorage};
use crate::storage::memory::MemoryStorage;

/// A store that is ready.
pub struct Opened {
    /// The store.
    pub storage: Arc<dyn Storage>,
    /// The same without encryption, if it is our own and not etcd.
    pub raw: Option<Arc<dyn Storage>>,
    /// What it is, for the first line of the log.
    pub description: String,
    /// Stops what was started for it.
    pub stop: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// Opens the store that the flags ask for.
///
/// # Errors
/// It can't be opened, or isn't built in.
pub async fn open(flags: &ClusterFlags, state_dir: &StateDir, pki: &Pki) -> anyhow::Result<Opened> {
    let mut opened = open_chosen(flags, state_dir, pki).await?;
    if let Some(file) = &flags.encryption_provider_config {
        let rules = encryption::config::parse(&read_text(file)?).map_err(anyhow::Error::msg);
        let rules = rules.with_context(|| format!("encryption provider config {}", file.display()))?;
        opened.storage = Arc::new(EncryptedStorage::new(opened.storage, rules));
    }
    Ok(opened)
}

async fn open_chosen(flags: &ClusterFlags, state_dir: &StateDir, pki: &Pki) -> anyhow::Result<Opened> {
    let holds = holds(state_dir);
    match choose(flags.store, !flags.etcd_servers.is_empty(), holds, availability())
        .with_context(|| format!("open the store of {}", state_dir.root().display()))?
    {
        Choice::Memory => {
            let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
            Ok(Opened {
                raw: Some(storage.clone()),
                storage,
                description: "memory (gone with the process)".into(),
                stop: None,
            })
        }
        Choice::Embedded(why) => embedded(state_dir, why),
        Choice::GivenEtcd => given_etcd(flags).await,
        Choice::OwnEtcd => own_etcd(state_dir, pki).await,
    }
}

/// The embedded store's file.
const FILE: &str = "store.redb";

fn holds(state_dir: &StateDir) -> Holds {
    // etcd makes `member` with its first data.
    Holds { etcd: state_dir.etcd().join("member").exists(), embedded: state_dir.store().join(FILE).exists() }
}

#[cfg(feature = "etcd")]
fn availability() -> Etcd {
    if find_program("etcd").is_some() { Etcd::Installed } else { Etcd::NotInstalled }
}

#[cfg(not(feature = "etcd"))]
fn availability() -> Etcd {
    Etcd::NotBuiltIn
}

fn embedded(state_dir: &StateDir, why: &str) -> anyhow::Result<Opened> {
    let directory = state_dir.store();
    stage1_kubectl::state_dir::make_private(&directory)
        .with_context(|| format!("directory {}", directory.display()))?;
    let path = directory.join(FILE);
    let storage = EmbeddedStorage::open(&path).with_context(|| format!("store {}", path.display()))?;
    let storage: Arc<dyn Storage> = Arc::new(storage);
    Ok(Opened {
        raw: Some(storage.clone()),
        storage,
        description: format!("embedded, {}{why}", path.display()),
        stop: None,
    })
}

#[cfg(not(feature = "etcd"))]
async fn given_etcd(_: &ClusterFlags) -> anyhow::Result<Opened> {
    Err(Refusal::NotBuiltIn.into())
}

#[cfg(not(feature = "etcd"))]
async fn own_etcd(_: &StateDir, _: &Pki) -> anyhow::Result<Opened> {
    Err(Refusal::NotBuiltIn.into())
}

#[cfg(feature = "etcd")]
async fn given_etcd(flags: &ClusterFlags) -> anyhow::Result<Opened> {
    use crate::storage::etcd::{EtcdConfig, EtcdStorage};

    let read = |path: &Option<std::path::PathBuf>| path.as_deref().map(read_text).transpose();
    let config = EtcdConfig {
        endpoints: flags.etcd_servers.clone(),
        ca_pem: read(&flags.etcd_cafile)?,
        client_pem: read(&flags.etcd_certfile)?.zip(read(&flags.etcd_keyfile)?),
    };
    let storage = EtcdStorage::connect(config).await.context("connecting to etcd")?;
    let description = format!("etcd at {}", flags.etcd_servers.join(","));
    Ok(Opened { storage: Arc::new(storage), raw: None, description, stop: None })
}

#[cfg(feature = "etcd")]
async fn own_etcd(state_dir: &StateDir, pki: &Pki) -> anyhow::Result<Opened> {
    use crate::storage::etcd::EtcdStorage;
    use crate::storage::etcd_process::{EtcdOptions, EtcdProcess, Keeper};

    let program = find_program("etcd").ok_or(Refusal::NotInstalled)?;
    let files = pki.etcd_files().context("etcd's certificates")?;
    let options = EtcdOptions {
        program: program.clone(),
        data_dir: state_dir.etcd(),
        log_file: state_dir.logs().join("etcd.log"),
        ca_file: files.ca,
        cert_file: files.server_certificate,
        key_file: files.server_key,
        client_pem: files.client_pem,
    };
    stage1_kubectl::state_dir::make_private(&state_dir.logs()).context("directory of logs")?;
    let process = EtcdProcess::start(&options).await.context("starting etcd")?;
    let storage = EtcdStorage::connect(process.config.clone()).await.context("connecting to our etcd")?;
    let description = format!("etcd, {} started as process {}", program.display(), process.pid());
    let closing = storage.closing();
    let keeper = Keeper::start(process, options);
    let stop = Box::pin(async move {
        closing.cancel();
        keeper.stop().await;
    });
    Ok(Opened { storage: Arc::new(storage), raw: None, description, stop: Some(stop) })
}

/// A program of the PATH.
#[cfg(feature = "etcd")]
fn find_program(name: &str) -> Option<std::path::PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "shell: looks for a program")]
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|candidate| candidate.is_file())
}

/// A file's text, or an error that names it.
///
/// # Errors
/// The file can't be read.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "shell: reads a file that a flag names")]
    let text = std::fs::read_to_string(path);
    text.with_context(|| format!("reading {}", path.display()))
}
