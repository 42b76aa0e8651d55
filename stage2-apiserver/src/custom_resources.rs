//! Custom resources: kinds that a user defines, served like built-in ones.
//!
//! *Before a custom object's journey.* Before: a CustomResourceDefinition was stored. After: [`crate::handlers`] find an entry for
//! its resource, and everything behind the gates goes on as for a Pod.
//!
//! A built-in kind is an entry of [`crate::registry`], known when the program was written. A custom kind is an entry, too, made when
//! its definition is established. What an entry *says* (names, verbs, where objects are kept) never changes: a definition that
//! changes its names gets another entry. What changes from one day to the next (the schema, the columns) hangs on the entry as its
//! current [`CustomKind`]. So built-in requests look into the fixed table first and pay nothing, and whoever holds an entry has the
//! kind's rules at hand.
//!
//! The subtle thing is being up to date. Definitions come through the watch cache a moment after they were written, perhaps by
//! another API server. A request for a resource that isn't known therefore asks the store how far the cache must be, waits for
//! that, and looks once more ([`CustomResources::find_fresh`]): who was told that a definition is established never gets a 404,
//! whichever server is asked.
//!
//! # Invariants
//! 1. A definition is read once a revision of it.
//! 2. Entries are kept for as long as the program runs, one a definition's names and versions: a few hundred bytes for each set of
//!    names that was ever established. So everything behind the gates can hold one without counting who does, as it holds a
//!    built-in one; only who may write definitions, an administrator, can make them more.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/apiserver/customresource_handler.go`.

pub mod cleanup; // a definition goes: its objects go first
pub mod columns; // what `kubectl get` prints
pub mod conversion; // a program outside makes one version of another
pub mod controller; // names are accepted, kinds become served
pub mod decode; // a body becomes an object
pub mod defaulting; // absent fields get their defaults
pub mod definition; // a definition becomes kinds
pub mod formats; // what texts must look like
pub mod list_types; // sets and maps have nothing twice
pub mod names; // which names are accepted
pub mod openapi_validation; // does an object fulfil its schema
pub mod prune; // unknown fields are dropped
pub mod rules; // what a form can't say: CEL
pub mod simple_path; // `.spec.replicas`
pub mod strategy; // what a write may change
pub mod structural; // the schema as a tree
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use crate::managed_fields::field_types::ObjectType;
use crate::registry::{self, Catalog, Custom, ResourceInfo};
use crate::storage::Revision;
use crate::store::{Store, Stores};
use crate::watch_cache::At;

use columns::Columns;
use conversion::Conversion;
use conversion::known::Prepared;
use structural::Schema;

// ANCHOR: custom-kind
/// One served version of a custom kind, as its definition says today.
pub struct CustomKind {
    /// Its entry.
    pub info: &'static ResourceInfo,
    /// The entries of all served versions, this one too.
    pub siblings: Vec<&'static ResourceInfo>,
    /// What objects may contain.
    pub schema: Schema,
    /// The schema as it was written, for OpenAPI.
    pub published: Value,
    /// Whether there is a default anywhere in the schema.
    pub has_defaults: bool,
    /// Whether a stored object may have to be changed before it is served: another version, or a newer default.
    pub is_converted: bool,
    /// The program that converts between versions; `None`: only the version's name changes.
    pub conversion: Option<Arc<Conversion>>,
    /// Nothing is pruned: definitions from before schemas were required.
    pub preserves_unknown_fields: bool,
    /// The types that server-side apply merges by.
    pub object_type: ObjectType,
    /// What `kubectl get` prints.
    pub columns: Arc<Columns>,
    /// Fields that lists can be selected by, `spec.color`.
    pub selectable_fields: Vec<String>,
    /// `/status` is a subresource.
    pub has_status: bool,
    /// `/scale` is one.
    pub scale: Option<Scale>,
    /// What every answer warns of.
    pub deprecation_warning: Option<String>,
    /// The definition is going: nothing new is created.
    pub terminating: bool,
}
// ANCHOR_END: custom-kind

impl CustomKind {
    /// A stored object as this version serves it.
    pub fn served<'a>(&self, stored: &'a Object, prepared: &Prepared) -> Cow<'a, Object> {
        let group_version = self.info.group_version();
        let is_own = stored.api_version() == group_version;
        if is_own && !(self.has_defaults && defaulting::would_change(stored.as_value(), &self.schema)) {
            return Cow::Borrowed(stored);
        }
        Cow::Owned(self.converted(Cow::Borrowed(stored), &group_version, prepared))
    }

    /// An object of this version as it is stored.
    pub fn stored(&self, served: Object, prepared: &Prepared) -> Object {
        let version = self.info.storage_api_version();
        if served.api_version() == version {
            return served;
        }
        let sibling = self.siblings.iter().find(|info| info.group_version() == version);
        match sibling.and_then(|info| info.custom_kind()) {
            Some(kind) => kind.converted(Cow::Owned(served), &version, prepared),
            // Stored in a version that isn't served: its schema isn't known here.
            None => match prepared.find(&served, &version) {
                Some(made) => (*made).clone(),
                None => self.converted(Cow::Owned(served), &version, prepared),
            },
        }
    }

    /// The program's object, or the same one with another version's name; what the new version doesn't know is dropped, what it has
    /// defaults for is filled.
    fn converted(&self, object: Cow<'_, Object>, api_version: &str, prepared: &Prepared) -> Object {
        let mut value = match prepared.find(&object, api_version) {
            Some(made) => made.as_value().clone(),
            None => object.into_owned().into_value(),
        };
        value["apiVersion"] = json!(api_version);
        if !self.preserves_unknown_fields {
            prune::prune(&mut value, &self.schema);
        }
        defaulting::apply(&mut value, &self.schema);
        Object::from_value(value).expect("pruning keeps a map a map")
    }
}

