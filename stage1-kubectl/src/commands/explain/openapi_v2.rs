//! The page of `kubectl explain --output=plaintext-openapiv2`, from the server's older description of its kinds.
//!
//! *Step 1 of a pod's journey, when somebody reads up on it first.* Before: the document at `/openapi/v2`. After: a page as kubectl printed
//! it before 1.27, which scripts and people still ask for.
//!
//! A schema is read as one of six things ([`Model`]); a page, a type's name and the list of fields each walk through references, lists and
//! maps until they meet an object or a plain value. Descriptions are collected on the way: of the field, then of its type.
//!
//! # Invariants
//! 1. A type that holds itself is listed once (`--recursive` ends).
//!
//! # In Kubernetes
//! `kubectl/pkg/explain/{model_printer,fields_printer,recursive_fields_printer,typename,formatter}.go`, `kube-openapi/pkg/util/proto`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::resource::GroupVersionKind;

/// Lines are broken before this column.
const WIDTH: usize = 80;

/// What a schema is.
enum Model<'a> {
    Reference(&'a str),
    Kind(&'a Map<String, Value>),
    /// The schema of the values, where it is given.
    Map(Option<&'a Value>),
    Array(&'a Value),
    Primitive(&'a str),
    Arbitrary,
}

fn model(schema: &Value) -> Model<'_> {
    if let Some(reference) = schema["$ref"].as_str() {
        return Model::Reference(reference.trim_start_matches("#/definitions/"));
    }
    match (schema["type"].as_str(), schema["properties"].as_object()) {
        (None | Some("object"), Some(properties)) => Model::Kind(properties),
        (None, None) => Model::Arbitrary,
        (Some("object"), None) => {
            Model::Map(schema.get("additionalProperties").filter(|values| values.is_object()))
        }
        (Some("array"), _) => Model::Array(&schema["items"]),
        (Some(name), _) => Model::Primitive(name),
    }
}

fn description(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

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
    let empty = Map::new();
    let definitions = Definitions(document["definitions"].as_object().unwrap_or(&empty));
    let kind = definitions
        .of_kind(gvk)
        .ok_or_else(|| format!("couldn't find resource for {:?}", gvk.to_string()))?;
    let schema = path.iter().try_fold(kind, |schema, name| definitions.field(schema, name))?;
    let mut page = Page {
        definitions,
        name: path.last().copied(),
        type_name: None,
        descriptions: Vec::new(),
        recursive,
        gvk,
    };
    Ok(page.of(schema))
}

struct Definitions<'a>(&'a Map<String, Value>);

impl<'a> Definitions<'a> {
    fn of_kind(&self, gvk: &GroupVersionKind) -> Option<&'a Value> {
        let is = |schema: &&Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
            let same = |kind: &Value| {
                kind["group"].as_str().unwrap_or_default() == gvk.group
                    && kind["version"] == gvk.version
                    && kind["kind"] == gvk.kind
            };
            kinds.into_iter().any(same)
        };
        self.0.values().find(is)
    }

    fn target(&self, reference: &str) -> &'a Value {
        self.0.get(reference).unwrap_or(&Value::Null)
    }

    /// The schema of a field of an object, of a list's items or of a map's values.
    fn field(&self, schema: &'a Value, name: &str) -> Result<&'a Value, String> {
        let missing = || format!("field {name:?} does not exist");
        match model(schema) {
            Model::Reference(reference) => self.field(self.target(reference), name),
            Model::Kind(properties) => properties.get(name).ok_or_else(missing),
            Model::Map(Some(inner)) | Model::Array(inner) => self.field(inner, name),
            Model::Map(None) | Model::Primitive(_) | Model::Arbitrary => Err(missing()),
        }
    }

    /// `string`, `[]Object`, `map[string]string`.
    fn type_name(&self, schema: &Value) -> String {
        match model(schema) {
            Model::Reference(reference) => self.type_name(self.target(reference)),
            Model::Kind(_) => "Object".to_string(),
            Model::Map(inner) => {
                format!("map[string]{}", inner.map(|inner| self.type_name(inner)).unwrap_or_default())
            }
            Model::Array(inner) => format!("[]{}", self.type_name(inner)),
            Model::Primitive(name) => name.to_string(),
            Model::Arbitrary => String::new(),
        }
    }

    /// Fields with their descriptions.
    fn fields(&self, schema: &Value, properties: &Map<String, Value>) -> String {
        let required = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect::<BTreeSet<_>>();
        let one = |(name, field): (&String, &Value)| {
            let mark = if required.contains(name.as_str()) { " -required-" } else { "" };
            format!("   {name}\t<{}>{mark}\n{}\n", self.type_name(field), wrapped(description(field), 5))
        };
        properties.iter().map(one).collect()
    }

    /// Fields, and the fields below them.
    fn tree(&self, schema: &'a Value, indent: usize, above: &mut BTreeSet<&'a str>) -> String {
        match model(schema) {
            Model::Reference(reference) => {
                if !above.insert(reference) {
                    return String::new();
                }
                let text = self.tree(self.target(reference), indent, above);
                above.remove(reference);
                text
            }
            Model::Map(Some(inner)) | Model::Array(inner) => self.tree(inner, indent, above),
            Model::Kind(properties) => {
                let mut text = String::new();
                for (name, field) in properties {
                    text += &format!("{}{name}\t<{}>\n", " ".repeat(indent), self.type_name(field));
                    text += &self.tree(field, indent + 3, above);
                }
                text
            }
            Model::Map(None) | Model::Primitive(_) | Model::Arbitrary => String::new(),
        }
    }
}

