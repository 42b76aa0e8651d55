//! Reading a template: text and actions become a tree.
//!
//! # In Kubernetes
//! `text/template/parse/{lex,parse}.go`.

use std::collections::BTreeMap;

use serde_json::Value;

/// A template with those that it defines.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Template {
    pub(super) nodes: Vec<Node>,
    pub(super) defined: BTreeMap<String, Vec<Node>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Text(String),
    Action(Pipeline),
    If(Pipeline, Vec<Node>, Vec<Node>),
    With(Pipeline, Vec<Node>, Vec<Node>),
    Range(Pipeline, Vec<Node>, Vec<Node>),
    Call(String, Option<Pipeline>),
}

/// `$a, $b := command | command`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Pipeline {
    pub(super) variables: Vec<String>,
    /// `=` instead of `:=`.
    pub(super) assigns: bool,
    pub(super) commands: Vec<Vec<Operand>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand {
    Literal(Value),
    Function(String),
    /// Fields of the dot.
    Field(Vec<String>),
    /// Fields of a variable.
    Variable(String, Vec<String>),
    /// Fields of a pipeline in parentheses.
    Nested(Pipeline, Vec<String>),
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Field(Vec<String>),
    Variable(String, Vec<String>),
    Literal(Value),
    Symbol(&'static str),
}

/// A text, or an action and the line that it begins in.
enum Piece {
    Text(String),
    Action(Vec<Token>, usize),
}

/// Reads a template.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Template, String> {
    let at = |line: usize, why: String| format!("template: output:{line}: {why}");
    let pieces = pieces(text).map_err(|(line, why)| at(line, why))?;
    let last_line = line_of(text, "");
    let mut parser = Parser { pieces: pieces.into_iter(), defined: BTreeMap::new(), line: 1, last_line };
    let (nodes, end) = parser.block().map_err(|why| at(parser.line, why))?;
    match end {
        None => Ok(Template { nodes, defined: parser.defined }),
        Some(End::End) => Err(at(parser.line, "unexpected {{end}}".into())),
        Some(End::Else(_)) => Err(at(parser.line, "unexpected {{else}}".into())),
    }
}

/// The line, from 1, in which the rest of a text begins.
fn line_of(text: &str, rest: &str) -> usize {
    1 + text[..text.len() - rest.len()].matches('\n').count()
}

/// Splits into text and actions; `{{-` and `-}}` take the space beside them. An error comes with its line.
fn pieces(text: &str) -> Result<Vec<Piece>, (usize, String)> {
    let mut pieces = Vec::new();
    let (mut rest, mut trim) = (text, false);
    loop {
        let start = rest.find("{{");
        let mut plain = &rest[..start.unwrap_or(rest.len())];
        if trim {
            plain = plain.trim_start();
        }
        let Some(start) = start else {
            pieces.push(Piece::Text(plain.to_string()));
            return Ok(pieces);
        };
        let line = line_of(text, &rest[start..]);
        let mut action = &rest[start + 2..];
        if let Some(trimmed) = action.strip_prefix("- ").or_else(|| action.strip_prefix("-\n")) {
            plain = plain.trim_end();
            action = trimmed;
        }
        pieces.push(Piece::Text(plain.to_string()));
        let unclosed = |what: &str| (line, format!("unclosed {what}"));
        if action.trim_start().starts_with("/*") {
            let (_, after) = action.split_once("*/").ok_or_else(|| unclosed("comment"))?;
            (rest, trim) = closed(after.trim_start()).ok_or_else(|| unclosed("action"))?;
            continue;
        }
        let (tokens, after) = tokens(action).map_err(|why| (line, why))?;
        (rest, trim) = closed(after).ok_or_else(|| unclosed("action"))?;
        pieces.push(Piece::Action(tokens, line));
    }
}

/// What follows an action's end, and whether the space behind it goes.
fn closed(after: &str) -> Option<(&str, bool)> {
    let dashed = after.strip_prefix('-').filter(|_| after.starts_with("-}}"));
    Some((dashed.unwrap_or(after).strip_prefix("}}")?, dashed.is_some()))
}

