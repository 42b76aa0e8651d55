//! `kubectl set env`: sets, removes and lists variables of containers.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/set/set_env.go`, `set/env/*.go`. Left out: `-` (variables from standard input), `--resolve` of values
//! that only a node knows.

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::change::{self, ChangeFlags};
use crate::commands::create::generate::sources::variable_name_error;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request;
use crate::resource::GroupVersionResource;

/// Flags of `kubectl set env`.
#[derive(Debug, Args)]
pub struct EnvArgs {
    /// Shared flags.
    #[command(flatten)]
    pub shared: ChangeFlags,
    /// The names of containers in the selected pod templates to change; may use wildcards.
    #[arg(short = 'c', long, default_value = "*")]
    pub containers: String,
    /// Variables, as KEY=VALUE.
    #[arg(short = 'e', long)]
    pub env: Vec<String>,
    /// The name of a resource from which to inject environment variables.
    #[arg(long, default_value = "")]
    pub from: String,
    /// Prefix to append to variable names.
    #[arg(long, default_value = "")]
    pub prefix: String,
    /// Keys to import from the resource.
    #[arg(long, value_delimiter = ',')]
    pub keys: Vec<String>,
    /// If true, display the environment and any changes in the standard format.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub list: bool,
    /// If true, show secret or configmap references when listing variables.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub resolve: bool,
    /// If true, allow environment to be overwritten.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub overwrite: bool,
}

/// What is to be set and removed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    set: Vec<Value>,
    remove: Vec<String>,
}

/// Splits arguments into resources and variables.
fn split(arguments: &[String]) -> Result<(&[String], &[String]), Failure> {
    let is_variable = |a: &String| a.find('=').is_some_and(|at| at > 0) || (a.ends_with('-') && a.len() > 1);
    let at = arguments.iter().position(is_variable).unwrap_or(arguments.len());
    let (resources, variables) = arguments.split_at(at);
    if !variables.iter().all(is_variable) {
        let why =
            format!("all resources must be specified before environment changes: {}", arguments.join(" "));
        return Err(Failure::message(why));
    }
    Ok((resources, variables))
}

fn parse(variables: &[String]) -> Result<Changes, Failure> {
    let mut changes = Changes::default();
    for variable in variables {
        match variable.split_once('=') {
            Some((name, value)) => {
                if let Some(why) = variable_name_error(name) {
                    return Err(Failure::message(format!("{name:?} is not a valid key name: {why}")));
                }
                changes.set.push(match value {
                    "" => json!({ "name": name }),
                    value => json!({"name": name, "value": value}),
                });
            }
            None => changes.remove.push(variable.trim_end_matches('-').to_string()),
        }
    }
    let both = changes.set.iter().find(|set| changes.remove.iter().any(|removed| set["name"] == *removed));
    match both.and_then(|set| set["name"].as_str()) {
        Some(name) => {
            Err(Failure::message(format!("can not both modify and remove environment variable {name:?}")))
        }
        None => Ok(changes),
    }
}

/// Runs `kubectl set env`.
///
/// # Errors
/// What couldn't be changed.
pub async fn run(ctx: &Context, args: EnvArgs) -> Result<(), Failure> {
    let (resources, variables) = split(&args.shared.arguments)?;
    if resources.is_empty() && args.shared.files.is_empty() {
        let why = "one or more resources must be specified as <resource> <name> or <resource>/<name>";
        return Err(Failure::message(why));
    }
    let mut changes = parse(&[&args.env[..], variables].concat())?;
    if !args.from.is_empty() {
        changes.set.extend(from(ctx, &args).await?);
    }
    let done = |object: &mut Object| {
        let before = object.clone();
        let fitted = change::containers(object, &args.containers, |container| {
            apply(&before, container, &changes, args.overwrite)?;
            if args.list {
                ctx.print(&listing(&before, container, args.resolve));
            }
            Ok(())
        })?;
        if fitted == Some(0) {
            let (kind, name) = (before.kind(), before.name());
            let pattern = &args.containers;
            ctx.warn(&format!("Warning: {kind}/{name} does not have any containers matching {pattern:?}\n"));
        }
        if fitted.is_none() {
            let why = format!("{} does not have a pod template", before.kind().to_lowercase());
            return Err(change::about(&before, &why));
        }
        // A list shows what would be; nothing is changed then.
        if args.list {
            *object = before;
        }
        Ok(())
    };
    change::each(ctx, &args.shared, resources, "env updated", done).await
}

