//! The page of `kubectl explain`: kind, field, description, fields.
//!
//! A schema says what it is in several ways: by itself, by a reference to another one, by `allOf` with one reference, as a
//! list or a map of something. The path of a field is followed through all of them.
//!
//! # In Kubernetes
//! `kubectl/pkg/explain/v2/templates/plaintext.tmpl`, `mitchellh/go-wordwrap` for the line breaks.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::resource::GroupVersionKind;

/// Lines are broken before this column.
const WIDTH: usize = 76;

/// The page for a field of a kind, or for the kind itself.
///
/// # Errors
/// The kind or the field isn't in the document.
pub fn render(
    gvk: &GroupVersionKind,
    document: &Value,
    path: &[&str],
    recursive: bool,
) -> Result<String, String> {
    let schemas = Schemas(document["components"]["schemas"].as_object());
    let kind = schemas.of_kind(gvk).ok_or_else(|| format!("GVR ({gvk}) not found in OpenAPI schema"))?;
    let mut page = head(gvk);
    let mut schema = kind;
    for (at, name) in path.iter().enumerate() {
        let properties = schemas.properties(schema);
        let missing = || format!("field {name:?} does not exist");
        schema = properties.and_then(|properties| properties.get(*name)).ok_or_else(missing)?;
        if at + 1 == path.len() {
            page += &format!("FIELD: {name} <{}>\n", schemas.type_name(schema));
            if let Some(values) = enum_values(schema) {
                page += &format!("ENUM:{}", values.iter().map(|v| format!("\n    {v}")).collect::<String>());
            }
            page += "\n\n";
        }
    }
    let description = schemas.description(schema);
    let description = if description.is_empty() { "<empty>".to_string() } else { description };
    page += &format!("DESCRIPTION:\n{}\n", indent(&wrap(&description, WIDTH), 4));
    let fields = schemas.fields(schema, 1, recursive, &mut BTreeSet::new());
    if !fields.is_empty() {
        page += &format!("FIELDS:\n{fields}");
    }
    Ok(page + "\n")
}

/// The head of a page.
pub fn head(gvk: &GroupVersionKind) -> String {
    let group = match gvk.group.as_str() {
        "" => String::new(),
        group => format!("GROUP:      {group}\n"),
    };
    format!("{group}KIND:       {}\nVERSION:    {}\n\n", gvk.kind, gvk.version)
}

struct Schemas<'a>(Option<&'a Map<String, Value>>);

/// The values that a field may have; the empty text is shown as `""`.
fn enum_values(schema: &Value) -> Option<Vec<&str>> {
    let values = schema["enum"].as_array()?.iter().filter_map(Value::as_str);
    let values: Vec<&str> = values.map(|value| if value.is_empty() { "\"\"" } else { value }).collect();
    Some(values).filter(|values| !values.is_empty())
}

/// In a list of fields, so many values are shown.
const ENUM_LIMIT: usize = 4;