/// The tokens of an action, and what follows them.
fn tokens(text: &str) -> Result<(Vec<Token>, &str), String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if rest.starts_with("}}") || rest.starts_with("-}}") {
            return Ok((tokens, rest));
        }
        let c = rest.chars().next().ok_or("unclosed action")?;
        let symbol = [":=", "=", "|", "(", ")", ","].into_iter().find(|s| rest.starts_with(*s));
        if let Some(symbol) = symbol {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
            // `(…).a`
            if let (")", true) = (symbol, rest.starts_with('.')) {
                let (names, after) = fields(rest);
                tokens.push(Token::Symbol("."));
                tokens.push(Token::Field(names));
                rest = after;
            }
            continue;
        }
        let (token, after) = match c {
            '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let (names, after) = fields(rest);
                (Token::Field(names), after)
            }
            '$' => {
                let end = word_end(&rest[1..]) + 1;
                let (names, after) = fields(&rest[end..]);
                (Token::Variable(rest[1..end].to_string(), names), after)
            }
            '"' | '`' | '\'' => text_literal(rest, c)?,
            c if c.is_ascii_digit() || "+-.".contains(c) => {
                let end = rest[1..].find(|c: char| !c.is_alphanumeric() && !"._".contains(c));
                let (number, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
                let value: f64 = number.parse().map_err(|_| format!("bad number syntax: {number:?}"))?;
                (Token::Literal(value.into()), after)
            }
            c if c.is_alphabetic() || c == '_' => {
                let (word, after) = rest.split_at(word_end(rest));
                (Token::Word(word.to_string()), after)
            }
            c => return Err(format!("unexpected {c:?} in command")),
        };
        tokens.push(token);
        rest = after;
    }
}

fn word_end(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// `.a.b`; a lone dot has no names.
fn fields(text: &str) -> (Vec<String>, &str) {
    let (mut names, mut rest) = (Vec::new(), text);
    while let Some(after) = rest.strip_prefix('.') {
        let end = word_end(after);
        if end > 0 {
            names.push(after[..end].to_string());
        }
        rest = &after[end..];
    }
    (names, rest)
}

fn text_literal(text: &str, quote: char) -> Result<(Token, &str), String> {
    let mut escaped = false;
    let end = text[1..].find(|c: char| {
        let ends = c == quote && !escaped;
        escaped = c == '\\' && !escaped && quote != '`';
        ends
    });
    let end = end.ok_or("unterminated quoted string")? + 1;
    let (inner, after) = (&text[1..end], &text[end + 1..]);
    if quote == '`' {
        return Ok((Token::Literal(inner.into()), after));
    }
    let read: String = serde_json::from_str(&format!("\"{}\"", inner.replace("\\'", "'")))
        .map_err(|_| format!("invalid syntax: {}", &text[..=end]))?;
    let value = match (quote, read.chars().next()) {
        ('\'', Some(c)) => Value::from(f64::from(c as u32)),
        _ => Value::from(read),
    };
    Ok((Token::Literal(value), after))
}

/// What ended a block: `end`, `else`, or `else if …`.
enum End {
    End,
    Else(Vec<Token>),
}

struct Parser {
    pieces: std::vec::IntoIter<Piece>,
    defined: BTreeMap<String, Vec<Node>>,
    /// Where it reads.
    line: usize,
    last_line: usize,
}

impl Parser {
    fn block(&mut self) -> Result<(Vec<Node>, Option<End>), String> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let tokens = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Piece::Action(tokens, line) => {
                    self.line = line;
                    tokens
                }
            };
            let keyword = match tokens.first() {
                Some(Token::Word(word)) => word.as_str(),
                _ => "",
            };
            match keyword {
                "end" => return Ok((nodes, Some(End::End))),
                "else" => return Ok((nodes, Some(End::Else(tokens[1..].to_vec())))),
                "if" | "with" | "range" => nodes.push(self.control(keyword, &tokens[1..])?),
                "define" | "block" => {
                    let Some(Token::Literal(Value::String(name))) = tokens.get(1) else {
                        return Err(format!("unexpected token in {keyword} clause"));
                    };
                    let (inner, end) = self.block()?;
                    if !matches!(end, Some(End::End)) {
                        return Err("unexpected EOF".into());
                    }
                    self.defined.insert(name.clone(), inner);
                    if keyword == "block" {
                        nodes.push(Node::Call(name.clone(), Some(pipeline(&tokens[2..])?)));
                    }
                }
                "template" => {
                    let Some(Token::Literal(Value::String(name))) = tokens.get(1) else {
                        return Err("unexpected token in template clause".into());
                    };
                    let argument = Some(&tokens[2..]).filter(|rest| !rest.is_empty());
                    nodes.push(Node::Call(name.clone(), argument.map(pipeline).transpose()?));
                }
                _ => nodes.push(Node::Action(pipeline(&tokens)?)),
            }
        }
        self.line = self.last_line;
        Ok((nodes, None))
    }

    fn control(&mut self, keyword: &str, tokens: &[Token]) -> Result<Node, String> {
        let pipe = pipeline_for(keyword, tokens)?;
        let (body, end) = self.block()?;
        let otherwise = match end {
            None => return Err("unexpected EOF".into()),
            Some(End::End) => Vec::new(),
            Some(End::Else(rest)) => match rest.first() {
                None => match self.block()? {
                    (nodes, Some(End::End)) => nodes,
                    _ => return Err("expected end; found {{else}}".into()),
                },
                // `{{else if}}` shares the `{{end}}` of the whole.
                Some(Token::Word(word)) if word == "if" || word == "with" => {
                    vec![self.control(&word.clone(), &rest[1..])?]
                }
                Some(_) => return Err("unexpected token in else".into()),
            },
        };
        Ok(match keyword {
            "if" => Node::If(pipe, body, otherwise),
            "with" => Node::With(pipe, body, otherwise),
            _ => Node::Range(pipe, body, otherwise),
        })
    }
}

