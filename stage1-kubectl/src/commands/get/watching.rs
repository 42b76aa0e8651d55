//! `kubectl get -w`: goes on printing what changes after the list.
//!
//! The titles are printed once, and the columns keep the width of the widest cell so far. On a terminal that shows colours the table is
//! drawn again in its place instead ([`board`]).
//!
//! # In Kubernetes
//! `watch` in `kubectl/pkg/cmd/get/get.go`, which appends on terminals, too.

use futures::StreamExt;
use http::{HeaderValue, header};
use serde_json::{Value, json};

use super::{GetArgs, TABLE, to_table};
use crate::commands::builder::Wanted;
use crate::commands::exec::current_size;
use crate::context::Context;
use crate::failure::Failure;
use crate::printers::table::{self, Table, TableOptions};
use crate::printers::{self, Output, Printer};
use crate::request::{self, ListParams, WatchParams};
use crate::watch::{WatchEvent, decode_events};

mod board;

use board::Board;

/// Lists, prints, and goes on printing what changes.
pub(super) async fn watch(
    ctx: &Context,
    args: &GetArgs,
    form: &Printer,
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
        if form.form.is_table() {
            request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(TABLE));
        }
        request
    };
    let list: Value =
        client.request(table_wanted(request::list(resource, scope.as_deref(), &params))).await?;
    let draws = form.form.is_table() && !args.output_watch_events && ctx.draws();
    let board = draws.then(Board::default);
    let mut printer =
        WatchPrinter { ctx, args, form, headers: !args.no_headers, widths: Vec::new(), columns: 0, board };
    if !args.watch_only {
        printer.print("ADDED", list.clone())?;
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
            WatchEvent::Added(object) => printer.print("ADDED", object)?,
            WatchEvent::Modified(object) => printer.print("MODIFIED", object)?,
            WatchEvent::Deleted(object) => printer.print("DELETED", object)?,
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
    form: &'a Printer,
    headers: bool,
    widths: Vec<usize>,
    /// How many of the server's columns are shown: events after the first carry no columns.
    columns: usize,
    /// Where the table is drawn in its place.
    board: Option<Board>,
}

impl WatchPrinter<'_> {
    fn print(&mut self, event: &str, value: Value) -> Result<(), Failure> {
        let tells_events = self.args.output_watch_events;
        if !self.form.form.is_table() {
            for item in printers::items(&value) {
                let text = match tells_events {
                    true => self
                        .form
                        .render(&json!({"type": event, "object": without_managed(self.form, item)}))?,
                    false => self.form.render(item)?,
                };
                let text = if self.form.form == Output::Yaml { format!("---\n{text}") } else { text };
                self.ctx.print(&text);
            }
            return Ok(());
        }
        let columns = value["columnDefinitions"].clone();
        let table = to_table(value);
        let table_columns = table.column_definitions.clone();
        if table.rows.is_empty() {
            return Ok(());
        }
        let options = TableOptions {
            wide: self.form.form == Output::Table { wide: true },
            no_headers: !std::mem::take(&mut self.headers) || columns.is_null(),
            with_namespace: self.args.all_namespaces,
            show_labels: self.args.show_labels,
            label_columns: self.args.label_columns.clone(),
            kind_prefix: None,
        };
        let objects: Vec<String> = table.rows.iter().map(identity).collect();
        // Events after the first carry no columns: as many as there are cells, all shown.
        let titled = !options.no_headers;
        let mut lines = match table.column_definitions.is_empty() {
            false => table::lines(&table, &options),
            // (The event's own column isn't one of the server's.)
            true => {
                let cells = table.rows.first().map_or(0, |r| r.cells.len());
                let shown = if options.wide { cells } else { self.columns.min(cells) };
                let column_definitions = vec![table::Column::default(); shown];
                let options = TableOptions { no_headers: true, ..options.clone() };
                table::lines(&Table { column_definitions, ..table }, &options)
            }
        };
        if !table_columns.is_empty() {
            self.columns = table_columns.iter().filter(|c| options.wide || c.priority == 0).count();
        }
        if self.drawn(&lines, titled, &objects, event == "DELETED") {
            return Ok(());
        }
        if tells_events {
            for (at, line) in lines.iter_mut().enumerate() {
                line.insert(0, if titled && at == 0 { "EVENT".into() } else { event.to_string() });
            }
        }
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

    /// Draws the table with these rows in it, where it is drawn at all and fits on the screen.
    fn drawn(&mut self, lines: &[Vec<String>], titled: bool, objects: &[String], gone: bool) -> bool {
        let Some(board) = &mut self.board else { return false };
        let mut lines = lines.iter().cloned();
        if titled && let Some(titles) = lines.next() {
            board.titled(titles);
        }
        for (object, row) in objects.iter().zip(lines) {
            board.change(object, row, gone);
        }
        let (width, height) =
            current_size().map_or((0, 0), |size| (usize::from(size.width), usize::from(size.height)));
        let Some((up, text)) = board.draw(width, height) else {
            // From here on a line for each event.
            self.board = None;
            return false;
        };
        if up > 0 {
            self.ctx.print(&format!("\u{1b}[{up}A\u{1b}[J"));
        }
        self.ctx.print_table(&text, board.has_titles());
        true
    }
}

/// The object that a row is about.
fn identity(row: &table::Row) -> String {
    let field = |name: &str| row.object["metadata"][name].as_str().unwrap_or_default();
    format!("{} {}", field("namespace"), field("name"))
}

/// The object of an event, as the printer would show it by itself.
fn without_managed(form: &Printer, item: &Value) -> Value {
    match form.show_managed_fields {
        true => item.clone(),
        false => printers::without_managed_fields(item.clone()),
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
