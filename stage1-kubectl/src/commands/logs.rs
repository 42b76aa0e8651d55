//! `kubectl logs`: what a container wrote.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/logs/logs.go`, `pkg/polymorphichelpers/logsforobject.go`. More: with `-f` the log goes on
//! when the container is started again.

use clap::Args;
use futures::StreamExt;
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;

use super::pods::{Purpose, defaulted, find_pod, pods_behind, pods_of, running_timeout};
use super::until::until;
use crate::client::ClientError;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::{self, query};

/// Flags of `kubectl logs`.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// POD or TYPE/NAME, and perhaps a container.
    pub arguments: Vec<String>,
    /// Specify if the logs should be streamed.
    #[arg(short = 'f', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub follow: bool,
    /// If true, print the logs for the previous instance of the container in a pod if it exists.
    #[arg(short = 'p', long)]
    pub previous: bool,
    /// Print the logs of this container.
    #[arg(short = 'c', long, default_value = "")]
    pub container: String,
    /// Get all containers' logs in the pod(s).
    #[arg(long)]
    pub all_containers: bool,
    /// Lines of recent log file to display.
    #[arg(long, default_value_t = -1, allow_hyphen_values = true)]
    pub tail: i64,
    /// Only return logs newer than a relative duration like 5s, 2m, or 3h.
    #[arg(long, default_value = "0s")]
    pub since: String,
    /// Only return logs after a specific date (RFC3339).
    #[arg(long, default_value = "")]
    pub since_time: String,
    /// Include timestamps on each line in the log output.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub timestamps: bool,
    /// Maximum bytes of logs to return.
    #[arg(long, default_value_t = 0)]
    pub limit_bytes: i64,
    /// Prefix each log line with the log source (pod name and container name).
    #[arg(long)]
    pub prefix: bool,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// Get logs from all pod(s). Sets prefix to true.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub all_pods: bool,
    /// If watching / following pod logs, allow for any errors that occur to be non-fatal.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub ignore_errors: bool,
    /// Skip verifying the identity of the kubelet that logs are requested from.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub insecure_skip_tls_verify_backend: bool,
    /// Specify maximum number of concurrent logs to follow when using by a selector. Defaults to 5.
    #[arg(long, default_value_t = 5)]
    pub max_log_requests: usize,
    /// The length of time (like 5s, 2m, or 3h, higher than zero) to wait until at least one pod is running.
    #[arg(long, default_value = "20s")]
    pub pod_running_timeout: String,
}

/// One container's log.
struct Source {
    pod: String,
    container: Option<String>,
    /// How often the container was started again, where its status says so.
    restarts: Option<i64>,
}

/// Runs `kubectl logs`.
///
/// # Errors
/// No such pod or container, or the log can't be read.
pub async fn run(ctx: &Context, mut args: LogsArgs) -> Result<(), Failure> {
    check(&args)?;
    if let [_, container] = args.arguments.as_slice() {
        args.container = container.clone();
    }
    let limit = running_timeout(&args.pod_running_timeout, "logs")?;
    let pods = match &args.selector {
        Some(selector) => {
            let found = pods_of(ctx, selector, None).await?;
            if found.is_empty() {
                ctx.warn(&format!("No resources found in {} namespace.\n", ctx.namespace()));
            }
            found
        }
        None if args.all_pods => pods_behind(ctx, &args.arguments[0]).await.map_err(|e| missing(ctx, e))?,
        None => {
            let found = find_pod(ctx, &args.arguments[0], Purpose::Logs, limit).await;
            vec![found.map_err(|e| missing(ctx, e))?]
        }
    };
    let mut sources = Vec::new();
    for pod in &pods {
        sources.extend(choose(ctx, &args, pod)?);
    }
    if args.follow && sources.len() > args.max_log_requests.max(1) {
        return Err(Failure::message(format!(
            "you are attempting to follow {} log streams, but maximum allowed concurrency is {}, use --max-log-requests to increase the limit",
            sources.len(),
            args.max_log_requests
        )));
    }
    log_query(&args, None, true)?;
    ctx.client().await?;
    let streams: Vec<_> = sources.iter().map(|source| show(ctx, &args, source)).collect();
    // One after the other, unless they never end.
    let at_once = if args.follow { streams.len().max(1) } else { 1 };
    let results: Vec<Result<(), Failure>> = futures::stream::iter(streams).buffered(at_once).collect().await;
    Failure::collect(results.into_iter().filter_map(Result::err).collect())
}

