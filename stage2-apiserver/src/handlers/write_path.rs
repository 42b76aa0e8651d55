//! The write path: three gates between a request and the store, in the order that Kubernetes has them.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::filters`] authenticated and authorised the request, [`crate::decode`]
//! read the body. After: the object is committed, and every watch hears of it.
//!
//! ```text
//! gate 1  who are you, may you?     authenticate → authorize                 (filters)
//! gate 2  what do you mean?         decode + default → mutate → prepare      (here)
//! gate 3  is it right?              validate → validating admission → commit (here)
//! ```
//!
//! The order matters: mutating admission sees defaulted objects; validation sees what admission made of them, so that no
//! plugin can smuggle an invalid object past it; validating admission sees the final object and can only say no.
//!
//! The subtle thing is the update. Between reading the old object and committing the new one, somebody else may write. The
//! commit says which revision it expects; if that is gone, a client that named a resourceVersion gets a conflict, and
//! one that didn't (a patch) is run again on the newer object: all gates again, since what they decided
//! depended on the old one.
//!
//! # Invariants
//! 1. Nothing is stored that didn't pass all three gates.
//! 2. A write that changes nothing commits nothing: the resourceVersion stays.
//! 3. A dry run goes through everything but the commit.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/handlers/{create,update}.go`, `…/registry/generic/registry/store.go`.
#![expect(clippy::disallowed_methods, reason = "shell: makes uids and random names")]

use std::sync::Arc;

use parking_lot::Mutex;
use stage1_kubectl::journey::{Stage, Step, object_name, record};
use stage1_kubectl::journey_step;
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::status::Status;
use uuid::Uuid;

use super::allocation::Allocation;
use super::{Context, admit, convert, field_manager, fresh, policy, prepare};
use crate::admission::{Attributes, Operation};
use crate::allocator::service::ServiceAllocators;
use crate::registry::ResourceInfo;
use crate::storage::Revision;
use crate::store::{Store, Updated};
use crate::strategies::create::{before_create, ensure_namespace, fill_object_meta_system_fields};
use crate::strategies::update::{Part, before_update};
use crate::strategies::{self, Chosen};
use crate::watch_cache::{At, CachedObject};

/// A generated name that is taken is made again this often.
const MAX_NAME_GENERATIONS: usize = 8;

/// What is written, and how.
pub struct WriteRequest<'a> {
    /// Its request.
    pub context: &'a Context,
    /// The resource.
    pub resource: &'static ResourceInfo,
    /// The object's name; empty while it isn't known.
    pub name: String,
    /// The subresource, `""` for the object itself.
    pub subresource: &'a str,
    /// Everything but the commit.
    pub dry_run: bool,
}

impl WriteRequest<'_> {
    fn strategy(&self) -> Chosen {
        strategies::of(self.resource)
    }

    fn strategy_context(&self) -> strategies::Context {
        strategies::Context { user: self.context.requester(), now: self.context.now }
    }

    /// Where its objects are.
    pub fn store(&self) -> Store {
        self.context.server.stores.of(self.resource)
    }

    /// The namespace of the object, not of the path (they differ for Namespaces).
    fn namespace(&self) -> Option<&str> {
        if self.resource.namespaced { self.context.namespace() } else { None }
    }

    /// What the request may change: the object or its status.
    fn part(&self) -> Part {
        match self.subresource {
            "ephemeralcontainers" => Part::EphemeralContainers,
            "" | "resize" | "scale" => Part::Main,
            _ => Part::Status,
        }
    }

    /// The object as it is stored.
    async fn to_stored(&self, object: Object) -> Result<Object, Status> {
        prepare::stored(self.context, self.resource, &object).await?;
        Ok(convert::to_stored(self.resource, object, &self.context.prepared.lock()))
    }

    /// An object as the request sees it.
    fn served(&self, stored: &Object) -> Object {
        convert::to_served(self.resource, stored, &self.context.prepared.lock()).into_owned()
    }

    fn is_service(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "services"
    }

    /// What admission plugins see; `kind` is the body's.
    pub fn attributes(&self, operation: Operation, kind: GroupVersionKind) -> Attributes {
        Attributes {
            operation,
            resource: self.resource.gvr(),
            subresource: self.subresource.into(),
            kind,
            namespace: self.context.info.namespace.clone(),
            name: self.name.clone(),
            user: self.context.requester(),
            dry_run: self.dry_run,
            now: self.context.now,
            random: rand::random(),
        }
    }

    /// A step of the gates that the request passed on its way in: stamped with the time at which it came.
    fn step_at_start(&self, object: &Object, decided: &str, why: &str) {
        record(&Step {
            stage: Stage::ApiServer,
            object: object_name(self.resource.kind, object.namespace(), object.name()),
            decided: decided.to_owned(),
            why: why.to_owned(),
            at_micros: self.context.now.as_microsecond(),
            source: concat!(file!(), ":", line!()).to_owned(),
        });
    }

    fn step(&self, object: &Object, decided: &str, why: &str) {
        let name = object_name(self.resource.kind, object.namespace(), object.name());
        journey_step!(Stage::ApiServer, name, decided, why);
    }
}

