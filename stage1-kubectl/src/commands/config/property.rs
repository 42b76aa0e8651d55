//! `set` and `unset`: one value by its path, as in `clusters.kind.server`.
//!
//! Names may hold dots themselves: a name that exists is recognised, otherwise everything between the list's name and the
//! last part is the name.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/config/{set,unset,navigation_step_parser}.go`, which walk the structs by reflection. Left out: values
//! inside `exec`, `auth-provider` and `extensions` (refused upstream too, or not parseable).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::entries::take;
use super::files::Files;
use crate::failure::Failure;
use crate::kubeconfig::Config;

const CLUSTER: &[(&str, Kind)] = &[
    ("server", Kind::Text),
    ("tls-server-name", Kind::Text),
    ("insecure-skip-tls-verify", Kind::Bool),
    ("certificate-authority", Kind::Text),
    ("certificate-authority-data", Kind::Bytes),
    ("proxy-url", Kind::Text),
    ("disable-compression", Kind::Bool),
];
const USER: &[(&str, Kind)] = &[
    ("client-certificate", Kind::Text),
    ("client-certificate-data", Kind::Bytes),
    ("client-key", Kind::Text),
    ("client-key-data", Kind::Bytes),
    ("token", Kind::Text),
    ("tokenFile", Kind::Text),
    ("act-as", Kind::Text),
    ("act-as-uid", Kind::Text),
    ("username", Kind::Text),
    ("password", Kind::Text),
];
const CONTEXT: &[(&str, Kind)] = &[("cluster", Kind::Text), ("user", Kind::Text), ("namespace", Kind::Text)];

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Bool,
    Bytes,
}

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    CurrentContext,
    Preferences(&'a str),
    /// A whole list.
    List(&'a str),
    /// An entry, or one of its fields.
    Entry {
        list: &'a str,
        name: String,
        field: Option<(&'static str, Kind)>,
    },
}

fn names(config: &Config, list: &str) -> Vec<String> {
    match list {
        "clusters" => config.clusters.iter().map(|c| c.name.clone()).collect(),
        "users" => config.users.iter().map(|u| u.name.clone()).collect(),
        _ => config.contexts.iter().map(|c| c.name.clone()).collect(),
    }
}

fn fields(list: &str) -> &'static [(&'static str, Kind)] {
    match list {
        "clusters" => CLUSTER,
        "users" => USER,
        _ => CONTEXT,
    }
}

fn locate<'a>(config: &Config, path: &'a str) -> Result<Place<'a>, Failure> {
    let lost = |after: &str, kind: &str| {
        Failure::message(format!("unable to parse {path} after [{after}] at api.{kind}"))
    };
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match (first, rest) {
        ("current-context", "") => Ok(Place::CurrentContext),
        ("preferences", "colors") => Ok(Place::Preferences(rest)),
        ("clusters" | "users" | "contexts", "") => Ok(Place::List(first)),
        ("clusters" | "users" | "contexts", _) => {
            let known = names(config, first).into_iter().filter(|name| {
                rest.strip_prefix(name.as_str())
                    .is_some_and(|after| after.is_empty() || after.starts_with('.'))
            });
            let name = known.max_by_key(String::len).unwrap_or_else(|| {
                let last =
                    rest.rsplit_once('.').filter(|(_, field)| fields(first).iter().any(|(f, _)| f == field));
                last.map_or(rest, |(name, _)| name).to_string()
            });
            let field = rest[name.len()..].trim_start_matches('.');
            if field.is_empty() {
                return Ok(Place::Entry { list: first, name, field: None });
            }
            let found = fields(first).iter().find(|(known, _)| *known == field);
            let kind = match first {
                "clusters" => "Cluster",
                "users" => "AuthInfo",
                _ => "Context",
            };
            let field = *found.ok_or_else(|| lost(&format!("{first} {name}"), kind))?;
            Ok(Place::Entry { list: first, name, field: Some(field) })
        }
        _ => Err(lost("", "Config")),
    }
}

fn read(kind: Kind, value: &str, raw_bytes: bool) -> Result<Value, Failure> {
    match kind {
        Kind::Text => Ok(value.into()),
        Kind::Bool => match value {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true.into()),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false.into()),
            other => Err(Failure::message(format!("strconv.ParseBool: parsing {other:?}: invalid syntax"))),
        },
        Kind::Bytes if raw_bytes => Ok(STANDARD.encode(value).into()),
        Kind::Bytes => match STANDARD.decode(value) {
            Ok(_) => Ok(value.into()),
            Err(base64::DecodeError::InvalidByte(at, _)) => Err(Failure::message(format!(
                "error decoding input value: illegal base64 data at input byte {at}"
            ))),
            Err(_) => {
                let at = value.len() / 4 * 4;
                Err(Failure::message(format!(
                    "error decoding input value: illegal base64 data at input byte {at}"
                )))
            }
        },
    }
}

