//! Reading a JSONPath template.
//!
//! # In Kubernetes
//! `client-go/util/jsonpath/parser.go`.

use serde_json::Value;

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// Copied.
    Text(String),
    /// What a path finds.
    Path(Vec<Step>),
    /// The inner part, once for each thing that the path finds.
    Range(Vec<Step>, Vec<Node>),
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Back to the whole value (`$`).
    Root,
    /// A field.
    Field(String),
    /// Every element or field.
    Wildcard,
    /// All values below.
    Recursive,
    /// A slice: start, end, step.
    Slice(Option<i64>, Option<i64>, Option<i64>),
    /// Several fields or positions.
    Union(Vec<Step>),
    /// Elements for which a comparison holds.
    Filter(Operand, String, Operand),
    /// Elements for which a path finds something.
    Exists(Operand),
}

/// A side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A path from the element (`@.a`).
    Path(Vec<Step>),
    /// A constant.
    Constant(Value),
}

/// Reads a template.
///
/// # Errors
/// What is wrong, in the words of Kubernetes' parser.
pub fn parse(template: &str) -> Result<Vec<Node>, String> {
    let mut parser = Parser { chars: template.chars().collect(), at: 0 };
    let nodes = parser.nodes(false)?;
    Ok(nodes)
}

struct Parser {
    chars: Vec<char>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += 1;
        c
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c))
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(|c| c == ' ' || c == '\t') {
            self.at += 1;
        }
    }

    /// Nodes until the end, or until `{end}`.
    fn nodes(&mut self, in_range: bool) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        let mut text = String::new();
        while let Some(c) = self.next() {
            if c != '{' {
                text.push(c);
                continue;
            }
            if !text.is_empty() {
                nodes.push(Node::Text(std::mem::take(&mut text)));
            }
            if self.action(&mut nodes, in_range)? {
                return Ok(nodes);
            }
        }
        if !text.is_empty() {
            nodes.push(Node::Text(text));
        }
        if in_range {
            return Err("unclosed range, missing {end}".into());
        }
        Ok(nodes)
    }

    /// What stands between braces. True at `{end}`.
    fn action(&mut self, nodes: &mut Vec<Node>, in_range: bool) -> Result<bool, String> {
        loop {
            self.skip_spaces();
            match self.peek() {
                None => return Err("unclosed action".into()),
                Some('}') => {
                    self.at += 1;
                    return Ok(false);
                }
                Some(quote @ ('"' | '\'')) => nodes.push(Node::Text(self.quoted(quote)?)),
                _ if self.starts_with("range") => {
                    self.at += 5;
                    self.skip_spaces();
                    let path = self.path()?;
                    self.close()?;
                    nodes.push(Node::Range(path, self.nodes(true)?));
                    return Ok(false);
                }
                _ if self.starts_with("end") => {
                    self.at += 3;
                    self.close()?;
                    if !in_range {
                        return Err("not in range, nothing to end".into());
                    }
                    return Ok(true);
                }
                _ => {
                    let start = self.at;
                    let path = self.path()?;
                    if self.at == start {
                        let rest: String = self.chars[start..].iter().take_while(|c| **c != '}').collect();
                        return Err(format!("unrecognized character in action: {:?}", rest.chars().next()));
                    }
                    nodes.push(Node::Path(path));
                }
            }
        }
    }

    fn close(&mut self) -> Result<(), String> {
        self.skip_spaces();
        match self.next() {
            Some('}') => Ok(()),
            _ => Err("unclosed action".into()),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err("unterminated quoted string".into()),
                Some(c) if c == quote => return Ok(text),
                Some('\\') => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(c) => text.push(c),
                    None => return Err("unterminated quoted string".into()),
                },
                Some(c) => text.push(c),
            }
        }
    }

    fn path(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        loop {
            match self.peek() {
                Some('$') => {
                    self.at += 1;
                    steps.push(Step::Root);
                }
                Some('@') => self.at += 1,
                Some('.') if self.starts_with("..") => {
                    self.at += 1;
                    steps.push(Step::Recursive);
                    if self.chars.get(self.at + 1) == Some(&'[') {
                        self.at += 1;
                    }
                }
                Some('.') => {
                    self.at += 1;
                    match self.peek() {
                        Some('*') => {
                            self.at += 1;
                            steps.push(Step::Wildcard);
                        }
                        Some('[') => {}
                        _ => {
                            let name = self.name();
                            if !name.is_empty() {
                                steps.push(Step::Field(name));
                            }
                        }
                    }
                }
                Some('[') => steps.push(self.brackets()?),
                Some(c) if steps.is_empty() && (c.is_alphanumeric() || c == '_') => {
                    steps.push(Step::Field(self.name()));
                }
                _ => return Ok(steps),
            }
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            match c {
                '\\' => {
                    self.at += 1;
                    name.extend(self.next());
                }
                '.' | '[' | ']' | '{' | '}' | ' ' | '|' | '"' | '\'' | '=' | '!' | '<' | '>' | ')' | ','
                | '@' | '$' => break,
                c => {
                    name.push(c);
                    self.at += 1;
                }
            }
        }
        name
    }

    fn brackets(&mut self) -> Result<Step, String> {
        self.at += 1;
        if self.starts_with("?(") {
            self.at += 2;
            return self.filter();
        }
        let mut parts = vec![String::new()];
        let mut quoted = vec![false];
        loop {
            let last = parts.len() - 1;
            match self.peek() {
                None => return Err("unterminated array".into()),
                Some(']') => {
                    self.at += 1;
                    break;
                }
                Some(',') => {
                    self.at += 1;
                    parts.push(String::new());
                    quoted.push(false);
                }
                Some('\'') => {
                    parts[last] = self.quoted('\'')?;
                    quoted[last] = true;
                }
                // Only single quotes make a field of it.
                Some('"') => parts[last] = format!("{:?}", self.quoted('"')?),
                Some(c) => {
                    self.at += 1;
                    if c != ' ' {
                        parts[last].push(c);
                    }
                }
            }
        }
        let mut steps = Vec::new();
        for (part, quoted) in parts.into_iter().zip(quoted) {
            steps.push(if quoted { Step::Field(part) } else { index(&part)? });
        }
        Ok(if steps.len() == 1 { steps.remove(0) } else { Step::Union(steps) })
    }

    fn filter(&mut self) -> Result<Step, String> {
        let left = self.operand()?;
        self.skip_spaces();
        if self.starts_with(")]") {
            self.at += 2;
            return Ok(Step::Exists(left));
        }
        let operator = ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|o| self.starts_with(o));
        let operator = operator.ok_or("unterminated filter")?;
        self.at += operator.len();
        let right = self.operand()?;
        self.skip_spaces();
        if !self.starts_with(")]") {
            return Err("unterminated filter".into());
        }
        self.at += 2;
        Ok(Step::Filter(left, operator.to_string(), right))
    }

    fn operand(&mut self) -> Result<Operand, String> {
        self.skip_spaces();
        match self.peek() {
            Some(quote @ ('"' | '\'')) => Ok(Operand::Constant(self.quoted(quote)?.into())),
            Some('@' | '.' | '$') => Ok(Operand::Path(self.path()?)),
            _ => {
                let mut word = String::new();
                while let Some(c) = self.peek().filter(|c| !" )=!<>".contains(*c)) {
                    word.push(c);
                    self.at += 1;
                }
                let value =
                    serde_json::from_str(&word).map_err(|_| format!("unrecognized identifier {word}"))?;
                Ok(Operand::Constant(value))
            }
        }
    }
}

/// `*`, `3`, `-1`, `1:3`, `::2`.
fn index(text: &str) -> Result<Step, String> {
    if text == "*" {
        return Ok(Step::Wildcard);
    }
    let bad = || format!("invalid array index {text}");
    let number = |part: &str| match part {
        "" => Ok(None),
        part => part.parse::<i64>().map(Some).map_err(|_| bad()),
    };
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [""] => Err(bad()),
        [one] => {
            let at = number(one)?.ok_or_else(bad)?;
            Ok(Step::Slice(Some(at), if at == -1 { None } else { Some(at + 1) }, Some(0)))
        }
        [start, end] => Ok(Step::Slice(number(start)?, number(end)?, None)),
        [start, end, step] => Ok(Step::Slice(number(start)?, number(end)?, number(step)?)),
        _ => Err(bad()),
    }
}
