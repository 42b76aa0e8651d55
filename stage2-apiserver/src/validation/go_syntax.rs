//! Go syntax: the values that Kubernetes prints with `%#v`.
//!
//! Field errors show strings and numbers plainly; a struct, slice or map appears as a Go literal: `v1.LabelSelector{MatchLabels:map[string]
//! string{"app":"b"}, …}`. Only a few types ever appear in refusals that people see, so they are printed by hand.
//!
//! # In Kubernetes
//! Go's `fmt` with `%#v`. Left out: all other types, which are shown as JSON.

use serde_json::{Map, Value};
use stage1_kubectl::quantity::{Format, Quantity};
use stage1_kubectl::status::quote;

use super::fields::{child, int, list, text, texts};

/// A value that is printed as it stands, not quoted.
pub fn raw(text: impl Into<String>) -> Value {
    let mut map = Map::new();
    map.insert(stage1_kubectl::status::GO_SYNTAX.to_owned(), Value::String(text.into()));
    Value::Object(map)
}

/// `map[string]string{"a":"b"}`; `map[string]string(nil)` when absent.
pub fn string_map(value: &Value) -> String {
    match value.as_object() {
        None => "map[string]string(nil)".to_owned(),
        Some(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{}:{}", quote(k), quote(v.as_str().unwrap_or_default())))
                .collect();
            format!("map[string]string{{{}}}", entries.join(", "))
        }
    }
}

/// `[]string{"a", "b"}`, or another type name.
pub fn strings(type_name: &str, values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| quote(value)).collect();
    format!("{type_name}{{{}}}", quoted.join(", "))
}

/// `v1.LabelSelector{…}`.
pub fn label_selector(value: &Value) -> String {
    let expressions = if super::fields::has(value, "matchExpressions") {
        let items: Vec<String> = list(value, "matchExpressions").iter().map(requirement).collect();
        format!("[]v1.LabelSelectorRequirement{{{}}}", items.join(", "))
    } else {
        "[]v1.LabelSelectorRequirement(nil)".to_owned()
    };
    format!(
        "v1.LabelSelector{{MatchLabels:{}, MatchExpressions:{expressions}}}",
        string_map(child(value, "matchLabels"))
    )
}

fn requirement(value: &Value) -> String {
    let values = match value.get("values") {
        None | Some(Value::Null) => "[]string(nil)".to_owned(),
        Some(_) => strings("[]string", &texts(value, "values")),
    };
    let (key, operator) = (quote(text(value, "key")), quote(text(value, "operator")));
    format!("v1.LabelSelectorRequirement{{Key:{key}, Operator:{operator}, Values:{values}}}")
}

/// `intstr.IntOrString{Type:1, IntVal:0, StrVal:"50%"}`.
pub fn int_or_string(value: &Value) -> String {
    match value {
        Value::String(text) => format!("intstr.IntOrString{{Type:1, IntVal:0, StrVal:{}}}", quote(text)),
        other => format!(
            "intstr.IntOrString{{Type:0, IntVal:{}, StrVal:\"\"}}",
            other.as_i64().unwrap_or_default()
        ),
    }
}

/// `resource.Quantity{i:resource.int64Amount{value:2, scale:0}, …, s:"2", Format:"DecimalSI"}`.
pub fn quantity(value: &Value) -> String {
    let shown = value.as_str().unwrap_or("0");
    let parsed = Quantity::parse(shown).unwrap_or_default();
    let format = match parsed.format() {
        Format::DecimalSI => "DecimalSI",
        Format::BinarySI => "BinarySI",
        Format::DecimalExponent => "DecimalExponent",
    };
    let milli = parsed.milli_value();
    let (amount, scale) = if milli % 1000 == 0 { decimal_scale(parsed) } else { (milli, -3) };
    format!(
        "resource.Quantity{{i:resource.int64Amount{{value:{amount}, scale:{scale}}}, d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}}, \
         s:{}, Format:\"{format}\"}}",
        quote(shown)
    )
}

