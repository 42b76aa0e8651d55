//! Evaluating a template.
//!
//! # In Kubernetes
//! `text/template/exec.go`.

use serde_json::Value;

use super::functions;
use super::parser::{Node, Operand, Pipeline, Template};

/// How deep templates may call each other.
const MAX_DEPTH: usize = 1000;

struct State<'a> {
    template: &'a Template,
    /// The variables in sight, the innermost last; `$` is the first.
    variables: Vec<(String, Value)>,
    depth: usize,
    /// Whether a field must be there.
    strict: bool,
}

pub(super) fn render(template: &Template, value: &Value, strict: bool) -> Result<String, String> {
    let variables = vec![(String::new(), value.clone())];
    let mut out = String::new();
    State { template, variables, depth: 0, strict }.walk(&template.nodes, value, &mut out)?;
    Ok(out)
}

/// What `if` and `and` take for true: all but zero values.
pub(super) fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

impl State<'_> {
    /// Variables that are declared in a block end with it.
    fn walk(&mut self, nodes: &[Node], dot: &Value, out: &mut String) -> Result<(), String> {
        let mark = self.variables.len();
        for node in nodes {
            self.node(node, dot, out)?;
        }
        self.variables.truncate(mark);
        Ok(())
    }

    fn node(&mut self, node: &Node, dot: &Value, out: &mut String) -> Result<(), String> {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Action(pipe) => {
                let value = self.pipeline(pipe, dot)?;
                if pipe.variables.is_empty() {
                    out.push_str(&functions::text(&value));
                }
            }
            Node::If(pipe, then, otherwise) => {
                let mark = self.variables.len();
                let chosen = if truth(&self.pipeline(pipe, dot)?) { then } else { otherwise };
                self.walk(chosen, dot, out)?;
                self.variables.truncate(mark);
            }
            Node::With(pipe, then, otherwise) => {
                let mark = self.variables.len();
                let value = self.pipeline(pipe, dot)?;
                match truth(&value) {
                    true => self.walk(then, &value, out)?,
                    false => self.walk(otherwise, dot, out)?,
                }
                self.variables.truncate(mark);
            }
            Node::Range(pipe, body, otherwise) => self.range(pipe, body, otherwise, dot, out)?,
            Node::Call(name, argument) => {
                let template = self.template;
                let nodes = template.defined.get(name);
                let nodes = nodes.ok_or_else(|| format!("template {name:?} not defined"))?;
                let value = argument.as_ref().map(|pipe| self.pipeline(pipe, dot)).transpose()?;
                let value = value.unwrap_or_default();
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err("exceeded maximum template depth".into());
                }
                let variables = std::mem::replace(&mut self.variables, vec![(String::new(), value.clone())]);
                self.walk(nodes, &value, out)?;
                self.variables = variables;
                self.depth -= 1;
            }
        }
        Ok(())
    }

    fn range(
        &mut self,
        pipe: &Pipeline,
        body: &[Node],
        otherwise: &[Node],
        dot: &Value,
        out: &mut String,
    ) -> Result<(), String> {
        let bare = Pipeline { variables: Vec::new(), ..pipe.clone() };
        let entries: Vec<(Value, Value)> = match self.pipeline(&bare, dot)? {
            Value::Array(items) => {
                items.into_iter().enumerate().map(|(at, item)| ((at as f64).into(), item)).collect()
            }
            Value::Object(map) => map.into_iter().map(|(key, value)| (key.into(), value)).collect(),
            Value::Null => Vec::new(),
            other => return Err(format!("range can't iterate over {}", functions::text(&other))),
        };
        if entries.is_empty() {
            return self.walk(otherwise, dot, out);
        }
        for (key, value) in entries {
            let mark = self.variables.len();
            match pipe.variables.as_slice() {
                [one] => self.variables.push((one.clone(), value.clone())),
                [first, second] => {
                    self.variables.push((first.clone(), key));
                    self.variables.push((second.clone(), value.clone()));
                }
                _ => {}
            }
            self.walk(body, &value, out)?;
            self.variables.truncate(mark);
        }
        Ok(())
    }

    fn pipeline(&mut self, pipe: &Pipeline, dot: &Value) -> Result<Value, String> {
        let mut piped = None;
        for command in &pipe.commands {
            piped = Some(self.command(command, dot, piped)?);
        }
        let value = piped.unwrap_or_default();
        for name in &pipe.variables {
            match pipe.assigns {
                false => self.variables.push((name.clone(), value.clone())),
                true => {
                    let found = self.variables.iter_mut().rev().find(|(known, _)| known == name);
                    found.ok_or_else(|| format!("undefined variable \"${name}\""))?.1 = value.clone();
                }
            }
        }
        Ok(value)
    }

    fn command(&mut self, operands: &[Operand], dot: &Value, piped: Option<Value>) -> Result<Value, String> {
        let (first, arguments) = operands.split_first().ok_or("missing value for command")?;
        let Operand::Function(name) = first else {
            return match arguments.is_empty() && piped.is_none() {
                true => self.operand(first, dot),
                false => Err("can't give argument to non-function".into()),
            };
        };
        let mut values = Vec::new();
        for argument in arguments {
            let value = self.operand(argument, dot)?;
            // `and` and `or` stop as soon as the answer is known.
            let decided = matches!(name.as_str(), "and" | "or") && truth(&value) == (name == "or");
            values.push(value);
            if decided {
                break;
            }
        }
        values.extend(piped);
        functions::call(name, &values).map_err(|e| format!("error calling {name}: {e}"))
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Value, String> {
        match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Field(names) => fields(dot, names, self.strict),
            Operand::Function(name) => {
                functions::call(name, &[]).map_err(|e| format!("error calling {name}: {e}"))
            }
            Operand::Variable(name, names) => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                let (_, value) = found.ok_or_else(|| format!("undefined variable \"${name}\""))?;
                fields(value, names, self.strict)
            }
            Operand::Nested(pipe, names) => {
                let value = self.pipeline(pipe, dot)?;
                fields(&value, names, self.strict)
            }
        }
    }
}

fn fields(value: &Value, names: &[String], strict: bool) -> Result<Value, String> {
    let mut value = value;
    for name in names {
        value = match value {
            Value::Object(map) if strict && !map.contains_key(name) => {
                return Err(format!("map has no entry for key {name:?}"));
            }
            Value::Object(map) => map.get(name).unwrap_or(&Value::Null),
            Value::Null => &Value::Null,
            other => {
                return Err(format!("can't evaluate field {name} in type {}", functions::type_name(other)));
            }
        };
    }
    Ok(value.clone())
}
