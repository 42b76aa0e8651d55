//! Service account controller: every namespace has its `default` ServiceAccount.
//!
//! *Before step 1 of a pod's journey.* A pod that names no service account runs as `default`; admission refuses it while that
//! account is missing. So each active namespace gets one, and gets it back when somebody deletes it.
//!
//! # In Kubernetes
//! `pkg/controller/serviceaccount/serviceaccounts_controller.go`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use crate::action::Action;
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::factory::InformerFactory;
use crate::informer::{Event, Store};

/// Name of the account that every namespace has.
pub const DEFAULT: &str = "default";

/// All that a decision about one namespace depends on.
#[derive(Clone)]
pub struct World {
    /// The namespace.
    pub namespace: Arc<Namespace>,
    /// Whether it has its account.
    pub has_default: bool,
}

/// The controller with the copies that it reads.
pub struct ServiceAccountController {
    namespaces: Store<Namespace>,
    accounts: Store<ServiceAccount>,
}

impl ServiceAccountController {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> Self {
        ServiceAccountController { namespaces: factory.store(), accounts: factory.store() }
    }
}

/// Whether things may still be made in the namespace.
pub fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    !namespace.is_being_deleted() && phase.is_none_or(|phase| phase == "Active")
}

impl Controller for ServiceAccountController {
    const NAME: &'static str = "serviceaccount-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<Namespace>();
        wakes.on::<ServiceAccount>(|event| match event {
            Event::Deleted(account) if account.object_name() == DEFAULT => {
                vec![NamespacedName::cluster(account.object_namespace())]
            }
            _ => Vec::new(),
        });
    }

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Option<World> {
        let namespace = self.namespaces.get(key)?;
        let has_default = self.accounts.get(&NamespacedName::new(&key.name, DEFAULT)).is_some();
        Some(World { namespace, has_default })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        if world.has_default || !is_active(&world.namespace) {
            return Vec::new();
        }
        let metadata = ObjectMeta {
            name: Some(DEFAULT.to_owned()),
            namespace: world.namespace.metadata.name.clone(),
            ..ObjectMeta::default()
        };
        let account = ServiceAccount { metadata, ..ServiceAccount::default() };
        vec![Action::create(&account, "every namespace has a default service account")]
    }
}
