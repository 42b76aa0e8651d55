//! The table: which JSON field is which number of which message.
//!
//! It is read once from `messages.txt`, a line a message. The numbers are part of Kubernetes' API: they never change and are never
//! used again. A test of stage 2 compares the table with the API's schema, field by field and type by type.
//!
//! The subtle thing is `inline`: where a Go struct embeds another, JSON has all fields in one map, but protobuf has a message within
//! the message (`volumes[].volumeSource.emptyDir` is `volumes[].emptyDir` in JSON).
//!
//! # Invariants
//! 1. Every type that the file names is a message of the file.
//!
//! # In Kubernetes
//! `k8s.io/api/*/generated.proto`. Left out: what only later versions have.

use std::collections::HashMap;
use std::sync::LazyLock;

// ANCHOR: protobuf-message
/// A message: its fields by number.
#[derive(Debug)]
pub struct Message {
    /// `io.k8s.api.core.v1.Pod`.
    pub name: &'static str,
    /// The fields, by number.
    pub fields: Vec<Field>,
}

/// One field of a message.
#[derive(Debug)]
pub struct Field {
    /// Its number in protobuf.
    pub number: u32,
    /// Its name in JSON; `-` for an inline message, which has none.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Go has no pointer here and writes it even when it is empty (known for the kinds that kubectl sends).
    pub always: bool,
}
// ANCHOR_END: protobuf-message

/// How a value is written in protobuf and in JSON.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text in both.
    String,
    /// A bool in both.
    Bool,
    /// A varint; a number in JSON.
    Int32,
    /// A varint; a number in JSON.
    Int64,
    /// Eight bytes; a number in JSON.
    Double,
    /// Bytes; base64 in JSON.
    Bytes,
    /// Seconds; RFC 3339 in JSON.
    Time,
    /// Seconds and nanoseconds; RFC 3339 with six digits in JSON.
    MicroTime,
    /// A message with a string; a string in JSON.
    Quantity,
    /// A message with a tag; a number or a string in JSON.
    IntOrString,
    /// A message with JSON (or an envelope) as bytes; that JSON in JSON.
    Raw,
    /// A message with a list of strings; the list in JSON.
    Wrapped,
    /// A schema or something that stands for it.
    SchemaOr(Alternative),
    /// A message; a map in JSON.
    Message(usize),
    /// A message whose fields stand in its parent's map in JSON.
    Inline(usize),
    /// A repeated field.
    List(Box<Kind>),
    /// Repeated entries of key 1 and value 2.
    Map(Box<Kind>),
}

/// What can stand where a JSON schema is expected in a CustomResourceDefinition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alternative {
    /// `additionalProperties: false`.
    Bool,
    /// `items: [schema, schema]`.
    Schemas,
    /// `dependencies: {a: [b, c]}`.
    Strings,
}

/// The messages and the kinds that are roots.
struct Table {
    messages: Vec<Message>,
    index: HashMap<&'static str, usize>,
    kinds: HashMap<(&'static str, &'static str), usize>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| parse(include_str!("messages.txt")));

/// The message of a kind; `None` for kinds that aren't built in.
pub fn message_of(api_version: &str, kind: &str) -> Option<&'static Message> {
    let table = &*TABLE;
    let index = table.kinds.get(&(api_version, kind)).or_else(|| table.kinds.get(&("*", kind)))?;
    Some(&table.messages[*index])
}

/// A message by its place in the table.
pub fn message(index: usize) -> &'static Message {
    &TABLE.messages[index]
}

/// A message by its name.
pub fn message_named(name: &str) -> Option<&'static Message> {
    TABLE.index.get(name).map(|index| message(*index))
}

/// All messages.
pub fn messages() -> &'static [Message] {
    &TABLE.messages
}

/// All kinds: apiVersion (`*` for every one), kind, message.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static Message)> {
    TABLE.kinds.iter().map(|((api_version, kind), index)| (*api_version, *kind, message(*index)))
}

/// The schema message, for what may be a schema or something else.
pub fn json_schema() -> &'static Message {
    static SCHEMA: LazyLock<&'static Message> = LazyLock::new(|| {
        let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
        message_named(name).expect("the table has the schema message")
    });
    *SCHEMA
}

impl Message {
    /// The field with a number.
    pub fn field(&self, number: u32) -> Option<&Field> {
        self.fields.binary_search_by_key(&number, |f| f.number).ok().map(|at| &self.fields[at])
    }
}

fn parse(text: &'static str) -> Table {
    let lines = || text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let of_messages = || lines().filter(|line| !line.starts_with("kind "));
    let names = of_messages().map(|line| line.split(' ').next().unwrap_or(line));
    let index: HashMap<&str, usize> = names.enumerate().map(|(at, name)| (name, at)).collect();
    let messages = of_messages().map(|line| parse_message(line, &index)).collect();
    let kinds = lines().filter_map(|line| line.strip_prefix("kind ")).map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("a kind line has three words");
        ((word(), word()), index[word()])
    });
    Table { kinds: kinds.collect(), messages, index }
}

fn parse_message(line: &'static str, index: &HashMap<&str, usize>) -> Message {
    let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
    let package = name.rsplit_once('.').map_or("", |(package, _)| package);
    let parse_field = |field: &'static str| {
        let mut words = field.split(' ');
        let mut word = || words.next().expect("a field has three words");
        let number = word().parse().expect("a field begins with its number");
        let (name, text) = (word(), word());
        let kind = parse_kind(text.trim_end_matches('!'), package, index);
        Field { number, name, kind, always: text.ends_with('!') }
    };
    let mut fields: Vec<Field> = fields.split(';').filter(|f| !f.is_empty()).map(parse_field).collect();
    fields.sort_by_key(|f| f.number);
    Message { name, fields }
}

fn parse_kind(text: &str, package: &str, index: &HashMap<&str, usize>) -> Kind {
    if let Some(item) = text.strip_prefix("list:") {
        return Kind::List(Box::new(parse_kind(item, package, index)));
    }
    if let Some(item) = text.strip_prefix("map:") {
        return Kind::Map(Box::new(parse_kind(item, package, index)));
    }
    let named = |name: &str| match name.contains('.') {
        true => index[name],
        false => index[format!("{package}.{name}").as_str()],
    };
    match text {
        "string" => Kind::String,
        "bool" => Kind::Bool,
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "time" => Kind::Time,
        "microtime" => Kind::MicroTime,
        "quantity" => Kind::Quantity,
        "intorstring" => Kind::IntOrString,
        "raw" => Kind::Raw,
        "wrapped" => Kind::Wrapped,
        "schema-or-bool" => Kind::SchemaOr(Alternative::Bool),
        "schema-or-list" => Kind::SchemaOr(Alternative::Schemas),
        "schema-or-strings" => Kind::SchemaOr(Alternative::Strings),
        name => match name.strip_prefix("inline:") {
            Some(name) => Kind::Inline(named(name)),
            None => Kind::Message(named(name)),
        },
    }
}