/// Decimal suffixes keep their scale, binary ones are multiplied out.
fn decimal_scale(quantity: Quantity) -> (i64, i32) {
    let text = quantity.to_string();
    let scale: i32 = match text.chars().last() {
        Some('k') => 3,
        Some('M') => 6,
        Some('G') => 9,
        Some('T') => 12,
        _ => 0,
    };
    (quantity.value() / 10_i64.pow(scale.unsigned_abs()), scale)
}

/// `v1.OwnerReference{…}`.
pub fn owner_reference(value: &Value) -> String {
    let pointer = |name: &str| match value.get(name) {
        None | Some(Value::Null) => "(*bool)(nil)".to_owned(),
        Some(_) => "(*bool)(0xc000000000)".to_owned(),
    };
    format!(
        "v1.OwnerReference{{APIVersion:{}, Kind:{}, Name:{}, UID:{}, Controller:{}, BlockOwnerDeletion:{}}}",
        quote(text(value, "apiVersion")),
        quote(text(value, "kind")),
        quote(text(value, "name")),
        quote(text(value, "uid")),
        pointer("controller"),
        pointer("blockOwnerDeletion"),
    )
}

/// `core.Taint{…}`.
pub fn taint(value: &Value) -> String {
    let (name, val, effect) =
        (quote(text(value, "key")), quote(text(value, "value")), quote(text(value, "effect")));
    let added = child(value, "timeAdded").as_str().unwrap_or("<nil>");
    format!("core.Taint{{Key:{name}, Value:{val}, Effect:{effect}, TimeAdded:{added}}}")
}

/// `[]int32{3, 2}`.
pub fn ints(type_name: &str, values: &[i64]) -> String {
    let shown: Vec<String> = values.iter().map(i64::to_string).collect();
    format!("{type_name}{{{}}}", shown.join(", "))
}

/// `rbac.RoleRef{…}`.
pub fn role_ref(value: &Value) -> String {
    let (group, kind, name) =
        (quote(text(value, "apiGroup")), quote(text(value, "kind")), quote(text(value, "name")));
    format!("rbac.RoleRef{{APIGroup:{group}, Kind:{kind}, Name:{name}}}")
}

/// `[]byte{0x6e, 0x6f}`.
pub fn bytes(value: &[u8]) -> String {
    let shown: Vec<String> = value.iter().map(|byte| format!("{byte:#x}")).collect();
    format!("[]byte{{{}}}", shown.join(", "))
}

/// `apps.RollingUpdateStatefulSetStrategy{Partition:1, …}`.
pub fn rolling_update_stateful_set(value: &Value) -> String {
    let partition = int(value, "partition");
    format!(
        "apps.RollingUpdateStatefulSetStrategy{{Partition:{partition}, MaxUnavailable:(*intstr.IntOrString)(nil)}}"
    )
}

/// `core.Toleration{…}`.
pub fn toleration(value: &Value) -> String {
    let part = |name: &str| quote(text(value, name));
    let seconds = if super::fields::has(value, "tolerationSeconds") {
        "(*int64)(0xc000000000)"
    } else {
        "(*int64)(nil)"
    };
    format!(
        "core.Toleration{{Key:{}, Operator:{}, Value:{}, Effect:{}, TolerationSeconds:{seconds}}}",
        part("key"),
        part("operator"),
        part("value"),
        part("effect"),
    )
}

/// A struct of pointers, as `%#v` prints it: which of them are set is all that one sees.
pub fn pointers(type_name: &str, fields: &[(&str, &str, &str)], value: &Value) -> String {
    let shown: Vec<String> = fields
        .iter()
        .map(|(go_name, json_name, go_type)| {
            let pointer = if super::fields::has(value, json_name) { "0xc000000000" } else { "nil" };
            format!("{go_name}:(*{go_type})({pointer})")
        })
        .collect();
    format!("{type_name}{{{}}}", shown.join(", "))
}
