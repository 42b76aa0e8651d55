//! `kubectl exec`: runs a command in a container.
//!
//! The local terminal is put into raw mode for `-t`, so that keys like Ctrl-C go to the remote side; its size is sent along
//! and again whenever it changes.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/exec/exec.go`, `pkg/util/term`.

use clap::Args;
use tokio::sync::mpsc;

use super::builder::{self, FilenameFlags, Selection};
use super::pods::{Purpose, defaulted, find_pod, running_timeout};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::query;
use crate::upgrade::{self, LocalStreams, Outcome, TerminalSize, V4, V5};

/// Flags of `kubectl exec`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// POD or TYPE/NAME.
    #[arg(value_name = "POD")]
    pub pods: Vec<String>,
    /// The command, after `--`: its flags are its own.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// To use to exec into the resource.
    #[arg(short = 'f', long = "filename", value_delimiter = ',')]
    pub filenames: Vec<String>,
    /// The streams.
    #[command(flatten)]
    pub streams: StreamFlags,
}

/// Flags of `kubectl exec` and `kubectl attach`.
#[derive(Debug, Clone, Args)]
pub struct StreamFlags {
    /// Container name. If omitted, the first container in the pod will be chosen.
    #[arg(short = 'c', long, default_value = "", hide_default_value = true)]
    pub container: String,
    /// Pass stdin to the container.
    #[arg(short = 'i', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub stdin: bool,
    /// Stdin is a TTY.
    #[arg(short = 't', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub tty: bool,
    /// Only print output from the remote session.
    #[arg(short = 'q', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub quiet: bool,
    /// The length of time (like 5s, 2m, or 3h, higher than zero) to wait until at least one pod is running.
    #[arg(long, default_value = "1m0s")]
    pub pod_running_timeout: String,
}

/// Runs `kubectl exec`.
///
/// # Errors
/// The command didn't run, or ended with another code than 0.
pub async fn run(ctx: &Context, args: ExecArgs) -> Result<(), Failure> {
    let flags = &args.streams;
    let named = named_by_files(ctx, &args.filenames).await?;
    let words = named.iter().chain(&args.pods).cloned().collect::<Vec<_>>();
    let Some((pod, more)) = words.split_first() else {
        return Err(Failure::message("pod, type/name or --filename must be specified"));
    };
    let command = &args.command;
    if command.is_empty() && !more.is_empty() {
        return Err(Failure::message(
            "exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead\nSee 'kubectl exec -h' for help and examples",
        ));
    }
    if command.is_empty() {
        return Err(Failure::message("you must specify at least one command for the container"));
    }
    let limit = running_timeout(&flags.pod_running_timeout, "exec")?;
    let pod = find_pod(ctx, pod, Purpose::Attach, limit).await?;
    if let Some(phase @ ("Succeeded" | "Failed")) = pod.get_str("/status/phase") {
        return Err(Failure::message(format!(
            "cannot exec into a container in a completed pod; current phase is {phase}"
        )));
    }
    let mut pairs: Vec<(&str, Option<String>)> =
        command.iter().map(|word| ("command", Some(word.clone()))).collect();
    // A container that is named is the server's to know.
    let container = match flags.container.as_str() {
        "" => choose_container(ctx, &pod, "", flags.quiet)?,
        given => given.to_string(),
    };
    pairs.extend(stream_query(&container, flags.stdin, flags.tty));
    stream(ctx, &pod, "exec", &query(&pairs), flags.stdin, flags.tty).await
}

/// The object of `-f`, as TYPE/NAME.
async fn named_by_files(ctx: &Context, filenames: &[String]) -> Result<Option<String>, Failure> {
    if filenames.is_empty() {
        return Ok(None);
    }
    let files = FilenameFlags { filenames: filenames.to_vec(), ..FilenameFlags::default() };
    let targets = builder::targets(ctx, &[], &files, &Selection::default()).await?;
    Ok(targets.first().map(|target| format!("{}/{}", target.resource.gvr.group_resource(), target.name)))
}

/// Runs a command in a container without our terminal; whether it ended with 0.
pub(super) async fn quiet_exec(
    ctx: &Context,
    pod: &Object,
    container: &str,
    command: &[&str],
) -> Result<bool, Failure> {
    let mut pairs: Vec<(&str, Option<String>)> =
        command.iter().map(|word| ("command", Some(word.to_string()))).collect();
    pairs.extend(stream_query(container, false, false));
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let path = pods.path(pod.namespace(), Some(pod.name()), Some("exec")) + &query(&pairs);
    let socket = upgrade::websocket(ctx.client().await?, &path, &[V5, V4]).await?;
    let stdin: Option<tokio::io::Empty> = None;
    let local = LocalStreams { stdin, stdout: tokio::io::sink(), stderr: tokio::io::sink(), sizes: None };
    Ok(upgrade::run_streams(socket, local).await? == Outcome::Success)
}

/// The query that names the container and the streams.
pub(super) fn stream_query(container: &str, stdin: bool, tty: bool) -> Vec<(&'static str, Option<String>)> {
    let yes = |wanted: bool| wanted.then(|| "true".to_string());
    vec![
        ("container", Some(container.to_string())),
        ("stderr", yes(!tty)),
        ("stdin", yes(stdin)),
        ("stdout", yes(true)),
        ("tty", yes(tty)),
    ]
}

