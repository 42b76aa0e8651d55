//! Tables: the server sends columns and rows, we align them.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/printers/tableprinter.go`, `liggitt/tabwriter`: columns are at least six wide, three spaces apart.

use serde::Deserialize;
use serde_json::Value;

use super::terminal::escaped;

/// `meta.k8s.io/v1 Table`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Table {
    /// The columns.
    pub column_definitions: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Version of the list.
    pub metadata: Value,
}

/// A column.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Column {
    /// Its title.
    pub name: String,
    /// 0: always shown; else only with `-o wide`.
    pub priority: i32,
    /// `name` marks the column that names the object.
    pub format: String,
}

/// A row.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Row {
    /// One value a column.
    pub cells: Vec<Value>,
    /// The object's metadata.
    pub object: Value,
}

/// How to show a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// All columns.
    pub wide: bool,
    /// Leave the titles out.
    pub no_headers: bool,
    /// Begin with the namespace.
    pub with_namespace: bool,
    /// End with all labels.
    pub show_labels: bool,
    /// End with these labels, a column each.
    pub label_columns: Vec<String>,
    /// Put `kind.group/` before the name.
    pub kind_prefix: Option<String>,
}

/// The rows as texts, with the titles first unless they are unwanted.
pub fn lines(table: &Table, options: &TableOptions) -> Vec<Vec<String>> {
    let shown: Vec<usize> = (0..table.column_definitions.len())
        .filter(|at| options.wide || table.column_definitions[*at].priority == 0)
        .collect();
    let mut lines = Vec::new();
    if !options.no_headers {
        let mut titles: Vec<String> =
            shown.iter().map(|at| table.column_definitions[*at].name.to_uppercase()).collect();
        if options.with_namespace {
            titles.insert(0, "NAMESPACE".into());
        }
        titles.extend(
            options
                .label_columns
                .iter()
                .map(|label| label.rsplit('/').next().unwrap_or(label).to_uppercase()),
        );
        if options.show_labels {
            titles.push("LABELS".into());
        }
        lines.push(titles);
    }
    for row in &table.rows {
        let metadata = &row.object["metadata"];
        let mut cells: Vec<String> =
            shown.iter().map(|at| cell(row.cells.get(*at).unwrap_or(&Value::Null))).collect();
        // The column that names the object is the first one nearly everywhere; an event's is shown only when wide.
        let named = shown.iter().position(|at| table.column_definitions[*at].format == "name");
        if let (Some(prefix), Some(name)) = (&options.kind_prefix, named.and_then(|at| cells.get_mut(at))) {
            *name = format!("{prefix}/{name}");
        }
        if options.with_namespace {
            cells.insert(0, metadata["namespace"].as_str().unwrap_or_default().to_string());
        }
        let label = |key: &String| metadata["labels"][key].as_str().unwrap_or("").to_string();
        cells.extend(options.label_columns.iter().map(label));
        if options.show_labels {
            cells.push(labels(&metadata["labels"]));
        }
        lines.push(cells);
    }
    lines
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let end = text.find(['\n', '\r', '\u{c}']);
            end.map_or_else(|| text.clone(), |end| format!("{}...", &text[..end]))
        }
        Value::Null => "<none>".into(),
        other => other.to_string(),
    }
}

fn labels(labels: &Value) -> String {
    let pairs: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { "<none>".into() } else { pairs.join(",") }
}

/// Aligns columns: at least six wide, three spaces apart, the last one not padded.
pub fn align(lines: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for line in lines {
        for (at, cell) in line.iter().enumerate() {
            let width = (escaped(cell).chars().count() + 3).max(6);
            match widths.get_mut(at) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    let mut out = String::new();
    for line in lines {
        for (at, cell) in line.iter().enumerate() {
            let cell = escaped(cell);
            out.push_str(&cell);
            if at + 1 < line.len() {
                out.push_str(&" ".repeat(widths[at] - cell.chars().count()));
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cell_ends_with_its_first_line_and_says_so() {
        for text in ["a\nb", "a\rb", "a\u{c}b"] {
            assert_eq!(cell(&json!(text)), "a...");
        }
        assert_eq!(cell(&json!("a b")), "a b");
    }

    #[test]
    fn columns_are_aligned_and_wide_ones_hidden() {
        let table: Table = serde_json::from_value(json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "Age"}, {"name": "IP", "priority": 1}],
            "rows": [{"cells": ["a-long-name", "5d", "10.0.0.1"], "object": {"metadata": {"namespace": "x"}}}],
        }))
        .unwrap();
        let narrow = align(&lines(&table, &TableOptions::default()));
        assert_eq!(narrow, "NAME          AGE\na-long-name   5d\n");
        let wide = TableOptions { wide: true, with_namespace: true, ..TableOptions::default() };
        assert_eq!(
            align(&lines(&table, &wide)),
            "NAMESPACE   NAME          AGE   IP\nx           a-long-name   5d    10.0.0.1\n"
        );
    }
}
