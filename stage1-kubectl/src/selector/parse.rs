//! Reading a label selector: a tokenizer and a parser of one rule.
//!
//! `app = web, tier in (a, b), !canary` splits into words, operators and punctuation; each requirement is a key followed by
//! an operator and its values. The errors name what was found and what was expected, as kubectl's users know them.
//!
//! # In Kubernetes
//! `Lexer` and `Parser` in `apimachinery/pkg/labels/selector.go`.

use std::collections::BTreeSet;

use super::{Operator, Requirement, SelectorError};

/// A piece of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

/// Longest first, so that `==` isn't read as two `=`.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let is_end = |c: char| c.is_whitespace() || "=!(),><".contains(c);
            let end = rest.find(is_end).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_string()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    tokens.push(Token::End);
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn take(&mut self, symbol: &str) -> bool {
        let is_it = matches!(self.peek(), Token::Symbol(s) if *s == symbol);
        if is_it {
            self.at += 1;
        }
        is_it
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Word(word) => format!("'{word}'"),
        Token::Symbol(symbol) => format!("'{symbol}'"),
        Token::End => "''".to_string(),
    }
}

fn expected(found: &Token, what: &str) -> SelectorError {
    SelectorError::Label(format!("found {}, expected: {what}", shown(found)))
}

/// All requirements of a selector.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    let mut requirements = Vec::new();
    if *parser.peek() == Token::End {
        return Ok(requirements);
    }
    loop {
        requirements.push(requirement(&mut parser)?);
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") if matches!(parser.peek(), Token::Word(_) | Token::Symbol("!")) => {}
            Token::Symbol(",") => return Err(expected(parser.peek(), "identifier after ','")),
            other => return Err(expected(&other, "',' or 'end of string'")),
        }
    }
}

fn requirement(parser: &mut Parser) -> Result<Requirement, SelectorError> {
    let absent = parser.take("!");
    let key = match parser.next() {
        Token::Word(word) => word,
        other => return Err(expected(&other, "identifier")),
    };
    check_key(&key)?;
    if absent {
        let operator = Operator::DoesNotExist;
        return Ok(Requirement { key, operator });
    }
    if matches!(parser.peek(), Token::End | Token::Symbol(",")) {
        let operator = Operator::Exists;
        return Ok(Requirement { key, operator });
    }
    let operator = match parser.next() {
        Token::Symbol("=" | "==") => Operator::In([exact_value(parser)?].into()),
        Token::Symbol("!=") => Operator::NotIn([exact_value(parser)?].into()),
        Token::Symbol(">") => Operator::GreaterThan(integer(parser)?),
        Token::Symbol("<") => Operator::LessThan(integer(parser)?),
        Token::Word(word) if word == "in" => Operator::In(values(parser)?),
        Token::Word(word) if word == "notin" => Operator::NotIn(values(parser)?),
        other => return Err(expected(&other, "in, notin, =, ==, !=, gt, lt")),
    };
    Ok(Requirement { key, operator })
}

/// A value after `=`; `a=` and `a=,b` mean the empty value.
fn exact_value(parser: &mut Parser) -> Result<String, SelectorError> {
    match parser.peek().clone() {
        Token::End | Token::Symbol(",") => Ok(String::new()),
        Token::Word(word) => {
            parser.at += 1;
            check_value(&word)?;
            Ok(word)
        }
        other => Err(expected(&other, "identifier")),
    }
}

fn integer(parser: &mut Parser) -> Result<i64, SelectorError> {
    let word = exact_value(parser)?;
    word.parse().map_err(|_| {
        let why = "for 'Gt', 'Lt' operators, the value must be an integer";
        SelectorError::Label(format!("values[0]: Invalid value: {word:?}: {why}"))
    })
}

/// `(a, b)`; a missing value between commas is the empty value.
fn values(parser: &mut Parser) -> Result<BTreeSet<String>, SelectorError> {
    if !parser.take("(") {
        return Err(expected(parser.peek(), "'('"));
    }
    let mut values = BTreeSet::new();
    loop {
        match parser.next() {
            Token::Word(word) => {
                check_value(&word)?;
                values.insert(word);
                match parser.next() {
                    Token::Symbol(",") => {}
                    Token::Symbol(")") => return Ok(values),
                    other => return Err(expected(&other, "',' or ')'")),
                }
            }
            Token::Symbol(")") => {
                values.insert(String::new());
                return Ok(values);
            }
            Token::Symbol(",") => drop(values.insert(String::new())),
            other => return Err(expected(&other, "',', ')' or identifier")),
        }
    }
}

const NAME_FORMAT: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_FORMAT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().last())
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    if is_name(name) && name.len() <= 63 {
        return Ok(());
    }
    let why = format!("key: Invalid value: {}: {NAME_FORMAT}", crate::status::quote(key));
    Err(SelectorError::Label(why))
}

fn check_value(value: &str) -> Result<(), SelectorError> {
    if value.is_empty() || (is_name(value) && value.len() <= 63) {
        return Ok(());
    }
    let why = format!("values[0][]: Invalid value: {}: {VALUE_FORMAT}", crate::status::quote(value));
    Err(SelectorError::Label(why))
}