/// The given container, the annotated one, or the first.
pub(super) fn choose_container(
    ctx: &Context,
    pod: &Object,
    given: &str,
    quiet: bool,
) -> Result<String, Failure> {
    let names = |field: &str| -> Vec<String> {
        let list = pod.get(field).and_then(serde_json::Value::as_array).into_iter().flatten();
        list.filter_map(|c| c["name"].as_str()).map(String::from).collect()
    };
    let containers = names("/spec/containers");
    if !given.is_empty() {
        let known = [&containers, &names("/spec/initContainers"), &names("/spec/ephemeralContainers")];
        return match known.iter().any(|list| list.iter().any(|name| name == given)) {
            true => Ok(given.to_string()),
            false => Err(Failure::message(format!("container {given} not found in pod {}", pod.name()))),
        };
    }
    if let Some(default) = pod.annotation("kubectl.kubernetes.io/default-container")
        && containers.iter().any(|name| name == default)
    {
        return Ok(default.to_string());
    }
    let first = containers.first().cloned().ok_or_else(|| Failure::message("pod has no containers"))?;
    if let Some(warning) = defaulted(pod).filter(|_| !quiet) {
        ctx.warn(&warning);
    }
    Ok(first)
}

/// Connects the terminal with a container until the other side ends.
pub(super) async fn stream(
    ctx: &Context,
    pod: &Object,
    subresource: &str,
    query: &str,
    stdin: bool,
    tty: bool,
) -> Result<(), Failure> {
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let path = pods.path(pod.namespace(), Some(pod.name()), Some(subresource)) + query;
    let socket = upgrade::websocket(ctx.client().await?, &path, &[V5, V4]).await?;
    let raw = if tty && stdin { RawTerminal::enter() } else { None };
    if tty && raw.is_none() {
        ctx.warn("Unable to use a TTY - input is not a terminal or the right kind of file\n");
    }
    let sizes = if raw.is_some() { Some(terminal_sizes()) } else { None };
    let local = LocalStreams {
        stdin: stdin.then(tokio::io::stdin),
        stdout: tokio::io::stdout(),
        stderr: tokio::io::stderr(),
        sizes,
    };
    let outcome = upgrade::run_streams(socket, local).await;
    drop(raw);
    match outcome? {
        Outcome::Success => Ok(()),
        Outcome::ExitCode(code) => {
            let message = format!("command terminated with exit code {code}");
            Err(Failure::Exit { code, message })
        }
        Outcome::Failed(status) if status.reason == "InternalError" || status.reason.is_empty() => {
            Err(Failure::message(status.message))
        }
        Outcome::Failed(status) => Err(status.into()),
    }
}

/// Whether standard input is a terminal.
pub(super) fn is_terminal() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stdin())
}

/// Raw mode as long as the value lives.
struct RawTerminal(nix::sys::termios::Termios);

impl RawTerminal {
    fn enter() -> Option<Self> {
        use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(std::io::stdin(), SetArg::TCSANOW, &raw).ok()?;
        Some(RawTerminal(before))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &self.0);
    }
}

/// The terminal's size now and whenever it changes.
fn terminal_sizes() -> mpsc::Receiver<TerminalSize> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let kind = tokio::signal::unix::SignalKind::window_change();
        let Ok(mut changes) = tokio::signal::unix::signal(kind) else { return };
        loop {
            if let Some(size) = current_size()
                && sender.send(size).await.is_err()
            {
                return;
            }
            if changes.recv().await.is_none() {
                return;
            }
        }
    });
    receiver
}

/// The size of standard output's terminal, if it is one.
pub(super) fn current_size() -> Option<TerminalSize> {
    let size = tty_size::get()?;
    Some(TerminalSize { width: size.0, height: size.1 })
}

/// The ioctl, the only unsafe line of this stage.
mod tty_size {
    #![expect(unsafe_code, reason = "TIOCGWINSZ has no safe wrapper in nix")]

    nix::ioctl_read_bad!(window_size, nix::libc::TIOCGWINSZ, nix::libc::winsize);

    /// Columns and rows of standard output's terminal.
    pub(super) fn get() -> Option<(u16, u16)> {
        let mut size = nix::libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the kernel writes one winsize into the value that lives on our stack.
        unsafe { window_size(nix::libc::STDOUT_FILENO, &mut size) }.ok()?;
        Some((size.ws_col, size.ws_row))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Exec {
        #[command(flatten)]
        args: ExecArgs,
    }

    #[test]
    fn flags_between_pod_and_command_are_ours_and_those_after_it_are_not() {
        let args = Exec::parse_from(["exec", "p", "-c", "web", "-it", "--", "sh", "-c", "id"]).args;
        assert_eq!((args.pods, args.streams.container.as_str()), (vec!["p".to_owned()], "web"));
        assert_eq!(args.command, ["sh", "-c", "id"]);
        assert!(args.streams.stdin && args.streams.tty);
    }
}
