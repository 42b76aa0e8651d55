//! `kubectl get`: shows objects.
//!
//! Tables come from the server; every other form is made from the objects' JSON. `-w` goes on with a watch from the
//! version of the list.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/get/get.go`. Left out: `--raw` with files.

use std::cell::Cell;

use clap::Args;
use http::{HeaderValue, Method, header};
use serde_json::{Value, json};

use super::builder::{self, FilenameFlags, Target, Wanted};
use crate::client::ClientError;
use crate::context::Context;
use crate::failure::Failure;
use crate::printers::table::{self, Table, TableOptions};
use crate::printers::{self, Output, PrintFlags, Printer, jsonpath, sorting};
use crate::request::{self, ListParams};

mod watching;

/// The server renders a table if it can.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

/// Flags of `kubectl get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// TYPE [NAME …] or TYPE/NAME ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// Selector (field query) to filter on.
    #[arg(long)]
    pub field_selector: Option<String>,
    /// If present, list the requested object(s) across all namespaces.
    #[arg(short = 'A', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub all_namespaces: bool,
    /// After listing/getting the requested object, watch for changes.
    #[arg(short = 'w', long)]
    pub watch: bool,
    /// Watch for changes to the requested object(s), without listing/getting first.
    #[arg(long)]
    pub watch_only: bool,
    /// Output watch event objects when --watch or --watch-only is used. Existing objects are output as initial ADDED events.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub output_watch_events: bool,
    /// If true, have the server return the appropriate table output.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub server_print: bool,
    /// If the requested object does not exist the command will return exit code 0.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub ignore_not_found: bool,
    /// When using the default or custom-column output format, don't print headers.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub no_headers: bool,
    /// When printing, show all labels as the last column.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub show_labels: bool,
    /// List the resource type for the requested object(s).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub show_kind: bool,
    /// Labels that are going to be presented as columns.
    #[arg(short = 'L', long, value_delimiter = ',')]
    pub label_columns: Vec<String>,
    /// Sort list types using this field specification.
    #[arg(long)]
    pub sort_by: Option<String>,
    /// If specified, gets the subresource of the requested object.
    #[arg(long)]
    pub subresource: Option<String>,
    /// Raw URI to request from the server.
    #[arg(long)]
    pub raw: Option<String>,
    /// Return large lists in chunks rather than all at once.
    #[arg(long, default_value_t = 500)]
    pub chunk_size: u32,
}

/// Runs `kubectl get`.
///
/// # Errors
/// What wasn't found or can't be shown.
pub async fn run(ctx: &Context, args: GetArgs) -> Result<(), Failure> {
    if let Some(path) = &args.raw {
        let response = ctx.client().await?.send(request::request(Method::GET, path, None)).await?;
        ctx.print(&String::from_utf8_lossy(response.body()));
        return Ok(());
    }
    let printer = args.print.always()?;
    let output = &printer.form;
    let wanted = match args.files.is_empty() {
        true => builder::wanted(ctx, &args.arguments).await?,
        false => Vec::new(),
    };
    if wanted.is_empty() && args.files.is_empty() {
        return Err(Failure::verbatim(
            "You must specify the type of resource to get. Use \"kubectl api-resources\" for a complete list of supported resources.\n\nerror: Required resource not specified.\nUse \"kubectl explain <resource>\" for a detailed description of that resource (e.g. kubectl explain pods).\nSee 'kubectl get -h' for help and examples",
        ));
    }
    if args.watch || args.watch_only {
        return watching::watch(ctx, &args, &printer, &wanted).await;
    }
    let answers = fetch(ctx, &args, output, wanted).await?;
    if output.is_table() {
        print_tables(ctx, &args, output, answers)
    } else {
        print_objects(ctx, &args, &printer, answers)
    }
}

/// One answer of the server: a list (or table), or one object.
struct Answer {
    value: Value,
    resource: crate::resource::ApiResource,
    single: bool,
}

/// Answers, and what couldn't be had.
type Answers = (Vec<Answer>, Vec<Failure>);

