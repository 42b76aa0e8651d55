//! Cluster role aggregation: roles made of other roles.
//!
//! *Before step 1 of a pod's journey.* `admin`, `edit` and `view` have no rules of their own: they collect the rules of all
//! ClusterRoles with a certain label. Whoever adds a custom kind adds a labelled role, and every `view` user sees the kind.
//!
//! # Invariants
//! 1. The rules of an aggregated role are the union of the selected roles', in the order of their names, none twice.
//!
//! # In Kubernetes
//! `pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go`.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::action::{Action, encode};
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::Store;
use crate::informer::factory::InformerFactory;
use crate::owner::selects;

/// All that a decision about one aggregated role depends on.
#[derive(Clone)]
pub struct World {
    /// The aggregated role.
    pub role: Arc<ClusterRole>,
    /// All roles.
    pub roles: Vec<Arc<ClusterRole>>,
}

/// The controller with the copies that it reads.
pub struct ClusterRoleAggregation {
    roles: Store<ClusterRole>,
}

impl ClusterRoleAggregation {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> Self {
        ClusterRoleAggregation { roles: factory.store() }
    }
}

impl Controller for ClusterRoleAggregation {
    const NAME: &'static str = "clusterrole-aggregation-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        let roles = self.roles.clone();
        // Any role may be part of any aggregated one, and may have been before its labels changed.
        wakes.on::<ClusterRole>(move |_| {
            roles
                .list()
                .iter()
                .filter(|role| role.aggregation_rule.is_some())
                .map(|role| role.key())
                .collect()
        });
    }

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Option<World> {
        let role = self.roles.get(key).filter(|role| role.aggregation_rule.is_some())?;
        Some(World { role, roles: self.roles.list() })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        let selectors = world
            .role
            .aggregation_rule
            .as_ref()
            .and_then(|rule| rule.cluster_role_selectors.clone())
            .unwrap_or_default();
        let mut parts: Vec<&Arc<ClusterRole>> = world
            .roles
            .iter()
            .filter(|part| part.object_name() != world.role.object_name())
            .filter(|part| selectors.iter().any(|selector| selects(selector, part.metadata.labels.as_ref())))
            .collect();
        parts.sort_by_key(|part| part.object_name().to_owned());
        let mut rules: Vec<PolicyRule> = Vec::new();
        for rule in parts.iter().flat_map(|part| part.rules.iter().flatten()) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
        if world.role.rules.clone().unwrap_or_default() == rules {
            return Vec::new();
        }
        let patch = json!({"rules": encode(&rules), "metadata": {"resourceVersion": world.role.metadata.resource_version}});
        vec![Action::patch(world.role.as_ref(), patch, "the roles that it aggregates changed")]
    }
}