/// A page in the making: what was collected on the way to the schema that it shows.
struct Page<'a> {
    definitions: Definitions<'a>,
    name: Option<&'a str>,
    type_name: Option<String>,
    descriptions: Vec<&'a str>,
    recursive: bool,
    gvk: &'a GroupVersionKind,
}

impl<'a> Page<'a> {
    fn of(&mut self, schema: &'a Value) -> String {
        let head = format!("KIND:     {}\nVERSION:  {}\n\n", self.gvk.kind, self.gvk.api_version());
        let inner = match model(schema) {
            Model::Reference(reference) => {
                self.descriptions.push(description(schema));
                return self.of(self.definitions.target(reference));
            }
            Model::Array(inner) => Some(inner),
            Model::Map(inner) => Some(inner.unwrap_or(&Value::Null)),
            Model::Kind(_) | Model::Primitive(_) | Model::Arbitrary => None,
        };
        let own = self.definitions.type_name(schema);
        let type_name = self.type_name.get_or_insert(own).clone();
        if let Some(inner) = inner {
            self.descriptions.push(description(schema));
            return self.of(inner);
        }
        match model(schema) {
            Model::Kind(properties) => {
                let resource =
                    self.name.map(|name| format!("RESOURCE: {name} <{type_name}>\n\n")).unwrap_or_default();
                let fields = match self.recursive {
                    true => self.definitions.tree(schema, 3, &mut BTreeSet::new()),
                    false => self.definitions.fields(schema, properties),
                };
                format!("{head}{resource}{}\nFIELDS:\n{fields}", self.description(schema))
            }
            Model::Primitive(_) => {
                format!(
                    "{head}FIELD:    {} <{type_name}>\n\n{}",
                    self.name.unwrap_or_default(),
                    self.description(schema)
                )
            }
            _ => format!("{head}{}", self.description(schema)),
        }
    }

    fn description(&self, schema: &Value) -> String {
        let mut text = String::from("DESCRIPTION:\n");
        let all = self.descriptions.iter().copied().chain([description(schema)]).enumerate();
        let mut empty = true;
        for (at, one) in all.filter(|(_, one)| !one.is_empty()) {
            empty = false;
            if at != 0 {
                text.push('\n');
            }
            text += &wrapped(one, 5);
        }
        if empty {
            text += &wrapped("<empty>", 5);
        }
        text
    }
}

/// A text in lines; code, lists, empty lines and what follows a colon keep their line ends.
fn wrapped(text: &str, indent: usize) -> String {
    let limit = WIDTH - indent;
    let (mut lines, mut line, mut last_word) = (Vec::<String>::new(), String::new(), "");
    for piece in text.split('\n') {
        let starts_anew = last_word.ends_with(':')
            || piece.starts_with("    ")
            || piece.trim().is_empty()
            || is_bullet(piece.trim());
        if piece.starts_with("    ") || (!lines.is_empty() && piece.trim().is_empty()) {
            if !line.is_empty() {
                lines.push(std::mem::take(&mut line));
                last_word = "";
            }
            lines.push(if piece.trim().is_empty() && !piece.starts_with("    ") {
                String::new()
            } else {
                piece.to_string()
            });
            continue;
        }
        if starts_anew && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for word in piece.split_whitespace() {
            if !line.is_empty() && line.len() + 1 + word.len() > limit {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
            last_word = word;
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    let pad = " ".repeat(indent);
    lines
        .iter()
        .map(|line| if line.is_empty() { "\n".to_string() } else { format!("{pad}{line}\n") })
        .collect()
}

/// `- `, `* `, `1. `, `1 `.
fn is_bullet(text: &str) -> bool {
    let rest = match text.strip_prefix(['-', '*']) {
        Some(rest) => rest,
        None => {
            let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
            if rest.len() == text.len() {
                return false;
            }
            rest.strip_prefix('.').unwrap_or(rest)
        }
    };
    rest.starts_with(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_names_the_field_and_collects_descriptions() {
        let document = json!({"definitions": {
            "x.Pod": {"type": "object", "description": "A pod.", "required": ["spec"], "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
                "properties": {"spec": {"description": "What is wanted.", "$ref": "#/definitions/x.Spec"}}},
            "x.Spec": {"type": "object", "description": "A spec.", "properties": {
                "list": {"type": "array", "description": "Many.", "items": {"$ref": "#/definitions/x.Spec"}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}}, "any": {"description": "Anything."}, "n": {"type": "integer", "description": "How many:\nso many"}}},
        }});
        let pod = GroupVersionKind::new("", "v1", "Pod");
        let page = render(&pod, &document, &[], false).unwrap();
        assert_eq!(
            page,
            "KIND:     Pod\nVERSION:  v1\n\nDESCRIPTION:\n     A pod.\n\nFIELDS:\n   spec\t<Object> -required-\n     What is wanted.\n\n"
        );
        let page = render(&pod, &document, &["spec", "list"], true).unwrap();
        assert!(page.starts_with("KIND:     Pod\nVERSION:  v1\n\nRESOURCE: list <[]Object>\n"), "{page}");
        assert!(page.contains("   any\t<>\n   list\t<[]Object>\n"), "{page}");
        let page = render(&pod, &document, &["spec", "n"], false).unwrap();
        assert!(
            page.ends_with("FIELD:    n <integer>\n\nDESCRIPTION:\n     How many:\n     so many\n"),
            "{page}"
        );
        assert_eq!(render(&pod, &document, &["nope"], false).unwrap_err(), "field \"nope\" does not exist");
    }
}
