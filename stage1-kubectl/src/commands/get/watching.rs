//! `kubectl get -w`: goes on printing what changes after the list.
//!
//! The titles are printed once, and the columns keep the width of the widest cell so far.
//!
//! # In Kubernetes
//! `watch` in `kubectl/pkg/cmd/get/get.go`.

use futures::StreamExt;
use http::{HeaderValue, header};
use serde_json::Value;

use super::{GetArgs, TABLE, to_table};
use crate::commands::builder::Wanted;
use crate::context::Context;
use crate::failure::Failure;
use crate::printers::table::{self, Table, TableOptions};
use crate::printers::{self, Output};
use crate::request::{self, ListParams, WatchParams};
use crate::watch::{WatchEvent, decode_events};

/// Lists, prints, and goes on printing what changes.
pub(super) async fn watch(
    ctx: &Context,
    args: &GetArgs,
    output: &Output,
    wanted: &[Wanted],
) -> Result<(), Failure> {
    let [Wanted { resource, names }] = wanted else {
        return Err(Failure::message("you may only specify a single resource type"));
    };
    let name = match names.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        _ => {
            return Err(Failure::message(
                "watch is only supported on individual resources and resource collections",
            ));
        }
    };
    let scope = Some(ctx.namespace()).filter(|_| resource.namespaced && !args.all_namespaces);
    let field_selector =
        name.map(|name| format!("metadata.name={name}")).or_else(|| args.field_selector.clone());
    let params = ListParams {
        label_selector: args.selector.clone(),
        field_selector: field_selector.clone(),
        limit: Some(args.chunk_size),
        ..ListParams::default()
    };
    let client = ctx.client().await?;
    let table_wanted = |mut request: http::Request<bytes::Bytes>| {
        if output.is_table() {
            request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(TABLE));
        }
        request
    };
    let list: Value =
        client.request(table_wanted(request::list(resource, scope.as_deref(), &params))).await?;
    let mut printer = WatchPrinter { ctx, args, output, headers: !args.no_headers, widths: Vec::new() };
    if !args.watch_only {
        printer.print(list.clone())?;
    }
    let params = WatchParams {
        resource_version: list["metadata"]["resourceVersion"].as_str().map(String::from),
        label_selector: args.selector.clone(),
        field_selector,
        ..WatchParams::default()
    };
    let response = client.stream(table_wanted(request::watch(resource, scope.as_deref(), &params))).await?;
    let mut events =
        Box::pin(decode_events::<Value, _>(response.into_body(), client.config().server.clone()));
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                printer.print(object)?;
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => return Err(status.into()),
        }
    }
    Ok(())
}

/// Prints titles once and keeps the columns' widths.
struct WatchPrinter<'a> {
    ctx: &'a Context,
    args: &'a GetArgs,
    output: &'a Output,
    headers: bool,
    widths: Vec<usize>,
}

impl WatchPrinter<'_> {
    fn print(&mut self, value: Value) -> Result<(), Failure> {
        if !self.output.is_table() {
            for item in printers::items(&value) {
                let text = self.output.render(item)?;
                self.ctx.print(&if *self.output == Output::Yaml { format!("---\n{text}") } else { text });
            }
            return Ok(());
        }
        let columns = value["columnDefinitions"].clone();
        let table = to_table(value);
        if table.rows.is_empty() {
            return Ok(());
        }
        let options = TableOptions {
            wide: *self.output == Output::Table { wide: true },
            no_headers: !std::mem::take(&mut self.headers) || columns.is_null(),
            with_namespace: self.args.all_namespaces,
            show_labels: self.args.show_labels,
            label_columns: self.args.label_columns.clone(),
            kind_prefix: None,
        };
        // Events after the first carry no columns: as many as there are cells, all shown.
        let lines = match table.column_definitions.is_empty() {
            false => table::lines(&table, &options),
            true => {
                let cells = table.rows.first().map_or(0, |r| r.cells.len());
                let shown = if options.wide { cells } else { self.widths.len().min(cells) };
                let column_definitions = vec![table::Column::default(); shown];
                table::lines(
                    &Table { column_definitions, ..table },
                    &TableOptions { no_headers: true, ..options },
                )
            }
        };
        for line in &lines {
            for (at, cell) in line.iter().enumerate() {
                let width = cell.chars().count();
                match self.widths.get_mut(at) {
                    Some(widest) => *widest = width.max(*widest),
                    None => self.widths.push(width),
                }
            }
        }
        let padded: Vec<String> = lines.iter().map(|line| pad(line, &self.widths)).collect();
        self.ctx.print(&padded.concat());
        Ok(())
    }
}

fn pad(line: &[String], widths: &[usize]) -> String {
    let last = line.len().saturating_sub(1);
    let cells = line.iter().enumerate().map(|(at, cell)| match at == last {
        true => cell.clone(),
        false => format!("{cell:width$}", width = (widths[at] + 3).max(6)),
    });
    cells.collect::<String>() + "\n"
}