fn pipeline(tokens: &[Token]) -> Result<Pipeline, String> {
    pipeline_for("command", tokens)
}

/// `what` is named where there is no value for it.
fn pipeline_for(what: &str, tokens: &[Token]) -> Result<Pipeline, String> {
    let mut pipe = Pipeline::default();
    let is_declaration = |t: &Token| matches!(t, Token::Symbol(":=" | "="));
    let mut rest = tokens;
    if let Some(at) = tokens.iter().position(is_declaration) {
        pipe.assigns = tokens[at] == Token::Symbol("=");
        for token in tokens[..at].iter().filter(|t| **t != Token::Symbol(",")) {
            match token {
                Token::Variable(name, fields) if fields.is_empty() => pipe.variables.push(name.clone()),
                _ => return Err("unexpected \":=\" in operand".into()),
            }
        }
        rest = &tokens[at + 1..];
    }
    let mut tokens = rest.iter();
    pipe.commands = commands(&mut tokens, false)?;
    match pipe.commands.iter().any(Vec::is_empty) {
        true => Err(format!("missing value for {what}")),
        false => Ok(pipe),
    }
}

/// Commands up to the end, or to the closing parenthesis.
fn commands(tokens: &mut std::slice::Iter<'_, Token>, nested: bool) -> Result<Vec<Vec<Operand>>, String> {
    let mut commands = vec![Vec::new()];
    while let Some(token) = tokens.next() {
        let last = commands.last_mut().expect("never empty");
        match token {
            Token::Symbol("|") => commands.push(Vec::new()),
            Token::Symbol("(") => {
                let inner = Pipeline { commands: self::commands(tokens, true)?, ..Pipeline::default() };
                let mut fields = Vec::new();
                if tokens.as_slice().first() == Some(&Token::Symbol("."))
                    && let Some(Token::Field(names)) = tokens.nth(1)
                {
                    fields = names.clone();
                }
                last.push(Operand::Nested(inner, fields));
            }
            Token::Symbol(")") if nested => return Ok(commands),
            Token::Symbol(other) => return Err(format!("unexpected {other:?} in command")),
            Token::Field(names) => last.push(Operand::Field(names.clone())),
            Token::Variable(name, names) => last.push(Operand::Variable(name.clone(), names.clone())),
            Token::Literal(value) => last.push(Operand::Literal(value.clone())),
            Token::Word(word) => last.push(match word.as_str() {
                "true" => Operand::Literal(true.into()),
                "false" => Operand::Literal(false.into()),
                "nil" => Operand::Literal(Value::Null),
                word if super::functions::exists(word) => Operand::Function(word.to_string()),
                word => return Err(format!("function {word:?} not defined")),
            }),
        }
    }
    if nested { Err("unclosed left paren".into()) } else { Ok(commands) }
}
