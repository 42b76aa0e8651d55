//! `kubectl cp`: copies files into a container and out of it.
//!
//! *After a pod's journey.* Nothing in Kubernetes copies files. `cp` is `exec` with `tar` at both ends: one side packs, the bytes run
//! through the API server and the kubelet, the other side unpacks. So the container's image must have a `tar`.
//!
//! The subtle thing is trust: what comes out of a container was written by whoever controls the container. An archive can name
//! `../../.ssh/authorized_keys`, or a symbolic link followed by a file behind it. [`archive`] therefore decides for each entry where it
//! would land, skips what lands outside of the target, and makes no links at all.
//!
//! # Invariants
//! 1. Nothing is written outside of the target that the user named.
//! 2. `tar` on this side blocks, so it runs in a thread of its own; a pipe joins it with the stream.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/cp/{cp,filespec}.go`. Left out: paths of Windows.

use std::fs::File;
use std::path::Path;

use clap::Args;
use tokio::net::unix::pipe;

use super::exec::{choose_container, quiet_exec, stream_query};
use crate::client::ClientError;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::query;
use crate::upgrade::{self, LocalStreams, Outcome, V4, V5};

mod archive;
mod spec;

use spec::FileSpec;

/// Flags of `kubectl cp`.
#[derive(Debug, Args)]
pub struct CpArgs {
    /// SOURCE and DESTINATION; one of them `[namespace/]pod:path`.
    pub arguments: Vec<String>,
    /// Container name.
    #[arg(short = 'c', long, default_value = "", hide_default_value = true)]
    pub container: String,
    /// The copied file/directory's ownership and permissions will not be preserved in the container.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub no_preserve: bool,
    /// Set number of retries to complete a copy operation from a container. Negative: infinite.
    #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
    pub retries: i64,
}

/// Runs `kubectl cp`.
///
/// # Errors
/// Arguments that name no copy, a file that isn't there, or what `tar` says.
pub async fn run(ctx: &Context, args: CpArgs) -> Result<(), Failure> {
    let [source, target] = args.arguments.as_slice() else {
        return Err(Failure::message("source and destination are required"));
    };
    let (source, target) = (spec::parse(source)?, spec::parse(target)?);
    match (&source, &target) {
        (FileSpec::Remote { .. }, FileSpec::Remote { .. }) => {
            Err(Failure::message("one of src or dest must be a local file specification"))
        }
        (from, to) if from.file().is_empty() || to.file().is_empty() => {
            Err(Failure::message("filepath can not be empty"))
        }
        (FileSpec::Remote { namespace, pod, file }, FileSpec::Local(local)) => {
            let pod = find(ctx, namespace.as_deref(), pod).await?;
            copy_from_pod(ctx, &args, &pod, file, local).await
        }
        (FileSpec::Local(local), FileSpec::Remote { namespace, pod, file }) => {
            if std::fs::metadata(local).is_err() {
                return Err(Failure::message(format!("{local} doesn't exist in local filesystem")));
            }
            let pod = find(ctx, namespace.as_deref(), pod).await?;
            copy_to_pod(ctx, &args, &pod, local, file).await
        }
        (FileSpec::Local(_), FileSpec::Local(_)) => {
            Err(Failure::message("one of src or dest must be a remote file specification"))
        }
    }
}

async fn find(ctx: &Context, namespace: Option<&str>, name: &str) -> Result<Object, Failure> {
    let namespace = namespace.map_or_else(|| ctx.namespace(), String::from);
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let pod: Object = ctx.client().await?.objects(&pods, Some(&namespace)).get(name).await?;
    match pod.get_str("/status/phase") {
        Some(phase @ ("Succeeded" | "Failed")) => Err(Failure::message(format!(
            "cannot exec into a container in a completed pod; current phase is {phase}"
        ))),
        _ => Ok(pod),
    }
}

/// One remote command whose streams are ours.
async fn remote<I, O>(
    ctx: &Context,
    pod: &Object,
    container: &str,
    command: &[&str],
    stdin: Option<I>,
    stdout: O,
) -> Result<Outcome, Failure>
where
    I: tokio::io::AsyncRead + Unpin + Send + 'static,
    O: tokio::io::AsyncWrite + Unpin,
{
    let mut pairs: Vec<(&str, Option<String>)> =
        command.iter().map(|word| ("command", Some(word.to_string()))).collect();
    pairs.extend(stream_query(container, stdin.is_some(), false));
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let path = pods.path(pod.namespace(), Some(pod.name()), Some("exec")) + &query(&pairs);
    let socket = upgrade::websocket(ctx.client().await?, &path, &[V5, V4]).await?;
    let local = LocalStreams { stdin, stdout, stderr: tokio::io::stderr(), sizes: None };
    Ok(upgrade::run_streams(socket, local).await?)
}

/// What the end of a remote `tar` means.
fn ended(outcome: Outcome) -> Result<(), Failure> {
    match outcome {
        Outcome::Success => Ok(()),
        Outcome::ExitCode(code) => {
            Err(Failure::Exit { code, message: format!("command terminated with exit code {code}") })
        }
        Outcome::Failed(status) if status.reason == "InternalError" || status.reason.is_empty() => {
            Err(Failure::message(status.message))
        }
        Outcome::Failed(status) => Err(status.into()),
    }
}

