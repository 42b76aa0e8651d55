//! Evaluating a JSONPath template.
//!
//! # In Kubernetes
//! `client-go/util/jsonpath/jsonpath.go`. A field that isn't there is left out, as kubectl allows missing keys.

use serde_json::Value;

use super::parser::{Node, Operand, Step};

pub(super) fn render(nodes: &[Node], value: &Value, strict: bool) -> Result<String, String> {
    let mut out = String::new();
    render_into(nodes, &Scope { root: value, strict }, value, &mut out)?;
    Ok(out)
}

/// What `$` is, and whether a field must be there.
struct Scope<'a> {
    root: &'a Value,
    strict: bool,
}

fn render_into(nodes: &[Node], scope: &Scope<'_>, current: &Value, out: &mut String) -> Result<(), String> {
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Path(steps) => {
                let found = walk(steps, scope, vec![current.clone()])?;
                let texts: Vec<String> = found.iter().map(text).collect();
                out.push_str(&texts.join(" "));
            }
            Node::Range(steps, inner) => {
                for element in walk(steps, scope, vec![current.clone()])? {
                    render_into(inner, scope, &element, out)?;
                }
            }
        }
    }
    Ok(())
}

/// Everything that the paths of a template find.
///
/// # Errors
/// A position outside a list.
pub fn find_all(nodes: &[Node], value: &Value) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    for node in nodes {
        if let Node::Path(steps) = node {
            let scope = Scope { root: value, strict: false };
            found.extend(walk(steps, &scope, vec![value.clone()])?);
        }
    }
    Ok(found)
}

/// A text as it is, everything else as JSON.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn walk(steps: &[Step], scope: &Scope<'_>, start: Vec<Value>) -> Result<Vec<Value>, String> {
    let mut current = start;
    for step in steps {
        let mut next = Vec::new();
        for value in &current {
            apply(step, scope, value, &mut next)?;
        }
        if matches!(step, Step::Root) {
            next = vec![scope.root.clone()];
        }
        current = next;
    }
    Ok(current)
}

fn apply(step: &Step, scope: &Scope<'_>, value: &Value, out: &mut Vec<Value>) -> Result<(), String> {
    let root = scope.root;
    match step {
        Step::Root => {}
        Step::Field(name) if scope.strict && value.get(name).is_none() => {
            return Err(format!("{name} is not found"));
        }
        Step::Field(name) => out.extend(value.get(name).cloned()),
        // To Go a text is a list of bytes.
        Step::Wildcard => match value {
            Value::String(text) => out.extend(text.bytes().map(Value::from)),
            value => out.extend(children(value)),
        },
        Step::Recursive => descend(value, out),
        Step::Slice(start, end, step) => {
            let Value::Array(items) = value else {
                return match value {
                    Value::Null => Ok(()),
                    other => Err(format!("{} is not array or slice", kind(other))),
                };
            };
            out.extend(slice(items, *start, *end, *step)?);
        }
        Step::Union(steps) => {
            for inner in steps {
                apply(inner, scope, value, out)?;
            }
        }
        Step::Filter(left, operator, right) => {
            for item in elements(value) {
                if holds(&item, root, left, operator, right) {
                    out.push(item);
                }
            }
        }
        Step::Exists(operand) => {
            for item in elements(value) {
                if operand_value(&item, root, operand).is_some() {
                    out.push(item);
                }
            }
        }
    }
    Ok(())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "map[string]interface {}",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        _ => "float64",
    }
}

fn children(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::Object(map) => map.values().cloned().collect(),
        _ => Vec::new(),
    }
}

fn elements(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        _ => Vec::new(),
    }
}

fn descend(value: &Value, out: &mut Vec<Value>) {
    out.push(value.clone());
    for child in children(value) {
        descend(&child, out);
    }
}

/// A step of 0 means: one position, which must exist.
fn slice(
    items: &[Value],
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
) -> Result<Vec<Value>, String> {
    let len = items.len() as i64;
    let single = step == Some(0);
    let from_end = |at: i64| if at < 0 { at + len } else { at };
    let start = from_end(start.unwrap_or(0));
    let end = end.map_or(len, |end| if end < 0 || (end == 0 && single) { end + len } else { end });
    if single && (start < 0 || start >= len) {
        return Err(format!("array index out of bounds: index {start}, length {len}"));
    }
    let (start, end) = (start.clamp(0, len) as usize, end.clamp(0, len) as usize);
    if end <= start {
        return Ok(Vec::new());
    }
    let step = step.filter(|s| *s > 0).unwrap_or(1) as usize;
    Ok(items[start..end].iter().step_by(step).cloned().collect())
}

fn operand_value(item: &Value, root: &Value, operand: &Operand) -> Option<Value> {
    match operand {
        Operand::Constant(value) => Some(value.clone()),
        Operand::Path(steps) => {
            let scope = Scope { root, strict: false };
            walk(steps, &scope, vec![item.clone()]).ok()?.into_iter().next()
        }
    }
}

fn holds(item: &Value, root: &Value, left: &Operand, operator: &str, right: &Operand) -> bool {
    let (Some(left), Some(right)) = (operand_value(item, root, left), operand_value(item, root, right))
    else {
        return false;
    };
    let order = match (&left, &right) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    };
    match (operator, order) {
        ("==", order) => order.is_some_and(|o| o.is_eq()),
        ("!=", order) => order.is_none_or(|o| o.is_ne()),
        ("<", Some(order)) => order.is_lt(),
        ("<=", Some(order)) => order.is_le(),
        (">", Some(order)) => order.is_gt(),
        (">=", Some(order)) => order.is_ge(),
        _ => false,
    }
}