impl<'a> Schemas<'a> {
    fn of_kind(&self, gvk: &GroupVersionKind) -> Option<&'a Value> {
        let is = |schema: &&Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.into_iter().flatten().any(|kind| {
                kind["group"] == gvk.group && kind["version"] == gvk.version && kind["kind"] == gvk.kind
            })
        };
        self.0?.values().find(is)
    }

    fn target(&self, schema: &'a Value) -> Option<&'a Value> {
        let name = schema["$ref"].as_str()?.rsplit('/').next()?;
        self.0?.get(name)
    }

    /// The schema behind a reference or a single `allOf`.
    fn resolved(&self, schema: &'a Value) -> &'a Value {
        if let Some(target) = self.target(schema) {
            return self.resolved(target);
        }
        match schema["allOf"].as_array().map(Vec::as_slice) {
            Some([one]) => self.resolved(one),
            _ => schema,
        }
    }

    /// The properties of an object, of a list's items or of a map's values.
    fn properties(&self, schema: &'a Value) -> Option<&'a Map<String, Value>> {
        let schema = self.resolved(schema);
        if let Some(properties) = schema["properties"].as_object() {
            return Some(properties);
        }
        let inner = ["items", "additionalProperties"].into_iter().find_map(|field| schema.get(field));
        self.properties(inner.filter(|inner| inner.is_object())?)
    }

    fn required(&self, schema: &'a Value) -> Vec<&'a str> {
        let schema = self.resolved(schema);
        let inner = ["items", "additionalProperties"].into_iter().find_map(|field| schema.get(field));
        match (schema["required"].as_array(), inner.filter(|inner| inner.is_object())) {
            (Some(required), _) => required.iter().filter_map(Value::as_str).collect(),
            (None, Some(inner)) if schema.get("properties").is_none() => self.required(inner),
            _ => Vec::new(),
        }
    }

    /// The field's own description, then that of its type.
    fn description(&self, schema: &'a Value) -> String {
        let schema = self.target(schema).unwrap_or(schema);
        let mut text = String::new();
        if let Some(own) = schema["description"].as_str().filter(|own| !own.is_empty()) {
            text += &format!("{own}\n");
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            text += &self.description(part);
        }
        for field in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get(field).filter(|inner| inner.is_object()) {
                text += &self.description(inner);
            }
        }
        text
    }

    /// `string`, `[]Container`, `map[string]Quantity`.
    fn type_name(&self, schema: &'a Value) -> String {
        if let Some(items) = schema.get("items") {
            return format!("[]{}", self.type_name(items));
        }
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            return format!("map[string]{}", self.type_name(values));
        }
        if let Some([one]) = schema["allOf"].as_array().map(Vec::as_slice) {
            return self.type_name(one);
        }
        match (schema["$ref"].as_str(), schema["type"].as_str()) {
            (Some(reference), _) => {
                // A type that is a plain value by another name (a time) is shown as that value.
                let plain = self.target(schema).and_then(|target| target["type"].as_str());
                if let Some(plain) = plain.filter(|plain| *plain != "object") {
                    return plain.to_string();
                }
                let name = reference.rsplit('/').next().unwrap_or(reference);
                name.rsplit('.').next().unwrap_or(name).to_string()
            }
            (None, Some(name)) if name != "object" => name.to_string(),
            (None, _) => "Object".to_string(),
        }
    }

    /// The list of fields, with their descriptions or with the fields below them.
    fn fields(
        &self,
        schema: &'a Value,
        level: usize,
        deep: bool,
        above: &mut BTreeSet<*const Value>,
    ) -> String {
        let Some(properties) = self.properties(schema) else { return String::new() };
        let required = self.required(schema);
        let pad = "  ".repeat(level);
        let mut text = String::new();
        for (name, field) in properties {
            let mark = if required.contains(&name.as_str()) { " -required-" } else { "" };
            text += &format!("{pad}{name}\t<{}>{mark}\n", self.type_name(field));
            if let Some(values) = enum_values(field) {
                let more = if values.len() > ENUM_LIMIT { ", ...." } else { "" };
                text += &format!("{pad}enum: {}{more}\n", values[..values.len().min(ENUM_LIMIT)].join(", "));
            }
            if !deep {
                let description = field["description"].as_str().unwrap_or("<no description>");
                text += &format!("{}\n\n", indent(&wrap(description, WIDTH), 2 + 2 * level));
                continue;
            }
            // A type that holds itself would never end.
            let key = std::ptr::from_ref(self.innermost(field));
            if above.insert(key) {
                text += &self.fields(field, level + 1, true, above);
                above.remove(&key);
            }
        }
        text
    }

    fn innermost(&self, schema: &'a Value) -> &'a Value {
        let schema = self.resolved(schema);
        let inner = ["items", "additionalProperties"].into_iter().find_map(|field| schema.get(field));
        inner.filter(|inner| inner.is_object()).map_or(schema, |inner| self.innermost(inner))
    }
}

fn indent(text: &str, spaces: usize) -> String {
    let pad = " ".repeat(spaces);
    text.split('\n').map(|line| format!("{pad}{line}")).collect::<Vec<_>>().join("\n")
}

/// Breaks lines at spaces; spaces inside a line stay as they are.
fn wrap(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let (mut word, mut space) = (String::new(), String::new());
    let (mut column, mut word_len, mut space_len) = (0, 0, 0);
    for c in text.chars() {
        if c == '\n' {
            if word.is_empty() && column + space_len > limit {
                space.clear();
            }
            out.push_str(&space);
            out.push_str(&word);
            out.push('\n');
            space.clear();
            word.clear();
            (column, word_len, space_len) = (0, 0, 0);
        } else if c.is_whitespace() && c != '\u{a0}' {
            if space.is_empty() || !word.is_empty() {
                column += space_len + word_len;
                out.push_str(&space);
                out.push_str(&word);
                space.clear();
                word.clear();
                (word_len, space_len) = (0, 0);
            }
            space.push(c);
            space_len += 1;
        } else {
            word.push(c);
            word_len += 1;
            if column + word_len + space_len > limit && word_len < limit {
                out.push('\n');
                space.clear();
                (column, space_len) = (0, 0);
            }
        }
    }
    if !word.is_empty() || column + space_len <= limit {
        out.push_str(&space);
    }
    out + &word
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_break_at_spaces_and_keep_double_ones() {
        assert_eq!(wrap("one two  three", 8), "one two\nthree");
        assert_eq!(wrap("one  two three", 9), "one  two\nthree");
        assert_eq!(wrap("see\nhttps://a-very-long-address", 8), "see\nhttps://a-very-long-address");
    }

    #[test]
    fn a_path_is_followed_through_references_lists_and_maps() {
        let document = json!({"components": {"schemas": {
            "x.Pod": {"x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
                "properties": {"list": {"type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/x.Item"}]}}}},
            "x.Item": {"description": "An item.", "required": ["name"],
                "properties": {"name": {"type": "string", "description": "Its name."}}},
        }}});
        let page = render(&GroupVersionKind::new("", "v1", "Pod"), &document, &["list"], false).unwrap();
        assert!(page.contains("FIELD: list <[]Item>"), "{page}");
        assert!(page.contains("  name\t<string> -required-\n    Its name.\n"), "{page}");
        assert!(render(&GroupVersionKind::new("", "v1", "Pod"), &document, &["nope"], false).is_err());
    }
}
