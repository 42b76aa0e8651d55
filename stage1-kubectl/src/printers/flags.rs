//! Print flags: `-o`, `--template`, `--show-managed-fields`, `--allow-missing-template-keys`, in every command that prints objects.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/genericclioptions/print_flags.go`. Left out: nothing.

use clap::Args;
use serde_json::Value;

use super::{Output, files, go_template, jsonpath, typed};
use crate::failure::Failure;

/// The flags that say how objects are printed.
#[derive(Debug, Clone, Default, Args)]
pub struct PrintFlags {
    /// Output format. One of: (json, yaml, name, go-template, go-template-file, template, templatefile, jsonpath, jsonpath-as-json, jsonpath-file).
    #[arg(short = 'o', long, default_value = "", hide_default_value = true)]
    pub output: String,
    /// Template string or path to template file to use when -o=go-template, -o=go-template-file.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub template: String,
    /// If true, keep the managedFields when printing objects in JSON or YAML format.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub show_managed_fields: bool,
    /// If true, ignore any errors in templates when a field or map key is missing in the template.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allow_missing_template_keys: bool,
}

/// A form, and how strict it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printer {
    /// The form.
    pub form: Output,
    /// Whether `managedFields` are shown.
    pub show_managed_fields: bool,
    /// Whether a template may name what isn't there.
    pub allow_missing_keys: bool,
    /// Whether the object is a struct to kubectl, which orders its JSON.
    pub typed: bool,
}

impl PrintFlags {
    /// The printer that the flags ask for, if they ask for one.
    ///
    /// # Errors
    /// A form that there isn't, or a template that can't be read.
    pub fn printer(&self) -> Result<Option<Printer>, Failure> {
        if self.output.is_empty() && self.template.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.always()?))
    }

    /// As [`PrintFlags::printer`], with the table where nothing is asked for.
    ///
    /// # Errors
    /// As [`PrintFlags::printer`].
    pub fn always(&self) -> Result<Printer, Failure> {
        let (output, template) = (self.output.as_str(), self.template.as_str());
        let form = match (output, template) {
            (output, "") => Output::parse(output)?,
            ("" | "go-template" | "template", template) => Output::GoTemplate(template.to_string()),
            ("go-template-file" | "templatefile", path) => Output::GoTemplate(files::read(path)?),
            (
                "jsonpath" | "jsonpath-as-json" | "jsonpath-file" | "custom-columns" | "custom-columns-file",
                t,
            ) => Output::parse(&format!("{output}={t}"))?,
            (output, _) => Output::parse(output)?,
        };
        Ok(Printer {
            form,
            show_managed_fields: self.show_managed_fields,
            allow_missing_keys: self.allow_missing_template_keys,
            typed: false,
        })
    }
}

impl Printer {
    /// For objects that kubectl makes itself, or reads as structs.
    #[must_use]
    pub fn typed(self) -> Self {
        Printer { typed: true, ..self }
    }

    /// The text of one object, or of a list.
    ///
    /// # Errors
    /// A template that can't be read or applied.
    pub fn render(&self, value: &Value) -> Result<String, Failure> {
        let shown;
        let value = match self.show_managed_fields {
            true => value,
            false => {
                shown = without_managed_fields(value.clone());
                &shown
            }
        };
        match &self.form {
            Output::Json if self.typed => Ok(typed::to_json(value)),
            Output::JsonPath(template) if !self.allow_missing_keys => {
                jsonpath::render_strict(template, value).map_err(Failure::message)
            }
            Output::GoTemplate(template) if !self.allow_missing_keys => {
                go_template::render_strict(template, value).map_err(Failure::message)
            }
            form => form.render(value),
        }
    }
}

/// An object, or each of a list, without the record of who set which field.
pub fn without_managed_fields(mut value: Value) -> Value {
    let strip = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    match value.get_mut("items").and_then(Value::as_array_mut) {
        Some(items) => items.iter_mut().for_each(strip),
        None => strip(&mut value),
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_may_stand_in_a_flag_of_its_own() {
        let flags = |output: &str, template: &str| PrintFlags {
            output: output.into(),
            template: template.into(),
            allow_missing_template_keys: true,
            ..PrintFlags::default()
        };
        let value = json!({"a": 1, "metadata": {"managedFields": []}});
        let text = |flags: PrintFlags| flags.always().unwrap().render(&value).unwrap();
        assert_eq!(text(flags("", "{{.a}}")), "1");
        assert_eq!(text(flags("jsonpath", "{.a}")), "1");
        assert_eq!(text(flags("json", "")), "{\n    \"a\": 1,\n    \"metadata\": {}\n}\n");
        assert!(flags("", "").printer().unwrap().is_none());
        let strict = PrintFlags { allow_missing_template_keys: false, ..flags("jsonpath={.b}", "") };
        assert!(strict.always().unwrap().render(&value).unwrap_err().to_string().contains("b is not found"));
    }
}
