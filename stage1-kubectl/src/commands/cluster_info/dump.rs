//! `kubectl cluster-info dump`: everything that helps somebody who can't see the cluster.
//!
//! Nodes once, and for each namespace its events, controllers, Services, pods and the pods' logs; to the terminal, or as a folder of files.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/clusterinfo/clusterinfo_dump.go`. Left out: empty fields of Go's structs.
#![expect(clippy::disallowed_methods, reason = "shell: writes the files of the dump")]

use std::path::PathBuf;

use clap::Args;
use http::Method;
use serde_json::Value;

use crate::commands::listing::{self, bare};
use crate::commands::pods::running_timeout;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::{Output, PrintFlags, Printer};
use crate::request::{self, ListParams, query};
use crate::resource::GroupVersionResource;

/// Flags of `kubectl cluster-info dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// How the lists are printed; JSON where nothing is asked for.
    #[command(flatten)]
    pub print: PrintFlags,
    /// If true, dump all namespaces. If true, --namespaces is ignored.
    #[arg(short = 'A', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub all_namespaces: bool,
    /// A comma separated list of namespaces to dump.
    #[arg(long, value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// Where to output the files. If empty or '-' uses stdout, otherwise creates a directory hierarchy in that directory.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub output_directory: String,
    /// The length of time to wait until at least one pod is running.
    #[arg(long, default_value = "20s")]
    pub pod_running_timeout: String,
}

/// What is dumped of a namespace: group, version, resource, file.
const LISTS: [(&str, &str, &str, &str); 7] = [
    ("", "v1", "events", "events"),
    ("", "v1", "replicationcontrollers", "replication-controllers"),
    ("", "v1", "services", "services"),
    ("apps", "v1", "daemonsets", "daemonsets"),
    ("apps", "v1", "deployments", "deployments"),
    ("apps", "v1", "replicasets", "replicasets"),
    ("", "v1", "pods", "pods"),
];

struct Dump<'a> {
    ctx: &'a Context,
    printer: Printer,
    /// Nothing: the terminal.
    folder: Option<PathBuf>,
}

/// Runs `kubectl cluster-info dump`.
///
/// # Errors
/// A list can't be had, or a file not be written.
pub async fn run(ctx: &Context, args: DumpArgs) -> Result<(), Failure> {
    running_timeout(&args.pod_running_timeout, "cluster-info dump")?;
    let mut printer = args.print.always()?.typed();
    if printer.form.is_table() {
        printer.form = Output::Json;
    }
    let folder = Some(args.output_directory.as_str()).filter(|path| !matches!(*path, "" | "-"));
    let dump = Dump { ctx, printer, folder: folder.map(PathBuf::from) };
    let nodes = GroupVersionResource::new("", "v1", "nodes");
    let found = dump.list(&nodes, None).await?;
    dump.write("nodes", &found)?;
    for namespace in namespaces(ctx, &args, &dump).await? {
        dump.namespace(&namespace).await?;
    }
    if !matches!(args.output_directory.as_str(), "" | "-") {
        ctx.print(&format!("Cluster info dumped to {}\n", args.output_directory));
    }
    Ok(())
}

async fn namespaces(ctx: &Context, args: &DumpArgs, dump: &Dump<'_>) -> Result<Vec<String>, Failure> {
    if args.all_namespaces {
        let all = dump.list(&GroupVersionResource::new("", "v1", "namespaces"), None).await?;
        return Ok(names(&all));
    }
    if !args.namespaces.is_empty() {
        return Ok(args.namespaces.clone());
    }
    let mut both = vec!["kube-system".to_string(), ctx.namespace()];
    both.dedup();
    Ok(both)
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["metadata"]["name"].as_str()).map(String::from).collect()
}

impl Dump<'_> {
    async fn list(&self, resource: &GroupVersionResource, namespace: Option<&str>) -> Result<Value, Failure> {
        let resource = bare(resource, namespace.is_some());
        listing::whole(self.ctx, &resource, namespace, &ListParams::default()).await
    }

    /// One list: into its file, or onto the terminal.
    fn write(&self, name: &str, value: &Value) -> Result<(), Failure> {
        let suffix = match self.printer.form {
            Output::Json => "json",
            Output::Yaml => "yaml",
            _ => "txt",
        };
        self.put(&format!("{name}.{suffix}"), &self.printer.render(value)?)
    }

    fn put(&self, file: &str, text: &str) -> Result<(), Failure> {
        let Some(folder) = &self.folder else {
            self.ctx.print(text);
            return Ok(());
        };
        let file = folder.join(file);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        Ok(std::fs::write(file, text)?)
    }

    async fn namespace(&self, namespace: &str) -> Result<(), Failure> {
        let mut pods = Value::Null;
        for (group, version, resource, file) in LISTS {
            let found =
                self.list(&GroupVersionResource::new(group, version, resource), Some(namespace)).await?;
            self.write(&format!("{namespace}/{file}"), &found)?;
            pods = found;
        }
        for pod in pods["items"].as_array().into_iter().flatten() {
            if let Ok(pod) = Object::from_value(pod.clone()) {
                self.logs(namespace, &pod).await?;
            }
        }
        Ok(())
    }

    /// The logs of a pod's containers; one that can't be read says so in its place.
    async fn logs(&self, namespace: &str, pod: &Object) -> Result<(), Failure> {
        let pods = GroupVersionResource::new("", "v1", "pods");
        let mut all = String::new();
        for field in ["/spec/initContainers", "/spec/containers"] {
            for container in pod.get(field).and_then(Value::as_array).into_iter().flatten() {
                let container = container["name"].as_str().unwrap_or_default();
                let query = query(&[("container", Some(container.to_string()))]);
                let path = pods.path(Some(namespace), Some(pod.name()), Some("log")) + &query;
                let answer = self.ctx.client().await?.send(request::request(Method::GET, &path, None)).await;
                let text = match answer {
                    Ok(answer) => String::from_utf8_lossy(answer.body()).into_owned(),
                    Err(error) => format!("Request log error: {error}\n"),
                };
                let of = format!("logs for container {container} of pod {namespace}/{}", pod.name());
                all += &format!("==== START {of} ====\n{text}==== END {of} ====\n");
            }
        }
        self.put(&format!("{namespace}/{}/logs.txt", pod.name()), &all)
    }
}