/// A variable for each key of a ConfigMap or Secret.
async fn from(ctx: &Context, args: &EnvArgs) -> Result<Vec<Value>, Failure> {
    let (kind, name) = args.from.split_once('/').unwrap_or((&args.from, ""));
    let (resource, reference) = match kind.to_lowercase().as_str() {
        "configmap" | "configmaps" | "cm" => ("configmaps", "configMapKeyRef"),
        "secret" | "secrets" => ("secrets", "secretKeyRef"),
        _ => return Err(Failure::message(format!("unsupported resource specified in --from: {kind:?}"))),
    };
    let path = GroupVersionResource::new("", "v1", resource).path(Some(&ctx.namespace()), Some(name), None);
    let source: Object = ctx.client().await?.request(request::request(Method::GET, &path, None)).await?;
    let keys =
        source.get("/data").and_then(Value::as_object).map(|data| data.keys().cloned().collect::<Vec<_>>());
    let mut variables = Vec::new();
    for key in keys.unwrap_or_default() {
        if !args.keys.is_empty() && !args.keys.contains(&key) {
            continue;
        }
        let plain =
            |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_uppercase() } else { '_' };
        let variable: String = key.chars().map(plain).collect();
        if variable != key {
            ctx.warn(&format!("Warning: key {key} transferred to {variable}\n"));
        }
        let variable = format!("{}{variable}", args.prefix);
        variables.push(json!({"name": variable, "valueFrom": {reference: {"name": name, "key": key}}}));
    }
    Ok(variables)
}

/// Changes one container's variables: known ones in their place, new ones at the end.
fn apply(object: &Object, container: &mut Value, changes: &Changes, overwrite: bool) -> Result<(), Failure> {
    let old: Vec<Value> = container["env"].as_array().cloned().unwrap_or_default();
    if !overwrite {
        for set in &changes.set {
            if let Some(there) = old.iter().find(|there| there["name"] == set["name"]) {
                let name = set["name"].as_str().unwrap_or_default();
                let value = match there.get("valueFrom") {
                    Some(_) => "from a reference".to_string(),
                    None => format!("({})", there["value"].as_str().unwrap_or_default()),
                };
                let why = format!("'{name}' already has a value {value}, and --overwrite is false");
                return Err(change::about(object, &why));
            }
        }
    }
    // The last one wins when a name is given twice.
    let newest = |name: &Value| changes.set.iter().rev().find(|set| set["name"] == *name);
    let mut new: Vec<Value> = Vec::new();
    for there in &old {
        if !changes.remove.iter().any(|removed| there["name"] == *removed) {
            new.push(newest(&there["name"]).unwrap_or(there).clone());
        }
    }
    for set in &changes.set {
        if !new.iter().any(|there| there["name"] == set["name"]) {
            new.push(newest(&set["name"]).unwrap_or(set).clone());
        }
    }
    match (new.is_empty(), container.as_object_mut()) {
        (true, Some(map)) => drop(map.remove("env")),
        (false, Some(map)) => drop(map.insert("env".into(), new.into())),
        (_, None) => {}
    }
    Ok(())
}

fn listing(object: &Object, container: &Value, resolve: bool) -> String {
    let container_name = container["name"].as_str().unwrap_or_default();
    let mut text = format!("# {} {}, container {container_name}\n", object.kind(), object.name());
    for variable in container["env"].as_array().into_iter().flatten() {
        let name = variable["name"].as_str().unwrap_or_default();
        let at = |pointer: &str| variable.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let source = variable["valueFrom"].as_object().and_then(|map| map.keys().next()).map(String::as_str);
        let known = resolve.then(|| field(object, at("/valueFrom/fieldRef/fieldPath"))).flatten();
        text += &match (source, known) {
            (None, _) => format!("{name}={}\n", at("/value")),
            (Some("fieldRef"), Some(value)) => format!("{name}={value}\n"),
            (Some("fieldRef"), None) => {
                format!("# {name} from field path {}\n", at("/valueFrom/fieldRef/fieldPath"))
            }
            (Some("configMapKeyRef"), _) => format!(
                "# {name} from configmap {}, key {}\n",
                at("/valueFrom/configMapKeyRef/name"),
                at("/valueFrom/configMapKeyRef/key")
            ),
            (Some("secretKeyRef"), _) => format!(
                "# {name} from secret {}, key {}\n",
                at("/valueFrom/secretKeyRef/name"),
                at("/valueFrom/secretKeyRef/key")
            ),
            (Some("resourceFieldRef"), _) => {
                format!("# {name} from resource {}\n", at("/valueFrom/resourceFieldRef/resource"))
            }
            (Some(_), _) => String::new(),
        };
    }
    text
}

/// The fields that the object itself knows.
fn field(object: &Object, path: &str) -> Option<String> {
    match path {
        "metadata.name" => Some(object.name().to_string()),
        "metadata.namespace" => Some(object.namespace().unwrap_or_default().to_string()),
        "metadata.uid" => Some(object.uid().to_string()),
        path => {
            let (map, key) = path.strip_suffix("']")?.split_once("['")?;
            match map {
                "metadata.labels" => object.label(key).map(String::from),
                "metadata.annotations" => object.annotation(key).map(String::from),
                _ => None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_in_place_removed_and_added_at_the_end() {
        let object = Object::default();
        let mut container = json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]});
        let changes = parse(&["A=9".into(), "N=x".into(), "B-".into()]).unwrap();
        apply(&object, &mut container, &changes, true).unwrap();
        assert_eq!(container["env"], json!([{"name": "A", "value": "9"}, {"name": "N", "value": "x"}]));
        assert!(apply(&object, &mut container, &changes, false).is_err());
    }
}
