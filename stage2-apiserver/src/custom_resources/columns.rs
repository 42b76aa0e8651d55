//! Printer columns: what `kubectl get` prints of a custom kind is said by its definition.
//!
//! A column is a name, a type and a JSONPath. Every table begins with the name; a kind without columns of its own shows its age.
//!
//! # Invariants
//! 1. A row has as many cells as there are columns; what isn't there, or isn't of the column's type, is null.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go`.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};
use stage1_kubectl::printers::jsonpath::{self, Node};

use super::simple_path;
use crate::table::{self, cells};
use crate::validation::fields::{int, list, text};

/// The columns of one version of a custom kind.
#[derive(Debug)]
pub struct Columns(Vec<Column>);

#[derive(Debug)]
struct Column {
    head: Value,
    kind: String,
    path: Path,
}

/// Most paths are plain; the others are walked by kubectl's own JSONPath, which copies what it walks.
#[derive(Debug)]
enum Path {
    Plain(String),
    Full(Vec<Node>),
    Unreadable,
}

impl Path {
    fn parse(path: &str) -> Path {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if path.starts_with('.') && path.chars().all(plain) && !path.contains("..") {
            return Path::Plain(path.to_owned());
        }
        let nodes = jsonpath::relaxed(path).and_then(|template| jsonpath::parse(&template));
        nodes.map_or(Path::Unreadable, Path::Full)
    }

    fn first<'v>(&self, object: &'v Value) -> Option<Cow<'v, Value>> {
        match self {
            Path::Plain(path) => simple_path::get(object, path).map(Cow::Borrowed),
            Path::Full(nodes) => jsonpath::find_all(nodes, object).ok()?.into_iter().next().map(Cow::Owned),
            Path::Unreadable => None,
        }
    }
}

impl Columns {
    /// Reads `additionalPrinterColumns`.
    pub fn parse(version: &Value) -> Columns {
        let mut columns: Vec<Column> = list(version, "additionalPrinterColumns").iter().map(column).collect();
        if columns.is_empty() {
            let age = json!({
                "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": table::CREATION,
            });
            columns.push(column(&age));
        }
        Columns(columns)
    }

    /// The heads of the columns.
    pub fn definitions(&self) -> Vec<Value> {
        let name = table::column_definition(&table::NAME);
        std::iter::once(name).chain(self.0.iter().map(|column| column.head.clone())).collect()
    }

    /// One object's cells, at a time.
    pub fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = cells::name(object);
        std::iter::once(name).chain(self.0.iter().map(|column| column.cell(object, now))).collect()
    }
}

fn column(said: &Value) -> Column {
    let path = text(said, "jsonPath");
    let description = match text(said, "description") {
        "" => format!("Custom resource definition column (in JSONPath format): {path}"),
        description => description.to_owned(),
    };
    let head = json!({
        "name": text(said, "name"),
        "type": text(said, "type"),
        "format": text(said, "format"),
        "description": description,
        "priority": int(said, "priority"),
    });
    Column { head, kind: text(said, "type").to_owned(), path: Path::parse(path) }
}

impl Column {
    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(first) = self.path.first(object) else { return Value::Null };
        match self.kind.as_str() {
            "string" if first.is_null() => Value::Null,
            "string" => json!(jsonpath::text(&first)),
            "integer" => match first.as_i64() {
                Some(whole) => json!(whole),
                #[expect(clippy::cast_possible_truncation, reason = "Go truncates, too")]
                None => first.as_f64().map_or(Value::Null, |float| json!(float as i64)),
            },
            "number" if first.is_number() => first.into_owned(),
            "boolean" if first.is_boolean() => first.into_owned(),
            "date" => match first.as_str() {
                Some(time) if time.parse::<Timestamp>().is_ok() => json!(cells::since(time, now)),
                Some(_) => json!("<invalid>"),
                None => Value::Null,
            },
            _ => Value::Null,
        }
    }
}
