//! `-o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image`.
//!
//! Each column is a title and a path; what the path finds in an object stands in its row, several values with commas between them. Values
//! look as Go prints them: `map[app:web]`, `[1 2]`.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/get/customcolumn.go`.

use serde_json::Value;

use super::go_template::float;
use super::{jsonpath, table};
use crate::patch::go_value;

/// The table of the given columns.
///
/// # Errors
/// A column without a title or path.
pub fn render(spec: &str, items: &[Value]) -> Result<String, String> {
    let mut columns = Vec::new();
    for part in spec.split(',') {
        let untitled =
            || format!("unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>");
        let (title, path) = part.split_once(':').ok_or_else(untitled)?;
        let nodes = match path {
            // An empty path finds nothing.
            "" => None,
            path => {
                let relaxed = jsonpath::relaxed(path)
                    .map_err(|why| why.split(", got").next().unwrap_or_default().to_string())?;
                Some(jsonpath::parse(&relaxed)?)
            }
        };
        columns.push((title.to_string(), nodes));
    }
    let mut lines = vec![columns.iter().map(|(title, _)| title.clone()).collect::<Vec<_>>()];
    for item in items {
        let cell = |(_, nodes): &(String, Option<Vec<jsonpath::Node>>)| {
            let found = nodes.as_ref().map(|nodes| jsonpath::find_all(nodes, item).unwrap_or_default());
            let texts: Vec<String> = found.unwrap_or_default().iter().map(text).collect();
            if texts.is_empty() { "<none>".to_string() } else { texts.join(",") }
        };
        lines.push(columns.iter().map(cell).collect());
    }
    Ok(table::align(&lines))
}

/// A value as Go's `%v` prints it.
fn text(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or_default()),
        other => go_value(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_look_as_go_prints_them() {
        let items = [json!({"a": {"b": [1, {"c": "d"}]}, "e": 1_500_000.5, "f": null})];
        let page = render("A:.a,B:.a.b[*],E:e,N:,X:.x", &items).unwrap();
        let cells: Vec<&str> = page
            .lines()
            .nth(1)
            .unwrap()
            .split("   ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect();
        assert_eq!(cells, ["map[b:[1 map[c:d]]]", "1,map[c:d]", "1.5000005e+06", "<none>", "<none>"]);
        assert!(render("A", &items).unwrap_err().contains("expected <header>:<json-path-expr>"));
    }
}
