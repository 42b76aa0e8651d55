//! `kube-apiserver`: flags, logging, wiring, run.

use std::process::ExitCode;

use clap::Parser;
use stage1_kubectl::logging::{self, LogFormat, LogOptions};
use stage1_kubectl::signals;
use stage1_kubectl::state_dir::StateDir;
use stage2_apiserver::options::Flags;
use stage2_apiserver::pipeline;

fn main() -> ExitCode {
    let flags = Flags::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(run(&flags)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: &Flags) -> anyhow::Result<()> {
    let state_dir = StateDir::new(flags.cluster.state_dir.clone())?;
    logging::init(&LogOptions {
        v: flags.v,
        format: if flags.log_format == "json" { LogFormat::Json } else { LogFormat::Text },
        file: None,
        journey_file: Some(state_dir.journey_file()),
    })?;
    // Heard from the start: a signal while starting stops what was started, too.
    let signal = tokio::spawn(signals::shutdown());
    let cluster = pipeline::start(&flags.cluster).await?;
    signal.await?;
    tracing::info!("Stopping");
    cluster.stop().await;
    Ok(())
}