/// Whether the arguments and flags go together.
fn check(args: &LogsArgs) -> Result<(), Failure> {
    let usage =
        |why: &str| Err(Failure::message(format!("{why}\nSee 'kubectl logs -h' for help and examples")));
    if !args.since.is_empty() && crate::time::parse_duration(&args.since).is_none() {
        let since = &args.since;
        let why =
            format!("invalid argument {since:?} for \"--since\" flag: time: invalid duration {since:?}");
        return Err(Failure::message(format!("{why}\nSee 'kubectl logs --help' for usage.")));
    }
    match (args.arguments.as_slice(), &args.selector) {
        ([], Some(_)) | ([_], None) => {}
        ([_, _], None) if args.container.is_empty() => {}
        ([_, _], None) => return usage("only one of -c or an inline [CONTAINER] arg is allowed"),
        ([_], Some(_)) => return usage("only a selector (-l) or a POD name is allowed"),
        _ => {
            return usage(
                "expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'.\nPOD or TYPE/NAME is a required argument for the logs command",
            );
        }
    }
    if let Some(why) = crate::time::go_parse_error(&args.since_time).filter(|_| !args.since_time.is_empty()) {
        return Err(Failure::message(why));
    }
    Ok(())
}

/// One container's log; with `-f` also that of the instances that come after it.
async fn show(ctx: &Context, args: &LogsArgs, source: &Source) -> Result<(), Failure> {
    let prefix = match args.prefix || args.all_pods {
        true => format!("[pod/{}/{}] ", source.pod, source.container.as_deref().unwrap_or_default()),
        false => String::new(),
    };
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let path = pods.path(Some(&ctx.namespace()), Some(&source.pod), Some("log"));
    let (mut restarts, mut first) = (source.restarts, true);
    loop {
        let query = log_query(args, source.container.clone(), first)?;
        let request = request::request(Method::GET, &format!("{path}{query}"), None);
        let copied =
            async { copy(ctx, ctx.client().await?.stream(request).await?.into_body(), &prefix).await };
        match copied.await {
            Err(failure) if args.follow && args.ignore_errors => {
                ctx.warn(&format!("{}\n", failure.report().0));
                return Ok(());
            }
            Err(failure) => return Err(failure),
            Ok(()) if !args.follow || args.previous => return Ok(()),
            Ok(()) => match restarted(ctx, source, restarts).await? {
                Some(count) => (restarts, first) = (Some(count), false),
                None => return Ok(()),
            },
        }
    }
}

/// Waits for the container's next instance: its number, or nothing when there will be none.
async fn restarted(ctx: &Context, source: &Source, restarts: Option<i64>) -> Result<Option<i64>, Failure> {
    let (Some(restarts), Some(container)) = (restarts, &source.container) else { return Ok(None) };
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let namespace = ctx.namespace();
    let next = until(ctx, &pods, Some(&namespace), &source.pod, |pod| {
        let Some(pod) = pod.filter(|pod| may_restart(pod)) else { return Ok(Some(None)) };
        let status = container_status(pod, container);
        let runs = status.is_some_and(|status| !status["state"]["running"].is_null());
        let count = status.and_then(|status| status["restartCount"].as_i64()).unwrap_or(0);
        Ok((runs && count > restarts).then_some(Some(count)))
    });
    let seen_running = async {
        // A log that ends although the container runs on: nobody knows of a restart soon.
        let pod = ctx.client().await?.objects(&pods, Some(&namespace)).get(&source.pod).await?;
        let runs = container_status(&pod, container).is_some_and(|s| !s["state"]["running"].is_null());
        Ok::<_, Failure>(runs)
    };
    match seen_running.await {
        Ok(true) => tokio::time::timeout(STATUS_LAG, next).await.unwrap_or(Ok(None)),
        Ok(false) => next.await,
        Err(_) => Ok(None),
    }
}

/// How long a kubelet may take to report that a container ended.
const STATUS_LAG: std::time::Duration = std::time::Duration::from_secs(3);

fn may_restart(pod: &Object) -> bool {
    let over = matches!(pod.get_str("/status/phase"), Some("Succeeded" | "Failed"));
    let policy = pod.get_str("/spec/restartPolicy").unwrap_or("Always");
    !over && policy != "Never" && pod.deletion_timestamp().is_none()
}

fn container_status<'a>(pod: &'a Object, container: &str) -> Option<&'a Value> {
    let statuses = pod.get("/status/containerStatuses")?.as_array()?;
    statuses.iter().find(|status| status["name"] == container)
}