/// Whether managed fields are still to be brought up to date with what a write changes, or an apply did it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Books {
    Open,
    Done,
}

/// Takes a decoded object through gates two and three and stores it.
///
/// # Errors
/// Whatever a gate refuses; 409 when the name is taken.
pub async fn create(request: &mut WriteRequest<'_>, sent: Object) -> Result<Object, Status> {
    create_with(request, sent, Books::Open).await
}

/// The same for an object that was applied.
/// # Errors
/// Those of [`create`].
pub async fn create_applied(request: &mut WriteRequest<'_>, sent: Object) -> Result<Object, Status> {
    create_with(request, sent, Books::Done).await
}

async fn create_with(request: &mut WriteRequest<'_>, sent: Object, books: Books) -> Result<Object, Status> {
    for attempt in 1.. {
        let server = request.context.server.clone();
        let (object, allocation) = gates_of_create(request, &server.allocators, sent.clone(), books).await?;
        if attempt == 1 {
            // Another name is no other use: what was reserved for the first try is good for the next.
            let attributes = request.attributes(Operation::Create, request.resource.gvk());
            policy::reserve_quota(request.context, &attributes, &object, None).await?;
        }
        let stored = request.to_stored(object).await?;
        let allocation = allocation.on_its_way();
        let outcome = request.store().create(stored, request.dry_run).await;
        allocation.settle(&outcome, request.dry_run);
        match outcome {
            Ok(created) => {
                fresh::gates_have_heard(request, &created).await;
                prepare::served(request.context, request.resource, &[&created.object]).await?;
                let mut object = committed(request, &created);
                if request.dry_run && !sent.resource_version().is_empty() {
                    // Nothing gave it another one.
                    object.set_resource_version(sent.resource_version());
                }
                return Ok(object);
            }
            Err(status) if status.code != 409 => return Err(status),
            Err(_) if sent.name().is_empty() && attempt < MAX_NAME_GENERATIONS => {}
            Err(status) => return Err(already_exists(request, status).await),
        }
    }
    unreachable!("the loop ends by returning")
}

/// Default → mutate → prepare → validate → validating admission.
async fn gates_of_create<'a>(
    request: &mut WriteRequest<'_>,
    allocators: &'a Mutex<ServiceAllocators>,
    mut object: Object,
    books: Books,
) -> Result<(Object, Allocation<'a>), Status> {
    let strategy = request.strategy();
    fresh::settle_caches(request).await?;
    ensure_namespace(&mut object, request.namespace())?;
    strategy.default(&mut object);
    strategies::create::wipe_object_meta_system_fields(&mut object);
    if books == Books::Open {
        field_manager::record(request, None, &mut object);
    }
    let uid = Uuid::new_v4().to_string();
    fill_object_meta_system_fields(&mut object, &uid, request.context.now, rand::random());
    object.remove("/metadata/resourceVersion");
    request.name = object.name().to_owned();
    let attributes = request.attributes(Operation::Create, request.resource.gvk());
    admit::mutate(request.context, &attributes, &mut object, None).await?;
    // A webhook may not move it to where nobody asked whether this is allowed.
    ensure_namespace(&mut object, request.namespace())?;
    request.name = object.name().to_owned();
    policy::check_escalation(request.context, &object, None).await?;
    let context = request.strategy_context();
    let mut allocation = Allocation::none(allocators);
    if request.is_service() {
        // Addresses are given between preparing and validating; preparing twice is the same as once.
        strategy.prepare_for_create(&mut object, &context);
        allocation = Allocation::take(allocators, &mut object, None, request.dry_run, rand::random())?;
    }
    let valid = before_create(&*strategy, &mut object, &context);
    let warnings = admit::validate_valid(request.context, &attributes, valid, &object, None).await?;
    request.context.warn(warnings);
    Ok((object, allocation))
}

/// Reports the journey's steps of this stage and hands the object out.
fn committed(request: &WriteRequest<'_>, cached: &Arc<CachedObject>) -> Object {
    let object = cached.object.clone();
    if !request.dry_run && cached.revision > Revision(0) {
        let user = &request.context.user.name;
        request.step_at_start(&object, &format!("authenticated as {user}"), "the request's credentials");
        request.step_at_start(&object, "authorised", &request.context.authorized_by());
        let part = request.subresource;
        let what = if part.is_empty() { "object".to_owned() } else { format!("/{part}") };
        request.step(
            &object,
            &format!("committed at revision {}", cached.revision),
            &format!("the {what} passed all three gates"),
        );
    }
    object
}

