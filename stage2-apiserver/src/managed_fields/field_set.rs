//! Field sets: which fields somebody owns, as a tree of path elements.
//!
//! `{"f:spec":{"f:replicas":{}}}` is the set with the one field `.spec.replicas`. A node is a *member* of the set if it is
//! empty, or if it has the entry `"."`; otherwise it only leads to members below it. That is the form in which managed fields
//! stand in objects (`fieldsV1`), and the operations work on it as it is: nothing is converted on the way in or out, and what
//! two sets don't share is never visited.
//!
//! # Invariants
//! 1. A node without children is a member; there are no dead ends.
//! 2. `"."` stands only in nodes with children.
//! 3. Reading what was written gives the same set.
//!
//! # In Kubernetes
//! `structured-merge-diff/fieldpath/{set,serialize}.go`.

use serde_json::{Map, Value};

use super::field_types::{Atom, ObjectType, TypeId};
use super::path_element;

/// One level of a set.
pub type Node = Map<String, Value>;

/// The entry that makes a node with children a member.
const SELF: &str = ".";

// ANCHOR: field-set
/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSet(Node);

impl FieldSet {
    /// The set whose root is this node.
    pub fn from_node(node: Node) -> Self {
        FieldSet(node)
    }

    /// Reads `fieldsV1` that somebody else may have written: path elements are made canonical, unknown ones ignored.
    pub fn from_fields_v1(fields: &Value) -> Self {
        FieldSet(fields.as_object().map(canonical).unwrap_or_default())
    }

    /// As it stands in an object.
    pub fn into_fields_v1(self) -> Value {
        Value::Object(self.0)
    }

    /// No members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The top level.
    pub fn root(&self) -> &Node {
        &self.0
    }

    /// Adds the members of another set.
    pub fn union(&mut self, other: &FieldSet) {
        unite(&mut self.0, &other.0);
    }

    /// Takes the members of another set away. Fields below a member that goes stay.
    pub fn difference(&mut self, other: &FieldSet) {
        subtract(&mut self.0, &other.0);
    }

    /// The members of both.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        FieldSet(intersect(&self.0, &other.0))
    }

    /// Takes a field away with everything below it.
    pub fn remove_tree(&mut self, path: &[&str]) {
        prune_path(&mut self.0, path);
    }

    /// Every member's path, those of a level before those below it.
    pub fn paths(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        collect(&self.0, &mut Vec::new(), &mut found);
        found
    }
}
// ANCHOR_END: field-set

impl FieldSet {
    /// With the named fields on the way to members as members too: what has to go when its last field goes.
    pub fn with_named_fields(&self, object_type: &ObjectType) -> FieldSet {
        FieldSet(named_fields(&self.0, object_type, object_type.root))
    }
}

/// Whether a node is a member of its set.
pub fn is_member(node: &Node) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

/// The node below an element.
pub fn child<'a>(node: &'a Node, element: &str) -> Option<&'a Node> {
    node.get(element).and_then(Value::as_object)
}

/// Makes a node (that may not be there yet) a member.
pub fn mark(node: &mut Option<Node>) {
    match node {
        Some(node) if !node.is_empty() => drop(node.insert(SELF.into(), Value::Object(Node::new()))),
        Some(_) => {}
        None => *node = Some(Node::new()),
    }
}

/// Puts a child into a node that may not be there yet and is no member so far.
pub fn attach(node: &mut Option<Node>, element: &str, child: Option<Node>) {
    if let Some(child) = child {
        node.get_or_insert_default().insert(element.to_owned(), Value::Object(child));
    }
}

/// Brings a node back to the invariants; `None` if nothing is left of it.
fn normal(mut node: Node, member: bool) -> Option<Node> {
    node.remove(SELF);
    match (node.is_empty(), member) {
        (true, false) => return None,
        (false, true) => drop(node.insert(SELF.into(), Value::Object(Node::new()))),
        _ => {}
    }
    Some(node)
}