/// `kubectl logs` says in its own way that a pod isn't there.
fn missing(ctx: &Context, failure: Failure) -> Failure {
    match failure {
        Failure::Client(ClientError::Api(status)) if status.code == 404 => Failure::message(format!(
            "error: error from server ({}): {} in namespace {:?}",
            status.reason,
            status.message,
            ctx.namespace()
        )),
        other => other,
    }
}

/// The query; what limits it counts for the first instance only.
fn log_query(args: &LogsArgs, container: Option<String>, first: bool) -> Result<String, Failure> {
    let since = crate::time::parse_duration(&args.since);
    let since = since.ok_or_else(|| {
        Failure::message(format!(
            "invalid argument {:?} for \"--since\" flag: time: invalid duration {:?}",
            args.since, args.since
        ))
    })?;
    let tail = match (args.tail, &args.selector) {
        (-1, Some(_)) => Some(10),
        (-1, None) => None,
        (lines, _) => Some(lines),
    };
    let tail = tail.filter(|_| first);
    let since = if first { since } else { jiff::SignedDuration::ZERO };
    Ok(query(&[
        ("container", container),
        ("follow", args.follow.then(|| "true".into())),
        ("insecureSkipTLSVerifyBackend", args.insecure_skip_tls_verify_backend.then(|| "true".into())),
        ("limitBytes", (args.limit_bytes > 0).then(|| args.limit_bytes.to_string())),
        ("previous", args.previous.then(|| "true".into())),
        ("sinceSeconds", (!since.is_zero()).then(|| since.as_secs().to_string())),
        ("sinceTime", Some(args.since_time.clone()).filter(|t| !t.is_empty())),
        ("tailLines", tail.map(|t| t.to_string())),
        ("timestamps", args.timestamps.then(|| "true".into())),
    ]))
}

/// Which containers of a pod.
fn choose(ctx: &Context, args: &LogsArgs, pod: &Object) -> Result<Vec<Source>, Failure> {
    let names = |field: &str| -> Vec<String> {
        let list = pod.get(field).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|c| c["name"].as_str()).map(String::from).collect()
    };
    let (init, normal) = (names("/spec/initContainers"), names("/spec/containers"));
    let ephemeral = names("/spec/ephemeralContainers");
    let source = |container: Option<String>| {
        let status = container.as_deref().and_then(|name| container_status(pod, name));
        let restarts = status.map(|status| status["restartCount"].as_i64().unwrap_or(0));
        Source { pod: pod.name().to_string(), container, restarts }
    };
    if args.all_containers {
        let all = init.into_iter().chain(normal).chain(ephemeral);
        return Ok(all.map(|name| source(Some(name))).collect());
    }
    let given = Some(&args.container).filter(|c| !c.is_empty()).or(args.arguments.get(1));
    if let Some(name) = given {
        if ![&init, &normal, &ephemeral].iter().any(|list| list.contains(name)) {
            return Err(Failure::message(format!("container {name} is not valid for pod {}", pod.name())));
        }
        return Ok(vec![source(Some(name.clone()))]);
    }
    let default = pod.annotation("kubectl.kubernetes.io/default-container").map(String::from);
    if let Some(name) = default.filter(|name| normal.contains(name)) {
        return Ok(vec![source(Some(name))]);
    }
    if let Some(warning) = defaulted(pod) {
        ctx.warn(&warning);
    }
    Ok(vec![source(normal.first().cloned())])
}

/// Prints a container's log as it is by now.
///
/// # Errors
/// What the server refused.
pub(super) async fn print(ctx: &Context, pod: &Object, container: &str) -> Result<(), Failure> {
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let path = pods.path(pod.namespace(), Some(pod.name()), Some("log"));
    let path = path + &query(&[("container", Some(container.to_string()))]);
    let request = request::request(Method::GET, &path, None);
    copy(ctx, ctx.client().await?.stream(request).await?.into_body(), "").await
}

async fn copy(ctx: &Context, mut body: hyper::body::Incoming, prefix: &str) -> Result<(), Failure> {
    let mut at_line_start = true;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| ClientError::interrupted("", &e))?;
        let Some(data) = frame.data_ref() else { continue };
        if prefix.is_empty() {
            // As they are: a character may be cut in two by the frames.
            ctx.print_bytes(data);
            continue;
        }
        let text = String::from_utf8_lossy(data);
        for piece in text.split_inclusive('\n') {
            ctx.print(&if at_line_start { format!("{prefix}{piece}") } else { piece.to_string() });
            at_line_start = piece.ends_with('\n');
        }
    }
    Ok(())
}