async fn already_exists(request: &WriteRequest<'_>, mut status: Status) -> Status {
    let found = request.store().get(request.namespace(), &request.name, At::Consistent).await;
    if found.is_ok_and(|existing| existing.object.deletion_timestamp().is_some()) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// What an update makes of the current object.
pub type Change<'a> = dyn Fn(&Object) -> Result<Object, Status> + Send + Sync + 'a;

/// Changes the current object, takes it through the gates and stores it; again if somebody else was faster.
///
/// # Errors
/// 404 when it isn't there, 409 when the client's resourceVersion is stale, and whatever a gate refuses.
pub async fn update(request: &WriteRequest<'_>, change: &Change<'_>) -> Result<Object, Status> {
    update_with(request, change, Books::Open).await
}

/// The same for a change that is an apply.
/// # Errors
/// Those of [`update`].
pub async fn update_applied(request: &WriteRequest<'_>, change: &Change<'_>) -> Result<Object, Status> {
    update_with(request, change, Books::Done).await
}

async fn update_with(
    request: &WriteRequest<'_>,
    change: &Change<'_>,
    books: Books,
) -> Result<Object, Status> {
    let allocators = &request.context.server.allocators;
    let (last_try, dry_run) = (&Mutex::new(Allocation::none(allocators)), request.dry_run);
    let through_gates = |cached: Arc<CachedObject>| async move {
        // Somebody else was faster: what the try before took isn't stored.
        let lost: Result<(), Status> = Err(Status::modified("services", &request.name));
        std::mem::replace(&mut *last_try.lock(), Allocation::none(allocators)).settle(&lost, dry_run);
        prepare::served(request.context, request.resource, &[&cached.object]).await?;
        let current = request.served(&cached.object);
        let mut new = change(&current)?;
        check_version(request, &new, &cached)?;
        new.set_resource_version(current.resource_version());
        let allocation = gates_of_update(request, &mut new, &current, books).await?;
        let stored = request.to_stored(new).await?;
        *last_try.lock() = allocation.on_its_way();
        Ok(stored)
    };
    let outcome = request.store().update(request.namespace(), &request.name, dry_run, through_gates).await;
    std::mem::replace(&mut *last_try.lock(), Allocation::none(allocators)).settle(&outcome, dry_run);
    let updated = outcome?;
    if let (Updated::Removed(last), true) = (&updated, request.is_service() && !dry_run) {
        allocators.lock().release(&last.object);
    }
    fresh::gates_have_heard(request, updated.object()).await;
    prepare::served(request.context, request.resource, &[&updated.object().object]).await?;
    Ok(committed(request, updated.object()))
}

// ANCHOR: update-path
/// Mutate → prepare → validate → validating admission.
async fn gates_of_update<'a>(
    request: &WriteRequest<'a>,
    new: &mut Object,
    old: &Object,
    books: Books,
) -> Result<Allocation<'a>, Status> {
    let (allocators, strategy) = (&request.context.server.allocators, request.strategy());
    let attributes = request.attributes(Operation::Update, request.resource.gvk());
    strategy.default(new);
    if books == Books::Open {
        field_manager::record(request, Some(old), new);
    }
    admit::mutate(request.context, &attributes, new, Some(old)).await?;
    policy::check_escalation(request.context, new, Some(old)).await?;
    let part = request.part();
    let context = request.strategy_context();
    let mut allocation = Allocation::none(allocators);
    if request.is_service() && part == Part::Main {
        strategy.prepare_for_update(new, old, &context);
        allocation = Allocation::take(allocators, new, Some(old), request.dry_run, rand::random())?;
    }
    let valid = before_update(&*strategy, part, new, old, &context);
    let warnings = admit::validate_valid(request.context, &attributes, valid, new, Some(old)).await?;
    policy::reserve_quota(request.context, &attributes, new, Some(old)).await?;
    request.context.warn(warnings);
    field_manager::keep_times(old, new);
    Ok(allocation)
}
// ANCHOR_END: update-path

/// Changes an object past its strategy: for the server's own writes (a binding), which ordinary updates may not do.
///
/// # Errors
/// 404 when it isn't there, and what `change` refuses.
pub async fn update_unchecked(request: &WriteRequest<'_>, change: &Change<'_>) -> Result<Object, Status> {
    let changed = |cached: Arc<CachedObject>| async move { change(&cached.object) };
    let updated =
        request.store().update(request.namespace(), &request.name, request.dry_run, changed).await?;
    Ok(committed(request, updated.object()))
}

/// The client's idea of the object must be the current one.
fn check_version(request: &WriteRequest<'_>, new: &Object, current: &CachedObject) -> Result<(), Status> {
    let (resource, name) = (request.resource.group_resource(), &request.name);
    if !new.uid().is_empty() && new.uid() != current.object.uid() {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {}, UID in object meta: {}",
            // A dry run is a store of its own there, whose keys have no prefix.
            if request.dry_run { current.key.trim_start_matches("/registry") } else { &current.key },
            new.uid(),
            current.object.uid()
        );
        return Err(Status::conflict(&resource, name, &why));
    }
    match new.resource_version() {
        "" | "0" => Ok(()),
        version => match version.parse::<u64>() {
            Ok(version) if version == current.revision.0 => Ok(()),
            Ok(_) => Err(Status::modified(&resource, name)),
            Err(_) => {
                let text = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
                Err(Status::failure(500, "", text))
            }
        },
    }
}