/// Where a Scale's numbers are in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// `.spec.replicas`.
    pub spec_replicas: String,
    /// `.status.replicas`.
    pub status_replicas: String,
    /// `.status.selector`; empty if there is none.
    pub label_selector: String,
}

/// The kinds that are served at a moment.
#[derive(Default)]
struct Table {
    by_path: HashMap<String, &'static ResourceInfo>,
    all: Vec<&'static ResourceInfo>,
}

/// The kinds of a definition at a revision.
type Compiled = (Revision, Vec<Arc<CustomKind>>);

/// All custom kinds of a server.
pub struct CustomResources {
    stores: Stores,
    definitions: Store,
    table: ArcSwap<Table>,
    compiled: Mutex<BTreeMap<Arc<str>, Compiled>>,
    entries: Mutex<HashMap<String, &'static ResourceInfo>>,
}

impl CustomResources {
    /// None yet.
    pub fn new(stores: Stores) -> Arc<Self> {
        let info = definitions_info();
        Arc::new(CustomResources {
            definitions: stores.of(info),
            stores,
            table: ArcSwap::default(),
            compiled: Mutex::default(),
            entries: Mutex::default(),
        })
    }

    /// The entry of a path's group, version and plural name, as far as is known.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&'static ResourceInfo> {
        self.table.load().by_path.get(&path(group, version, resource)).copied()
    }

    /// The entry of a resource in one of its served versions.
    pub fn find_group_resource(&self, group: &str, resource: &str) -> Option<&'static ResourceInfo> {
        let table = self.table.load();
        table.all.iter().find(|info| info.group == group && info.resource == resource).copied()
    }

    /// The entry of a kind.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&'static ResourceInfo> {
        let table = self.table.load();
        let is_it = |info: &&&'static ResourceInfo| {
            info.group == group && info.version == version && info.kind == kind
        };
        table.all.iter().find(is_it).copied()
    }

    // ANCHOR: find-fresh
    /// The same, as the store knows it now.
    ///
    /// # Errors
    /// 504 when the cache of definitions doesn't catch up.
    pub async fn find_fresh(
        &self,
        group: &str,
        version: &str,
        resource: &str,
    ) -> Result<Option<&'static ResourceInfo>, Status> {
        if let Some(found) = self.find(group, version, resource) {
            return Ok(Some(found));
        }
        self.settle().await?;
        Ok(self.find(group, version, resource))
    }
    // ANCHOR_END: find-fresh

    /// Waits until all definitions that were written before are known.
    ///
    /// # Errors
    /// 504 when the cache of definitions doesn't catch up.
    pub async fn settle(&self) -> Result<(), Status> {
        self.definitions.cacher().wait_for(At::Consistent).await?;
        self.refresh();
        Ok(())
    }

    /// Built-in and custom entries of this moment.
    pub fn catalog(&self) -> Catalog {
        Catalog::with(self.table.load().all.clone())
    }

    /// Reads the definitions that changed, and serves their kinds.
    pub fn refresh(&self) {
        let info = definitions_info();
        let present = self.definitions.cacher().present(&info.key_prefix(None));
        let mut compiled = self.compiled.lock();
        let is_known = |(key, revision): (&Arc<str>, Revision)| {
            compiled.get(key).is_some_and(|(known, _)| *known == revision)
        };
        if present.len() == compiled.len() && present.iter().all(|d| is_known((&d.key, d.revision))) {
            return;
        }
        let mut before = std::mem::take(&mut *compiled);
        for definition in present {
            let kinds = match before.remove(&definition.key) {
                Some((at, kinds)) if at == definition.revision => kinds,
                old => {
                    let old = old.map_or_else(Vec::new, |(_, kinds)| kinds);
                    definition::kinds(&definition.object, &old, &|names| self.entry(names))
                }
            };
            compiled.insert(definition.key.clone(), (definition.revision, kinds));
        }
        let mut table = Table::default();
        for kind in compiled.values().flat_map(|(_, kinds)| kinds) {
            let (info, custom) = (kind.info, kind.info.custom.expect("a custom kind's entry is custom"));
            custom.current.store(Some(kind.clone()));
            table.by_path.insert(path(info.group, info.version, info.resource), info);
            table.all.push(info);
        }
        self.table.store(Arc::new(table));
        // Whoever still holds a cache of a kind that went can finish with it.
        for prefix in before.into_values().flat_map(|(_, kinds)| kinds).filter_map(|kind| kind.info.storage) {
            if !compiled.values().flat_map(|(_, kinds)| kinds).any(|kind| kind.info.storage == Some(prefix)) {
                self.stores.caches().stop(prefix.prefix);
            }
        }
    }

    fn entry(&self, names: &definition::Names<'_>) -> &'static ResourceInfo {
        let mut entries = self.entries.lock();
        entries.entry(names.identity()).or_insert_with(|| {
            let custom: &'static Custom =
                Box::leak(Box::new(Custom { list_kind: names.list_kind(), current: ArcSwapOption::empty() }));
            Box::leak(Box::new(names.entry(custom)))
        })
    }
}

/// The entry of CustomResourceDefinitions.
pub fn definitions_info() -> &'static ResourceInfo {
    registry::find("apiextensions.k8s.io", "v1", "customresourcedefinitions").expect("a built-in resource")
}

fn path(group: &str, version: &str, resource: &str) -> String {
    format!("{group}/{version}/{resource}")
}