async fn copy_to_pod(
    ctx: &Context,
    args: &CpArgs,
    pod: &Object,
    local: &str,
    remote_file: &str,
) -> Result<(), Failure> {
    let container = choose_container(ctx, pod, &args.container, false)?;
    // Into a folder that is there, as itself; else under the new name.
    let folder = quiet_exec(ctx, pod, &container, &["test", "-d", remote_file]).await?;
    let base = Path::new(local).file_name().map(|n| n.to_string_lossy().into_owned());
    let target = match (folder, base) {
        (true, Some(base)) => spec::clean_remote(&format!("{remote_file}/{base}")),
        _ => spec::clean_remote(remote_file),
    };
    let (folder, name) = spec::split_remote(&target);
    let mut command = vec!["tar"];
    if args.no_preserve {
        command.extend(["--no-same-permissions", "--no-same-owner"]);
    }
    command.extend(["-xmf", "-"]);
    if !folder.is_empty() {
        command.extend(["-C", folder]);
    }
    let (sender, receiver) = pipe::pipe()?;
    let writer = File::from(sender.into_blocking_fd()?);
    let (from, name) = (local.to_string(), name.to_string());
    let packing = tokio::task::spawn_blocking(move || archive::pack(Path::new(&from), &name, writer));
    let outcome = remote(ctx, pod, &container, &command, Some(receiver), tokio::io::stdout()).await;
    let packed = packing.await.map_err(|_| Failure::message("packing the files was interrupted"))?;
    let failure = match (outcome, packed) {
        (Ok(Outcome::Success), Ok(())) => return Ok(()),
        // The other side took less than the whole, and didn't say why.
        (Ok(Outcome::Success), Err(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            Failure::message(format!("tar in container {container} ended before it had read {local}"))
        }
        (Ok(Outcome::Success), Err(error)) => return Err(error.into()),
        (Ok(other), _) => return ended(other),
        (Err(failure), _) => failure,
    };
    // What we sent to a side that was gone can take its last words with it. A program that isn't there says so again.
    let nothing = None::<tokio::io::Empty>;
    match remote(ctx, pod, &container, &["tar", "--help"], nothing, tokio::io::sink()).await {
        Ok(failed @ Outcome::Failed(_)) => ended(failed),
        _ => Err(failure),
    }
}

async fn copy_from_pod(
    ctx: &Context,
    args: &CpArgs,
    pod: &Object,
    remote_file: &str,
    local: &str,
) -> Result<(), Failure> {
    let container = choose_container(ctx, pod, &args.container, false)?;
    let namespace = pod.namespace().unwrap_or_default();
    let hint =
        format!("kubectl exec -n {namespace:?} {:?} -- tar cf - {remote_file:?} | tar xf -", pod.name());
    let plan =
        archive::Unpacking { prefix: spec::archive_prefix(remote_file), target: local.to_string(), hint };
    let (sender, receiver) = pipe::pipe()?;
    let reader = File::from(receiver.into_blocking_fd()?);
    let unpacking =
        tokio::task::spawn_blocking(move || archive::unpack(&plan, reader, &mut std::io::stderr()));
    let streamed = fetch(ctx, args, pod, &container, remote_file, sender).await;
    let unpacked = unpacking.await.map_err(|_| Failure::message("unpacking the files was interrupted"))?;
    unpacked.map_err(|e| Failure::message(e.to_string()))?;
    streamed
}

/// Counts what went through, so that a broken copy can go on where it stopped.
struct Counting {
    pipe: pipe::Sender,
    bytes: u64,
}

impl tokio::io::AsyncWrite for Counting {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        data: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        let written = std::pin::Pin::new(&mut self.pipe).poll_write(cx, data);
        if let std::task::Poll::Ready(Ok(count)) = &written {
            self.bytes += *count as u64;
        }
        written
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.pipe).poll_flush(cx)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}

/// The remote `tar`, again from where it stopped when the connection breaks and `--retries` allows it.
async fn fetch(
    ctx: &Context,
    args: &CpArgs,
    pod: &Object,
    container: &str,
    file: &str,
    sender: pipe::Sender,
) -> Result<(), Failure> {
    let mut sink = Counting { pipe: sender, bytes: 0 };
    let mut tries = 0;
    loop {
        let resume = format!("tar cf - {file} | tail -c+{}", sink.bytes + 1);
        let command = match tries {
            0 => vec!["tar", "cf", "-", file],
            _ => vec!["sh", "-c", resume.as_str()],
        };
        let nothing: Option<tokio::io::Empty> = None;
        match remote(ctx, pod, container, &command, nothing, &mut sink).await {
            Ok(outcome) => return ended(outcome),
            Err(Failure::Client(ClientError::Connection { .. }))
                if args.retries < 0 || tries < args.retries =>
            {
                tries += 1;
                let all = if args.retries < 0 { "infinite".to_string() } else { args.retries.to_string() };
                ctx.warn(&format!("Resuming copy at {} bytes, retry {tries}/{all}\n", sink.bytes));
            }
            Err(failure) => return Err(failure),
        }
    }
}
