//! Replacements: a value of one object goes into fields of others.
//!
//! # In Kubernetes
//! `kustomize/api/filters/replacement/replacement.go`. Left out: `create` inside lists.

use std::path::Path;

use serde_json::{Map, Value};

use super::kustomization::{FieldOptions, Kustomization, Replacement, Target};
use super::patches::selects;
use super::{Resource, beside, read};
use crate::manifest;

/// Carries out all replacements of a kustomization.
///
/// # Errors
/// A source that isn't there, or a field that isn't there and may not be made.
pub fn apply(plan: &Kustomization, folder: &Path, resources: &mut [Resource]) -> Result<(), String> {
    for replacement in &plan.replacements {
        match replacement.path.as_str() {
            "" => replace(replacement, resources)?,
            path => {
                let content = read(&beside(folder, path))?;
                for document in manifest::documents(&content, path).map_err(|e| e.to_string())? {
                    let list = if document.is_array() { document } else { Value::Array(vec![document]) };
                    let list: Vec<Replacement> = serde_json::from_value(list).map_err(|e| e.to_string())?;
                    list.iter().try_for_each(|one| replace(one, resources))?;
                }
            }
        }
    }
    Ok(())
}

fn replace(replacement: &Replacement, resources: &mut [Resource]) -> Result<(), String> {
    let value = match &replacement.source_value {
        Some(value) => Value::from(value.as_str()),
        None => {
            let source = &replacement.source;
            let found: Vec<&Resource> =
                resources.iter().filter(|resource| selects(source, resource)).collect();
            let [from] = found.as_slice() else {
                let what =
                    if found.is_empty() { "nothing selected by" } else { "multiple matches for selector" };
                return Err(format!("{what} {}.{}", source.kind, source.name));
            };
            let path = if source.field_path.is_empty() { "metadata.name" } else { &source.field_path };
            let mut object = from.object.clone();
            let mut values = Vec::new();
            visit(&mut object, &split(path), false, &mut |value| values.push(value.clone()))?;
            let value = values.into_iter().next();
            let value = value.ok_or_else(|| {
                format!("fieldPath `{path}` is missing for replacement source {}", from.id())
            })?;
            part(&value, source.options.as_ref())
        }
    };
    for target in &replacement.targets {
        for resource in resources.iter_mut().filter(|resource| selects(&target.select, resource)) {
            if !target.reject.iter().any(|reject| selects(reject, resource)) {
                write(target, resource, &value)?;
            }
        }
    }
    Ok(())
}

/// A piece of the source's text, when a delimiter is given.
fn part(value: &Value, options: Option<&FieldOptions>) -> Value {
    match (options.filter(|options| !options.delimiter.is_empty()), value.as_str()) {
        (Some(options), Some(text)) => {
            let at = usize::try_from(options.index).unwrap_or(0);
            text.split(options.delimiter.as_str()).nth(at).unwrap_or_default().into()
        }
        _ => value.clone(),
    }
}

fn write(target: &Target, resource: &mut Resource, value: &Value) -> Result<(), String> {
    let paths = if target.field_paths.is_empty() {
        vec!["metadata.name".to_string()]
    } else {
        target.field_paths.clone()
    };
    let id = resource.id();
    for path in &paths {
        let mut written = 0;
        visit(&mut resource.object, &split(path), target.options.create, &mut |field| {
            *field = fitted(field, value, &target.options);
            written += 1;
        })?;
        if written == 0 {
            return Err(format!("unable to find field {path:?} in replacement target {id}"));
        }
    }
    Ok(())
}

/// The value in the type of the field that it replaces.
fn fitted(field: &Value, value: &Value, options: &FieldOptions) -> Value {
    let as_text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), String::from);
    if let (Some(old), false) = (field.as_str(), options.delimiter.is_empty()) {
        let mut parts: Vec<String> = old.split(options.delimiter.as_str()).map(String::from).collect();
        match usize::try_from(options.index) {
            Err(_) => parts.insert(0, as_text(value)),
            Ok(at) if at >= parts.len() => parts.push(as_text(value)),
            Ok(at) => parts[at] = as_text(value),
        }
        return parts.join(&options.delimiter).into();
    }
    match (field, value) {
        (Value::String(_), Value::Number(_) | Value::Bool(_)) => as_text(value).into(),
        (Value::Number(_) | Value::Bool(_), Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| value.clone())
        }
        _ => value.clone(),
    }
}

/// `a.b\.c.[name=x].0` in its parts.
fn split(path: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut escaped, mut bracket) = (false, false);
    for c in path.chars() {
        let last = parts.last_mut().expect("never empty");
        match c {
            _ if escaped => {
                last.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '.' if !bracket => parts.push(String::new()),
            c => {
                bracket = c == '[' || (bracket && c != ']');
                last.push(c);
            }
        }
    }
    parts
}

/// Calls `found` with every field that a path leads to.
fn visit(
    value: &mut Value,
    path: &[String],
    create: bool,
    found: &mut dyn FnMut(&mut Value),
) -> Result<(), String> {
    let Some((part, rest)) = path.split_first() else {
        found(value);
        return Ok(());
    };
    let condition = part.strip_prefix('[').and_then(|part| part.strip_suffix(']'));
    match (value, condition.and_then(|condition| condition.split_once('='))) {
        (Value::Array(list), Some((key, wanted))) => {
            let fits = |element: &&mut Value| element[key] == *wanted;
            list.iter_mut().filter(fits).try_for_each(|element| visit(element, rest, create, found))
        }
        (Value::Array(list), None) if part == "*" => {
            list.iter_mut().try_for_each(|element| visit(element, rest, create, found))
        }
        (Value::Array(list), None) => {
            let at: usize = part.parse().map_err(|_| format!("{part:?} is no index of a list"))?;
            list.get_mut(at).map_or(Ok(()), |element| visit(element, rest, create, found))
        }
        (Value::Object(map), _) => match map.get_mut(part) {
            Some(inner) => visit(inner, rest, create, found),
            None if create => {
                let made = if rest.is_empty() { Value::Null } else { Value::Object(Map::new()) };
                visit(map.entry(part.clone()).or_insert(made), rest, create, found)
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}
