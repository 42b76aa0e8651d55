//! `kubectl run -it --rm`: stays connected with the new pod until it ends.
//!
//! # In Kubernetes
//! `handleAttachPod` and `waitForPod` in `kubectl/pkg/cmd/run/run.go`.

use http::Method;
use serde_json::Value;

use super::RunArgs;
use crate::commands::attach;
use crate::commands::exec::StreamFlags;
use crate::commands::logs;
use crate::commands::pods::running_timeout;
use crate::commands::until::until;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request;

/// Waits for the pod, attaches, and deletes it afterwards if that is wanted.
pub(super) async fn follow(ctx: &Context, args: &RunArgs, pod: &Object) -> Result<(), Failure> {
    let result = stay(ctx, args, pod).await;
    if args.rm {
        let path = path(pod, None);
        let options = args.deletion.body(args.deletion.grace_period_seconds())?;
        ctx.client().await?.send(request::request(Method::DELETE, &path, Some(&options))).await?;
        ctx.print(&format!("pod {:?} deleted\n", pod.name()));
    }
    result
}

fn path(pod: &Object, subresource: Option<&str>) -> String {
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    pods.path(pod.namespace(), Some(pod.name()), subresource)
}

async fn stay(ctx: &Context, args: &RunArgs, pod: &Object) -> Result<(), Failure> {
    let limit = running_timeout(&args.pod_running_timeout, "run")?;
    let waited = tokio::time::timeout(limit, wait_for(ctx, pod, started)).await;
    let timed_out = || Failure::message("timed out waiting for the condition");
    let running = waited.map_err(|_| timed_out())??;
    let container = pod.get_str("/spec/containers/0/name").unwrap_or_default();
    if running.get_str("/status/phase") == Some("Running") {
        let flags = StreamFlags {
            container: container.to_string(),
            stdin: args.stdin,
            tty: args.tty,
            quiet: args.quiet,
            pod_running_timeout: String::new(),
        };
        attach::or_log(ctx, &running, &flags).await?;
    } else {
        logs::print(ctx, &running, container).await?;
    }
    match args.restart.as_str() {
        "Never" if !args.leave_stdin_open => exit_code(&wait_for(ctx, pod, ended).await?),
        "OnFailure" if !args.leave_stdin_open => wait_for(ctx, pod, ended).await.map(drop),
        _ => Ok(()),
    }
}

async fn wait_for(ctx: &Context, pod: &Object, holds: fn(&Object) -> bool) -> Result<Object, Failure> {
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let uid = pod.uid().to_string();
    let deleted = || Failure::message(format!("pods {:?} not found", pod.name()));
    until(ctx, &pods, pod.namespace(), pod.name(), |live| match live {
        Some(live) if live.uid() == uid => Ok(holds(live).then(|| live.clone())),
        _ => Err(deleted()),
    })
    .await
}

fn ended(pod: &Object) -> bool {
    matches!(pod.get_str("/status/phase"), Some("Succeeded" | "Failed"))
}

/// Running with a ready container, or over already.
fn started(pod: &Object) -> bool {
    let statuses = pod.get("/status/containerStatuses").and_then(Value::as_array);
    let ready = statuses.is_some_and(|list| list.iter().all(|c| !c["state"]["running"].is_null()));
    ended(pod) || (pod.get_str("/status/phase") == Some("Running") && ready)
}

/// The container's exit code becomes ours.
fn exit_code(pod: &Object) -> Result<(), Failure> {
    let code = pod.get_i64("/status/containerStatuses/0/state/terminated/exitCode");
    let namespace = pod.namespace().unwrap_or_default();
    let text = match (pod.get_str("/status/phase"), code) {
        (Some("Succeeded"), _) | (_, Some(0)) => return Ok(()),
        (_, None) => format!("pod {namespace}/{} failed with unknown exit code", pod.name()),
        (_, Some(_)) => {
            let reason = pod.get_str("/status/containerStatuses/0/state/terminated/reason");
            let message = pod.get_str("/status/containerStatuses/0/state/terminated/message");
            let (reason, message) = (reason.unwrap_or_default(), message.unwrap_or_default());
            format!("pod {namespace}/{} terminated ({reason})\n{message}", pod.name())
        }
    };
    let code = code.and_then(|code| i32::try_from(code).ok()).unwrap_or(1);
    Err(Failure::Exit { code, message: text.trim_end().to_string() })
}
