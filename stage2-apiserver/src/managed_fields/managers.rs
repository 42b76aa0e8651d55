//! Managers: the entries of `metadata.managedFields`, read, kept in order, and written.
//!
//! An entry is told apart by its manager's name, its operation and the subresource that it writes through, and an updater also by
//! the version in which it speaks: two versions may call the same field by different names. An applier has one
//! entry whatever the version, or its next apply couldn't find what the last one set.
//!
//! # Invariants
//! 1. No entry is empty.
//! 2. Entries stand in one order: appliers first, then by time, name, version and subresource.
//! 3. There are at most [`MAX_UPDATE_MANAGERS`] updaters of the object itself; older ones are merged.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/managedfields/internal/{managedfields,capmanagers}.go`.

use serde_json::{Map, Value};

use super::field_set::FieldSet;

/// Updaters of an object that are kept apart.
pub const MAX_UPDATE_MANAGERS: usize = 10;
/// The manager that older updaters become.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// It says what it wants of the object; the rest isn't its business.
    Apply,
    /// It writes whole objects or patches.
    Update,
}

/// Whose writing is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Ours: every path element is canonical already.
    Store,
    /// A client's.
    Request,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The manager's name.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// The version in which its fields are named.
    pub api_version: String,
    /// When it last took or gave up a field, RFC 3339 in whole seconds.
    pub time: Option<String>,
    /// The subresource it writes through, or empty.
    pub subresource: String,
    /// What it owns.
    pub fields: FieldSet,
}

impl Entry {
    /// Whether both are the same manager's.
    pub fn is_same(&self, other: &Entry) -> bool {
        let version_counts = self.operation == Operation::Update;
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (!version_counts || self.api_version == other.api_version)
    }

    fn read(mut value: Value, source: Source) -> Option<Entry> {
        let fields = value.get_mut("fieldsV1").map(Value::take).unwrap_or_default();
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let operation = match value["operation"].as_str()? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        if text("apiVersion").is_empty() || value["fieldsType"] != "FieldsV1" {
            return None;
        }
        let fields = match (source, fields) {
            (Source::Store, Value::Object(root)) => FieldSet::from_node(root),
            (_, fields) => FieldSet::from_fields_v1(&fields),
        };
        Some(Entry {
            manager: text("manager"),
            operation,
            api_version: text("apiVersion"),
            time: value["time"].as_str().map(str::to_owned),
            subresource: text("subresource"),
            fields,
        })
    }

    fn write(self) -> Value {
        let mut entry = Map::new();
        let mut set = |name: &str, text: String| {
            if !text.is_empty() {
                entry.insert(name.to_owned(), Value::String(text));
            }
        };
        set("manager", self.manager);
        set("operation", format!("{:?}", self.operation));
        set("apiVersion", self.api_version);
        set("time", self.time.unwrap_or_default());
        set("fieldsType", "FieldsV1".to_owned());
        set("subresource", self.subresource);
        entry.insert("fieldsV1".to_owned(), self.fields.into_fields_v1());
        Value::Object(entry)
    }
}

/// All entries of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Managers(pub Vec<Entry>);

impl Managers {
    /// Reads `metadata.managedFields`; `None` if an entry isn't what it should be.
    pub fn read(value: Option<Value>, source: Source) -> Option<Managers> {
        let mut managers = Managers::default();
        let Some(Value::Array(entries)) = value else { return Some(managers) };
        for value in entries {
            let entry = Entry::read(value, source)?;
            managers.0.retain(|known| !known.is_same(&entry));
            managers.0.push(entry);
        }
        Some(managers)
    }

    /// As it stands in an object; `None` when there is nothing to write.
    pub fn write(mut self) -> Option<Value> {
        self.0.retain(|entry| !entry.fields.is_empty());
        self.0.sort_by(|a, b| {
            let key = |e: &Entry| (e.operation, e.time.clone(), e.manager.clone(), e.api_version.clone());
            key(a).cmp(&key(b)).then_with(|| a.subresource.cmp(&b.subresource))
        });
        match self.0.is_empty() {
            true => None,
            false => Some(Value::Array(self.0.into_iter().map(Entry::write).collect())),
        }
    }

    /// The entry of the same manager.
    pub fn same(&mut self, wanted: &Entry) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.is_same(wanted))
    }

    /// Adds to what a manager owns, at the entry's time.
    pub fn add(&mut self, entry: Entry) {
        match self.same(&entry) {
            Some(known) => {
                known.fields.union(&entry.fields);
                known.time = entry.time;
            }
            None => self.0.push(entry),
        }
    }

    /// Merges the oldest updaters, those of a version together, until there are few enough.
    pub fn cap(&mut self) {
        let is_updater = |e: &Entry| e.operation == Operation::Update && e.subresource.is_empty();
        let mut count = self.0.iter().filter(|e| is_updater(e)).count();
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        let (mut updaters, others): (Vec<Entry>, Vec<Entry>) =
            std::mem::take(&mut self.0).into_iter().partition(is_updater);
        updaters.sort_by(|a, b| (&a.time, &a.manager).cmp(&(&b.time, &b.manager)));
        self.0 = others;
        for mut entry in updaters {
            let mut bucket = None;
            if count > MAX_UPDATE_MANAGERS {
                // The first of a version stays as it is until a second one comes.
                let version = &entry.api_version;
                bucket = self.0.iter_mut().find(|e| is_updater(e) && e.api_version == *version);
            }
            match bucket {
                Some(first) => {
                    first.manager = ANCIENT_CHANGES.to_owned();
                    first.fields.union(&std::mem::take(&mut entry.fields));
                    first.time = entry.time;
                    count -= 1;
                }
                None => self.0.push(entry),
            }
        }
    }
}
