//! Tables: what `kubectl get` prints is decided here, on the server.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::negotiation`] found `as=Table` in the Accept header. After: kubectl
//! prints the cells as they are; it knows nothing about kinds.
//!
//! A printer is a list of columns and a function from one object to one row of cells. Columns of priority 1 are shown by
//! `-o wide`. A kind without a printer gets name and creation time, as real Kubernetes does for roles, limit ranges
//! and definitions of custom kinds.
//!
//! The subtle thing: cells are JSON values, not texts. `Ready 1/3` is a string but `Up-to-date 2` is a number, even where
//! the column calls itself a string; and ages are computed at the moment of the answer, so a row is never
//! cached.
//!
//! # Invariants
//! 1. A row has as many cells as its kind has columns.
//! 2. The same object and the same time give the same row.
//!
//! # In Kubernetes
//! `pkg/printers/internalversion/printers.go`, `apiserver/pkg/registry/rest/table.go`. Left out: the long column
//! descriptions that are copies of the fields' documentation (short ones stand here).

pub mod cells;
mod cluster;
mod network;
mod pod;
mod policy;
mod storage;
mod workloads;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::custom_resources::columns::Columns;

/// One column's head.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// What stands at the top, in lower and upper case.
    pub name: &'static str,
    /// OpenAPI type of the cells.
    pub kind: &'static str,
    /// OpenAPI format; `name` marks the object's name.
    pub format: &'static str,
    /// 0 is always shown, 1 only by `-o wide`.
    pub priority: i32,
    /// What the column says.
    pub description: &'static str,
}

impl Column {
    const fn new(name: &'static str, kind: &'static str, description: &'static str) -> Self {
        Self { name, kind, format: "", priority: 0, description }
    }

    const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

const fn string(name: &'static str, description: &'static str) -> Column {
    Column::new(name, "string", description)
}

const fn integer(name: &'static str, description: &'static str) -> Column {
    Column::new(name, "integer", description)
}

const fn boolean(name: &'static str, description: &'static str) -> Column {
    Column::new(name, "boolean", description)
}

/// The first column of every table.
pub const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    priority: 0,
    description: "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
};
/// What is said of an object's time of creation.
pub const CREATION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const AGE: Column = string("Age", CREATION);

// ANCHOR: printer
/// How the objects of one kind become rows.
pub struct Printer {
    /// Heads of the columns.
    pub columns: &'static [Column],
    /// One object's cells, at a time.
    pub row: fn(&Value, Timestamp) -> Vec<Value>,
    /// What the row as a whole says, beyond its cells (a Pod that is over).
    pub conditions: fn(&Value) -> Option<Value>,
}

impl Printer {
    const fn new(columns: &'static [Column], row: fn(&Value, Timestamp) -> Vec<Value>) -> Self {
        Self { columns, row, conditions: |_| None }
    }
}
// ANCHOR_END: printer

/// Kinds without a printer: name and time of creation.
static DEFAULT: Printer = Printer::new(&[NAME, Column::new("Created At", "date", CREATION)], |o, _| {
    vec![cells::name(o), json!(cells::text(o, "/metadata/creationTimestamp"))]
});

/// The printer of a kind.
pub fn printer_for(group: &str, kind: &str) -> &'static Printer {
    let found = match group {
        "" => pod::printer(kind)
            .or_else(|| cluster::printer(kind))
            .or_else(|| network::core_printer(kind))
            .or_else(|| storage::core_printer(kind))
            .or_else(|| workloads::core_printer(kind)),
        "apps" | "batch" | "autoscaling" => workloads::printer(kind),
        "networking.k8s.io" | "discovery.k8s.io" => network::printer(kind),
        "storage.k8s.io" => storage::printer(kind),
        "events.k8s.io" => cluster::printer(kind),
        _ => policy::printer(group, kind),
    };
    found.unwrap_or(&DEFAULT)
}

/// What `includeObject` asks to put beside the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata (the default).
    Metadata,
    /// The whole object.
    Object,
}

/// How a table is asked for.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// `meta.k8s.io/v1` or `v1beta1`.
    pub api_version: String,
    /// What stands beside the cells.
    pub include_object: IncludeObject,
    /// No column heads: events after the first of a watch.
    pub no_headers: bool,
    /// The moment that ages are counted to.
    pub now: Timestamp,
    /// The columns of a custom kind; built-in kinds have printers.
    pub columns: Option<Arc<Columns>>,
}

// ANCHOR: render-table
/// Renders objects of one kind as a Table with the given list metadata.
pub fn render_table(
    group: &str,
    kind: &str,
    objects: &[&Value],
    list_metadata: Value,
    options: &TableOptions,
) -> Value {
    let printer = printer_for(group, kind);
    let rows: Vec<Value> = objects.iter().map(|object| render_row(printer, object, options)).collect();
    let columns: Vec<Value> = match &options.columns {
        _ if options.no_headers => Vec::new(),
        Some(columns) => columns.definitions(),
        None => printer.columns.iter().map(column_definition).collect(),
    };
    json!({
        "kind": "Table",
        "apiVersion": options.api_version,
        "metadata": list_metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}
// ANCHOR_END: render-table

fn render_row(printer: &Printer, object: &Value, options: &TableOptions) -> Value {
    let mut row = match &options.columns {
        Some(columns) => json!({ "cells": columns.row(object, options.now) }),
        None => built_in_row(printer, object, options),
    };
    row["object"] = match options.include_object {
        IncludeObject::None => Value::Null,
        IncludeObject::Object => object.clone(),
        IncludeObject::Metadata => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": options.api_version,
            "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
        }),
    };
    row
}

fn built_in_row(printer: &Printer, object: &Value, options: &TableOptions) -> Value {
    let cells = (printer.row)(object, options.now);
    debug_assert_eq!(cells.len(), printer.columns.len());
    let mut row = json!({ "cells": cells });
    if let Some(conditions) = (printer.conditions)(object) {
        row["conditions"] = conditions;
    }
    row
}

/// A column's head as the table has it.
pub fn column_definition(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    })
}

#[cfg(test)]
mod tests;
