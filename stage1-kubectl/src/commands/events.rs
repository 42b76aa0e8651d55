//! `kubectl events`: what happened, oldest first.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/events/events.go`.
#![expect(clippy::disallowed_methods, reason = "shell: ages need the clock")]

use clap::Args;
use futures::StreamExt;
use jiff::Timestamp;

use super::explain::unprefixed;
use crate::client::Api;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::sorting;
use crate::printers::{self, PrintFlags, table};
use crate::request::{ListParams, WatchParams};
use crate::time::age;
use crate::watch::WatchEvent;

/// Flags of `kubectl events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// If present, list the requested object(s) across all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Filter events to only those pertaining to the specified resource, TYPE/NAME.
    #[arg(long = "for")]
    pub about: Option<String>,
    /// After listing the requested events, watch for more events.
    #[arg(short = 'w', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub watch: bool,
    /// Return large lists in chunks rather than all at once. Pass 0 to disable.
    #[arg(long, default_value_t = 500)]
    pub chunk_size: u32,
    /// Output only events of given types.
    #[arg(long, value_delimiter = ',')]
    pub types: Vec<String>,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// When using the default or custom-column output format, don't print headers.
    #[arg(long)]
    pub no_headers: bool,
}

/// When an event was last seen.
fn last_seen(event: &Object) -> Option<Timestamp> {
    let fields = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    fields.iter().find_map(|field| event.get_str(field)?.parse().ok())
}

/// Runs `kubectl events`.
///
/// # Errors
/// The server doesn't answer.
pub async fn run(ctx: &Context, args: EventsArgs) -> Result<(), Failure> {
    let resource = crate::resource::of::<k8s_openapi::api::core::v1::Event>();
    let namespace = Some(ctx.namespace()).filter(|_| !args.all_namespaces);
    let field_selector = match &args.about {
        None => None,
        Some(about) => {
            let (kind, name) = about.split_once('/').ok_or_else(|| {
                Failure::message(format!("--for must be in resource/name form, not {about:?}"))
            })?;
            let kind = &ctx.resource(kind).await.map_err(unprefixed)?.kind;
            Some(format!("involvedObject.kind={kind},involvedObject.name={name}"))
        }
    };
    let params = ListParams {
        field_selector: field_selector.clone(),
        limit: Some(args.chunk_size).filter(|limit| *limit > 0),
        ..ListParams::default()
    };
    let api = ctx.client().await?.objects(&resource, namespace.as_deref());
    let mut list = api.list(&params).await?;
    while !list.metadata.continue_.is_empty() {
        let token = Some(list.metadata.continue_.clone());
        let more = api.list(&ListParams { continue_token: token, ..params.clone() }).await?;
        list.items.extend(more.items);
        list.metadata = more.metadata;
    }
    let version = list.metadata.resource_version.clone();
    let wanted = |event: &Object| {
        let kind = event.get_str("/type").unwrap_or_default();
        args.types.is_empty() || args.types.iter().any(|t| t.eq_ignore_ascii_case(kind))
    };
    let mut events: Vec<Object> = list.items.into_iter().filter(wanted).collect();
    sorting::sort(&mut events, |a, b| last_seen(a) < last_seen(b));
    if let Some(printer) = args.print.printer()? {
        let events = events.into_iter().map(Object::into_value).collect();
        ctx.print(&printer.render(&printers::as_list(events))?);
        return Ok(());
    }
    if events.is_empty() && !args.watch {
        match &namespace {
            Some(namespace) => ctx.warn(&format!("No events found in {namespace} namespace.\n")),
            None => ctx.warn("No events found.\n"),
        }
        return Ok(());
    }
    let now = Timestamp::now();
    let mut lines: Vec<Vec<String>> = Vec::new();
    if !args.no_headers {
        lines.push(["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"].map(String::from).to_vec());
    }
    lines.extend(events.iter().map(|event| line(event, now)));
    if args.all_namespaces {
        for (at, line) in lines.iter_mut().enumerate() {
            let header = at == 0 && !args.no_headers;
            let event = events.get(if args.no_headers { at } else { at.saturating_sub(1) });
            let namespace = event.and_then(|e| e.namespace()).unwrap_or_default();
            line.insert(0, if header { "NAMESPACE".into() } else { namespace.to_string() });
        }
    }
    ctx.print_table(&table::align(&lines), !args.no_headers);
    match args.watch {
        true => follow(ctx, &args, &api, field_selector, version, wanted).await,
        false => Ok(()),
    }
}

/// Prints what happens from now on.
async fn follow(
    ctx: &Context,
    args: &EventsArgs,
    api: &Api<Object>,
    field_selector: Option<String>,
    version: String,
    wanted: impl Fn(&Object) -> bool,
) -> Result<(), Failure> {
    let params = WatchParams { resource_version: Some(version), field_selector, ..WatchParams::default() };
    let mut events = Box::pin(api.watch(&params).await?);
    while let Some(event) = events.next().await {
        let (WatchEvent::Added(event) | WatchEvent::Modified(event)) = event? else { continue };
        if !wanted(&event) {
            continue;
        }
        let mut cells = line(&event, Timestamp::now());
        if args.all_namespaces {
            cells.insert(0, event.namespace().unwrap_or_default().to_string());
        }
        ctx.print(&table::align(&[cells]));
    }
    Ok(())
}

fn line(event: &Object, now: Timestamp) -> Vec<String> {
    let text = |pointer: &str| event.get_str(pointer).unwrap_or_default().to_string();
    let first: Option<Timestamp> = event.get_str("/firstTimestamp").and_then(|t| t.parse().ok());
    let count = event.get_i64("/series/count").or(event.get_i64("/count")).unwrap_or(1);
    let seen = match (count > 1, first) {
        (true, Some(first)) => {
            format!("{} (x{count} over {})", age(last_seen(event), now), age(Some(first), now))
        }
        _ => age(last_seen(event), now),
    };
    vec![
        seen,
        text("/type"),
        text("/reason"),
        format!("{}/{}", text("/involvedObject/kind"), text("/involvedObject/name")),
        text("/message").trim_end().to_string(),
    ]
}