/// Sets the value at a path.
///
/// # Errors
/// A path that leads nowhere, or a value of the wrong type.
pub fn set(files: &mut Files, path: &str, value: &str, raw_bytes: bool) -> Result<(), Failure> {
    match locate(&files.merged(), path)? {
        Place::CurrentContext => files.set_current_context(value),
        Place::Preferences(field) => {
            let value = read(Kind::Bool, value, raw_bytes)?;
            let preferences = files.default_config().preferences.get_or_insert_with(|| json!({}));
            preferences[field] = value;
        }
        Place::List(_) | Place::Entry { field: None, .. } => {
            return Err(Failure::message("can't set a map to a value"));
        }
        Place::Entry { list, name, field: Some((field, kind)) } => {
            let value = read(kind, value, raw_bytes)?;
            change(files, list, &name, field, Some(value))?;
        }
    }
    Ok(())
}

/// Removes the value at a path.
///
/// # Errors
/// A path that leads nowhere.
pub fn unset(files: &mut Files, path: &str) -> Result<(), Failure> {
    match locate(&files.merged(), path)? {
        Place::CurrentContext => files.set_current_context(""),
        Place::Preferences(field) => {
            let preferences = files.default_config().preferences.as_mut().and_then(Value::as_object_mut);
            preferences.map(|map| map.remove(field));
        }
        Place::List(list) => files.each(|config| match list {
            "clusters" => config.clusters.clear(),
            "users" => config.users.clear(),
            _ => config.contexts.clear(),
        }),
        Place::Entry { list, name, field: None } => files.each(|config| {
            match list {
                "clusters" => take(&mut config.clusters, |c| c.name == name),
                "users" => take(&mut config.users, |u| u.name == name),
                _ => take(&mut config.contexts, |c| c.name == name),
            };
        }),
        Place::Entry { list, name, field: Some((field, _)) } => {
            if !names(&files.merged(), list).contains(&name) {
                return Err(Failure::message(format!("current map key `{name}` is invalid")));
            }
            change(files, list, &name, field, None)?;
        }
    }
    Ok(())
}

fn change(
    files: &mut Files,
    list: &str,
    name: &str,
    field: &str,
    value: Option<Value>,
) -> Result<(), Failure> {
    match list {
        "clusters" => edit(&mut files.cluster(name).0.cluster, field, value),
        "users" => edit(&mut files.user(name).0.user, field, value),
        _ => edit(&mut files.context(name).context, field, value),
    }
}

/// Changes one field of an entry, by the name that it has in the file.
fn edit<T: Serialize + DeserializeOwned>(
    entry: &mut T,
    field: &str,
    value: Option<Value>,
) -> Result<(), Failure> {
    let mut map = serde_json::to_value(&*entry).map_err(|e| Failure::message(e.to_string()))?;
    let key = match field {
        "act-as" => "as",
        "act-as-uid" => "as-uid",
        other => other,
    };
    match (value, map.as_object_mut()) {
        (Some(value), Some(map)) => drop(map.insert(key.to_string(), value)),
        (None, Some(map)) => drop(map.remove(key)),
        (_, None) => {}
    }
    *entry = serde_json::from_value(map).map_err(|e| Failure::message(e.to_string()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubeconfig::NamedCluster;

    #[test]
    fn a_name_with_dots_is_found_when_it_exists_and_guessed_when_not() {
        let mut config = Config::default();
        let name = |place: Result<Place<'_>, Failure>| match place.unwrap() {
            Place::Entry { name, field, .. } => (name, field.map(|(field, _)| field)),
            other => panic!("{other:?}"),
        };
        assert_eq!(name(locate(&config, "clusters.a.b.server")), ("a.b".into(), Some("server")));
        config.clusters.push(NamedCluster { name: "a".into(), ..NamedCluster::default() });
        config.clusters.push(NamedCluster { name: "a.b".into(), ..NamedCluster::default() });
        assert_eq!(name(locate(&config, "clusters.a.b.server")), ("a.b".into(), Some("server")));
        assert_eq!(name(locate(&config, "clusters.a.server")), ("a".into(), Some("server")));
        assert!(locate(&config, "foo.bar").is_err());
    }

    #[test]
    fn bytes_are_base64_unless_raw_and_booleans_are_gos() {
        assert_eq!(read(Kind::Bytes, "Zm9v", false).unwrap(), "Zm9v");
        assert_eq!(read(Kind::Bytes, "foo", true).unwrap(), "Zm9v");
        assert!(read(Kind::Bytes, "%%", false).is_err());
        assert!(read(Kind::Bool, "maybe", false).is_err());
    }
}
