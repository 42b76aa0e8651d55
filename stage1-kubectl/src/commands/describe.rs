//! `kubectl describe`: one object on one page.
//!
//! The page itself is made by [`crate::describe`], from values alone. This file finds the objects, asks for the lists that
//! their pages need, and prints the pages one under the other. A name that fits no object is tried as the beginning of one:
//! `kubectl describe pod web` shows every pod of the Deployment `web`.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/describe/describe.go`.
#![expect(clippy::disallowed_methods, reason = "shell: ages are measured from now")]

use clap::Args;
use futures::future::join_all;
use jiff::Timestamp;

use super::builder::{self, FilenameFlags, Selection, Wanted};
use super::listing::{bare, list_all};
use crate::context::Context;
use crate::describe::{Answers, plan, render};
use crate::failure::Failure;
use crate::object::Object;
use crate::request::{self, ListParams};

/// Flags of `kubectl describe`.
#[derive(Debug, Args)]
pub struct DescribeArgs {
    /// TYPE [NAME_PREFIX | -l label] or TYPE/NAME ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// If present, list the requested object(s) across all namespaces.
    #[arg(short = 'A', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub all_namespaces: bool,
    /// If true, display events related to the described object.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub show_events: bool,
    /// Return large lists in chunks rather than all at once. Pass 0 to disable.
    #[arg(long, default_value_t = 500)]
    pub chunk_size: u32,
}

/// Runs `kubectl describe`.
///
/// # Errors
/// What wasn't found.
pub async fn run(ctx: &Context, args: DescribeArgs) -> Result<(), Failure> {
    if args.arguments.is_empty() && args.files.is_empty() {
        return Err(Failure::message(
            "You must specify the type of resource to describe. Use \"kubectl api-resources\" for a complete list of supported resources.",
        ));
    }
    let (objects, failures) = find(ctx, &args).await?;
    let missing =
        failures.iter().any(|failure| matches!(failure, Failure::Client(error) if error.is_not_found()));
    if let ([kind, prefix], true) = (args.arguments.as_slice(), missing) {
        return by_prefix(ctx, &args, kind, prefix, failures).await;
    }
    let mut pages = Vec::new();
    for object in &objects {
        pages.push(page(ctx, &args, object).await?);
    }
    ctx.print(&pages.join("\n\n"));
    if pages.is_empty() && failures.is_empty() {
        match args.all_namespaces {
            true => ctx.warn("No resources found\n"),
            false => ctx.warn(&format!("No resources found in {} namespace.\n", ctx.namespace())),
        }
    }
    Failure::collect(failures)
}

fn params(args: &DescribeArgs) -> ListParams {
    ListParams {
        label_selector: args.selector.clone(),
        limit: Some(args.chunk_size).filter(|limit| *limit > 0),
        ..ListParams::default()
    }
}

/// The objects that are meant, and what couldn't be had.
async fn find(ctx: &Context, args: &DescribeArgs) -> Result<(Vec<Object>, Vec<Failure>), Failure> {
    let (mut objects, mut failures) = (Vec::new(), Vec::new());
    let mut keep = |answer: Result<Object, Failure>| match answer {
        Ok(object) => objects.push(object),
        Err(failure) => failures.push(failure),
    };
    if !args.files.is_empty() {
        for target in builder::targets(ctx, &[], &args.files, &Selection::default()).await? {
            keep(target.get(ctx).await);
        }
        return Ok((objects, failures));
    }
    let namespace = ctx.namespace();
    for Wanted { resource, names } in builder::wanted(ctx, &args.arguments).await? {
        let scope = Some(namespace.as_str()).filter(|_| resource.namespaced && !args.all_namespaces);
        if !names.is_empty() {
            builder::refuse_names(&args.arguments, args.selector.is_some(), args.all_namespaces)?;
        }
        if names.is_empty() {
            for object in list_all(ctx, &resource, scope, &params(args)).await? {
                keep(Ok(object));
            }
        }
        for name in names {
            let answer = ctx.client().await?.request(request::get(&resource, scope, &name, None)).await;
            keep(answer.map_err(Failure::from));
        }
    }
    Ok((objects, failures))
}

/// Every object whose name begins with `prefix`; when there is none, what the exact name answered.
async fn by_prefix(
    ctx: &Context,
    args: &DescribeArgs,
    kind: &str,
    prefix: &str,
    original: Vec<Failure>,
) -> Result<(), Failure> {
    let resource = ctx.resource(kind).await?.clone();
    let namespace = ctx.namespace();
    let scope = Some(namespace.as_str()).filter(|_| resource.namespaced);
    let mut found = false;
    for object in list_all(ctx, &resource, scope, &params(args)).await? {
        if object.name().starts_with(prefix) {
            found = true;
            ctx.print(&(page(ctx, args, &object).await? + "\n"));
        }
    }
    if found { Ok(()) } else { Failure::collect(original) }
}

/// Fetches what the page needs and writes it. A list that can't be read leaves its part of the page out.
async fn page(ctx: &Context, args: &DescribeArgs, object: &Object) -> Result<String, Failure> {
    ctx.client().await?;
    let queries = plan(object, args.show_events);
    let lists = queries.iter().map(|query| async move {
        let resource = bare(&query.gvr, query.namespace.is_some());
        let params = ListParams {
            label_selector: Some(query.label_selector.clone()).filter(|s| !s.is_empty()),
            field_selector: Some(query.field_selector.clone()).filter(|s| !s.is_empty()),
            limit: Some(args.chunk_size).filter(|limit| *limit > 0),
            ..ListParams::default()
        };
        list_all(ctx, &resource, query.namespace.as_deref(), &params).await
    });
    let mut answers = Answers::default();
    for (query, list) in queries.iter().zip(join_all(lists).await) {
        if let Ok(items) = list {
            answers.add(query, items);
        }
    }
    Ok(render(object, &answers, args.show_events, Timestamp::now()))
}
