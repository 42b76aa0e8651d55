//! Printers: objects as text.
//!
//! *Step 1 of a pod's journey, on the way back.* Before: the server answered. After: the terminal.
//!
//! The server renders tables itself (it knows which columns a kind has), so kubectl can show kinds that it has never heard
//! of. The other forms are made here from the object's JSON.
//!
//! # Invariants
//! 1. Printing is a function from values to text.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/printers`, `kubectl/pkg/cmd/get/{customcolumn,table_printer}.go`. Left out: templates by URL.

use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::object::Object;

pub use flags::{PrintFlags, Printer, without_managed_fields};

/// Colour on a terminal.
pub mod color;
/// `-o custom-columns`.
pub mod custom_columns;
mod files;
mod flags;
mod go_json;
/// `-o go-template`.
pub mod go_template;
/// `-o jsonpath`.
pub mod jsonpath;
/// The order of `--sort-by`.
pub mod sorting;
/// Objects that kubectl made itself.
pub mod typed;
/// Tables that the server rendered.
pub mod table;
/// What a terminal would obey.
pub mod terminal;
/// What Go prints although nobody set it.
pub mod zero_values;

/// What `-o` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// The table, perhaps with all columns.
    Table {
        /// `-o wide`.
        wide: bool,
    },
    /// `kind/name`.
    Name,
    /// JSON, indented by four.
    Json,
    /// YAML.
    Yaml,
    /// A JSONPath template.
    JsonPath(String),
    /// A Go template.
    GoTemplate(String),
    /// Results of JSONPath, as JSON.
    JsonPathAsJson(String),
    /// Columns by JSONPath.
    CustomColumns(String),
}

const FORMATS: &str = "custom-columns,custom-columns-file,go-template,go-template-file,json,jsonpath,jsonpath-as-json,jsonpath-file,name,template,templatefile,wide,yaml";

impl Output {
    /// Reads the value of `-o`.
    ///
    /// # Errors
    /// A form that there isn't.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let (form, argument) = text.split_once('=').map_or((text, ""), |(form, argument)| (form, argument));
        Ok(match form {
            "" => Output::Table { wide: false },
            "wide" => Output::Table { wide: true },
            "name" => Output::Name,
            "json" => Output::Json,
            "yaml" => Output::Yaml,
            "jsonpath" if argument.is_empty() => {
                return Err(Failure::message("template format specified but no template given"));
            }
            "jsonpath" => Output::JsonPath(argument.to_string()),
            "go-template" | "template" | "jsonpath-as-json" if argument.is_empty() => {
                return Err(Failure::message("template format specified but no template given"));
            }
            "go-template" | "template" => Output::GoTemplate(argument.to_string()),
            "jsonpath-as-json" => Output::JsonPathAsJson(argument.to_string()),
            "go-template-file" | "templatefile" => Output::GoTemplate(files::read(argument)?),
            "jsonpath-file" => Output::JsonPath(files::read(argument)?),
            "custom-columns-file" => Output::CustomColumns(files::columns(&files::read(argument)?)),
            "custom-columns" if argument.is_empty() => {
                return Err(Failure::message("custom-columns format specified but no custom columns given"));
            }
            "custom-columns" => Output::CustomColumns(argument.to_string()),
            _ => {
                let why = format!(
                    "unable to match a printer suitable for the output format {text:?}, allowed formats are: {FORMATS}"
                );
                return Err(Failure::message(why));
            }
        })
    }

    /// Whether the server's table is wanted.
    pub fn is_table(&self) -> bool {
        matches!(self, Output::Table { .. })
    }

    /// The text of one object, or of a list.
    ///
    /// # Errors
    /// A template that can't be read or applied.
    pub fn render(&self, value: &Value) -> Result<String, Failure> {
        match self {
            Output::Json => Ok(to_json(value)),
            Output::Yaml => Ok(crate::yaml::to_yaml(value)),
            Output::JsonPath(template) => jsonpath::render(template, value).map_err(Failure::message),
            Output::JsonPathAsJson(template) => {
                let nodes = jsonpath::parse(template);
                let nodes = nodes.map_err(|e| format!("error parsing jsonpath {template}, {e}"));
                let found = nodes.and_then(|nodes| jsonpath::find_all(&nodes, value));
                Ok(to_json(&found.map_err(Failure::message)?.into()))
            }
            Output::GoTemplate(template) => go_template::render(template, value).map_err(Failure::message),
            Output::CustomColumns(spec) => {
                custom_columns::render(spec, items(value)).map_err(Failure::message)
            }
            Output::Name => Ok(items(value).iter().map(|item| format!("{}\n", value_name(item))).collect()),
            Output::Table { .. } => Err(Failure::message("the server did not send a table")),
        }
    }
}

/// The items of a list, or the object itself.
pub fn items(value: &Value) -> &[Value] {
    match value.get("items").and_then(Value::as_array) {
        Some(items) => items,
        None => std::slice::from_ref(value),
    }
}

fn value_name(value: &Value) -> String {
    Object::from_value(value.clone()).map(|object| object_name(&object)).unwrap_or_default()
}

/// `deployment.apps/web`: how commands name an object.
pub fn object_name(object: &Object) -> String {
    let gvk = object.gvk();
    let kind = gvk.kind.to_lowercase();
    match gvk.group.as_str() {
        "" => format!("{kind}/{}", object.name()),
        group => format!("{kind}.{group}/{}", object.name()),
    }
}

/// JSON as kubectl writes it: four spaces, a newline at the end, and Go's way with numbers and `<`.
pub fn to_json(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, go_json::GoFormatter::new());
    value.serialize(&mut serializer).expect("a JSON value serializes");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// Several objects as one `List`.
pub fn as_list(objects: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": objects})
}
