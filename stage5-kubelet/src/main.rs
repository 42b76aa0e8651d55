//! The `kubelet` binary.
use clap::Parser;
use stage1_kubectl::logging::{self, LogFormat, LogOptions};
use stage1_kubectl::signals;
use stage1_kubectl::state_dir::StateDir;
use stage5_kubelet::options::Flags;
use stage5_kubelet::standalone;
use tokio_util::sync::CancellationToken;

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let state = StateDir::locate(flags.state_dir.clone());
    let journey = state.root().is_dir().then(|| state.journey_file());
    logging::init(&LogOptions { v: flags.v, format: LogFormat::Text, file: None, journey_file: journey })?;
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    threads.block_on(run(flags))
}

async fn run(flags: Flags) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    let asked = shutdown.clone();
    tokio::spawn(async move {
        signals::shutdown().await;
        asked.cancel();
    });
    standalone::run(&flags, shutdown).await
}