async fn fetch(
    ctx: &Context,
    args: &GetArgs,
    output: &Output,
    wanted: Vec<Wanted>,
) -> Result<Answers, Failure> {
    let namespace = ctx.namespace();
    let mut requests = Vec::new();
    for Wanted { resource, names } in wanted {
        let scope = Some(namespace.clone()).filter(|_| resource.namespaced && !args.all_namespaces);
        if names.is_empty() {
            let params = ListParams {
                label_selector: args.selector.as_deref().map(str::trim).map(String::from),
                field_selector: args.field_selector.as_deref().map(str::trim).map(String::from),
                // What is to be sorted is wanted at once.
                limit: Some(args.chunk_size).filter(|l| *l > 0 && args.sort_by.is_none()),
                ..ListParams::default()
            };
            requests.push((request::list(&resource, scope.as_deref(), &params), resource, false));
            continue;
        }
        let selects = args.selector.is_some() || args.field_selector.is_some();
        builder::refuse_names(&args.arguments, selects, args.all_namespaces)?;
        for name in names {
            let request = request::get(&resource, scope.as_deref(), &name, args.subresource.as_deref());
            requests.push((request, resource.clone(), true));
        }
    }
    if !args.files.is_empty() {
        for target in builder::targets(ctx, &[], &args.files, &builder::Selection::default()).await? {
            let Target { resource, namespace, name, .. } = target;
            requests.push((request::get(&resource, namespace.as_deref(), &name, None), resource, true));
        }
    }
    let client = ctx.client().await?;
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    for (mut request, resource, single) in requests {
        if output.is_table() && args.server_print {
            request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(TABLE));
            if args.sort_by.is_some() {
                whole_objects(&mut request);
            }
        }
        match client.request::<Value>(request.clone()).await {
            Ok(mut value) => {
                forget_unshown(&mut value, args);
                follow_chunks(client, &request, &mut value, args).await?;
                answers.push(Answer { value, resource, single });
            }
            Err(error) if error.is_not_found() && args.ignore_not_found => {}
            Err(error @ ClientError::Api(_)) => failures.push(error.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((answers, failures))
}

/// Fetches the rest of a list that came in pieces.
async fn follow_chunks(
    client: &crate::client::Client,
    first: &http::Request<bytes::Bytes>,
    value: &mut Value,
    args: &GetArgs,
) -> Result<(), Failure> {
    while let Some(token) = value["metadata"]["continue"].as_str().filter(|t| !t.is_empty()).map(String::from)
    {
        let more = request::query(&[("continue", Some(token))]).replacen('?', "&", 1);
        let mut request = first.clone();
        let uri = format!("{}{more}", first.uri());
        *request.uri_mut() =
            uri.parse().map_err(|_| Failure::message("the server sent an unusable continue token"))?;
        let mut next: Value = client.request(request).await?;
        forget_unshown(&mut next, args);
        for field in ["items", "rows"] {
            if let (Some(into), Some(more)) = (value[field].as_array_mut(), next[field].as_array_mut()) {
                into.append(more);
            }
        }
        value["metadata"] = next["metadata"].take();
    }
    Ok(())
}

/// Drops what a table's rows carry and no column shows, piece by piece: most of a long list's memory.
fn forget_unshown(piece: &mut Value, args: &GetArgs) {
    if piece["kind"] != "Table"
        || args.sort_by.is_some()
        || args.show_labels
        || !args.label_columns.is_empty()
    {
        return;
    }
    for row in piece["rows"].as_array_mut().into_iter().flatten() {
        let namespace = row["object"]["metadata"]["namespace"].take();
        row["object"] = match args.all_namespaces {
            true => json!({ "metadata": { "namespace": namespace } }),
            false => Value::Null,
        };
    }
}

/// A table's rows carry no more than metadata, unless the whole objects are asked for.
fn whole_objects(request: &mut http::Request<bytes::Bytes>) {
    let path = request.uri().to_string();
    let mark = if path.contains('?') { '&' } else { '?' };
    if let Ok(uri) = format!("{path}{mark}includeObject=Object").parse() {
        *request.uri_mut() = uri;
    }
}

fn print_objects(
    ctx: &Context,
    args: &GetArgs,
    printer: &Printer,
    (answers, failures): Answers,
) -> Result<(), Failure> {
    let single = answers.len() == 1 && answers[0].single && failures.is_empty();
    let mut objects = Vec::new();
    for answer in answers {
        let is_list = answer.value.get("items").is_some_and(Value::is_array);
        let gvk = answer.resource.gvk();
        match is_list {
            false => objects.push(answer.value),
            true => objects.extend(printers::items(&answer.value).iter().map(|item| {
                let mut item = item.clone();
                if item.get("kind").is_none() {
                    item["apiVersion"] = gvk.api_version().into();
                    item["kind"] = gvk.kind.clone().into();
                }
                item
            })),
        }
    }
    if let Some(path) = &args.sort_by {
        sort(&mut objects, path, |object| object)?;
    }
    let nothing = objects.is_empty() && (args.ignore_not_found || !failures.is_empty());
    // Objects that files name are shown all or not at all.
    if nothing || (!args.files.is_empty() && !failures.is_empty()) {
        return Failure::collect(failures);
    }
    let value = if single { objects.remove(0) } else { printers::as_list(objects) };
    if !matches!(printer.form, Output::Name) || !printers::items(&value).is_empty() {
        let mut text = printer.render(&value)?;
        if let (true, Output::CustomColumns(_)) = (args.no_headers, &printer.form) {
            text = text.split_once('\n').map(|(_, rest)| rest.to_string()).unwrap_or_default();
        }
        ctx.print(&text);
    }
    Failure::collect(failures)
}

/// `--sort-by`: the value that each thing is sorted by; an error when none of them has it.
fn sort<T>(things: &mut [T], path: &str, object: fn(&T) -> &Value) -> Result<(), Failure> {
    let path = jsonpath::relaxed(path).map_err(Failure::message)?;
    let nodes = jsonpath::parse(&path).map_err(Failure::message)?;
    let key =
        |thing: &T| jsonpath::find_all(&nodes, object(thing)).ok().and_then(|found| found.into_iter().next());
    if things.len() > 1 && things.iter().all(|thing| key(thing).is_none()) {
        return Err(Failure::message(format!(
            "couldn't find any field with path {path:?} in the list of objects"
        )));
    }
    let unsortable = Cell::new(false);
    sorting::sort(things, |a, b| {
        let less = sorting::less(key(a).as_ref(), key(b).as_ref());
        unsortable.set(unsortable.get() || less.is_none());
        less.unwrap_or(false)
    });
    match unsortable.get() {
        true => {
            Err(Failure::message(format!("Field {path} in *unstructured.Unstructured is an unsortable type")))
        }
        false => Ok(()),
    }
}

fn print_tables(
    ctx: &Context,
    args: &GetArgs,
    output: &Output,
    (answers, failures): Answers,
) -> Result<(), Failure> {
    let many_kinds = args.show_kind || answers.iter().any(|a| a.resource.gvr != answers[0].resource.gvr);
    let mut blocks: Vec<(TableOptions, String, Table)> = Vec::new();
    for answer in answers {
        let options = TableOptions {
            wide: *output == Output::Table { wide: true },
            no_headers: args.no_headers,
            with_namespace: args.all_namespaces && answer.resource.namespaced,
            show_labels: args.show_labels,
            label_columns: args.label_columns.clone(),
            kind_prefix: many_kinds.then(|| kind_prefix(&answer.resource)),
        };
        let kind = answer.resource.gvr.group_resource();
        let table = to_table(answer.value);
        match blocks.last_mut() {
            Some((_, last, rows)) if *last == kind => rows.rows.extend(table.rows),
            _ => blocks.push((options, kind, table)),
        }
    }
    blocks.retain(|(_, _, table)| !table.rows.is_empty());
    let (mut texts, alone) = (Vec::new(), blocks.len() == 1);
    for (options, _, mut table) in blocks {
        if let Some(path) = &args.sort_by {
            match sort(&mut table.rows, path, |row| &row.object) {
                // As kubectl: of one kind, nothing is shown then.
                Err(_) if alone => continue,
                sorted => sorted?,
            }
        }
        texts.push(table::align(&table::lines(&table, &options)));
    }
    if texts.is_empty() && failures.is_empty() && !args.ignore_not_found {
        match args.all_namespaces || args.arguments.is_empty() {
            true => ctx.warn("No resources found\n"),
            false => ctx.warn(&format!("No resources found in {} namespace.\n", ctx.namespace())),
        }
    }
    texts.iter_mut().skip(1).for_each(|text| text.insert(0, '\n'));
    texts.iter().for_each(|text| print_one(ctx, text, !args.no_headers));
    Failure::collect(failures)
}

/// Tables of several kinds are separated by an empty line.
fn print_one(ctx: &Context, text: &str, titled: bool) {
    let table = text.strip_prefix('\n');
    if table.is_some() {
        ctx.print("\n");
    }
    ctx.print_table(table.unwrap_or(text), titled);
}

fn kind_prefix(resource: &crate::resource::ApiResource) -> String {
    match resource.gvr.group.as_str() {
        "" => resource.singular.clone(),
        group => format!("{}.{group}", resource.singular),
    }
}

/// A server that sends objects instead of a table gets the simplest one.
fn to_table(value: Value) -> Table {
    if value["kind"] == "Table" {
        return serde_json::from_value(value).unwrap_or_default();
    }
    let rows: Vec<Value> = printers::items(&value)
        .iter()
        .map(|item| json!({"cells": [item["metadata"]["name"], item["metadata"]["creationTimestamp"]], "object": item}))
        .collect();
    let columns = json!([{"name": "Name"}, {"name": "Created At"}]);
    serde_json::from_value(json!({"columnDefinitions": columns, "rows": rows})).unwrap_or_default()
}
