//! Types of CEL, and the table of its functions.
//!
//! What a rule looks at is typed by the schema of its object, so that a field that isn't declared is found when the definition is created
//! and not when the first object comes. What a schema leaves open is `dyn`, and is judged when the rule runs.
//!
//! The functions with their types are a text, one overload a line: `string.contains(string) bool`. `A` and `B` stand for any type.
//!
//! # In Kubernetes
//! `apiserver/pkg/cel/common/schemas.go` (`SchemaDeclType`), `cel-go/common/{stdlib,types}`.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use crate::custom_resources::structural::Schema;

/// A type.
#[derive(Clone, Debug)]
pub enum Type<'s> {
    /// Not known before it is there.
    Dyn,
    /// One of CEL's own: `int`, `string`, …
    Plain(&'static str),
    /// A list.
    List(Box<Type<'s>>),
    /// A map.
    Map(Box<Type<'s>>, Box<Type<'s>>),
    /// Maybe a value.
    Optional(Box<Type<'s>>),
    /// An object with declared fields.
    Object(&'s Schema),
    /// An object's own `metadata`: name and generateName are known of it.
    Metadata,
    /// A type variable of a function.
    Variable(char),
}

impl<'s> Type<'s> {
    /// The type of what a schema describes.
    pub fn of(schema: &'s Schema) -> Type<'s> {
        if schema.int_or_string {
            return Type::Dyn;
        }
        match schema.kind.as_str() {
            "boolean" => Type::Plain("bool"),
            "integer" => Type::Plain("int"),
            "number" => Type::Plain("double"),
            "string" => Type::Plain(match schema.checks.format.as_str() {
                "byte" => "bytes",
                "duration" => "duration",
                "date" | "date-time" => "timestamp",
                _ => "string",
            }),
            "array" => {
                let below = schema.items.as_deref().map_or(Type::Dyn, Type::of);
                Type::List(Box::new(below))
            }
            "object" => match schema.additional.schema() {
                Some(more) => Type::Map(Box::new(Type::Plain("string")), Box::new(Type::of(more))),
                None if schema.properties.is_empty() && schema.preserve_unknown_fields => Type::Dyn,
                None => Type::Object(schema),
            },
            _ => Type::Dyn,
        }
    }

    /// The type of a declared field.
    pub fn field(&self, name: &str) -> Option<Type<'s>> {
        match self {
            Type::Dyn => Some(Type::Dyn),
            Type::Plain("authorizer") => (name == "requestResource").then_some(Type::Plain("resourceCheck")),
            Type::Map(_, value) => Some((**value).clone()),
            Type::Object(schema) if schema.embedded_resource && name == "metadata" => Some(Type::Metadata),
            Type::Object(schema) if schema.embedded_resource && matches!(name, "apiVersion" | "kind") => {
                Some(Type::Plain("string"))
            }
            Type::Object(schema) => schema.properties.get(name).map(Type::of),
            Type::Metadata => matches!(name, "name" | "generateName").then_some(Type::Plain("string")),
            Type::Optional(inner) => inner.field(name).map(|found| Type::Optional(Box::new(found))),
            _ => None,
        }
    }

    /// Whether a value of this type may stand where another is wanted; type variables are bound on the way.
    fn fits(&self, wanted: &Type<'s>, bound: &mut HashMap<char, Type<'s>>) -> bool {
        match (self, wanted) {
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (this, Type::Variable(name)) => match bound.get(name).cloned() {
                Some(Type::Dyn) | None => {
                    bound.insert(*name, this.clone());
                    true
                }
                Some(known) => this.fits(&known, bound),
            },
            // A null stands where something nullable is wanted; which fields are isn't part of their type here.
            (Type::Plain("null_type"), _) | (_, Type::Plain("null_type")) => true,
            (Type::Plain(a), Type::Plain(b)) => a == b,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => a.fits(b, bound),
            (Type::Map(a, b), Type::Map(c, d)) => a.fits(c, bound) && b.fits(d, bound),
            (Type::Object(_) | Type::Metadata, Type::Map(_, value)) => {
                if let Type::Variable(name) = **value {
                    bound.entry(name).or_insert(Type::Dyn);
                }
                true
            }
            (Type::Object(_) | Type::Metadata | Type::Map(..), Type::Object(_) | Type::Metadata) => true,
            _ => false,
        }
    }

    fn with(&self, bound: &HashMap<char, Type<'s>>) -> Type<'s> {
        match self {
            Type::Variable(name) => bound.get(name).cloned().unwrap_or(Type::Dyn),
            Type::List(item) => Type::List(Box::new(item.with(bound))),
            Type::Optional(inner) => Type::Optional(Box::new(inner.with(bound))),
            Type::Map(key, value) => Type::Map(Box::new(key.with(bound)), Box::new(value.with(bound))),
            other => other.clone(),
        }
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn | Type::Variable(_) => f.write_str("dyn"),
            Type::Plain("duration") => f.write_str("google.protobuf.Duration"),
            Type::Plain("timestamp") => f.write_str("google.protobuf.Timestamp"),
            Type::Plain("null_type") => f.write_str("null"),
            Type::Plain("url") => f.write_str("kubernetes.URL"),
            Type::Plain("quantity") => f.write_str("kubernetes.Quantity"),
            Type::Plain("ip") => f.write_str("net.IP"),
            Type::Plain("cidr") => f.write_str("net.CIDR"),
            Type::Plain("authorizer") => f.write_str("kubernetes.authorization.Authorizer"),
            Type::Plain("pathCheck") => f.write_str("kubernetes.authorization.PathCheck"),
            Type::Plain("groupCheck") => f.write_str("kubernetes.authorization.GroupCheck"),
            Type::Plain("resourceCheck") => f.write_str("kubernetes.authorization.ResourceCheck"),
            Type::Plain("decision") => f.write_str("kubernetes.authorization.Decision"),
            Type::Plain(name) => f.write_str(name),
            Type::List(item) => write!(f, "list({item})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
            Type::Optional(inner) => write!(f, "optional_type({inner})"),
            Type::Object(_) | Type::Metadata => f.write_str("object"),
        }
    }
}

/// One way to call a function.
#[derive(Debug)]
struct Overload {
    is_member: bool,
    args: Vec<Type<'static>>,
    result: Type<'static>,
}

static OVERLOADS: LazyLock<HashMap<String, Vec<Overload>>> = LazyLock::new(|| {
    let mut table: HashMap<String, Vec<Overload>> = HashMap::new();
    for line in include_str!("overloads.txt").lines() {
        let (signature, result) = line.rsplit_once(' ').expect("a signature and a result");
        // The arguments are the last pair of brackets, which may have brackets in them.
        let open = opening(signature);
        let (head, args) = (&signature[..open], &signature[open + 1..signature.len() - 1]);
        let mut types: Vec<Type<'static>> = split(args).into_iter().map(parse).collect();
        let (target, name) = match head.rsplit_once('.') {
            // `ip` is a type and a namespace, too: `ip.isCanonical(text)` is of the latter.
            Some((target, name))
                if !super::functions::NAMESPACES.contains(&target)
                    || (target == "ip" && name != "isCanonical") =>
            {
                (Some(target), name)
            }
            _ => (None, head),
        };
        if let Some(target) = target {
            types.insert(0, parse(target));
        }
        let overload = Overload { is_member: target.is_some(), args: types, result: parse(result) };
        table.entry(name.to_owned()).or_default().push(overload);
    }
    table
});

/// Where the brackets open that close at the end.
fn opening(signature: &str) -> usize {
    let mut depth = 0;
    for (at, letter) in signature.char_indices().rev() {
        match letter {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    unreachable!("every line of the table has arguments")
}

fn split(args: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, letter) in args.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&args[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !args.is_empty() {
        parts.push(&args[start..]);
    }
    parts
}

fn parse(text: &'static str) -> Type<'static> {
    match text {
        "A" => Type::Variable('A'),
        "B" => Type::Variable('B'),
        "dyn" => Type::Dyn,
        text => match text.split_once('(') {
            Some((outer, inner)) => {
                let mut inner: Vec<Type<'static>> =
                    split(&inner[..inner.len() - 1]).into_iter().map(parse).collect();
                let first = Box::new(inner.remove(0));
                match outer {
                    "list" => Type::List(first),
                    "optional" => Type::Optional(first),
                    _ => Type::Map(first, Box::new(inner.remove(0))),
                }
            }
            None => Type::Plain(text),
        },
    }
}

/// Whether there is a function of that name.
pub fn is_function(name: &str) -> bool {
    OVERLOADS.contains_key(name)
}

/// The type of a call; `None` if no overload takes these types.
pub fn result<'s>(name: &str, is_member: bool, args: &[Type<'s>]) -> Option<Type<'s>> {
    let mut found: Option<Type<'s>> = None;
    for overload in OVERLOADS.get(name).into_iter().flatten() {
        if overload.is_member != is_member || overload.args.len() != args.len() {
            continue;
        }
        let mut bound = HashMap::new();
        if args.iter().zip(&overload.args).all(|(arg, wanted)| arg.fits(wanted, &mut bound)) {
            let result = overload.result.with(&bound);
            // With dyn arguments several overloads may fit: then the result is as open as they are.
            match &found {
                None => found = Some(result),
                Some(known) if known.to_string() == result.to_string() => {}
                Some(_) => return Some(Type::Dyn),
            }
        }
    }
    found
}
