//! The types of the built-in kinds, out of [`crate::schema`] and its table of list types.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/managedfields/gvkparser.go`: there the OpenAPI definitions are converted.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use stage1_kubectl::resource::GroupVersionKind;

use super::{Atom, DEDUCED, Key, ListType, MapType, ObjectType, Scalar, TypeId, Types, UNTYPED_ATOMIC};
use crate::schema::list_types::{self, MapKey, Topology};
use crate::schema::{self, Absent, Shape, roots, zero};

/// Fields that hold an object of another kind (`RawExtension`): owned as a whole.
const FOREIGN_OBJECTS: &[(&str, &str)] = &[("io.k8s.api.apps.v1.ControllerRevision", "data")];

/// All types with the definitions' names.
struct Table {
    types: Arc<Types>,
    roots: HashMap<String, TypeId>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut builder = Builder::new();
    for root in roots::all() {
        builder.definition(&root.definition);
    }
    Table { types: Arc::new(builder.types), roots: builder.names }
});

/// The type of a built-in kind; a kind without a schema is deduced from its values.
pub fn object_type(gvk: &GroupVersionKind) -> ObjectType {
    let root = schema::schema_for(gvk).and_then(|schema| TABLE.roots.get(schema.definition.as_ref()));
    root.map_or_else(ObjectType::deduced, |root| ObjectType::new(TABLE.types.clone(), *root))
}

/// Fills a table of types, definition by definition.
pub struct Builder {
    /// The table so far.
    pub types: Types,
    names: HashMap<String, TypeId>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// An empty one.
    pub fn new() -> Self {
        Builder { types: Types::new(), names: HashMap::new() }
    }

    /// The type of a definition, with all that it reaches.
    pub fn definition(&mut self, name: &str) -> TypeId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let Some(definition) = schema::struct_type(name) else { return DEDUCED };
        if definition.fields.is_empty() {
            return DEDUCED;
        }
        // The place is taken before the fields are looked at: they may come back to it.
        let id = self.types.add(Atom::default());
        self.names.insert(name.to_owned(), id);
        let row = list_types::of(name);
        let atomic = row.is_some_and(|row| row.atomic);
        let mut fields = HashMap::with_capacity(definition.fields.len());
        for (field, known) in &definition.fields {
            let topology = row.and_then(|row| row.field(field));
            let is_foreign = FOREIGN_OBJECTS.contains(&(name, field));
            let id = if is_foreign { UNTYPED_ATOMIC } else { self.shape(&known.shape, topology) };
            fields.insert(field.clone(), id);
        }
        self.types.set(id, Atom { map: Some(MapType { fields, element: None, atomic }), ..Atom::default() });
        id
    }

    fn shape(&mut self, shape: &Shape, topology: Option<&Topology>) -> TypeId {
        match shape {
            Shape::String | Shape::Bytes => self.types.scalar(Scalar::String),
            Shape::Bool => self.types.scalar(Scalar::Boolean),
            Shape::Int32 | Shape::Int64 | Shape::Float => self.types.scalar(Scalar::Numeric),
            Shape::Time | Shape::MicroTime | Shape::Quantity | Shape::IntOrString => {
                self.types.scalar(Scalar::Untyped)
            }
            Shape::Any | Shape::StructOr(_) => DEDUCED,
            Shape::Struct(name) => {
                let id = self.definition(name);
                if topology == Some(&Topology::Granular) { self.granular(id) } else { id }
            }
            Shape::List(item) => {
                let element = self.shape(item, None);
                let keys = match topology {
                    Some(Topology::Map(keys)) => sorted_keys(keys, item),
                    _ => Vec::new(),
                };
                let atomic = !matches!(topology, Some(Topology::Map(_) | Topology::Set));
                let list = ListType { element, atomic, keys };
                self.types.add(Atom { list: Some(list), ..Atom::default() })
            }
            Shape::Map(entry) => {
                let element = Some(self.shape(entry, None));
                let atomic = topology == Some(&Topology::Atomic);
                let map = MapType { fields: HashMap::new(), element, atomic };
                self.types.add(Atom { map: Some(map), ..Atom::default() })
            }
        }
    }

    /// The same struct, owned field by field.
    fn granular(&mut self, id: TypeId) -> TypeId {
        let mut atom = self.types.get(id).clone();
        atom.map.iter_mut().for_each(|map| map.atomic = false);
        self.types.add(atom)
    }
}

/// The keys of a list by name. A key that Go can't leave out has its zero value as default.
fn sorted_keys(keys: &[MapKey], item: &Shape) -> Vec<Key> {
    let fields = match item {
        Shape::Struct(name) => schema::struct_type(name).map(|definition| &definition.fields),
        _ => None,
    };
    let zero_of = |name: &str| {
        let field = fields.and_then(|fields| fields.get(name))?;
        (field.absent == Absent::Zero).then(|| zero::zero(&field.shape))
    };
    let key = |key: &MapKey| Key {
        name: key.name.to_owned(),
        default: key.default.map(Value::from).or_else(|| zero_of(key.name)),
    };
    let mut keys: Vec<Key> = keys.iter().map(key).collect();
    keys.sort_by(|a, b| a.name.cmp(&b.name));
    keys
}
