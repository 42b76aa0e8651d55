//! Policy: the two checks of a write that must not be a moment behind: granted rights, and quotas.
//!
//! *Step 2 of a pod's journey.* Before: admission let the object through, reading caches. After: nobody gave away what they
//! don't have, and the namespace has room for the object.
//!
//! Both look at caches first, which is free. A cache may be a moment old, so a refusal (and a quota that somebody else wrote
//! meanwhile) is looked at again with caches that have caught up. A quota is written *before* the object: its
//! resourceVersion is what two requests at once fight over, and the loser counts again.
//!
//! # Invariants
//! 1. Objects that are stored at once never use more than a quota allows together.
//! 2. No grant is stored that its writer couldn't use, unless the writer may `bind` or `escalate`.
//!
//! # In Kubernetes
//! `pkg/registry/rbac/*/policybased/storage.go`, `apiserver/pkg/admission/plugin/resourcequota/controller.go`
//! (`checkQuotas`). Left out: giving back what was reserved for an object that then wasn't stored (the quota controller counts again).

use std::collections::BTreeSet;
use std::sync::Arc;

use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::Context;
use crate::admission::{Attributes, resource_quota};
use crate::authorization::follow;
use crate::registry;
use crate::store::Store;
use crate::watch_cache::{At, CachedObject};

/// Rounds after which a reservation gives up; each is lost to somebody who won.
const MAX_ROUNDS: usize = 100;

/// Checks that a Role or binding gives away nothing that the user hasn't.
///
/// # Errors
/// 403 with the missing rules, 404 for a role that isn't there.
pub async fn check_escalation(context: &Context, new: &Object, old: Option<&Object>) -> Result<(), Status> {
    let server = &context.server;
    if server.authorizer.check_escalation(&context.user, new, old).is_ok() {
        return Ok(());
    }
    let now = follow::read_now(server.stores.caches()).await?;
    now.check_escalation(&context.user, new, old)
}

// ANCHOR: reserve-quota
/// Takes what the object uses from the namespace's quotas.
///
/// # Errors
/// 403 when a quota would be exceeded, 409 when others never stop writing.
pub async fn reserve_quota(
    context: &Context,
    attributes: &Attributes,
    object: &Object,
    old: Option<&Object>,
) -> Result<(), Status> {
    let stores = &context.server.stores;
    let quotas = stores.of(registry::find("", "v1", "resourcequotas").expect("quotas are registered"));
    let mut reserved = BTreeSet::new();
    let mut fresh = false;
    for _ in 0..MAX_ROUNDS {
        let mut planned = match resource_quota::reserve(attributes, object, old, stores) {
            // Somebody may have left room a moment ago.
            Err(_) if !fresh => Vec::new(),
            planned => {
                fresh = true;
                planned?
            }
        };
        planned.retain(|quota| !reserved.contains(quota.name()));
        let mut lost = !fresh;
        for quota in planned {
            match write_status(&quotas, &quota).await {
                Ok(()) => drop(reserved.insert(quota.name().to_owned())),
                Err(status) if matches!(status.code, 404 | 409) => lost = true,
                Err(status) => return Err(status),
            }
        }
        if !lost {
            return Ok(());
        }
        quotas.cacher().wait_for(At::Consistent).await?;
        fresh = true;
    }
    Err(Status::modified("resourcequotas", attributes.namespace.as_str()))
}
// ANCHOR_END: reserve-quota

/// Writes a quota's usage over exactly the state from which it was counted.
async fn write_status(quotas: &Store, planned: &Object) -> Result<(), Status> {
    let change = |current: Arc<CachedObject>| {
        let same = current.object.resource_version() == planned.resource_version();
        std::future::ready(match same {
            true => Ok(planned.clone()),
            false => Err(Status::modified("resourcequotas", planned.name())),
        })
    };
    quotas.update(planned.namespace(), planned.name(), false, change).await.map(drop)
}