fn canonical(node: &Node) -> Node {
    let mut read = Node::new();
    for (element, below) in node {
        let below = below.as_object().map(canonical).unwrap_or_default();
        let element = if element == SELF { Some(SELF.to_owned()) } else { path_element::canonical(element) };
        element.and_then(|element| read.insert(element, Value::Object(below)));
    }
    if read.len() == 1 && read.contains_key(SELF) {
        read.clear();
    }
    read
}

fn unite(into: &mut Node, other: &Node) {
    for (element, below) in other.iter().filter(|(element, _)| *element != SELF) {
        match (into.get_mut(element), below) {
            (Some(Value::Object(mine)), Value::Object(below)) => {
                let member = is_member(mine) || is_member(below);
                unite(mine, below);
                *mine = normal(std::mem::take(mine), member).expect("a union has what its parts had");
            }
            _ => drop(into.insert(element.clone(), below.clone())),
        }
    }
}

fn subtract(from: &mut Node, other: &Node) {
    for (element, below) in other.iter().filter(|(element, _)| *element != SELF) {
        let (Some(Value::Object(mine)), Some(below)) = (from.get_mut(element), below.as_object()) else {
            continue;
        };
        let member = is_member(mine) && !is_member(below);
        subtract(mine, below);
        match normal(std::mem::take(mine), member) {
            Some(left) => *mine = left,
            None => drop(from.remove(element)),
        }
    }
}

fn intersect(left: &Node, right: &Node) -> Node {
    let mut both = Node::new();
    for (element, below) in left.iter().filter(|(element, _)| *element != SELF) {
        let (Some(mine), Some(theirs)) = (below.as_object(), child(right, element)) else { continue };
        let member = is_member(mine) && is_member(theirs);
        if let Some(shared) = normal(intersect(mine, theirs), member) {
            both.insert(element.clone(), Value::Object(shared));
        }
    }
    both
}

fn prune_path(node: &mut Node, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else { return };
    let element = path_element::field(first);
    if rest.is_empty() {
        node.remove(&element);
    } else if let Some(Value::Object(below)) = node.get_mut(&element) {
        let member = is_member(below);
        prune_path(below, rest);
        match normal(std::mem::take(below), member) {
            Some(left) => *below = left,
            None => drop(node.remove(&element)),
        }
    }
}

fn collect(node: &Node, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let elements = || node.iter().filter(|(element, _)| *element != SELF);
    for (element, _) in elements().filter(|(_, below)| below.as_object().is_some_and(is_member)) {
        found.push([path.as_slice(), std::slice::from_ref(element)].concat());
    }
    for (element, below) in elements() {
        path.push(element.clone());
        below.as_object().inspect(|below| collect(below, path, found));
        path.pop();
    }
}

fn named_fields(node: &Node, object_type: &ObjectType, id: TypeId) -> Node {
    let atom = object_type.atom(id);
    let mut full = Node::new();
    for (element, below) in node.iter().filter(|(element, _)| *element != SELF) {
        let below = below.as_object().cloned().unwrap_or_default();
        let field = element.strip_prefix("f:");
        let named =
            field.is_some_and(|name| atom.map.as_ref().is_some_and(|map| map.fields.contains_key(name)));
        let member = is_member(&below) || (named && !below.is_empty());
        let next = type_below(atom, field, element);
        let below = next.map_or_else(|| below.clone(), |next| named_fields(&below, object_type, next));
        if let Some(below) = normal(below, member) {
            full.insert(element.clone(), Value::Object(below));
        }
    }
    full
}

fn type_below(atom: &Atom, field: Option<&str>, element: &str) -> Option<TypeId> {
    match field {
        Some(name) => atom.map.as_ref().and_then(|map| map.field(name)),
        None if element.starts_with("k:") => atom.list.as_ref().map(|list| list.element),
        None => None,
    }
}
