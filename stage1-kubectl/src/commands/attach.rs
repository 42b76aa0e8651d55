//! `kubectl attach`: connects to a container's main process.
//!
//! *After a pod's journey.* `exec` starts a new process, `attach` joins the one that runs. So whether there is a terminal isn't ours to
//! say: the container was made with one or without, and the client follows.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/attach/attach.go`. Left out: keys that detach, which came with 1.33.

use clap::Args;
use serde_json::Value;

use super::exec::{StreamFlags, choose_container, is_terminal, stream, stream_query};
use super::logs;
use super::pods::{Purpose, find_pod, running_timeout};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::query;

/// Flags of `kubectl attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// POD or TYPE/NAME.
    pub arguments: Vec<String>,
    /// The streams.
    #[command(flatten)]
    pub streams: StreamFlags,
}

/// Runs `kubectl attach`.
///
/// # Errors
/// The container can't be attached to.
pub async fn run(ctx: &Context, args: AttachArgs) -> Result<(), Failure> {
    let name = match args.arguments.as_slice() {
        [] => return Err(Failure::message("at least 1 argument is required for attach")),
        [pod] => pod.clone(),
        [kind, name] => format!("{kind}/{name}"),
        more => {
            return Err(Failure::message(format!(
                "expected POD, TYPE/NAME, or TYPE NAME, (at most 2 arguments) saw {}: [{}]",
                more.len(),
                more.join(" ")
            )));
        }
    };
    let limit = running_timeout(&args.streams.pod_running_timeout, "attach")?;
    let pod = find_pod(ctx, &name, Purpose::Attach, limit).await?;
    if let Some(phase @ ("Succeeded" | "Failed")) = pod.get_str("/status/phase") {
        return Err(Failure::message(format!(
            "cannot attach a container in a completed pod; current phase is {phase}"
        )));
    }
    to(ctx, &pod, &args.streams).await
}

/// Attaches to a container of a pod.
///
/// # Errors
/// There is no such container, or the server refuses.
pub(super) async fn to(ctx: &Context, pod: &Object, flags: &StreamFlags) -> Result<(), Failure> {
    let container = choose_container(ctx, pod, &flags.container, flags.quiet)
        .map_err(|e| Failure::message(format!("cannot attach to the container: {e}")))?;
    let has_terminal = has_terminal(pod, &container);
    if flags.tty && !has_terminal && !flags.quiet {
        ctx.warn(&format!("error: Unable to use a TTY - container {container} did not allocate one\n"));
    }
    if !flags.quiet {
        ctx.warn("If you don't see a command prompt, try pressing enter.\n");
    }
    let query = query(&stream_query(&container, flags.stdin, has_terminal));
    stream(ctx, pod, "attach", &query, flags.stdin, has_terminal).await?;
    if let Some(text) = farewell(pod, &container, flags, has_terminal && flags.stdin && is_terminal()) {
        ctx.print(&text);
    }
    Ok(())
}

/// Attaches to a container that was just made; where that can't be, its log is shown.
///
/// # Errors
/// There is no log either.
pub(super) async fn or_log(ctx: &Context, pod: &Object, flags: &StreamFlags) -> Result<(), Failure> {
    let Err(failure) = to(ctx, pod, flags).await else { return Ok(()) };
    ctx.warn(&format!(
        "warning: couldn't attach to pod/{}, falling back to streaming logs: {}\n",
        pod.name(),
        failure.report().0.trim_start_matches("error: ")
    ));
    logs::print(ctx, pod, &flags.container).await
}

/// Whether a container was made with a terminal.
fn has_terminal(pod: &Object, container: &str) -> bool {
    let lists = ["/spec/containers", "/spec/initContainers", "/spec/ephemeralContainers"];
    let mut all = lists.iter().filter_map(|field| pod.get(field).and_then(Value::as_array)).flatten();
    all.find(|one| one["name"] == container).is_some_and(|one| one["tty"] == true)
}

/// How to come back, after a session at a terminal.
fn farewell(pod: &Object, container: &str, flags: &StreamFlags, raw: bool) -> Option<String> {
    if flags.quiet || !raw {
        return None;
    }
    let command = format!("kubectl attach {} -c {container} -i -t", pod.name());
    let ephemeral = pod.get("/spec/ephemeralContainers").and_then(Value::as_array).into_iter().flatten();
    if ephemeral.into_iter().any(|one| one["name"] == container) {
        return Some(format!(
            "Session ended, the ephemeral container will not be restarted but may be reattached using '{command}' if it is still running\n"
        ));
    }
    let comes_back = pod.get_str("/spec/restartPolicy").unwrap_or("Always") == "Always";
    comes_back.then(|| format!("Session ended, resume using '{command}' command when the pod is running\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_container_says_whether_there_is_a_terminal_and_how_to_come_back() {
        let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {"restartPolicy": "Always",
            "containers": [{"name": "a", "tty": true}, {"name": "b"}], "ephemeralContainers": [{"name": "d", "tty": true}]}});
        let pod = Object::from_value(pod).unwrap();
        assert!(has_terminal(&pod, "a") && !has_terminal(&pod, "b") && has_terminal(&pod, "d"));
        let flags = StreamFlags {
            container: String::new(),
            stdin: true,
            tty: true,
            quiet: false,
            pod_running_timeout: String::new(),
        };
        assert_eq!(farewell(&pod, "a", &flags, false), None);
        let text = farewell(&pod, "a", &flags, true).unwrap();
        assert_eq!(
            text,
            "Session ended, resume using 'kubectl attach p -c a -i -t' command when the pod is running\n"
        );
        assert!(
            farewell(&pod, "d", &flags, true)
                .unwrap()
                .contains("may be reattached using 'kubectl attach p -c d -i -t'")
        );
    }
}
