//! Path elements: one step into an object, as field sets write it.
//!
//! `f:replicas` is a field, `k:{"name":"web"}` an item of a list that is a map, `v:"finalizer"` an item of a list that is a
//! set, `i:3` a position. The written form is also our form in memory: it is unique as long as keys are sorted, so two
//! steps are the same exactly if their texts are, and a field set read from an object is ready to use.
//!
//! # In Kubernetes
//! `structured-merge-diff/fieldpath/{element,serialize-pe}.go`.

use serde_json::{Map, Value};

use super::field_types::ListType;

/// A field of a struct or an entry of a map.
pub fn field(name: &str) -> String {
    format!("f:{name}")
}

/// The step to an item of a list that isn't atomic.
///
/// # Errors
/// The item has no key, in the words of the schema's check.
pub fn of_item(list: &ListType, item: &Value) -> Result<String, String> {
    if list.keys.is_empty() {
        return match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            scalar => Ok(format!("v:{scalar}")),
        };
    }
    let Some(fields) = item.as_object() else {
        return Err(match item {
            Value::Null => "associative list with keys may not have null elements".into(),
            _ => "associative list with keys may not have non-map elements".into(),
        });
    };
    // Keys are sorted in the type, so the text is canonical without a map in between.
    let mut text = String::from("k:{");
    for (index, key) in list.keys.iter().enumerate() {
        let value = fields.get(&key.name).or(key.default.as_ref()).ok_or_else(|| {
            let name = &key.name;
            format!(
                "associative list with keys has an element that omits key field {name:?} (and doesn't have default value)"
            )
        })?;
        if index > 0 {
            text.push(',');
        }
        text.push_str(&format!("{}:{value}", Value::from(key.name.as_str())));
    }
    text.push('}');
    Ok(text)
}

/// The canonical form of a step that somebody else wrote; `None` for what isn't one.
pub fn canonical(text: &str) -> Option<String> {
    let (kind, rest) = text.split_once(':')?;
    match kind {
        "f" => Some(text.to_owned()),
        "k" => serde_json::from_str::<Map<String, Value>>(rest)
            .ok()
            .map(|key| format!("k:{}", Value::Object(key))),
        "v" => serde_json::from_str::<Value>(rest).ok().map(|value| format!("v:{value}")),
        "i" => rest.parse::<u64>().ok().map(|index| format!("i:{index}")),
        _ => None,
    }
}

/// The step as messages show it: `.spec`, `[name="web"]`, `[="finalizer"]`, `[3]`.
pub fn shown(text: &str) -> String {
    let (kind, rest) = text.split_once(':').unwrap_or(("f", text));
    match kind {
        "k" => {
            let key: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let pairs: Vec<String> = key.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", pairs.join(","))
        }
        "v" => format!("[={rest}]"),
        "i" => format!("[{rest}]"),
        _ => format!(".{rest}"),
    }
}

/// A path as messages show it.
pub fn shown_path<'a>(path: impl IntoIterator<Item = &'a str>) -> String {
    path.into_iter().map(shown).collect()
}
