//! Types: what a walk must know of a value, and no more: is it owned whole or in parts, and how are the parts told apart.
//!
//! A type is an [`Atom`]: it may be a scalar, a list and a map at once (a field without a schema is all three), and which one
//! counts is decided by the value found. Types live in one table and name each other by number, so that recursive ones
//! (JSON Schemas in CustomResourceDefinitions) are no trouble.
//!
//! The table is a value. The one of the built-in kinds is made at first use from [`crate::schema`] ([`built_in`]); a custom
//! resource brings its own, made from its structural schema ([`structural`]).
//!
//! # Invariants
//! 1. Keys of a list are sorted by name.
//!
//! # In Kubernetes
//! `structured-merge-diff/schema/elements.go`, `kube-openapi/pkg/schemaconv`.

pub mod built_in;
pub mod structural;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

/// A type's place in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeId(u32);

/// What a value of a type can be.
#[derive(Clone, Debug, Default)]
pub struct Atom {
    /// A scalar.
    pub scalar: Option<Scalar>,
    /// A list.
    pub list: Option<ListType>,
    /// A struct or a map.
    pub map: Option<MapType>,
}

/// The scalars that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A text.
    String,
    /// An integer or a float.
    Numeric,
    /// true or false.
    Boolean,
    /// Any of them.
    Untyped,
}

/// A list.
#[derive(Clone, Debug)]
pub struct ListType {
    /// Type of the items.
    pub element: TypeId,
    /// Owned as a whole.
    pub atomic: bool,
    /// What tells items apart; none in a set.
    pub keys: Vec<Key>,
}

/// A key of a list that is a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Name of the field.
    pub name: String,
    /// Its value when the item doesn't say one.
    pub default: Option<Value>,
}

/// A struct (`fields`), a map (`element`) or a struct with room for more (both).
#[derive(Clone, Debug, Default)]
pub struct MapType {
    /// Types of the declared fields.
    pub fields: HashMap<String, TypeId>,
    /// Type of every other entry.
    pub element: Option<TypeId>,
    /// Owned as a whole.
    pub atomic: bool,
}

impl MapType {
    /// The type of an entry; `None` if it isn't declared.
    pub fn field(&self, name: &str) -> Option<TypeId> {
        self.fields.get(name).copied().or(self.element)
    }
}

/// A table of types.
#[derive(Clone, Debug)]
pub struct Types {
    atoms: Vec<Atom>,
}

/// The type of an object: a table and where to begin in it.
#[derive(Clone, Debug)]
pub struct ObjectType {
    types: Arc<Types>,
    /// The object itself.
    pub root: TypeId,
}

/// What a value turned out to be.
#[derive(Clone, Copy, Debug)]
pub enum Form<'a> {
    /// A struct or a map.
    Map(&'a MapType),
    /// A list.
    List(&'a ListType),
    /// A scalar.
    Scalar(Scalar),
}

/// Whatever is below is owned as a whole.
const UNTYPED_ATOMIC: TypeId = TypeId(0);
/// Maps are owned entry by entry, lists as a whole.
const DEDUCED: TypeId = TypeId(1);

impl Types {
    /// A table with the two types of values without a schema.
    fn new() -> Self {
        let list = ListType { element: UNTYPED_ATOMIC, atomic: true, keys: Vec::new() };
        let map = |element, atomic| MapType { fields: HashMap::new(), element: Some(element), atomic };
        let any = |map| Atom { scalar: Some(Scalar::Untyped), list: Some(list.clone()), map: Some(map) };
        Types { atoms: vec![any(map(UNTYPED_ATOMIC, true)), any(map(DEDUCED, false))] }
    }

    fn add(&mut self, atom: Atom) -> TypeId {
        self.atoms.push(atom);
        TypeId(u32::try_from(self.atoms.len() - 1).expect("fewer than four thousand million types"))
    }

    fn scalar(&mut self, scalar: Scalar) -> TypeId {
        self.add(Atom { scalar: Some(scalar), ..Atom::default() })
    }

    fn set(&mut self, id: TypeId, atom: Atom) {
        self.atoms[id.0 as usize] = atom;
    }

    fn get(&self, id: TypeId) -> &Atom {
        &self.atoms[id.0 as usize]
    }
}

impl ObjectType {
    /// An object whose type is `root`.
    pub fn new(types: Arc<Types>, root: TypeId) -> Self {
        ObjectType { types, root }
    }

    /// An object about which nothing is known: maps are owned entry by entry, lists as a whole.
    pub fn deduced() -> Self {
        ObjectType { types: Arc::new(Types::new()), root: DEDUCED }
    }

    /// A type of the table.
    pub fn atom(&self, id: TypeId) -> &Atom {
        self.types.get(id)
    }

    /// What a value of a type is. A null takes the first form that the type has.
    pub fn form(&self, id: TypeId, value: &Value) -> Form<'_> {
        let atom = self.atom(id);
        match (value, atom) {
            (Value::Array(_), Atom { list: Some(list), .. }) => Form::List(list),
            (Value::Object(_), Atom { map: Some(map), .. }) => Form::Map(map),
            (Value::String(_) | Value::Number(_) | Value::Bool(_), Atom { scalar: Some(scalar), .. }) => {
                Form::Scalar(*scalar)
            }
            (_, Atom { map: Some(map), .. }) => Form::Map(map),
            (_, Atom { scalar: Some(scalar), .. }) => Form::Scalar(*scalar),
            (_, Atom { list: Some(list), .. }) => Form::List(list),
            _ => Form::Scalar(Scalar::Untyped),
        }
    }
}
